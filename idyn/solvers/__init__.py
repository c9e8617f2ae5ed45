"""Complementarity and quadratic programs: plain data in, plain data and a status out."""
