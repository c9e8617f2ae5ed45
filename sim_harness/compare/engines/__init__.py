"""Comparison of engines on scenes: `idyn compare engines`."""
