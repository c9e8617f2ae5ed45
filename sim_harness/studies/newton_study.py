"""Linear solvers, preconditioners and functions of the engine `newton`: `idyn compare newton-study`.

The paper's scheme on one step each of a stack of boxes, a beam of stiff rows and an arch: which linear solver, which r, which
function [Macklin §10.3 to 10.5, figures 11 and 16 to 18], and where rounding ends it (91), (92).
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from idyn.types import Array, Record
from sim_harness.compare.study import Figures, Picture, Study, Sweep
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.newton.engine import Newton
from sim_harness.engines.newton.iteration import iterate
from sim_harness.engines.newton.linear import solve_linear
from sim_harness.engines.newton.passes import free_motion
from sim_harness.engines.newton.rows import Constraints, constraints
from sim_harness.engines.newton.stack import stack_of
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, crossed
from sim_harness.scenes.load import load_scene
from sim_harness.studies.newton_scheme import FUNCTIONS, PRECONDITIONERS, SOLVERS, Scheme
from sim_harness.world.worlds import build_scene

COLUMNS = 31
"""Columns of boxes in which rounding ends the iteration."""

ITERATIONS, LINEAR = 100, 40
"""Of Newton's method, and of the linear solver in each, as in the paper's comparison."""

LINKS, STIFFNESS, LINK_MASS, LINK, LOAD = 16, 250.0, 0.003, 0.05, 5.0
"""The paper's beam: bodies, bending stiffness [N·m/rad], mass of each [kg]; here their length [m], the load on its end [N]."""

G, MU, DT = 9.81, 0.7, 1 / 120

EARLY, TOLERANCE = 20, 1e-9
"""Iterations after which tables look, and the distance at which schemes end."""

KINDS = {f"{r}, {function}": (function, r) for function, r in product(FUNCTIONS, PRECONDITIONERS)}
"""Function and r, by label."""


class Course(Record, frozen=True):
    """Distance from Coulomb's law after each iteration, as a share of the fastest row's speed, as long as it is finite (N).

    iterations: how many there were, exact steps included
    """

    error: Array
    iterations: int

    def after(self, iterations: int) -> float:
        """The distance after so many iterations, or after the last; inf without any."""
        return float(self.error[:iterations][-1]) if len(self.error) else np.inf


class Floor(NamedTuple):
    """Residual and error after Newton's last step in one precision, and the bounds on them.

    residual, by (92): ‖A‖ ‖x‖ δ [m/s]
    error: of impulses; by (91): ‖A⁻¹‖ ν + ‖x‖ δ, with the paper's ν = δ ‖r‖, and at_most with ν as (92) has it [N·s]
    """

    residual: float
    residual_expected: float
    error: float
    error_expected: float
    error_at_most: float


def beam() -> ForwardProblem:
    """Links in the plane (x, z, angle) and at rest, pinned to one another and to a wall by rigid rows, bent against springs.

    The last four lie on the ground, and the end is loaded.
    """
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
    """The problem of the first step of a scene."""
    return build_scene(load_scene(scene), Newton()).step().problem


PROBLEMS: dict[str, Callable[[], ForwardProblem]] = {
    "stack": lambda: first_step("heavy-stack"),
    "beam": beam,
    "arch": lambda: first_step("arch"),
}


def paper(**settings: str | float) -> Newton:
    """The paper's scheme."""
    given = {"solver": "pcr", "linear_iterations": LINEAR}
    return Scheme(**(given | {"tolerance": 1e-15, "max_iterations": ITERATIONS} | settings))  # type: ignore[arg-type]


def constrained(engine: Newton, problem: ForwardProblem) -> Constraints:
    a = problem
    free, _ = free_motion(a.M, a.v, a.dt * (a.force - a.h))
    plan, J = stack_of(a, engine.recovery, contacts_too=False).plan()
    return constraints(plan, J, free.L, free.z, engine.way.preconditioner)


