"""Comparisons of engines on scenes."""
