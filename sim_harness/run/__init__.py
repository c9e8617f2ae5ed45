"""One run: plan, scene, experiment, server process."""
