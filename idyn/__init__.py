"""Inverse dynamics with contact: contact impulses and joint torques, predicted together, with a certificate.

Algorithms only: no sockets, no clocks. Start at `idyn.inverse_dynamics.predict`.
"""

from importlib.metadata import version

__version__ = version("idyn")
