"""Accuracy and speed of the engine `first-order`: `idyn compare first-order-study`.

The cube on its elastic foundation in the layout of [Drumwright Tables 1, 2], beside a stiff implicit and an explicit method of
`scipy`; orders of accuracy of a pendulum, of one that meets a stop, and of the foundation; restitution of a stop; a block on a
ramp under the engine's friction and the paper's own.
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
"""[s]"""

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
"""Elements per side, E [N/m²], F [N] → [Drumwright Tables 1, 2]: seconds for 1 s of the paper's solver, ode15s of first order
and ode45; its solver's error."""

CELLS = list(PAPERS)

SOFT_S, STIFF_S = 1.0, 0.1
"""How long the rivals go at E = 1e7 and at 1e11 N/m², where 1 s of an edge that lifts would take the reference a quarter of an
hour [s]."""

ROUGH, TIGHT = (1e-3, 1e-6), {1e7: (1e-9, 1e-12), 1e11: (1e-7, 1e-12)}
"""Tolerances, relative and absolute, of the rivals (scipy's own, as MATLAB's), and of the reference by E."""

STEPS = (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)
"""Of the orders [s]."""

STOP_K, STOP_B = 1e4, 10.0
"""Of the stop whose order is taken [N·m/rad], [N·m·s/rad]: resolved by these steps."""

SHARES = {f"met {share:g} of a step away": share for share in (0.0, 0.25, 0.5, 0.75)}
"""Of a step, in which the stop is met."""

STOP_STEPS = {f"{dt:g} s": dt for dt in (1e-3, 1e-5, 1e-6, 1e-7, 1e-8)}
"""Of the restitution [s]."""

RAMP_HB = 1e6
"""dt B_t [kg] of the block's friction."""

FRICTIONS = {
    "cone": FirstOrder(),
    "convex": FirstOrder(friction="convex"),
    "published, ζ = 1/dt": Published(),
    "published, ζ = 100 (1 + dt B)²": Published(normal_weight=100 * (1 + RAMP_HB) ** 2),
}
"""The block's, with the weight of a block of the paper's friction and with one that suits it."""

METHODS = ("first-order", "BDF", "RK45")


class Cell(Record, frozen=True):
    """Of one foundation, seconds per simulated second and errors by method; elements that pressed in the worst step.

    errors: at the rivals' end, ‖·‖ of place [m] and quaternion; inf of a time is of what was not run
    """

    seconds: dict[str, float]
    errors: dict[str, float]
    pressed: int


def cell(per_side: int, modulus: float, force: float) -> Cell:
    """Engine, reference and rivals on one foundation."""
    on, engine = foundation.bed(per_side, modulus, force), FirstOrder()
    foundation.stepped(engine, on, DT, DT)
    foundation.integrated(on, "RK45", 1e-6, *ROUGH)  # compiles
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
    """Of the rivals [s]."""
    return SOFT_S if modulus < 1e9 else STIFF_S


Line = list[tuple[float, float]]
"""Steps [s] and errors after them, in SI units."""


def systems() -> dict[str, tuple[float, Callable[[float], float]]]:
    """By which share of `STEPS` a system is stepped, and the distance of its q, or forces, from the exact ones by step."""
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
    """Between the last two steps."""
    (a, before), (b, after) = line[-2:]
    return float(np.log(before / after) / np.log(a / b))


def time_table(cells: list[Cell]) -> Table:
    """Layout of [Drumwright Table 1], its numbers in brackets."""
    body = []
    for ((per_side, modulus, force), (papers, _)), found in zip(PAPERS.items(), cells, strict=True):
        times = (f"{found.seconds[name]:.3g} ({paper:g})" for name, paper in zip(METHODS, papers, strict=True))
        body.append([f"{per_side**2} elements, {force:g} N", f"{modulus:g}", *times, f"{found.pressed} of {per_side**2}"])
    return [["seconds for 1 s", "E [N/m²]", "first-order, 10 ms", "BDF", "RK45", "elements that pressed"], *body]


def error_table(cells: list[Cell]) -> Table:
    """Layout of [Drumwright Table 2], its numbers in brackets; at the rivals' end."""
    body = []
    for ((per_side, modulus, force), (_, paper)), found in zip(PAPERS.items(), cells, strict=True):
        own, *others = (f"{found.errors[name]:.2e}" for name in ("first-order", "1 ms", "BDF", "RK45"))
        where = [f"{per_side**2} elements, {force:g} N", f"{modulus:g}", f"{_end(modulus):g}"]
        body.append([*where, f"{own} ({paper:.2e})", *others])
    return [["error", "E [N/m²]", "at [s]", "first-order, 10 ms", "first-order, 1 ms", "BDF", "RK45"], *body]


def order_table(found: Figures) -> Table:
    body = []
    for name, line in found["orders"].items():
        ends = (text for dt, error in (line[0], line[-1]) for text in (f"{1e3 * dt:g}", f"{error:.2e}"))
        body.append([name, *ends, f"{order(line):.2f}"])
    return [["error of", "largest step [ms]", "error", "smallest step [ms]", "error", "order"], *body]


def restitution_table(found: Figures) -> Table:
    """K = 1e12 N·m/rad on 1 kg·m², B ≈ 0: the step's own spring of frequency ω = 1e6/s."""
    head, *body = crossed("stop, restitution", found["restitution"], "{:.4f}".format)
    expected = (f"{np.exp(-np.pi * dt * 1e6 / 2):.4f}" for dt in STOP_STEPS.values())
    return [[head[0], "exp(−π dt ω / 2)", *head[1:]], *([row[0], e, *row[1:]] for row, e in zip(body, expected, strict=True))]


def ramp_table(found: Figures) -> Table:
    body = []
    for (mu, name), end in found["ramp"].items():
        way, exact = f"{end.q[0]:.4f}", f"{models.exact_ramp(float(mu)):.4f}"
        body.append([mu, name, way, exact, f"{1e3 * end.q[1]:.3g}", f"{end.forces[2]:.2f}"])
    return [["ramp, μ", "friction", "way in 1 s [m]", "exact [m]", "above the ramp [mm]", "first N [N]"], *body]


def speed_picture(found: Figures) -> bytes:
    """Orders of accuracy, and times of the foundation."""
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
    cells = {f"{n * n} elements, {E:g} N/m², {F:g} N": (n, E, F) for n, E, F in CELLS}
    return Study(
        "The engine first-order",
        "A cube on an elastic foundation beside two methods for differential equations, the numbers of the paper in brackets; "
        "orders of accuracy; a stop; a block on a ramp under the engine's friction and the paper's own.",
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
        pictures=(Picture("orders", "Errors by step with their orders, and times of the foundation.", speed_picture),),
    )
