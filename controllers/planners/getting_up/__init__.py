"""Getting up: from a resting pose on flat ground to the stance."""
