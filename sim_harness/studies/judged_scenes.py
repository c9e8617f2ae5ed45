"""Engines on scenes, each step judged: which kinds of violations occur, and how large they become."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from controllers.config.loading import parse
from idyn.errors import ConfigError, IdynError
from idyn.types import Record
from sim_harness.judge.step import Step
from sim_harness.judge.verdict import Kind, judge
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.report.plots import LogNorm
from sim_harness.report.report import Report
from sim_harness.studies.engines import grid_picture, scene_names
from sim_harness.studies.scenes.load import engines_of, load_scene
from sim_harness.studies.scenes.scene_settings import SceneSettings
from sim_harness.studies.scenes.world import build_scene
from sim_harness.studies.study import crossed
from sim_harness.world.worlds import AnyEngine

LETTERS = {
    Kind.PENETRATES: "P", Kind.PULLS: "L", Kind.OUTSIDE: "O", Kind.SLIPS: "S", Kind.ENERGY: "E", Kind.SIDEWAYS: "D",
    Kind.PUSHES: "A",
}  # fmt: skip
"""Letters of the table. The momentum of scenes is a residual of `idyn compare engines`, with springs, closures and schemes."""

MUJOCO = "mujoco"
"""The engine that runs on every scene."""

SLOWEST = 1e-7
"""Lower end of the picture's colours [m/s]."""

BOUND = 1e6
"""A larger velocity counts as divergence [m/s, rad/s]."""


class Judged(Record, frozen=True):
    """An engine on a scene."""

    scene: str
    engine: str
    steps: int  # number of judged steps
    worst: dict[Kind, float]  # kind → largest amount, in `units`
    units: dict[Kind, str]
    depth: float = 0.0  # deepest penetration before a step [m]
    fault: str = ""  # why it did not run, or ''


def judged_scenes(
    words: Sequence[str], seconds: float, tolerance: float, progress: Callable[[int, int, str], None]
) -> list[Judged]:
    """Run scenes with the engines that they list and with MuJoCo. words: scenes, or 'engines' for all. Raises ConfigError."""
    scenes = {name: load_scene(name) for name in scene_names(words)}
    runs = [(name, engine) for name, s in scenes.items() for engine in dict.fromkeys([*engines_of(s), MUJOCO])]
    found = []
    for done, (name, engine) in enumerate(runs):
        progress(done, len(runs), f"{name}, {engine}")
        found.append(_judged(name, scenes[name], engine, (seconds, tolerance)))
    return found


def _judged(name: str, s: SceneSettings, engine: str, limits: tuple[float, float]) -> Judged:
    """Judge the steps of one engine on a scene. limits: simulated time [s] and tolerance [m/s]"""
    worst: dict[Kind, float] = {}
    units: dict[Kind, str] = {}
    steps, depth, fault = 0, 0.0, ""
    try:
        for step in _steps(s, engine, limits[0]):
            steps += 1
            verdict = judge(step, limits[1])
            depth = max(depth, verdict.depth)
            for each in verdict.violations:
                worst[each.kind], units[each.kind] = max(worst.get(each.kind, 0.0), each.amount), each.unit
    except (IdynError, np.linalg.LinAlgError) as error:
        fault = str(error).splitlines()[0]
    return Judged(scene=name, engine=engine, steps=steps, worst=worst, units=units, depth=depth, fault=fault)


def _steps(s: SceneSettings, engine: str, seconds: float) -> Iterator[Step]:
    """Yield the steps of a scene that have contacts. All forces but contacts are what the momentum balance leaves for them.

    MuJoCo, where a scene does not list it, takes steps of at most 1 ms.
    """
    if engine == MUJOCO and engine not in engines_of(s):
        s = msgspec.structs.replace(s, dt=min(s.dt, MujocoSettings().timestep))
    world = build_scene(s, engines_of(s).get(engine) or parse(engine, AnyEngine, "engine"))
    for _ in range(max(1, round(min(seconds, s.duration) / s.dt))):
        taken = world.step()
        b, p, v_plus = taken.problem, taken.solution.p.ravel(), taken.solution.v_plus
        if not np.abs(v_plus).max(initial=0.0) < BOUND:
            raise ConfigError(engine, "the simulation diverged")
        if len(b.mu):
            force = b.h + (b.M @ (v_plus - b.v) - b.J.T @ p) / b.dt
            own = type(b)(M=b.M, h=b.h, v=b.v, J=b.J, force=force, mu=b.mu, gaps=b.gaps, dt=b.dt)
            yield Step(name=f"{world.t:.4g} s", problem=own, p=p, v_plus=v_plus)


