"""A simulated robot side of the protocol: world, contact engines, experiments, reports, and the command line `idyn`."""

from idyn.siblings import find_siblings

find_siblings()
