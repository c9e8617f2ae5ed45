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
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.scenes.contacts import GROUND
from sim_harness.scenes.scene import SceneWorld
from sim_harness.scenes.scene_model import JointEffects
from sim_harness.scenes.scene_settings import SceneSettings
from sim_harness.world.bodies import CREEP
from sim_harness.world.world import ForceTimes, Step
from sim_harness.world.worlds import AnyEngine, build_scene


class Residuals(Record, frozen=True):
    """Residuals of one step, or the largest of many steps; 0 is exact.

    momentum: ‖M (v⁺ − v) − Jᵀp − Gᵀλ − dt (f + f_joints − h)‖∞ [N·s, N·m·s]
    cone: largest violation of p_N ≥ 0 and of the friction cone [N·s]
    gap_work: Σ |f_N (φ + dt N v⁺)|, work of the normal forces over gaps or penetrations, 0 for rigid contact [J]
    power: power of friction that accelerates bodies, Σ max(0, f_T · v_T⁺) [W]
    closure: largest error of rigid closures and stops at the beginning of the step [m, rad]
    """

    momentum: float
    cone: float
    gap_work: float
    power: float
    closure: float


NAMES = Residuals.__struct_fields__


def residuals_of(
    problem: ForwardProblem, solution: ForwardSolution, effects: JointEffects, stretch: Array, force_times: ForceTimes
) -> Residuals:
    """Compute the residuals of a step.

    effects: springs, dampers and friction of the joints
    stretch: stretch of the joint springs at the beginning of the step [m, rad] (nv)
    force_times: times at which the world evaluates forces
    """
    p, a = solution.p, problem
    u = (a.J @ solution.v_plus).reshape(-1, 3)
    bound = np.where(np.isinf(a.mu), np.inf, np.where(np.isinf(a.mu), 0.0, a.mu) * p[:, 2])
    beyond = np.maximum(np.hypot(p[:, 0], p[:, 1]) - bound, -p[:, 2])
    work = np.abs(p[:, 2] * (a.gaps + a.dt * u[:, 2])) / a.dt
    power = np.maximum(0.0, (p[:, :2] * u[:, :2]).sum(axis=1)) / a.dt
    return Residuals(
        momentum=momentum(problem, solution, effects, stretch, force_times),
        cone=float(np.maximum(beyond, 0.0).max(initial=0.0)),
        gap_work=float(work.sum()),
        power=float(power.sum()),
        closure=0.0 if a.rows is None else violation(np.where(a.rows.yields, 0.0, a.rows.g), a.rows.stops),
    )


def momentum(
    problem: ForwardProblem, solution: ForwardSolution, effects: JointEffects, stretch: Array, force_times: ForceTimes
) -> float:
    """Return `momentum` of `Residuals`."""
    a, M, h, v_plus = problem, problem.M, problem.h, solution.v_plus
    if force_times.bodies and a.system is not None:
        M, h = a.system.terms(
            force_times.bodies * a.dt * solution.configuration_velocity, a.v + force_times.bodies * (v_plus - a.v)
        )
    stretch = stretch + force_times.springs * a.dt * solution.configuration_velocity
    resisting = (
        effects.stiffness * stretch
        + effects.viscous * (a.v + force_times.dampers * (v_plus - a.v))
        + effects.coulomb * v_plus / np.maximum(np.abs(v_plus), CREEP)
    )
    J, rows = a.J, a.rows
    if force_times.rows and a.system is not None:
        rows = a.system.rows(force_times.rows * a.dt * solution.configuration_velocity)
    if force_times.contacts and a.system is not None:
        J, _ = a.system.contacts(force_times.contacts * a.dt * solution.configuration_velocity)
    push = J.T @ solution.p.ravel() + a.dt * (a.force - h - resisting)
    if rows is not None and solution.rows is not None:
        push = push + rows.G.T @ solution.rows
    return float(np.abs(M @ (v_plus - a.v) - push).max(initial=0.0))


def violation(g: Array, stops: Array) -> float:
    """Return the largest violation of g = 0 and, for stops, g ≥ 0 [m, rad]."""
    return float(np.where(stops, np.maximum(-g, 0.0), np.abs(g)).max(initial=0.0))


BOUND = 1e3
"""A simulation has diverged when an entry of q or v exceeds this [m, rad, m/s, rad/s]."""


class Diverged(IdynError):
    """The simulation diverged; its results are not meaningful."""


class Recording(Record, frozen=True):
    """Recording of N steps of nb bodies. States have N + 1 rows, the first is the start.

    masses: masses of the bodies, 0 for fixed bodies [kg] (nb)
    loose: true for free bodies and bodies fixed to a free body (nb)
    t: time [s] (N + 1)
    q, v: states (N + 1, nq), (N + 1, nv)
    centres: positions of the bodies' centres, world axes [m] (N + 1, nb, 3)
    velocities, spins: linear [m/s] and angular [rad/s] velocities of the bodies, world axes (N + 1, nb, 3)
    energy: [J] (N + 1)
    force: total contact force on each body, mean over the step, world axes [N] (N, nb, 3)
    gap: smallest gap of each body at the beginning of the step, inf without contact [m] (N, nb)
    slip: largest slip speed of each body's pressing contacts after the step [m/s] (N, nb)
    contacts: number of contacts (N)
    arrows: point [m] and force on the first body [N] of each contact, rows of all steps together (·, 6)
    iterations: iterations of the engine (N)
    ok: whether the step is solved (N)
    seconds: computation time of the engine [s] (N)
    pace: simulated time over computation time of whole steps
    residuals: columns `NAMES` (N, 5)
    accuracy: e_m and e_μ reported by engines that minimise, NaN for others (N, 2)
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
    world.step()  # compile kernels before measuring times
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
