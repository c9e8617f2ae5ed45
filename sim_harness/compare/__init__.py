"""Comparisons of controllers, scenes, engines and seeds: `idyn compare`."""
