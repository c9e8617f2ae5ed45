"""A configuration for a new robot, drafted from its URDF."""
