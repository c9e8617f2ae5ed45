"""How long engines take for a given accuracy."""
