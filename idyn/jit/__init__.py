"""Compilation with numba. The only folder that imports numba's internals or llvmlite."""
