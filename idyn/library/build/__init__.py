"""Compilation of kernels with numba, whose private interfaces nothing else uses: into the library, and when they are called."""
