"""What the engine `first-order` does, as a page: `idyn compare first-order-study`.

The cube on its elastic foundation in the layout of [Drumwright Tables 1, 2], beside a stiff implicit and an explicit method of
`scipy`; orders of accuracy of a pendulum, of one that meets a stop, and of the foundation; restitution of a stop; a block on a
ramp under the engine's friction and the paper's own.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from idyn.types import Record
from sim_harness.engines.first_order.engine import FirstOrder
from sim_harness.report.plots import STYLE, png
from sim_harness.report.report import Report
from sim_harness.studies import first_order_models as models
from sim_harness.studies import foundation
from sim_harness.studies.first_order_published import Published

DT, FINE_DT = 0.01, 0.001
"""[s]"""

CELLS = [(per_side, modulus, force) for per_side in (10, 30) for force in (5.0, 50.0) for modulus in (1e7, 1e11)]
"""Elements per side, E [N/m²], F [N]."""

PAPERS = [
    ((0.331, 0.302, 28.0), 2.96e-5),
    ((0.286, 0.189, 27.4), 2.91e-7),
    ((0.332, 9.55, 15.5), 0.813),
    ((0.396, 5550.0, 621.0), 0.814),
    ((7.40, 4.75, 829.0), 1.98e-5),
    ((8.23, 1.10, 17100.0), 2.71e-9),
    ((12.98, 27.3, 346.0), 1.0e-2),
    ((26.00, 2.31, 17400.0), 1.0e-2),
]
"""[Drumwright Tables 1, 2]: seconds for 1 s of the paper's solver, ode15s of first order and ode45; its solver's error."""

SOFT_S, STIFF_S = 1.0, 0.1
"""How long the rivals go at E = 1e7 and at 1e11 N/m², where 1 s of an edge that lifts would take the reference a quarter of an
hour [s]."""

ROUGH, TIGHT = (1e-3, 1e-6), {1e7: (1e-9, 1e-12), 1e11: (1e-7, 1e-12)}
"""Tolerances, relative and absolute, of the rivals (scipy's own, as MATLAB's), and of the reference by E."""

STEPS = (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)
"""Of the orders [s]."""

STOP_K, STOP_B = 1e4, 10.0
"""Of the stop whose order is taken [N·m/rad], [N·m·s/rad]: resolved by these steps."""

SHARES = (0.0, 0.25, 0.5, 0.75)
"""Of a step, in which the stop is met."""


class Cell(Record, frozen=True):
    """Of one foundation, seconds per simulated second and errors by method; elements that pressed in the worst step.

    errors: at the rivals' end, ‖·‖ of place [m] and quaternion; inf of a time is of what was not run
    """

    seconds: dict[str, float]
    errors: dict[str, float]
    pressed: int


def cell(per_side: int, modulus: float, force: float) -> Cell:
    on, engine = foundation.bed(per_side, modulus, force), FirstOrder()
    foundation.stepped(engine, on, DT, DT)
    foundation.integrated(on, "RK45", 1e-6, *ROUGH)  # compiles what is not yet
    begin = time.perf_counter()
    _, _, pressed = foundation.stepped(engine, on, DT, 1.0)
    seconds = {"first-order": time.perf_counter() - begin}
    end = SOFT_S if modulus < 1e9 else STIFF_S
    exact, _ = foundation.integrated(on, "DOP853", end, *TIGHT[modulus])
    errors = {}
    for name, dt in (("first-order", DT), ("1 ms", FINE_DT)):
        errors[name] = foundation.distance(foundation.stepped(engine, on, dt, end)[0], exact)
    for method in ("BDF", "RK45"):
        begin = time.perf_counter()
        pose, _ = foundation.integrated(on, method, end, *ROUGH)
        seconds[method] = (time.perf_counter() - begin) / end
        errors[method] = foundation.distance(pose, exact)
    return Cell(seconds=seconds, errors=errors, pressed=pressed)


def orders() -> dict[str, list[tuple[float, float]]]:
    """Distance of q and of forces, or q and v, from the exact ones by step, in SI units, of each system."""
    found: dict[str, list[tuple[float, float]]] = {}
    exact = models.exact_pendulum()
    ends = [models.pendulum(dt) for dt in STEPS]
    found["pendulum, q"] = [(dt, float(np.linalg.norm(m.q - exact.q))) for dt, m in zip(STEPS, ends, strict=True)]
    found["pendulum, λ"] = [(dt, float(np.linalg.norm(m.forces - exact.forces))) for dt, m in zip(STEPS, ends, strict=True)]
    exact, steps = models.exact_limited_pendulum(1.0, STOP_K, STOP_B), tuple(dt / 8 for dt in STEPS)
    ends = [models.limited_pendulum(dt, 1.0, STOP_K, STOP_B) for dt in steps]
    found["pendulum that meets a stop, q"] = [(dt, float(abs(m.q[0] - exact.q[0]))) for dt, m in zip(steps, ends, strict=True)]
    on, engine = foundation.bed(10, 1e3, 5.0), FirstOrder()
    truth, _ = foundation.integrated(on, "DOP853", 1.0, 1e-11, 1e-13)
    found["foundation, E = 1e3 N/m², q"] = [
        (dt, foundation.distance(foundation.stepped(engine, on, dt, 1.0)[0], truth)) for dt in STEPS
    ]
    return found


def order(line: list[tuple[float, float]]) -> float:
    """Between the last two steps."""
    (a, before), (b, after) = line[-2:]
    return float(np.log(before / after) / np.log(a / b))


def time_table(cells: list[Cell]) -> list[list[str]]:
    """Layout of [Drumwright Table 1], its numbers in brackets."""
    head = ["seconds for 1 s", "E [N/m²]", "first-order, 10 ms", "BDF", "RK45", "elements that pressed"]
    body = []
    for (per_side, modulus, force), found, (papers, _) in zip(CELLS, cells, PAPERS, strict=True):
        times = [
            f"{found.seconds[name]:.3g} ({paper:g})" for name, paper in zip(("first-order", "BDF", "RK45"), papers, strict=True)
        ]
        body.append([f"{per_side**2} elements, {force:g} N", f"{modulus:g}", *times, f"{found.pressed} of {per_side**2}"])
    return [head, *body]


def error_table(cells: list[Cell]) -> list[list[str]]:
    """Layout of [Drumwright Table 2], its numbers in brackets; at the rivals' end."""
    head = ["error", "E [N/m²]", "at [s]", "first-order, 10 ms", "first-order, 1 ms", "BDF", "RK45"]
    body = []
    for (per_side, modulus, force), found, (_, paper) in zip(CELLS, cells, PAPERS, strict=True):
        e = found.errors
        errors = [f"{e['first-order']:.2e} ({paper:.2e})", *(f"{e[name]:.2e}" for name in ("1 ms", "BDF", "RK45"))]
        end = SOFT_S if modulus < 1e9 else STIFF_S
        body.append([f"{per_side**2} elements, {force:g} N", f"{modulus:g}", f"{end:g}", *errors])
    return [head, *body]


