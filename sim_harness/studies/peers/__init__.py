"""Scripts that run other projects' controllers in a Python environment of their own, where `idyn` is not installed."""
