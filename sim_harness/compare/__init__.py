"""Experiments on many controllers, scenes and seeds: `idyn compare`."""
