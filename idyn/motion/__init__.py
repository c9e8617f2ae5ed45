"""Measured motions: files of OpenSim (`.mot`, `.sto`, `.trc`), force plates, and smoothing as OpenSim does it."""

from idyn.motion.plates import Plate, even_rate, plates_of
from idyn.motion.smoothing import Filter, Smoothed, smooth
from idyn.motion.storage import Markers, Table, read_markers, read_table, write_table

__all__ = [
    "Filter",
    "Markers",
    "Plate",
    "Smoothed",
    "Table",
    "even_rate",
    "plates_of",
    "read_markers",
    "read_table",
    "smooth",
    "write_table",
]
