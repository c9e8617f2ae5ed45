"""What a prediction is computed from: checked inputs, dynamics, reduced problem."""
