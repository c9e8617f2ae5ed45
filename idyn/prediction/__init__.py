"""Predictions: from a demand to certified torques and contact forces."""