def order_table(lines: dict[str, list[tuple[float, float]]]) -> list[list[str]]:
    return [
        ["error of", "largest step [ms]", "error", "smallest step [ms]", "error", "order"],
        *(
            [
                name,
                f"{1e3 * line[0][0]:g}",
                f"{line[0][1]:.2e}",
                f"{1e3 * line[-1][0]:g}",
                f"{line[-1][1]:.2e}",
                f"{order(line):.2f}",
            ]
            for name, line in lines.items()
        ),
    ]


def restitution_table() -> list[list[str]]:
    """K = 1e12 N·m/rad on 1 kg·m², B ≈ 0: the step's own spring of frequency ω = 1e6/s."""
    head = ["stop, restitution", "exp(−π dt ω / 2)", *(f"met {share:g} of a step away" for share in SHARES)]
    body = []
    for dt in (1e-3, 1e-5, 1e-6, 1e-7, 1e-8):
        expected = f"{np.exp(-np.pi * dt * 1e6 / 2):.4f}"
        body.append([f"{dt:g} s", expected, *(f"{models.restitution(dt, share):.4f}" for share in SHARES)])
    return [head, *body]


def ramp_table() -> list[list[str]]:
    """The block under the engine's friction and under the paper's, with its own weight and with one that suits a block."""
    large = 100 * (1 + RAMP_HB) ** 2
    variants = {
        "cone": FirstOrder(),
        "convex": FirstOrder(friction="convex"),
        "published, ζ = 1/dt": Published(),
        "published, ζ = 100 (1 + dt B)²": Published(normal_weight=large),
    }
    body = []
    for mu in (0.0, 0.125, 0.25, 0.375):
        for name, engine in variants.items():
            end = models.ramp(engine, mu)
            numbers = f"{end.q[0]:.4f}", f"{models.exact_ramp(mu):.4f}", f"{1e3 * end.q[1]:.3g}", f"{end.forces[2]:.2f}"
            body.append([f"{mu:g}", name, *numbers])
    return [["ramp, μ", "friction", "way in 1 s [m]", "exact [m]", "above the ramp [mm]", "first N [N]"], *body]


