"""Logs of all messages: writing, reading, export."""
