"""Solvers of complementarity problems, quadratic and cone programs, and dense linear algebra."""
