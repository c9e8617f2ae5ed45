"""Studies of one question each, and the demo."""
