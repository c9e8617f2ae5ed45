"""Shipped robots: loading, standing poses, inverse kinematics, attitude."""
