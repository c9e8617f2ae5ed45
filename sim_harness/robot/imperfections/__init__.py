"""Differences between a simulated robot and an ideal one: sensors, drives, link, bodies, and the ground."""
