"""Motion of the targets of commanded tasks between commands: completed, blended, extrapolated."""
