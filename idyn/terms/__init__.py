"""Checked inputs, dynamics and reduced problem of a prediction."""
