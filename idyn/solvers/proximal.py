"""Coulomb's law with round cones by Pinocchio's solvers: ADMM and projected Gauss–Seidel (PGS)."""

import numpy as np
import pinocchio as pin

from idyn.types import Array

METHODS = ("admm", "pgs")

TOLERANCE, MAX_ITERATIONS = 1e-8, 500
"""Tolerance of the residuals, for a problem in units of order one, and maximum number of iterations."""


def solve_cones(D: Array, b: Array, mu: Array, method: str) -> Array:
    """Return impulses p (3n) for û = D p + b, rows S, T, N of each contact, with finite μ (n). The iteration
    need not have converged."""
    settings, result, solver = (
        (pin.ADMMSolverSettings(), pin.ADMMSolverResult(), pin.ADMMConstraintSolver(len(b)))
        if method == "admm"
        else (pin.PGSSolverSettings(), pin.PGSSolverResult(), pin.PGSConstraintSolver(len(b)))
    )
    settings.solve_ncp, settings.max_iterations = True, MAX_ITERATIONS
    settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = TOLERANCE
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = 0.0
    models, datas, nowhere = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData(), pin.SE3.Identity()
    for friction in mu:
        contact = pin.PointContactConstraintModel(pin.Model(), 0, nowhere, 0, nowhere)
        contact.setFriction(float(friction))
        models.append(pin.ConstraintModel(contact))
        datas.append(models[-1].createData())
    solver.solve(pin.DelassusOperatorDense(D), b, models, datas, settings, result)
    return np.array(result.retrieveConstraintImpulses())
