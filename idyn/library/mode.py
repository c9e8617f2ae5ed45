"""Which code runs when a kernel is called: that of the library, of numba, or Python."""

import os

LIBRARY, NUMBA, PYTHON = "library", "numba", "python"


def _asked() -> str:
    asked = os.environ.get("IDYN_KERNELS", "") or LIBRARY
    if asked not in (LIBRARY, NUMBA, PYTHON):
        raise ValueError(f"IDYN_KERNELS: expected 'library', 'numba' or 'python', got '{asked}'")
    return asked


MODE = _asked()
"""`library`: kernels of the library, built before; nothing is compiled. `numba`: kernels are compiled when they are first
called, for their developers (extra `dev`). `python`: kernels are plain functions, for the debugger. Set by `IDYN_KERNELS`."""
