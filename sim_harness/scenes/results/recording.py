"""A run of a scene: everything that happened, one row for each step."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import IdynError
from idyn.types import Array, Record
from sim_harness.scenes.bodies.contacts import GROUND
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.residuals import NAMES, residuals_of
from sim_harness.scenes.scene import SceneWorld
from sim_harness.world.world import Step
from sim_harness.world.worlds import AnyEngine, build_scene

ABROAD = 1e3
"""A simulation diverged when something is further away, or faster, than this [m, m/s]."""


class Burst(IdynError):
    """A simulation that diverged: nothing in it is worth measuring."""


class Recording(Record, frozen=True):
    """N steps of nb bodies; what is a state has a row more, the beginning.

    masses: of the bodies, 0 of those that are fixed [kg]; loose: which of them hang on nothing (nb)
    t: [s] (N + 1); q, v: (N + 1, nq), (N + 1, nv)
    centres [m], velocities [m/s], spins [rad/s]: of the bodies, world axes (N + 1, nb, 3)
    energy: [J] (N + 1)
    force: of all contacts on each body, mean over the step, world axes [N] (N, nb, 3)
    gap: the least of each body, inf without any, at the beginning of the step [m] (N, nb)
    slip: of each body's pressing contacts the fastest, after the step [m/s] (N, nb)
    contacts: how many (N); arrows: point [m] and force on the first body [N] of each, rows of all steps together (·, 6)
    iterations, ok (N); seconds: that the engine took (N); pace: simulated seconds in a second, everything counted
    residuals: columns `NAMES` of `residuals.py` (N, 5)
    accuracy: e_m and e_μ of engines that minimise, as they say themselves, NaN of others (N, 2)
    """

    masses: Array
    loose: Array
    t: Array
    q: Array
    v: Array
    centres: Array
    velocities: Array
    spins: Array
    energy: Array
    force: Array
    gap: Array
    slip: Array
    contacts: Array
    arrows: Array
    iterations: Array
    ok: Array
    seconds: Array
    pace: float
    residuals: Array
    accuracy: Array

    @property
    def steps(self) -> int:
        return len(self.iterations)

    def save(self, path: Path) -> None:
        arrays = {name: np.asarray(getattr(self, name)) for name in self.__struct_fields__}
        np.savez_compressed(path, **arrays)  # type: ignore[arg-type]

    @staticmethod
    def load(path: Path) -> "Recording":
        with np.load(path) as data:
            arrays = {name: data[name] for name in Recording.__struct_fields__}
        return Recording(**arrays | {"pace": float(arrays["pace"])})


class Recorder:
    """Collects the rows of a run."""

    def __init__(self, world: SceneWorld) -> None:
        self._world = world
        self._states: list[dict[str, Any]] = []
        self._steps: list[dict[str, Any]] = []
        self._arrows: list[Array] = []
        self._state()

    def _state(self) -> None:
        model, (q, v) = self._world.bodies, (self._world.state.q, self._world.state.v)
        centres, (velocities, spins) = model.place(q)[1], model.motions(q, v)
        energy = model.energy(q, v)
        self._states.append(
            {"t": self._world.t, "q": q, "v": v, "centres": centres, "velocities": velocities, "spins": spins, "energy": energy}
        )

    def add(self, step: Step) -> None:
        """A step, and the state that it led to."""
        problem, solution, contacts, model = step.problem, step.solution, step.contacts, self._world.bodies
        force, pairs = step.impulse / problem.dt, step.touching.pairs
        assert pairs is not None
        bodies = len(model.names)
        total, gap, slip = np.zeros((bodies, 3)), np.full(bodies, np.inf), np.zeros(bodies)
        speed = np.hypot(*(problem.J @ solution.v_plus).reshape(-1, 3)[:, :2].T) * (solution.p[:, 2] > 0)
        for side, sign in ((0, 1.0), (1, -1.0)):
            rows = pairs[:, side] != GROUND
            which = pairs[rows, side]
            np.add.at(total, which, sign * force[rows])
            np.minimum.at(gap, which, contacts.gaps[rows])
            np.maximum.at(slip, which, speed[rows])
        stretch = model.stretch(self._states[-1]["q"])
        found = residuals_of(problem, solution, model.effects, stretch, step.force_times)
        told = solution.accuracy
        self._steps.append(
            {
                "force": total,
                "gap": gap,
                "slip": slip,
                "contacts": len(contacts),
                "iterations": solution.iterations,
                "ok": solution.status.ok,
                "seconds": step.seconds,
                "residuals": [getattr(found, name) for name in NAMES],
                "accuracy": (np.nan, np.nan) if told is None else (told.momentum, told.slackness),
            }
        )
        self._arrows.append(np.hstack([contacts.points, force]))
        self._state()

    def recording(self, pace: float) -> Recording:
        """Of all steps so far."""
        columns = {name: np.array([row[name] for row in rows]) for rows in (self._states, self._steps) for name in rows[0]}
        model, arrows = self._world.bodies, np.concatenate(self._arrows)
        return Recording(masses=model.masses, loose=model.loose, arrows=arrows, pace=pace, **columns)


def run_scene(settings: SceneSettings, engine: AnyEngine, progress: Callable[[int], None] = lambda _: None) -> Recording:
    """The scene from its beginning to its end. progress: called with the steps done since the last call

    Raises Burst when the simulation diverges.
    """
    world = build_scene(settings, engine)
    world.step()  # compiles what is not yet
    world.reset(world.bodies.start.q, world.bodies.start.v)
    recorder, moved = Recorder(world), 0.0
    for _ in range(round(settings.duration / settings.dt)):
        begin = time.perf_counter()
        step = world.step()
        moved += time.perf_counter() - begin
        state = world.state
        if not max(np.abs(state.q).max(), np.abs(state.v).max()) < ABROAD:
            raise Burst(f"the world went to pieces at t = {world.t:.4g} s ({step.solution.status.sentence})")
        recorder.add(step)
        progress(1)
    return recorder.recording(world.t / moved)
