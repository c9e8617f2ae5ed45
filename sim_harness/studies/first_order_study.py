"""Accuracy and speed of the engine `first-order`: `idyn compare first-order-study`.

- The cube on its elastic foundation in the layout of [Drumwright Tables 1, 2], compared with a stiff implicit and an explicit
  method of `scipy`.
- Orders of accuracy of a pendulum, of a pendulum with a stop, and of the foundation.
- The coefficient of restitution of a stop.
- A block on a ramp with the friction of the engine and with that of the paper.
"""

import time
from collections.abc import Callable

import numpy as np

from idyn.types import Record
from sim_harness.compare.study import Figures, Picture, Study, Sweep
from sim_harness.engines.first_order.engine import FirstOrder
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, crossed
from sim_harness.studies import first_order_models as models
from sim_harness.studies import foundation
from sim_harness.studies.first_order_published import Published

DT, FINE_DT = 0.01, 0.001
"""Time steps of the foundation [s]."""

PAPERS = {
    (10, 1e7, 5.0): ((0.331, 0.302, 28.0), 2.96e-5),
    (10, 1e11, 5.0): ((0.286, 0.189, 27.4), 2.91e-7),
    (10, 1e7, 50.0): ((0.332, 9.55, 15.5), 0.813),
    (10, 1e11, 50.0): ((0.396, 5550.0, 621.0), 0.814),
    (30, 1e7, 5.0): ((7.40, 4.75, 829.0), 1.98e-5),
    (30, 1e11, 5.0): ((8.23, 1.10, 17100.0), 2.71e-9),
    (30, 1e7, 50.0): ((12.98, 27.3, 346.0), 1.0e-2),
    (30, 1e11, 50.0): ((26.00, 2.31, 17400.0), 1.0e-2),
}
"""(elements per side, E [N/m²], F [N]) → (run times, error) of [Drumwright Tables 1, 2].

Run times are those of (paper's solver, ode15s of first order, ode45), in seconds per simulated second. The error is that of
the paper's solver.
"""

CELLS = list(PAPERS)

SOFT_S, STIFF_S = 1.0, 0.1
"""Simulated time of the methods of scipy at E = 1e7 and at 1e11 N/m² [s].

With E = 1e11 N/m² and an edge that lifts off, the reference would need a quarter of an hour for 1 s of simulated time.
"""

ROUGH, TIGHT = (1e-3, 1e-6), {1e7: (1e-9, 1e-12), 1e11: (1e-7, 1e-12)}
"""Relative and absolute tolerances of scipy's methods (the defaults of scipy and MATLAB), and of the reference, by E."""

STEPS = (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)
"""Time steps with which the orders of accuracy are measured [s]."""

STOP_K, STOP_B = 1e4, 10.0
"""Stiffness [N·m/rad] and damping [N·m·s/rad] of the stop whose order is measured: these time steps resolve it."""

SHARES = {f"met {share:g} of a step away": share for share in (0.0, 0.25, 0.5, 0.75)}
"""Label → initial distance from the stop, as a multiple of the distance travelled in a time step."""

STOP_STEPS = {f"{dt:g} s": dt for dt in (1e-3, 1e-5, 1e-6, 1e-7, 1e-8)}
"""Label → time step for the restitution [s]."""

RAMP_HB = 1e6
"""dt B_t of the block's friction [kg]."""

FRICTIONS = {
    "cone": FirstOrder(),
    "convex": FirstOrder(friction="convex"),
    "published, ζ = 1/dt": Published(),
    "published, ζ = 100 (1 + dt B)²": Published(normal_weight=100 * (1 + RAMP_HB) ** 2),
}
"""Label → engine for the block: friction of `first-order`; the paper's with the published weight ζ, and with a suitable ζ."""

METHODS = ("first-order", "BDF", "RK45")


class Cell(Record, frozen=True):
    """Figures of one foundation.

    seconds: method → run time in seconds per simulated second
    pressed: number of elements that pressed, in the step with the fewest of them
    errors: method → norm of the difference of position [m] and quaternion from the reference
    """

    seconds: dict[str, float]
    errors: dict[str, float]
    pressed: int


