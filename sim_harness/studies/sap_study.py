"""Integration schemes and solver of the engine `sap`: `idyn compare sap-study`.

Convergence orders and energies of the cylinder on a spring [SAP §VI-B]; iterations and momentum errors of the clutter
[SAP §VI-C].
"""

from collections.abc import Callable

import msgspec
import numpy as np

from idyn.types import Array, Record
from sim_harness.engines.sap import Sap
from sim_harness.report.plots import Plot, picture, stacked
from sim_harness.report.tables import Table, listed
from sim_harness.studies.scenes.load import load_scene
from sim_harness.studies.scenes.scene import SceneWorld
from sim_harness.studies.scenes.world import build_scene
from sim_harness.studies.study import Figures, Picture, Study, Sweep

SCENES = {"rolls": "spring-cylinder", "glides": "spring-cylinder-smooth"}
SCHEMES = ("symplectic", "midpoint", "implicit")
STEPS = {f"{1e3 * dt:g} ms": dt for dt in (0.02, 0.01, 0.005, 0.0025, 0.00125)}
"""Label → time step [s]."""

COARSE, ORDER_S, LONG_S = 0.02, 5.0, 600.0
"""Time step of the energy runs; duration of the runs for errors, and of the longest energy run [s]."""

START, SPRING, MASS = 0.1, 100.0, 0.5
"""Initial displacement [m], stiffness of the spring [N/m] and mass of the cylinder [kg] in the scenes."""


class Swing(Record, frozen=True):
    """Motion of the cylinder after each step."""

    t: Array  # time [s] (N)
    x: Array  # displacement [m] (N)
    energy: Array  # mechanical energy, as a share of the initial one (N)

    @property
    def error(self) -> float:
        """Error e_q of the rolling cylinder: RMS deviation from the exact motion [mm]."""
        omega = np.sqrt(SPRING / effective_mass("rolls"))
        return float(1e3 * np.sqrt(np.mean((self.x - START * np.cos(omega * self.t)) ** 2)))


class Pile(Record, frozen=True):
    """Figures of each step of the clutter."""

    t: Array  # time [s] (N)
    iterations: Array  # number of Newton steps (N)
    momentum: Array  # e_m, the momentum error of [SAP §VI-C] (N)
    contacts: Array  # number of contacts (N)
    seconds: Array  # run time of the engine [s] (N)


def effective_mass(motion: str) -> float:
    """Return the effective mass of the solid cylinder [kg], 1.5 times its mass if it rolls."""
    return MASS * (1.5 if motion == "rolls" else 1.0)


def swing(motion: str, scheme: str, dt: float, seconds: float) -> Swing:
    """Simulate the cylinder with a scheme. motion: a key of `SCENES`"""
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
    """Simulate the clutter."""
    settings = load_scene("clutter")
    world = build_scene(settings, msgspec.convert({"kind": "sap", "candidates": candidates, "tolerance": 1e-5}, Sap))
    world.step()  # the first step takes longer than later ones
    world.reset(world.bodies.start.q, world.bodies.start.v)
    found = np.array([_checked(world) for _ in range(round(settings.duration / settings.dt))])
    iterations, momentum, contacts, seconds = found.T
    t = settings.dt * np.arange(1, len(found) + 1)
    return Pile(t=t, iterations=iterations, momentum=momentum, contacts=contacts, seconds=seconds)


def _checked(world: SceneWorld) -> tuple[float, float, float, float]:
    """Simulate one step; return iterations, e_m, number of contacts, run time [s]. Raises RuntimeError if it is not solved."""
    step = world.step()
    if not step.solution.status.ok or step.solution.accuracy is None:
        raise RuntimeError(f"at {world.t:.4g} s: {step.solution.status.sentence}")
    return step.solution.iterations, step.solution.accuracy.momentum, len(step.problem.mu), step.seconds


def order_table(found: Figures) -> Table:
    """Return a table of the errors of the rolling cylinder by scheme and time step. Orders are from the two smallest steps."""
    body = []
    for scheme in SCHEMES:
        errors = [found["orders"][scheme, dt].error for dt in STEPS]
        body.append([scheme, *(f"{e:.4f}" for e in errors), f"{np.log2(errors[-2] / errors[-1]):.2f}"])
    return [["e_q [mm]", *STEPS, "order"], *body]


