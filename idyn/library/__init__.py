"""Kernels: the C library of compiled functions, what Python passes to them, and how the library is built."""
