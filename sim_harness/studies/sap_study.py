"""What the schemes and the solver of the engine `sap` do, as a page: `idyn compare sap-study`.

Orders and energies of the cylinder on a spring [SAP §VI-B], iterations and momentum errors of the clutter [SAP §VI-C].
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import msgspec
import numpy as np

from idyn.types import Array, Record
from sim_harness.engines.sap.engine import Sap
from sim_harness.report.plots import STYLE, png, rows
from sim_harness.report.report import Report
from sim_harness.scenes.load import load_scene
from sim_harness.scenes.scene import SceneWorld
from sim_harness.world.worlds import build_scene

SCENES = {"rolls": "spring-cylinder", "glides": "spring-cylinder-smooth"}
SCHEMES = ("symplectic", "midpoint", "implicit")
STEPS = (0.02, 0.01, 0.005, 0.0025, 0.00125)
"""[s]"""

ORDER_S, LONG_S = 5.0, 600.0
"""How long the errors are taken over, and the energy is followed [s]."""

START, SPRING, MASS = 0.1, 100.0, 0.5
"""Of the scenes' cylinder [m], [N/m], [kg]."""

CANDIDATES = ("near", "touching")


class Swing(Record, frozen=True):
    """A cylinder's way [m] and mechanical energy along its spring, as a share of the first, after each step (N)."""

    t: Array
    x: Array
    energy: Array

    @property
    def band(self) -> float:
        """Peak to peak of the energy."""
        return float(np.ptp(self.energy))

    def error(self, omega: float) -> float:
        """e_q, the root mean square distance from the exact motion [m]."""
        return float(np.sqrt(np.mean((self.x - START * np.cos(omega * self.t)) ** 2)))


class Pile(Record, frozen=True):
    """Of each step of the clutter: Newton steps, e_m, contacts, what the engine took [s] (N)."""

    t: Array
    iterations: Array
    momentum: Array
    contacts: Array
    seconds: Array


def effective_mass(motion: str) -> float:
    """[kg] of the solid cylinder: half of it more where it rolls."""
    return MASS * (1.5 if motion == "rolls" else 1.0)


def swing(motion: str, scheme: str, dt: float, seconds: float) -> Swing:
    """The cylinder that rolls or glides, under a scheme."""
    settings = msgspec.structs.replace(load_scene(SCENES[motion]), dt=dt)
    engine = msgspec.convert({"kind": "sap", "scheme": scheme, "candidates": "near"}, Sap)
    world, mass = build_scene(settings, engine), effective_mass(motion)
    found = np.zeros((round(seconds / dt), 2))
    for row in found:
        _checked(world)
        row[:] = world.state.q[0], world.state.v[0]
    x, v = found.T
    energy = (mass * v * v + SPRING * x * x) / (SPRING * START * START)
    return Swing(t=dt * np.arange(1, len(x) + 1), x=x, energy=energy)


def pile(candidates: str) -> Pile:
    """The clutter to its end."""
    settings = load_scene("clutter")
    world = build_scene(settings, msgspec.convert({"kind": "sap", "candidates": candidates, "tolerance": 1e-5}, Sap))
    world.step()  # compiles what is not yet
    world.reset(world.bodies.start.q, world.bodies.start.v)
    found = np.array([_checked(world) for _ in range(round(settings.duration / settings.dt))])
    t = settings.dt * np.arange(1, len(found) + 1)
    return Pile(t=t, iterations=found[:, 0], momentum=found[:, 1], contacts=found[:, 2], seconds=found[:, 3])


def _checked(world: SceneWorld) -> tuple[float, float, float, float]:
    """One step: iterations, e_m, contacts, seconds. Raises RuntimeError for one that was not solved."""
    step = world.step()
    if not step.solution.status.ok or step.solution.accuracy is None:
        raise RuntimeError(f"at {world.t:.4g} s: {step.solution.status.sentence}")
    return step.solution.iterations, step.solution.accuracy.momentum, len(step.problem.mu), step.seconds


def order_table(swings: dict[tuple[str, float], Swing]) -> list[list[str]]:
    """Errors of the rolling cylinder by scheme and step, and the order between the last two."""
    omega = np.sqrt(SPRING / effective_mass("rolls"))
    body = []
    for scheme in SCHEMES:
        errors = [swings[scheme, dt].error(omega) for dt in STEPS]
        body.append([scheme, *(f"{1e3 * e:.4f}" for e in errors), f"{np.log2(errors[-2] / errors[-1]):.2f}"])
    return [["e_q [mm]", *(f"{1e3 * dt:g} ms" for dt in STEPS), "order"], *body]


