"""Worlds that move a robot or a scene."""
