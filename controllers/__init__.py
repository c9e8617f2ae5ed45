"""Controllers: reference trajectories, feedback, safety limits, and the class that combines them with `idyn.predict`."""
