"""Convex quadratic programs min ½ xᵀ H x + fᵀ x, lower ≤ A x ≤ upper, x ≥ bound, by a back end of the user's choice; the
only module that imports `daqp` and `qpsolvers`. DAQP is called directly: the wrapper of `qpsolvers` takes as long as the
solve."""

from functools import lru_cache
from math import isfinite

import numpy as np
import pinocchio as pin
from daqp import solve as daqp_solve

from idyn.errors import ConfigError
from idyn.status import Status
from idyn.types import Array, Record

TOLERANCE = 1e-10
"""Primal and dual tolerance of DAQP. With its default of 1e-6 residuals are 1e-6; with 1e-12 it cycles on some problems."""

LOOSE_TOLERANCE = 1e-7  # tolerance of a second attempt, if the first one cycles

MOST_ITERATIONS = 200
"""Maximum number of DAQP's iterations in one attempt. Of 4200 programs of degenerate contacts that DAQP solved, 38 took more,
up to 9000 iterations and 60 ms; on programs that it cannot solve it does not terminate."""

_INFINITE = 1e30


class QpSolution(Record, frozen=True):
    """Solution of a quadratic program.

    x: (n); multipliers: of the rows of A, negative where `lower` is active (m); None: not provided by the back end
    """

    x: Array
    multipliers: Array | None
    status: Status
    iterations: int


def backends() -> tuple[str, ...]:
    """Return the names of the installed back ends. The first call imports them, which takes some tenths of a second."""
    import qpsolvers  # noqa: PLC0415

    return tuple(dict.fromkeys(("daqp", *qpsolvers.available_solvers)))


def check_backend(name: str) -> None:
    """Raise ConfigError for a back end that is not installed."""
    if name != "daqp" and name not in backends():
        raise ConfigError("law.backend", f"'{name}' is not installed; available: {', '.join(backends())}")


def solve_qp(H: Array, f: Array, A: Array, lower: Array, upper: Array | None = None, backend: str = "daqp") -> QpSolution:
    """Solve min ½xᵀHx + fᵀx with lower ≤ A x ≤ upper. H may be singular if the back end permits it (DAQP does)."""
    if backend != "daqp":
        return _solve_by_name(H, f, A, lower, upper, backend)
    unbounded, sense = _inequalities(len(lower))
    bound = unbounded if upper is None else upper
    for tolerance in (TOLERANCE, LOOSE_TOLERANCE):
        x, cost, flag, info = daqp_solve(
            H, f, A, bound, lower, sense, primal_tol=tolerance, dual_tol=tolerance, iter_limit=MOST_ITERATIONS
        )
        if flag in (1, 2) and isfinite(cost):
            return QpSolution(x=x, multipliers=info["lam"], status=Status.SOLVED, iterations=info["iterations"])
    return QpSolution(x=x, multipliers=None, status=Status.RAY if flag == -1 else Status.BACKEND_FAILED, iterations=0)


@lru_cache(maxsize=256)
def _inequalities(m: int) -> tuple[Array, Array]:
    """Return infinite upper bounds (m), and DAQP's codes of m inequalities (m). DAQP does not write to them."""
    return np.full(m, _INFINITE), np.zeros(m, dtype=np.int32)


def _solve_by_name(H: Array, f: Array, A: Array, lower: Array, upper: Array | None, backend: str) -> QpSolution:
    import qpsolvers  # noqa: PLC0415

    if len(f) == 0:  # some back ends fail for empty problems
        return QpSolution(x=np.zeros(0), multipliers=np.zeros(len(lower)), status=Status.SOLVED, iterations=0)
    G, h = -A, -lower
    if upper is not None:
        finite = upper < _INFINITE
        G, h = np.vstack([G, A[finite]]), np.concatenate([h, upper[finite]])
    problem = qpsolvers.Problem(H, f, G, h)
    try:
        solution = qpsolvers.solve_problem(problem, solver=backend)
    except (ValueError, IndexError, qpsolvers.QPError):
        return QpSolution(x=np.zeros(len(f)), multipliers=None, status=Status.BACKEND_FAILED, iterations=0)
    if not solution.found or solution.x is None:
        return QpSolution(x=np.zeros(len(f)), multipliers=None, status=Status.BACKEND_FAILED, iterations=0)
    z = solution.z
    multipliers = None if z is None else -np.asarray(z)[: len(lower)]
    return QpSolution(x=np.asarray(solution.x), multipliers=multipliers, status=Status.SOLVED, iterations=0)


METHODS = ("admm", "pgs")

CONE_TOLERANCE, MAX_ITERATIONS = 1e-8, 500
"""Tolerance of the residuals, for a problem in units of order one, and maximum number of iterations."""


def solve_cones(D: Array, b: Array, mu: Array, method: str) -> Array:
    """Return impulses p (3n) for û = D p + b, rows S, T, N of each contact, with finite μ (n). The iteration
    need not have converged."""
    if len(b) == 0:  # without contacts Pinocchio's solvers end the process
        return np.zeros(0)
    settings, result, solver = (
        (pin.ADMMSolverSettings(), pin.ADMMSolverResult(), pin.ADMMConstraintSolver(len(b)))
        if method == "admm"
        else (pin.PGSSolverSettings(), pin.PGSSolverResult(), pin.PGSConstraintSolver(len(b)))
    )
    settings.solve_ncp, settings.max_iterations = True, MAX_ITERATIONS
    settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = CONE_TOLERANCE
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = 0.0
    models, datas, nowhere = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData(), pin.SE3.Identity()
    for friction in mu:
        contact = pin.PointContactConstraintModel(pin.Model(), 0, nowhere, 0, nowhere)
        contact.setFriction(float(friction))
        models.append(pin.ConstraintModel(contact))
        datas.append(models[-1].createData())
    solver.solve(pin.DelassusOperatorDense(D), b, models, datas, settings, result)
    return np.array(result.retrieveConstraintImpulses())