RAMP_HB = 1e6
"""dt B_t [kg] of the block's friction."""


def picture(lines: dict[str, list[tuple[float, float]]], cells: list[Cell]) -> bytes:
    """Orders of accuracy, and times of the foundation (PNG)."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(12, 4.5))
        for name, line in lines.items():
            dt, error = zip(*line, strict=True)
            axes[0].loglog(dt, error, "o-", label=f"{name}: {order(line):.2f}")
        axes[0].loglog(STEPS, np.array(STEPS), "k:", linewidth=0.8, label="order 1")
        axes[0].set_xlabel("dt [s]")
        axes[0].set_ylabel("error after 1 s [m, rad, N]")
        axes[0].legend(fontsize=8)
        at = np.arange(len(CELLS))
        for k, method in enumerate(("first-order", "BDF", "RK45")):
            axes[1].bar(at + 0.27 * (k - 1), [found.seconds[method] for found in cells], 0.25, label=method)
        axes[1].set_yscale("log")
        axes[1].axhline(1.0, color="0.4", linewidth=0.8)
        axes[1].set_xticks(at, [f"{n * n}\n{E:.0e}\n{F:g} N" for n, E, F in CELLS], fontsize=8)
        axes[1].set_ylabel("seconds for 1 s")
        axes[1].legend()
        return png(figure)


def study(folder: Path, progress: Callable[[int, int, str], None]) -> list[list[list[str]]]:
    """Run all of it, write tables and pictures to `report.html` in a folder; the tables. progress: done, of how many, which."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Callable[[], Any]] = {
        f"{n * n} elements, {E:g} N/m², {F:g} N": partial(cell, n, E, F) for n, E, F in CELLS
    }
    parts |= {"orders": orders, "restitution": restitution_table, "ramp": ramp_table}
    done: list[Any] = []
    for name, part in parts.items():
        progress(len(done), len(parts), name)
        done.append(part())
    cells, (lines, stop, block) = done[: len(CELLS)], done[len(CELLS) :]
    report = Report(
        "The engine first-order",
        "A cube on an elastic foundation beside two methods for differential equations, the numbers of the paper in brackets; "
        "orders of accuracy; a stop; a block on a ramp under the engine's friction and the paper's own.",
    )
    tables = [time_table(cells), error_table(cells), order_table(lines), stop, block]
    for table in tables:
        report.table(table)
    image = picture(lines, cells)
    (folder / "orders.png").write_bytes(image)
    report.picture(image, "Errors by step with their orders, and times of the foundation.")
    (folder / "report.html").write_text(report.html, encoding="utf-8")
    return tables
