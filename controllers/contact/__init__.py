"""What the prediction is told of the ground: contact sources, landing, terrains, ground models, sensed forces."""
