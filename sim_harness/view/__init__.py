"""Runs in three dimensions, as an HTML page or live."""
