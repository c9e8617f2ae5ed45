"""Compilation of kernels with numba: into the library, and when they are called. The only folder that
imports numba or llvmlite, and their private interfaces."""
