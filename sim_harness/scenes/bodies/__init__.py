"""Scenes as data: bodies, shapes, contacts."""
