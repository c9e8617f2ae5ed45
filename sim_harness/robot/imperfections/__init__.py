"""Imperfections of the simulated robot: sensors, drives, link, bodies and ground."""