def energy_table(found: Figures) -> Table:
    """Return a table of max − min of the energy over 20 s, and of the energy that is left after ten minutes of rolling."""
    body = []
    for scheme in SCHEMES:
        bands = (f"{100 * np.ptp(found['energies'][motion, scheme].energy):.3g}" for motion in SCENES)
        long = found["ten minutes"].get(scheme)
        body.append([scheme, *bands, "–" if long is None else f"{100 * long.energy[-50:].mean():.1f}"])
    return [["energy [%]", *(f"band, {motion}" for motion in SCENES), f"left after {LONG_S:g} s, rolls"], *body]


def pile_table(found: Figures) -> Table:
    """Return a table of iterations while the bodies fall and while they rest, and of the largest e_m."""
    columns: dict[str, Callable[[Pile], str]] = {
        "iterations, first half": lambda p: f"{p.iterations[: len(p.t) // 2].mean():.1f}",
        "last 3 s": lambda p: f"{p.iterations[p.t > p.t[-1] - 3.0].mean():.1f}",
        "largest number": lambda p: f"{p.iterations.max():.0f}",
        "largest e_m": lambda p: f"{p.momentum.max():.1e}",
        "contacts at the end": lambda p: f"{p.contacts[-1]:.0f}",
        "ms per step": lambda p: f"{1e3 * np.median(p.seconds):.2f}",
    }
    return listed("candidates", found["clutter"].items(), columns)


def scheme_picture(found: Figures) -> bytes:
    """Draw errors over time steps, and the energy of the rolling and of the gliding cylinder."""
    ms = {f"{1e3 * dt:g}": 1e3 * dt for dt in STEPS.values()}
    errors = {scheme: ([*ms.values()], [found["orders"][scheme, dt].error for dt in STEPS], "o-") for scheme in SCHEMES}
    panels = [Plot(lines=errors, ticks=ms, log="xy", legend=True, axes={"xlabel": "dt [ms]", "ylabel": "e_q over 5 s [mm]"})]
    for motion in SCENES:
        runs = {scheme: found["energies"][motion, scheme] for scheme in SCHEMES}
        labels = {"title": f"the cylinder {motion}, dt = 20 ms", "xlabel": "t [s]", "ylabel": "energy [% of the initial]"}
        panels.append(Plot(lines={scheme: (run.t, 100 * run.energy) for scheme, run in runs.items()}, width=0.8, axes=labels))
    return picture(panels, across=3, size=(12, 3.8), share=False)


def pile_picture(found: Figures) -> bytes:
    """Draw iterations, e_m and number of contacts over time."""
    labels = {"iterations": "Newton steps", "momentum": "e_m", "contacts": "contacts\nwithin reach"}
    piles = found["clutter"].items()
    lines = {label: {name: (p.t, getattr(p, field)) for name, p in piles} for field, label in labels.items()}
    return stacked(lines, log="e_m")


def study() -> Study:
    """Return the study of the engine `sap`."""
    return Study(
        "The engine sap",
        "Integration schemes on a cylinder with a spring, and the solver on forty bodies in a bin.",
        sweeps={
            "orders": Sweep((SCHEMES, STEPS), lambda scheme, dt: swing("rolls", scheme, dt, ORDER_S)),
            "energies": Sweep((tuple(SCENES), SCHEMES), lambda motion, scheme: swing(motion, scheme, COARSE, 20.0)),
            "ten minutes": Sweep((("symplectic", "midpoint"),), lambda scheme: swing("rolls", scheme, COARSE, LONG_S)),
            "clutter": Sweep((("near", "touching"),), pile),
        },
        tables=(order_table, energy_table, pile_table),
        pictures=(
            Picture("schemes", "Errors and energies by scheme.", scheme_picture),
            Picture("clutter", "Forty bodies in a bin: iterations, momentum error and contacts over time.", pile_picture),
        ),
    )
