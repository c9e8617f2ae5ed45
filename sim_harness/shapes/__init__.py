"""Shapes of robots: visuals and collision shapes of their URDF."""
