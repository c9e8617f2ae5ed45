"""Scenes: simulated worlds of rigid and elastic bodies as TOML data, with known results for comparison. See `settings.py`."""
