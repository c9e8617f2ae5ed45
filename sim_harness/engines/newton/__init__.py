"""The non-smooth Newton engine."""
