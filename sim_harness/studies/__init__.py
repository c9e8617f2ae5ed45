"""Studies of single engines or laws, of robots and of measured data."""
