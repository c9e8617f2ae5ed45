"""The non-smooth Newton method."""
