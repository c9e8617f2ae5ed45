"""The only module that imports Matplotlib, an optional package. Raises ConfigError when it is not installed."""

from idyn.errors import missing_extra

try:
    import matplotlib as mpl
except ModuleNotFoundError as error:
    raise missing_extra("picture", "drawing", "matplotlib", "viz") from error

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure

__all__ = ["Axes", "Figure", "ListedColormap", "LogNorm", "Normalize", "mpl", "plt"]
