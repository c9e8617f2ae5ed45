"""Studies of single engines or laws, the study of pauses, and the demo."""
