"""Contact search, terrains, and contact compliance models."""
