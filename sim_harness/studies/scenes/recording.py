"""Recording of a run of a scene, one row per step, with the residuals of each step, which are computed from problem and
solution only and share no code with the engines.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import IdynError
from idyn.types import Array, Record
from sim_harness.engines.engine import ForceTimes, ForwardProblem, ForwardSolution
from sim_harness.studies.scenes.contacts import GROUND
from sim_harness.studies.scenes.scene import SceneWorld
from sim_harness.studies.scenes.scene_model import JointEffects
from sim_harness.studies.scenes.scene_settings import SceneSettings
from sim_harness.studies.scenes.world import build_scene
from sim_harness.world.bodies import CREEP
from sim_harness.world.world import Step
from sim_harness.world.worlds import AnyEngine


class Residuals(Record, frozen=True):
    """Residuals of one step, or the largest of many steps; 0 is exact."""

    momentum: float  # ‖M (v⁺ − v) − Jᵀp − Gᵀλ − dt (f + f_joints − h)‖∞ [N·s, N·m·s]
    cone: float  # largest violation of p_N ≥ 0 and of the friction cone [N·s]
    gap_work: float  # Σ |f_N (φ + dt N v⁺)|, work of the normal forces over gaps or penetrations, 0 for rigid contact [J]
    power: float  # power of friction that accelerates bodies, Σ max(0, f_T · v_T⁺) [W]
    closure: float  # largest error of rigid closures and stops at the beginning of the step [m, rad]


NAMES = Residuals.__struct_fields__


def residuals_of(
    problem: ForwardProblem, solution: ForwardSolution, effects: JointEffects, stretch: Array, force_times: ForceTimes
) -> Residuals:
    """Compute the residuals of a step.

    effects: springs, dampers and friction of the joints
    stretch: stretch of the joint springs at the beginning of the step [m, rad] (nv)
    force_times: times at which the world evaluates forces
    """
    a, p, v_plus, shift, at = problem, solution.p, solution.v_plus, problem.dt * solution.configuration_velocity, force_times
    u = (a.J @ v_plus).reshape(-1, 3)
    bound = np.where(np.isinf(a.mu), np.inf, np.where(np.isinf(a.mu), 0.0, a.mu) * p[:, 2])
    beyond = np.maximum(np.hypot(p[:, 0], p[:, 1]) - bound, -p[:, 2])
    work = np.abs(p[:, 2] * (a.gaps + a.dt * u[:, 2])) / a.dt
    power = np.maximum(0.0, (p[:, :2] * u[:, :2]).sum(axis=1)) / a.dt
    closure = 0.0
    if a.rows is not None:
        g = np.where(a.rows.yields, 0.0, a.rows.g)
        closure = float(np.where(a.rows.stops, np.maximum(-g, 0.0), np.abs(g)).max(initial=0.0))
    M, h, rows = a.M, a.h, a.rows
    if a.system is not None:
        if at.bodies:
            M, h = a.system.terms(at.bodies * shift, a.v + at.bodies * (v_plus - a.v))
        rows = a.system.rows(at.rows * shift) if at.rows else rows
    resisting = (
        effects.stiffness * (stretch + at.springs * shift)
        + effects.viscous * (a.v + at.dampers * (v_plus - a.v))
        + effects.coulomb * v_plus / np.maximum(np.abs(v_plus), CREEP)
    )
    push = a.J.T @ p.ravel() + a.dt * (a.force - h - resisting)
    if rows is not None and solution.rows is not None:
        push = push + rows.G.T @ solution.rows
    return Residuals(
        momentum=float(np.abs(M @ (v_plus - a.v) - push).max(initial=0.0)),
        cone=float(np.maximum(beyond, 0.0).max(initial=0.0)),
        gap_work=float(work.sum()),
        power=float(power.sum()),
        closure=closure,
    )


BOUND = 1e3  # a simulation has diverged when an entry of q or v exceeds this [m, rad, m/s, rad/s]


class Diverged(IdynError):
    """The simulation diverged; its results are not meaningful."""


class Recording(Record, frozen=True):
    """Recording of N steps of nb bodies. States have N + 1 rows, the first is the start."""

    masses: Array  # masses of the bodies, 0 for fixed bodies [kg] (nb)
    loose: Array  # true for free bodies and bodies fixed to a free body (nb)
    t: Array  # time [s] (N + 1)
    q: Array  # configurations (N + 1, nq)
    v: Array  # velocities (N + 1, nv)
    centres: Array  # positions of the bodies' centres, world axes [m] (N + 1, nb, 3)
    velocities: Array  # linear velocities of the bodies, world axes [m/s] (N + 1, nb, 3)
    spins: Array  # angular velocities of the bodies, world axes [rad/s] (N + 1, nb, 3)
    energy: Array  # [J] (N + 1)
    force: Array  # total contact force on each body, mean over the step, world axes [N] (N, nb, 3)
    gap: Array  # smallest gap of each body at the beginning of the step, inf without contact [m] (N, nb)
    slip: Array  # largest slip speed of each body's pressing contacts after the step [m/s] (N, nb)
    contacts: Array  # number of contacts (N)
    arrows: Array  # point [m] and force on the first body [N] of each contact, rows of all steps together (·, 6)
    iterations: Array  # iterations of the engine (N)
    ok: Array  # whether the step is solved (N)
    seconds: Array  # computation time of the engine [s] (N)
    pace: float  # simulated time over computation time of whole steps
    residuals: Array  # columns `NAMES` (N, 5)
    accuracy: Array  # e_m and e_μ reported by engines that minimise, NaN for others (N, 2)

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
        """Record a step and the state after it."""
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
        accuracy = solution.accuracy
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
                "accuracy": (np.nan, np.nan) if accuracy is None else (accuracy.momentum, accuracy.slackness),
            }
        )
        self._arrows.append(np.hstack([contacts.points, force]))
        self._state()

    def recording(self, pace: float) -> Recording:
        """Return the recording of all steps so far."""
        columns = {name: np.array([row[name] for row in rows]) for rows in (self._states, self._steps) for name in rows[0]}
        model, arrows = self._world.bodies, np.concatenate(self._arrows)
        return Recording(masses=model.masses, loose=model.loose, arrows=arrows, pace=pace, **columns)


def run_scene(settings: SceneSettings, engine: AnyEngine, progress: Callable[[int], None] = lambda _: None) -> Recording:
    """Simulate a scene. Raises Diverged when the simulation diverges.

    progress: called with the number of steps since the last call
    """
    world = build_scene(settings, engine)
    world.step()  # the first step takes longer than later ones: it is not measured
    world.reset(world.bodies.start.q, world.bodies.start.v)
    recorder, moved = Recorder(world), 0.0
    for _ in range(round(settings.duration / settings.dt)):
        begin = time.perf_counter()
        step = world.step()
        moved += time.perf_counter() - begin
        state = world.state
        if not max(np.abs(state.q).max(), np.abs(state.v).max()) < BOUND:
            raise Diverged(f"the simulation diverged at t = {world.t:.4g} s ({step.solution.status.sentence})")
        recorder.add(step)
        progress(1)
    return recorder.recording(world.t / moved)
