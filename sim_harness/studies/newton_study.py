"""What the parts of the engine `newton` are worth, as a page: `idyn compare newton-study`.

The paper's scheme on one step each of a stack of boxes, a beam of stiff rows and an arch: which linear solver, which r, which
function [Macklin §10.3 to 10.5, figures 11 and 16 to 18], and where rounding ends it (91), (92).
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from idyn.types import Array, Record
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.newton.engine import Newton
from sim_harness.engines.newton.iteration import iterate
from sim_harness.engines.newton.linear import solve_linear
from sim_harness.engines.newton.passes import free_motion
from sim_harness.engines.newton.rows import Constraints, constraints
from sim_harness.engines.newton.stack import stack_of
from sim_harness.report.plots import STYLE, png
from sim_harness.report.report import Report
from sim_harness.scenes.load import load_scene
from sim_harness.studies.newton_scheme import FUNCTIONS, PRECONDITIONERS, SOLVERS, Scheme
from sim_harness.world.worlds import build_scene

ITERATIONS, LINEAR = 100, 40
"""Of Newton's method, and of the linear solver in each, as in the paper's comparison."""

LINKS, STIFFNESS, LINK_MASS, LINK, LOAD = 16, 250.0, 0.003, 0.05, 5.0
"""The paper's beam: bodies, bending stiffness [N·m/rad], mass of each [kg]; here their length [m], the load on its end [N]."""

G, MU, DT = 9.81, 0.7, 1 / 120

EARLY = 20
"""Iterations after which tables look."""


class Course(Record, frozen=True):
    """Distance from Coulomb's law after each iteration, as a share of the fastest row's speed (N), until it is no number.

    iterations: how many there were, exact steps included
    """

    error: Array
    iterations: int

    def after(self, iterations: int) -> float:
        """The distance then, or where it ended before that; inf where there is none."""
        return float(self.error[:iterations][-1]) if len(self.error) else np.inf


class Floor(Record, frozen=True):
    """What is left when Newton's steps have ended, and what is expected of it, in numbers of one precision.

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
    nv = 3 * LINKS
    G_rows, compliance = np.zeros((3 * LINKS, nv)), np.zeros(3 * LINKS)
    for i in range(LINKS):
        own, last, row = 3 * i, 3 * i - 3, 3 * i
        G_rows[row : row + 3, own : own + 3] = np.eye(3)
        G_rows[row + 1, own + 2] = -LINK / 2
        if i:
            G_rows[row : row + 3, last : last + 3] = -np.eye(3)
            G_rows[row + 1, last + 2] = -LINK / 2
        compliance[row + 2] = 1.0 / STIFFNESS
    J = np.zeros((12, nv))
    for k in range(4):
        own = 3 * (LINKS - 1 - k)
        J[3 * k, own], J[3 * k + 2, own + 1] = 1.0, 1.0
    force = np.zeros(nv)
    force[-3:-1] = 0.5 * LOAD, -LOAD
    inertia = LINK_MASS * np.array([1.0, 1.0, LINK**2 / 12])
    rows = Rows(G=G_rows, g=np.zeros(3 * LINKS), stops=np.zeros(3 * LINKS, dtype=bool), compliance=compliance)
    return ForwardProblem(
        M=np.diag(np.tile(inertia, LINKS)),
        h=np.tile([0.0, LINK_MASS * G, 0.0], LINKS),
        v=np.zeros(nv),
        J=J,
        force=force,
        mu=np.full(4, MU),
        gaps=np.zeros(4),
        dt=DT,
        rows=rows,
    )


def first_step(scene: str) -> ForwardProblem:
    """What the engine is asked at the beginning of a scene."""
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
    """Newton's method on normals of a column of boxes, 8 to 32768 kg, that all press: iterated refinement in one precision."""
    masses = 8.0 ** np.arange(1, 6)
    J = np.eye(5) - np.eye(5, k=-1)
    D, b = J @ np.diag(1 / masses) @ J.T, -G * DT * np.array([1.0, 0, 0, 0, 0])
    exact = G * DT * np.cumsum(masses[::-1])[::-1]
    A, right = D.astype(number), b.astype(number)
    p = np.zeros(5, dtype=number)
    for _ in range(30):
        p = p - np.linalg.solve(A, A @ p + right)
    delta, largest = float(np.finfo(number).eps), float(np.abs(exact).max())
    expected, inverse = (float(np.abs(B).sum(axis=1).max()) for B in (D * largest * delta, np.linalg.inv(D)))
    residual = float(np.abs(A @ p + right).max())
    return Floor(
        residual=residual,
        residual_expected=expected,
        error=float(np.abs(p - exact).max()),
        error_expected=inverse * delta * residual + largest * delta,
        error_at_most=inverse * expected + largest * delta,
    )


def solver_table(courses: dict[tuple[str, str], Course]) -> list[list[str]]:
    """What is left after 20 and 100 iterations, by problem and linear solver."""
    head = ["distance left", *(f"{name}, after {k}" for name in PROBLEMS for k in (EARLY, ITERATIONS))]
    return [head, *([solver, *_cells(courses, solver)] for solver in SOLVERS)]


