"""Robots from configurations, their stance, inverse kinematics and attitude."""
