"""Worlds that simulate a robot or a scene."""