def preconditioner_table(courses: dict[tuple[str, str], Course]) -> list[list[str]]:
    """The same by r and function, with PCR."""
    head = ["distance left", *(f"{name}, after {k}" for name in PROBLEMS for k in (EARLY, ITERATIONS))]
    kinds = [f"{r}, {function}" for function, r in product(FUNCTIONS, PRECONDITIONERS)]
    return [head, *([kind, *_cells(courses, kind)] for kind in kinds)]


def _cells(courses: dict[tuple[str, str], Course], kind: str) -> list[str]:
    found = [courses[name, kind].after(k) for name in PROBLEMS for k in (EARLY, ITERATIONS)]
    return [f"{x:.1e}" if x < 1e3 else "diverges" for x in found]


def scheme_table(problems: dict[str, ForwardProblem]) -> list[list[str]]:
    """Iterations to 10⁻⁹ of the paper's scheme and of what the engine does."""
    schemes = {
        "paper: weighted rows, t = 0.75, dense": paper(solver="dense", tolerance=1e-9, max_iterations=1000),
        "rows divided by α, t = 0.75": paper(solver="dense", tolerance=1e-9, max_iterations=1000, form="divided"),
        "rows divided by α, t = 1": paper(solver="dense", tolerance=1e-9, max_iterations=1000, form="divided", damping=1.0),
        "the engine: exact steps": Newton(positions="start"),
    }
    body = []
    for name, engine in schemes.items():
        cells = []
        for problem in problems.values():
            found = course(engine, problem)
            cells.append(f"{found.iterations}" if found.after(10**6) <= engine.tolerance else f"> {found.iterations}")
        body.append([name, *cells])
    return [["iterations to 1e-9", *problems], *body]


def floor_table() -> list[list[str]]:
    """(91) and (92) beside what is left, in single and double precision."""
    head = ["precision", "residual [m/s]", "by (92)", "error of impulses [N·s]", "by (91)", "at most"]
    body = []
    for number in (np.float32, np.float64):
        f = floor(number)
        figures = f.residual, f.residual_expected, f.error, f.error_expected, f.error_at_most
        body.append([number.__name__, *(f"{x:.1e}" for x in figures)])
    return [head, *body]


def curves(axis: Axes, courses: dict[tuple[str, str], Course], name: str, kinds: dict[str, str]) -> None:
    """kinds: of line, by label"""
    for kind, line in kinds.items():
        found = courses[name, kind]
        axis.semilogy(np.arange(1, len(found.error) + 1), np.clip(found.error, 1e-16, 1e4), line, label=kind)
    axis.set_title(name, loc="left")
    axis.set_xlabel("iterations")


def picture(courses: dict[tuple[str, str], Course]) -> bytes:
    """Distance over iterations: by solver above, by r and function below (PNG)."""
    styles = {
        f"{r}, {f}": ("-" if f == FUNCTIONS[0] else "--") + f"C{i}" for f in FUNCTIONS for i, r in enumerate(PRECONDITIONERS)
    }
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(2, 3, figsize=(13, 8), sharex=True)
        for column, name in enumerate(PROBLEMS):
            curves(axes[0, column], courses, name, dict.fromkeys(SOLVERS, "-"))
            curves(axes[1, column], courses, name, styles)
        for row in axes:
            row[0].set_ylabel("distance from the law [of the fastest row's speed]")
            row[0].legend(fontsize=8)
        return png(figure)


def linear_picture(found: dict[str, dict[str, Array]]) -> bytes:
    """Residuals of one linear system of each problem over iterations (PNG)."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
        for axis, (name, by_solver) in zip(axes, found.items(), strict=True):
            for solver, norms in by_solver.items():
                axis.semilogy(4 * np.arange(len(norms)), np.clip(norms, 1e-12, 1e6), label=solver)
            axis.set_title(name, loc="left")
            axis.set_xlabel("linear iterations")
        axes[0].set_ylabel("residual [of the first]")
        axes[0].legend()
        return png(figure)


def study(folder: Path, progress: Callable[[int, int, str], None]) -> list[list[list[str]]]:
    """Run all of it, write tables and pictures to `report.html` in a folder; the tables. progress: done, of how many, which."""
    folder.mkdir(parents=True, exist_ok=True)
    problems = {name: build() for name, build in PROBLEMS.items()}
    kinds: dict[str, Newton] = {solver: paper(solver=solver) for solver in SOLVERS}
    kinds |= {f"{r}, {f}": paper(preconditioner=r, function=f) for f, r in product(FUNCTIONS, PRECONDITIONERS)}
    courses: dict[tuple[str, str], Course] = {}
    for name, kind in product(problems, kinds):
        progress(len(courses), len(problems) * len(kinds), f"{name}, {kind}")
        courses[name, kind] = course(kinds[kind], problems[name])
    tables = [solver_table(courses), preconditioner_table(courses), scheme_table(problems), floor_table()]
    report = Report(
        "The engine newton", "The paper's scheme on one step of a stack, a beam and an arch; all distances in shares."
    )
    for table in tables:
        report.table(table)
    linear = {name: linear_courses(problem) for name, problem in problems.items()}
    pictures = {
        "convergence": (
            picture(courses),
            "Distance from Coulomb's law: by linear solver above, by r and function (PCR) below.",
        ),
        "linear": (linear_picture(linear), "Residuals of the first step's linear system, by solver."),
    }
    for name, (image, about) in pictures.items():
        (folder / f"{name}.png").write_bytes(image)
        report.picture(image, about)
    (folder / "report.html").write_text(report.html, encoding="utf-8")
    return tables
