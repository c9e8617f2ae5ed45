"""Monitors: safety limits, and the model-mismatch monitor."""
