"""Scenes: simulated worlds of rigid bodies as TOML data, with known results for comparison. See `settings.py`."""