def cell(per_side: int, modulus: float, force: float) -> Cell:
    """Measure engine, reference and scipy's methods on one foundation. modulus: E [N/m²]; force: F [N]"""
    on, engine = foundation.bed(per_side, modulus, force), FirstOrder()
    foundation.stepped(engine, on, DT, DT)
    foundation.integrated(on, "RK45", 1e-6, *ROUGH)  # compile kernels
    begin = time.perf_counter()
    _, _, pressed = foundation.stepped(engine, on, DT, 1.0)
    seconds = {"first-order": time.perf_counter() - begin}
    end = _end(modulus)
    exact, _ = foundation.integrated(on, "DOP853", end, *TIGHT[modulus])
    errors = {}
    for name, dt in (("first-order", DT), ("1 ms", FINE_DT)):
        errors[name] = foundation.distance(foundation.stepped(engine, on, dt, end)[0], exact)
    for method in METHODS[1:]:
        begin = time.perf_counter()
        pose, _ = foundation.integrated(on, method, end, *ROUGH)
        seconds[method] = (time.perf_counter() - begin) / end
        errors[method] = foundation.distance(pose, exact)
    return Cell(seconds=seconds, errors=errors, pressed=pressed)


def _end(modulus: float) -> float:
    """Return the simulated time for scipy's methods [s]."""
    return SOFT_S if modulus < 1e9 else STIFF_S


Line = list[tuple[float, float]]
"""Pairs of time step [s] and error [SI units]."""


def systems() -> dict[str, tuple[float, Callable[[float], float]]]:
    """Return name → (factor on `STEPS`, function) of each system.

    The function takes a time step and returns the error of q or, for some systems, of the forces.
    """
    rigid, stop = models.exact_pendulum(), models.exact_limited_pendulum(1.0, STOP_K, STOP_B)
    on, engine = foundation.bed(10, 1e3, 5.0), FirstOrder()
    exact, _ = foundation.integrated(on, "DOP853", 1.0, 1e-11, 1e-13)
    return {
        "pendulum, q": (1.0, lambda dt: float(np.linalg.norm(models.pendulum(dt).q - rigid.q))),
        "pendulum, λ": (1.0, lambda dt: float(np.linalg.norm(models.pendulum(dt).forces - rigid.forces))),
        "pendulum that meets a stop, q": (
            0.125,
            lambda dt: abs(float(models.limited_pendulum(dt, 1.0, STOP_K, STOP_B).q[0] - stop.q[0])),
        ),
        "foundation, E = 1e3 N/m², q": (
            1.0,
            lambda dt: foundation.distance(foundation.stepped(engine, on, dt, 1.0)[0], exact),
        ),
    }


def order(line: Line) -> float:
    """Return the order of convergence of the last two time steps."""
    (a, before), (b, after) = line[-2:]
    return float(np.log(before / after) / np.log(a / b))


def time_table(cells: list[Cell]) -> Table:
    """Return run times in the layout of [Drumwright Table 1], the paper's in brackets."""
    body = []
    for ((per_side, modulus, force), (papers, _)), found in zip(PAPERS.items(), cells, strict=True):
        times = (f"{found.seconds[name]:.3g} ({paper:g})" for name, paper in zip(METHODS, papers, strict=True))
        body.append([f"{per_side**2} elements, {force:g} N", f"{modulus:g}", *times, f"{found.pressed} of {per_side**2}"])
    return [["seconds for 1 s", "E [N/m²]", "first-order, 10 ms", "BDF", "RK45", "elements that pressed"], *body]


def error_table(cells: list[Cell]) -> Table:
    """Return errors in the layout of [Drumwright Table 2], the paper's in brackets."""
    body = []
    for ((per_side, modulus, force), (_, paper)), found in zip(PAPERS.items(), cells, strict=True):
        own, *others = (f"{found.errors[name]:.2e}" for name in ("first-order", "1 ms", "BDF", "RK45"))
        where = [f"{per_side**2} elements, {force:g} N", f"{modulus:g}", f"{_end(modulus):g}"]
        body.append([*where, f"{own} ({paper:.2e})", *others])
    return [["error", "E [N/m²]", "at [s]", "first-order, 10 ms", "first-order, 1 ms", "BDF", "RK45"], *body]