def scenes_report(found: Sequence[Judged], seconds: float) -> Report:
    """Return the report: a table of letters, and the largest amounts by engine."""
    legend = ", ".join(f"{letter}: {kind}" for kind, letter in LETTERS.items())
    lead = f"The first {seconds:g} s of each scene. MuJoCo: steps of 1 ms. {legend}; –: not run, or no contact."
    report = Report("Engines on scenes, judged step by step", lead)
    runs = {(each.scene, each.engine): each for each in found}
    scenes, engines = (list(dict.fromkeys(names)) for names in zip(*runs, strict=True))
    empty = Judged(scene="", engine="", steps=0, worst={}, units={}, fault="not listed")
    report.table(crossed("scene", {(s, e): runs.get((s, e), empty) for s in scenes for e in engines}, _cell))
    heads = (f"{LETTERS[kind]} {unit}" for kind, unit in _units(found).items())
    rows = [["engine", "scenes", "steps", "depth mm", *heads]]
    for engine in engines:
        own = [each for each in found if each.engine == engine and not each.fault]
        largest = {kind: max((each.worst.get(kind, 0.0) for each in own), default=0.0) for kind in _units(found)}
        counts = [str(len(own)), str(sum(each.steps for each in own)), f"{1e3 * max((e.depth for e in own), default=0.0):.2g}"]
        rows.append([engine, *counts, *(f"{value:.2g}" if value else "0" for value in largest.values())])
    report.heading("Largest violations")
    report.table(rows)
    caption = (
        f"largest wrong speed of a contact in a scene [m/s]: {Kind.PENETRATES}, or {Kind.SLIPS}; white: not run, or no contact"
    )
    report.picture(_picture(runs, scenes, engines), caption, "wrong-speeds")
    for each in found:
        if each.fault:
            report.paragraph(f"{each.scene}, {each.engine}: {each.fault}")
    return report


def _picture(found: dict[tuple[str, str], Judged], scenes: Sequence[str], engines: Sequence[str]) -> bytes:
    """Draw the largest wrong speed of each engine on each scene, as a picture of cells with logarithmic colours."""
    values = np.full((len(scenes), len(engines)), np.nan)
    texts = [[""] * len(engines) for _ in scenes]
    for i, scene in enumerate(scenes):
        for j, engine in enumerate(engines):
            each = found.get((scene, engine))
            if each is not None and each.steps and not each.fault:
                speed = max((each.worst.get(kind, 0.0) for kind in (Kind.PENETRATES, Kind.SLIPS)), default=0.0)
                values[i, j], texts[i][j] = max(speed, SLOWEST), f"{speed:.0e}" if speed else "0"
    size = 1.5 + len(engines), 1.0 + 0.3 * len(scenes)
    look = {"norm": LogNorm(SLOWEST, 10.0), "cmap": "YlOrBr", "alpha": 0.75, "aspect": "auto"}
    return grid_picture(engines, scenes, texts, values, size, **look)


def _units(found: Sequence[Judged]) -> dict[Kind, str]:
    """Return the kinds that occur, with their units."""
    units = {kind: unit for each in found for kind, unit in each.units.items()}
    return {kind: units[kind] for kind in LETTERS if kind in units}


def _cell(each: Judged) -> str:
    if each.fault or not each.steps:
        return "–"
    return "".join(letter for kind, letter in LETTERS.items() if kind in each.worst) or "ok"
