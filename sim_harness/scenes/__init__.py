"""Worlds of many rigid bodies as data, with what is known of how they move: see `settings.py`."""