def order_table(found: Figures) -> Table:
    """Return a table of errors with the largest and the smallest time step, and orders of convergence."""
    body = []
    for name, line in found["orders"].items():
        ends = (text for dt, error in (line[0], line[-1]) for text in (f"{1e3 * dt:g}", f"{error:.2e}"))
        body.append([name, *ends, f"{order(line):.2f}"])
    return [["error of", "largest step [ms]", "error", "smallest step [ms]", "error", "order"], *body]


def restitution_table(found: Figures) -> Table:
    """Return a table of coefficients of restitution, for K = 1e12 N·m/rad, 1 kg·m² and B ≈ 0, so that ω = 1e6/s."""
    head, *body = crossed("stop, restitution", found["restitution"], "{:.4f}".format)
    expected = (f"{np.exp(-np.pi * dt * 1e6 / 2):.4f}" for dt in STOP_STEPS.values())
    return [[head[0], "exp(−π dt ω / 2)", *head[1:]], *([row[0], e, *row[1:]] for row, e in zip(body, expected, strict=True))]


def ramp_table(found: Figures) -> Table:
    """Return a table of the block's displacement, its exact value, the height, and the first normal force."""
    body = []
    for (mu, name), end in found["ramp"].items():
        slid, exact = f"{end.q[0]:.4f}", f"{models.exact_ramp(float(mu)):.4f}"
        body.append([mu, name, slid, exact, f"{1e3 * end.q[1]:.3g}", f"{end.forces[2]:.2f}"])
    return [["ramp, μ", "friction", "displacement in 1 s [m]", "exact [m]", "above the ramp [mm]", "first N [N]"], *body]


def speed_picture(found: Figures) -> bytes:
    """Draw orders of accuracy, and run times of the foundation."""
    lines = {f"{name}: {order(line):.2f}": (*zip(*line, strict=True), "o-") for name, line in found["orders"].items()}
    lines["order 1"] = (STEPS, STEPS, "k:")
    times = {method: [each.seconds[method] for each in found["foundation"].values()] for method in METHODS}
    ticks = {f"{n * n}\n{E:.0e}\n{F:g} N": k for k, (n, E, F) in enumerate(CELLS)}
    panels = [
        Plot(lines=lines, log="xy", legend=True, axes={"xlabel": "dt [s]", "ylabel": "error after 1 s [m, rad, N]"}),
        Plot(bars=times, ticks=ticks, log="y", legend=True, axes={"ylabel": "seconds for 1 s"}),
    ]
    return picture(panels, across=2, size=(12, 4.5), share=False)


def study() -> Study:
    """Return the study of the engine `first-order`."""
    cells = {f"{n * n} elements, {E:g} N/m², {F:g} N": (n, E, F) for n, E, F in CELLS}
    return Study(
        "The engine first-order",
        "A cube on an elastic foundation, compared with two methods for differential equations; the paper's numbers are in "
        "brackets. Orders of accuracy. Restitution of a stop. A block on a ramp with the engine's and the paper's friction.",
        sweeps={
            "foundation": Sweep((cells,), lambda point: cell(*point)),
            "orders": Sweep((systems(),), lambda system: [(system[0] * dt, system[1](system[0] * dt)) for dt in STEPS]),
            "restitution": Sweep((STOP_STEPS, SHARES), models.restitution),
            "ramp": Sweep(({f"{mu:g}": mu for mu in (0.0, 0.125, 0.25, 0.375)}, FRICTIONS), models.ramp),
        },
        tables=(
            lambda found: time_table([*found["foundation"].values()]),
            lambda found: error_table([*found["foundation"].values()]),
            order_table,
            restitution_table,
            ramp_table,
        ),
        pictures=(
            Picture("orders", "Errors over the time step with their orders; run times of the foundation.", speed_picture),
        ),
    )
