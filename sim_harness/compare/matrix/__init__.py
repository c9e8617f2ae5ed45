"""Matrices of runs: robots × worlds × laws × cases."""
