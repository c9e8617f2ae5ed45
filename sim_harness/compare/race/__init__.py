"""Run times of engines in the same world  [D15 §VII]."""
