"""Who decides the demand: feedback, reference trajectories, safety, and the controller that joins them to `idyn.predict`."""