def energy_table(short: dict[tuple[str, str], Swing], long: dict[str, Swing]) -> list[list[str]]:
    """Bands over 20 s, and what is left after ten minutes of rolling."""
    body = []
    for scheme in SCHEMES:
        bands = [f"{100 * short[motion, scheme].band:.3g}" for motion in SCENES]
        body.append([scheme, *bands, f"{100 * long[scheme].energy[-50:].mean():.1f}" if scheme in long else "–"])
    return [["energy [%]", *(f"band, {motion}" for motion in SCENES), f"left after {LONG_S:g} s, rolls"], *body]


def pile_table(piles: dict[str, Pile]) -> list[list[str]]:
    """Iterations while the bodies fall and while they rest, and the largest e_m."""
    head = ["candidates", "iterations, first half", "last 3 s", "most", "largest e_m", "contacts at the end", "ms per step"]
    body = []
    for name, p in piles.items():
        half, rest = len(p.t) // 2, p.t > p.t[-1] - 3.0
        cells = f"{p.iterations[:half].mean():.1f}", f"{p.iterations[rest].mean():.1f}", f"{p.iterations.max():.0f}"
        body.append([name, *cells, f"{p.momentum.max():.1e}", f"{p.contacts[-1]:.0f}", f"{1e3 * np.median(p.seconds):.2f}"])
    return [head, *body]


def order_picture(swings: dict[tuple[str, float], Swing], short: dict[tuple[str, str], Swing]) -> bytes:
    """Errors over steps, and energies of both cylinders (PNG)."""
    omega = np.sqrt(SPRING / effective_mass("rolls"))
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(12, 3.8))
        for scheme in SCHEMES:
            axes[0].loglog(1e3 * np.array(STEPS), [1e3 * swings[scheme, dt].error(omega) for dt in STEPS], "o-", label=scheme)
            for axis, motion in zip(axes[1:], SCENES, strict=True):
                run = short[motion, scheme]
                axis.plot(run.t, 100 * run.energy, label=scheme, linewidth=0.8)
                axis.set_title(f"the cylinder {motion}, dt = 20 ms", loc="left")
                axis.set_xlabel("t [s]")
        axes[0].set_xticks([1e3 * dt for dt in STEPS], [f"{1e3 * dt:g}" for dt in STEPS])
        axes[0].minorticks_off()
        axes[0].set_xlabel("dt [ms]")
        axes[0].set_ylabel("e_q over 5 s [mm]")
        axes[0].legend()
        axes[1].set_ylabel("energy [% of the first]")
        return png(figure)


def pile_picture(piles: dict[str, Pile]) -> bytes:
    """Iterations, e_m and contacts over time (PNG)."""
    with mpl.rc_context(STYLE):
        figure, axes = rows(3)
        for name, p in piles.items():
            axes[0].plot(p.t, p.iterations, label=name, linewidth=0.7)
            axes[1].semilogy(p.t, np.maximum(p.momentum, 1e-18), linewidth=0.7)
            axes[2].plot(p.t, p.contacts, linewidth=0.7)
        axes[0].set_ylabel("Newton steps")
        axes[1].set_ylabel("e_m")
        axes[2].set_ylabel("contacts\nwithin reach")
        axes[2].set_xlabel("t [s]")
        axes[0].legend()
        return png(figure)


def study(folder: Path, progress: Callable[[int, int, str], None]) -> list[list[list[str]]]:
    """Run all of it, write tables and pictures to `report.html` in a folder; the tables. progress: done, of how many, which."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "orders": lambda: {(scheme, dt): swing("rolls", scheme, dt, ORDER_S) for scheme in SCHEMES for dt in STEPS},
        "energies": lambda: {(motion, each): swing(motion, each, STEPS[0], 20.0) for motion in SCENES for each in SCHEMES},
        "ten minutes": lambda: {scheme: swing("rolls", scheme, STEPS[0], LONG_S) for scheme in ("symplectic", "midpoint")},
        "clutter": lambda: {candidates: pile(candidates) for candidates in CANDIDATES},
    }
    done: list[Any] = []
    for name, part in parts.items():
        progress(len(done), len(parts), name)
        done.append(part())
    orders, short, long, piles = done
    report = Report("The engine sap", "Its schemes on a cylinder on a spring, and its solver on forty bodies in a bin.")
    tables = [order_table(orders), energy_table(short, long), pile_table(piles)]
    for table in tables:
        report.table(table)
    for name, picture in (("schemes", order_picture(orders, short)), ("clutter", pile_picture(piles))):
        (folder / f"{name}.png").write_bytes(picture)
        report.picture(picture, {"schemes": "Errors and energies by scheme.", "clutter": "The clutter, step by step."}[name])
    (folder / "report.html").write_text(report.html, encoding="utf-8")
    return tables
