"""Which code runs when a kernel is called: that of the library, of numba, or Python."""

import os

LIBRARY, NUMBA, PYTHON, BUILD = "library", "numba", "python", "build"

MODE = os.environ.get("IDYN_KERNELS", "") or LIBRARY
"""`library`: kernels of the library, built before; nothing is compiled. `numba`: kernels are compiled when they are first
called, for their developers (extra `dev`). `python`: kernels are plain functions, for the debugger. Set by `IDYN_KERNELS`;
`build` is the build's own."""
if MODE not in (LIBRARY, NUMBA, PYTHON, BUILD):
    raise ValueError(f"IDYN_KERNELS: expected 'library', 'numba' or 'python', got '{MODE}'")
