"""Robots from configurations, their stance and inverse kinematics."""
