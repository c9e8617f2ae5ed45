"""Runs of experiments: plan, simulated robot, experiment, server process, batches of worlds, recorded logs."""
