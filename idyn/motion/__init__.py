"""Measured motions: files of OpenSim (`.mot`, `.sto`, `.trc`), force plates, and smoothing as OpenSim does it."""
