"""Scenes: simulated worlds of rigid bodies as TOML data, with known results for comparison. See `scene_settings.py`."""
