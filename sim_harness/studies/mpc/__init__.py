"""Gaits by model-predictive control beside the control loop, compared with the plan inside it."""
