"""What the prediction of contact forces is worth: the same planner and gains above several contact models."""
