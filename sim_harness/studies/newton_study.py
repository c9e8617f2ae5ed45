"""Linear solvers, preconditioners and complementarity functions of the engine `newton`: `idyn compare newton-study`.

The paper's scheme on one step each of a stack of boxes, a beam of stiff rows and an arch, with different linear solvers,
preconditioners r and complementarity functions [Macklin §10.3 to 10.5, figures 11 and 16 to 18]; and the error at which
rounding stops the iteration (91), (92).
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np

from idyn.types import Array, Record
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.newton import Newton, free_motion
from sim_harness.engines.newton_iteration import Rules, iterate, solve_linear
from sim_harness.engines.newton_rows import Constraints, constraints, stack_of
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, crossed
from sim_harness.scenes.load import load_scene
from sim_harness.studies.study import Figures, Picture, Study, Sweep
from sim_harness.world.worlds import build_scene

FUNCTIONS = ("fischer-burmeister", "minimum-map")
PRECONDITIONERS = ("unit", "time-step", "effective-mass")
SOLVERS = ("dense", "pcr", "pcg", "jacobi", "gauss-seidel")
"""Names in the order of the constants of `newton_exact`, `newton_rows` and `newton_iteration`."""


class Scheme(Newton, frozen=True, tag="newton-scheme"):
    """The engine `newton` with other `Rules`. Configuration files cannot select it.

    function, solver, linear_iterations, damping, regularisation: as in `Rules`; form: `Rules.weighted`, the paper's form
    finish: `Rules.exact`, exact steps
    preconditioner: r, which scales impulses to velocities: 1, dt² (dt for friction), or these times the effective mass (66)
    max_iterations: largest number of Newton steps and, if these fail, of sweeps over the contacts
    """

    function: Literal["fischer-burmeister", "minimum-map"] = "fischer-burmeister"
    preconditioner: Literal["unit", "time-step", "effective-mass"] = "effective-mass"
    solver: Literal["dense", "pcr", "pcg", "jacobi", "gauss-seidel"] = "dense"
    form: Literal["divided", "weighted"] = "weighted"
    finish: bool = False
    damping: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.75
    regularisation: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1e-6
    linear_iterations: Annotated[int, msgspec.Meta(ge=1, le=100000)] = 40
    max_iterations: Annotated[int, msgspec.Meta(ge=1, le=1000000)] = 10000

    @property
    def rules(self) -> Rules:
        return super().rules._replace(
            function=FUNCTIONS.index(self.function),
            weighted=self.form == "weighted",
            solver=SOLVERS.index(self.solver),
            linear_iterations=self.linear_iterations,
            damping=self.damping,
            regularisation=self.regularisation,
            exact=self.finish,
            preconditioner=PRECONDITIONERS.index(self.preconditioner),
            limit=self.max_iterations,
        )


ITERATIONS, LINEAR = 100, 40
"""Iterations of Newton's method, and of the linear solver in each of them, as in the paper's comparison."""

LINKS, STIFFNESS, LINK_MASS, LINK, LOAD = 16, 250.0, 0.003, 0.05, 5.0
"""The paper's beam: number of bodies, bending stiffness [N·m/rad], mass of a body [kg]; length of a body [m] and load on the
end [N] are ours."""

G, MU, DT, COLUMNS = 9.81, 0.7, 1 / 120, 31
"""Gravity [m/s²], friction coefficient, time step [s], number of random columns of boxes for the rounding error."""

EARLY, TOLERANCE = 20, 1e-9
"""Smaller number of iterations in the tables (the larger is `ITERATIONS`); relative distance at which the schemes stop."""

KINDS = {f"{r}, {function}": (function, r) for function, r in product(FUNCTIONS, PRECONDITIONERS)}
"""Label → complementarity function and preconditioner r."""


class Convergence(Record, frozen=True):
    """Convergence of the iteration."""

    # distance from Coulomb's law after each iteration, relative to the speed of the fastest row; it ends before the first
    # non-finite value (N)
    error: Array
    iterations: int  # number of iterations, exact steps included

    def after(self, iterations: int) -> float:
        """Return `error` after a number of iterations, or after the last one if there were fewer; inf if `error` is empty."""
        return float(self.error[:iterations][-1]) if len(self.error) else np.inf


class Floor(NamedTuple):
    """Rounding floor: residual and error after Newton's last step in one precision, and their bounds.

    A, x: matrix and impulses; r: residual; δ: machine precision
    """

    residual: float  # [m/s]
    residual_expected: float  # bound (92), ‖A‖ ‖x‖ δ [m/s]
    error: float  # of the impulses [N·s]
    error_expected: float  # bound (91), ‖A⁻¹‖ ν + ‖x‖ δ, with the paper's ν = δ ‖r‖ [N·s]
    error_at_most: float  # bound (91) with ν = ‖A‖ ‖x‖ δ from (92) [N·s]


def beam() -> ForwardProblem:
    """Return the forward problem of a beam at rest, with links (x, z, angle) that rigid rows pin to each other and to a wall.
    Compliant rows resist bending. The last four links lie on the ground, the end carries a load."""
    nv, each = 3 * LINKS, np.eye(LINKS)
    own, last = np.eye(3), -np.eye(3)
    own[1, 2] = last[1, 2] = -LINK / 2
    J, lying = np.zeros((12, nv)), 3 * (LINKS - 1 - np.arange(4))
    J[0::3, lying], J[2::3, lying + 1] = np.eye(4), np.eye(4)
    force = np.zeros(nv)
    force[-3:-1] = 0.5 * LOAD, -LOAD
    return ForwardProblem(
        M=np.kron(each, LINK_MASS * np.diag([1.0, 1.0, LINK**2 / 12])),
        h=np.tile([0.0, LINK_MASS * G, 0.0], LINKS),
        v=np.zeros(nv),
        J=J,
        force=force,
        mu=np.full(4, MU),
        gaps=np.zeros(4),
        dt=DT,
        rows=Rows(
            G=np.kron(each, own) + np.kron(np.eye(LINKS, k=-1), last),
            g=np.zeros(nv),
            stops=np.zeros(nv, dtype=bool),
            compliance=np.tile([0.0, 0.0, 1.0 / STIFFNESS], LINKS),
        ),
    )


def first_step(scene: str) -> ForwardProblem:
    """Return the forward problem of the first step of a scene."""
    return build_scene(load_scene(scene), Newton()).step().problem


PROBLEMS: dict[str, Callable[[], ForwardProblem]] = {
    "stack": lambda: first_step("heavy-stack"),
    "beam": beam,
    "arch": lambda: first_step("arch"),
}


def paper(**settings: str | float) -> Newton:
    """Return the paper's scheme. settings: fields of `Scheme` that replace the paper's"""
    given = {"solver": "pcr", "linear_iterations": LINEAR}
    return Scheme(**(given | {"tolerance": 1e-15, "max_iterations": ITERATIONS} | settings))  # type: ignore[arg-type]


def constraints_of(engine: Newton, problem: ForwardProblem) -> Constraints:
    """Return the constraints of a forward problem in the form in which the engine solves them in its first pass."""
    a = problem
    free, _ = free_motion(a.M, a.v, a.dt * (a.force - a.h))
    plan, J = stack_of(a, engine.recovery, contacts_too=False).plan()
    return constraints(plan, J, free.L, free.z, engine.rules.preconditioner)


def convergence(engine: Newton, problem: ForwardProblem) -> Convergence:
    """Iterate from p = 0 and v = 0 and return the convergence."""
    c = constraints_of(engine, problem)
    root = iterate(c, engine.rules, engine.tolerance, np.zeros(len(c.w)), np.zeros(len(c.z_free)), engine.rules.limit)
    error = root.history / c.scale
    return Convergence(error=error[np.isfinite(error)], iterations=root.iterations)


def linear_residuals(problem: ForwardProblem) -> dict[str, Array]:
    """Return the residuals of each linear solver on the system A x = b of the first Newton step: ‖A x − b‖ in the norm of
    diag(A)⁻¹, relative to the initial one, after 0, 4, 8, … iterations."""
    c = constraints_of(paper(), problem)
    tied = np.r_[np.arange(c.plan.ties), np.arange(c.plan.ties + 2, len(c.w), 3)]
    A = c.D[np.ix_(tied, tied)] + np.diag(c.plan.softness[tied] + 1e-6 * c.w[tied])
    b = -(c.Y @ c.z_free + c.plan.offset)[tied]
    out = {}
    for solver in SOLVERS[1:]:
        norms = []
        for k in range(0, 4 * LINEAR + 1, 4):
            rest = b - A @ solve_linear(SOLVERS.index(solver), A.copy(), b, k)
            norms.append(np.sqrt(np.sum(rest**2 / np.diag(A))))
        out[solver] = np.array(norms) / norms[0]
    return out


def floor(number: type[np.floating]) -> Floor:
    """Return the rounding floor of Newton's method in one precision, for the normal impulses in columns of boxes. All contacts
    press; masses are random, about 8 to 32768 kg. Figures are medians over columns: the rounding error of one is random."""
    rng = np.random.default_rng(0)
    columns = (8.0 ** np.arange(1, 6) * rng.uniform(0.5, 2.0, 5) for _ in range(COLUMNS))
    return Floor(*np.median([_floor_of(number, masses) for masses in columns], axis=0).tolist())


def _floor_of(number: type[np.floating], masses: Array) -> tuple[float, ...]:
    """Return the fields of a `Floor` for one column."""
    J = np.eye(5) - np.eye(5, k=-1)
    D, b = J @ np.diag(1 / masses) @ J.T, -G * DT * np.array([1.0, 0, 0, 0, 0])
    exact = G * DT * np.cumsum(masses[::-1])[::-1]
    A, right = D.astype(number), b.astype(number)
    p = np.zeros(5, dtype=number)
    for _ in range(30):
        p = p - np.linalg.solve(A, A @ p + right)
    delta, largest = float(np.finfo(number).eps), float(np.abs(exact).max())
    expected, inverse = (float(np.abs(B).sum(axis=1).max()) for B in (D * largest * delta, np.linalg.inv(D)))
    residual, error = float(np.abs(A @ p + right).max()), float(np.abs(p - exact).max())
    return residual, expected, error, inverse * delta * residual + largest * delta, inverse * expected + largest * delta


def convergence_table(found: dict[tuple[str, str], Convergence], kinds: Iterable[str]) -> Table:
    """Return a table of the distances after `EARLY` and after `ITERATIONS` iterations, by kind (row) and problem (column)."""
    cells = product(kinds, PROBLEMS, (EARLY, ITERATIONS))
    after = {(kind, f"{name}, after {k}"): found[name, kind].after(k) for kind, name, k in cells}
    return crossed("distance", after, lambda distance: f"{distance:.1e}" if distance < 1e3 else "diverges")


def convergence_picture(found: Figures) -> bytes:
    """Draw distances over iterations: by linear solver in the upper row, by r and function in the lower row."""
    panels: list[Plot] = []
    for kinds, name in product((SOLVERS, KINDS), PROBLEMS):
        errors = {kind: found["convergence"][name, kind].error for kind in kinds}
        lines = {kind: (np.arange(1, len(e) + 1), np.clip(e, 1e-16, 1e4)) for kind, e in errors.items()}
        labels = {"title": name, "xlabel": "iterations", "ylabel": "distance from the law / fastest row's speed"}
        panels.append(Plot(lines=lines, log="y", legend=len(panels) % 3 == 0, axes=labels))
    return picture(panels, across=3, size=(13, 8))


def linear_picture(found: Figures) -> bytes:
    """Draw residuals of the linear systems over iterations, by solver."""
    panels: list[Plot] = []
    for name, by_solver in found["linear"].items():
        lines = {solver: (4 * np.arange(len(x)), np.clip(x, 1e-12, 1e6)) for solver, x in by_solver.items()}
        labels = {"title": name, "xlabel": "linear iterations", "ylabel": "residual / initial residual"}
        panels.append(Plot(lines=lines, log="y", legend=not panels, axes=labels))
    return picture(panels, across=3, size=(13, 4))


def study() -> Study:
    """Return the study of the engine `newton`."""
    problems = {name: build() for name, build in PROBLEMS.items()}
    kinds = {solver: paper(solver=solver) for solver in SOLVERS}
    kinds |= {kind: paper(function=f, preconditioner=r) for kind, (f, r) in KINDS.items()}
    exact: dict[str, Any] = {"solver": "dense", "tolerance": TOLERANCE, "max_iterations": 1000}
    schemes = {
        "paper: weighted rows, t = 0.75, dense": paper(**exact),
        "rows divided by α, t = 0.75": paper(**exact, form="divided"),
        "rows divided by α, t = 1": paper(**exact, form="divided", damping=1.0),
        "the engine: exact steps": Newton(positions="start"),
    }
    return Study(
        "The engine newton",
        "The paper's scheme on one step of a stack, a beam and an arch; all distances are relative.",
        sweeps={
            "convergence": Sweep((problems, kinds), lambda problem, engine: convergence(engine, problem)),
            "schemes": Sweep((schemes, problems), convergence),
            "floors": Sweep(({number.__name__: number for number in (np.float32, np.float64)},), floor),
            "linear": Sweep((problems,), linear_residuals),
        },
        tables=(
            lambda found: convergence_table(found["convergence"], SOLVERS),
            lambda found: convergence_table(found["convergence"], KINDS),
            lambda found: crossed(
                "iterations to 1e-9", found["schemes"], lambda c: ("" if c.error[-1] <= TOLERANCE else "> ") + str(c.iterations)
            ),
            lambda found: [
                ["precision", "residual [m/s]", "by (92)", "error of impulses [N·s]", "by (91)", "at most"],
                *([name, *(f"{figure:.1e}" for figure in each)] for name, each in found["floors"].items()),
            ],
        ),
        pictures=(
            Picture(
                "convergence",
                "Distance from Coulomb's law: by linear solver (upper row), by r and function with PCR (lower row).",
                convergence_picture,
            ),
            Picture("linear", "Residuals of the first step's linear system, by solver.", linear_picture),
        ),
    )