def course(engine: Newton, problem: ForwardProblem) -> Course:
    """From p = 0 and v = 0."""
    c = constrained(engine, problem)
    root = iterate(c, engine.rules, np.zeros(len(c.w)), np.zeros(len(c.z_free)), engine.way.limit)
    error = root.history / c.scale
    return Course(error=error[np.isfinite(error)], iterations=root.iterations)


def linear_courses(problem: ForwardProblem) -> dict[str, Array]:
    """‖A x − b‖ by diag(A)⁻¹, as shares of the first, after 0, 1, … iterations on the first Newton step's system, by solver."""
    c = constrained(paper(), problem)
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
    """Newton's method on normals of columns of boxes, about 8 to 32768 kg, that all press: refined in one precision.
    Medians over columns of random masses: where rounding throws a single one is chance."""
    rng = np.random.default_rng(0)
    columns = (8.0 ** np.arange(1, 6) * rng.uniform(0.5, 2.0, 5) for _ in range(COLUMNS))
    return Floor(*np.median([_floor_of(number, masses) for masses in columns], axis=0).tolist())


def _floor_of(number: type[np.floating], masses: Array) -> tuple[float, ...]:
    """The fields of a `Floor` for one column."""
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


def course_table(courses: dict[tuple[str, str], Course], kinds: Iterable[str]) -> Table:
    """What is left after 20 and 100 iterations, by problem."""
    after = {
        (kind, f"{name}, after {k}"): courses[name, kind].after(k)
        for kind in kinds
        for name in PROBLEMS
        for k in (EARLY, ITERATIONS)
    }
    return crossed("distance left", after, lambda left: f"{left:.1e}" if left < 1e3 else "diverges")


def course_picture(found: Figures) -> bytes:
    """Distance over iterations: by solver above, by r and function below."""
    panels: list[Plot] = []
    for kinds, name in product((SOLVERS, KINDS), PROBLEMS):
        errors = {kind: found["courses"][name, kind].error for kind in kinds}
        lines = {kind: (np.arange(1, len(e) + 1), np.clip(e, 1e-16, 1e4)) for kind, e in errors.items()}
        labels = {"title": name, "xlabel": "iterations", "ylabel": "distance from the law [of the fastest row's speed]"}
        panels.append(Plot(lines=lines, log="y", legend=len(panels) % 3 == 0, axes=labels))
    return picture(panels, across=3, size=(13, 8))


def linear_picture(found: Figures) -> bytes:
    """Residuals of one linear system of each problem over iterations."""
    panels: list[Plot] = []
    for name, by_solver in found["linear"].items():
        lines = {solver: (4 * np.arange(len(x)), np.clip(x, 1e-12, 1e6)) for solver, x in by_solver.items()}
        labels = {"title": name, "xlabel": "linear iterations", "ylabel": "residual [of the first]"}
        panels.append(Plot(lines=lines, log="y", legend=not panels, axes=labels))
    return picture(panels, across=3, size=(13, 4))


def study() -> Study:
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
        "The paper's scheme on one step of a stack, a beam and an arch; all distances in shares.",
        sweeps={
            "courses": Sweep((problems, kinds), lambda problem, engine: course(engine, problem)),
            "schemes": Sweep((schemes, problems), course),
            "floors": Sweep(({number.__name__: number for number in (np.float32, np.float64)},), floor),
            "linear": Sweep((problems,), linear_courses),
        },
        tables=(
            lambda found: course_table(found["courses"], SOLVERS),
            lambda found: course_table(found["courses"], KINDS),
            lambda found: crossed(
                "iterations to 1e-9",
                found["schemes"],
                lambda c: ("" if c.error[-1] <= TOLERANCE else "> ") + str(c.iterations),
            ),
            lambda found: [
                ["precision", "residual [m/s]", "by (92)", "error of impulses [N·s]", "by (91)", "at most"],
                *([name, *(f"{figure:.1e}" for figure in each)] for name, each in found["floors"].items()),
            ],
        ),
        pictures=(
            Picture(
                "convergence",
                "Distance from Coulomb's law: by linear solver above, by r and function (PCR) below.",
                course_picture,
            ),
            Picture("linear", "Residuals of the first step's linear system, by solver.", linear_picture),
        ),
    )
