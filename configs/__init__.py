"""Robots, controllers, servers and experiments that ship with the project: data only."""
