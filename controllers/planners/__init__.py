"""Planners: reference trajectories of the joints, and gaits with their foot motion and schedule."""
