"""Small systems of [Drumwright] under the engine `first-order`, and what is known of them: pendulums, stops, a ramp."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from scipy.integrate import solve_ivp

from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.first_order.engine import FirstOrder

GRAVITY = 9.81
"""[m/s²]"""

INERTIA = 1 / 12
"""Of the bob, which is 1 kg, about its centre; its arm is 1 m [kg·m²]."""

RAMP_GRAVITY, RAMP, RAMP_DT, RAMP_K = 9.8, np.deg2rad(15), 0.01, 1e10
"""[m/s²], [rad], [s], [N/m]  [Drumwright §6.4]"""

EMPTY = ForwardProblem(
    M=np.eye(1), h=np.zeros(1), v=np.zeros(1), J=np.zeros((0, 1)), force=np.zeros(1), mu=np.zeros(0), gaps=np.zeros(0), dt=1e-3
)


class Moved(NamedTuple):
    """Where a system ends: q, v, and the forces of its rows or of its contact in the last step."""

    q: Array
    v: Array
    forces: Array


def springs(G: Array, g: Array, K: float, B: float, stop: bool) -> Rows:
    """Rows that yield, with K [N/m, N·m/rad] and B [N·s/m, N·m·s/rad]."""
    n = len(g)
    return Rows(G=G, g=g, stops=np.full(n, stop), compliance=np.full(n, 1 / K), dissipation=np.full(n, B / K))


def moved(
    engine: FirstOrder, q: Array, v: Array, dt: float, steps: int, problem: Callable[[Array, Array], ForwardProblem]
) -> Iterator[Moved]:
    """Each of the steps from q and v. problem: of one. Raises RuntimeError for one that was not solved."""
    for _ in range(steps):
        solution = engine.solve(problem(q, v))
        if not solution.status.ok:
            raise RuntimeError(solution.status.sentence)
        v = solution.v_plus
        q = q + dt * v
        yield Moved(q, v, (solution.p[0] if solution.rows is None else solution.rows) / dt)


def pendulum(dt: float, seconds: float = 1.0, K: float = 1e15, B: float = 1.0) -> Moved:
    """The bob in the plane, (x, y, turn), tied to a pivot by two rows, from the side  [Drumwright §4.4]."""

    def problem(q: Array, v: Array) -> ForwardProblem:
        c, s = np.cos(q[2]), np.sin(q[2])
        rows = springs(np.array([[1.0, 0.0, s], [0.0, 1.0, -c]]), q[:2] - np.array([c, s]), K, B, stop=False)
        return msgspec.structs.replace(
            EMPTY, M=M, h=np.array([0.0, GRAVITY, 0.0]), v=v, J=np.zeros((0, 3)), force=np.zeros(3), dt=dt, rows=rows
        )

    M = np.diag([1.0, 1.0, INERTIA])
    *_, end = moved(FirstOrder(), np.array([1.0, 0.0, 0.0]), np.zeros(3), dt, round(seconds / dt), problem)
    return end


def exact_pendulum(seconds: float = 1.0) -> Moved:
    """The same, rigid, by its angle; forces at the end."""
    pull = GRAVITY / (1.0 + INERTIA)
    found = solve_ivp(lambda _, y: [y[1], -pull * np.cos(y[0])], (0, seconds), [0.0, 0.0], "DOP853", rtol=1e-12, atol=1e-12)
    a, w = found.y[:, -1]
    c, s, turn = np.cos(a), np.sin(a), -pull * np.cos(a)
    speed = w * np.array([-s, c, 1.0])
    forces = np.array([-s * turn - c * w * w, c * turn - s * w * w + GRAVITY])
    return Moved(np.array([c, s, a]), speed, forces)


def on_a_stop(q: Array, v: Array, dt: float, K: float, B: float, pull: float) -> ForwardProblem:
    """A step of a joint of 1 kg·m² whose stop is at 0. pull: gravity at the angle [N·m]"""
    return msgspec.structs.replace(EMPTY, h=pull * np.sin(q), v=v, dt=dt, rows=springs(np.eye(1), q, K, B, stop=True))


def limited_pendulum(dt: float, seconds: float, K: float, B: float) -> Moved:
    """1 kg at 1 m from its joint, from the side, θ = π/2, onto a stop at θ = 0  [Drumwright §5.4]."""
    steps, start = round(seconds / dt), np.array([np.pi / 2])
    *_, end = moved(FirstOrder(), start, np.zeros(1), dt, steps, lambda q, v: on_a_stop(q, v, dt, K, B, GRAVITY))
    return end


def exact_limited_pendulum(seconds: float, K: float, B: float) -> Moved:
    """The same by its differential equation, event by event: the stop presses with max(0, −K θ − B θ̇)."""
    y, t = np.array([np.pi / 2, 0.0]), 0.0
    presses = False

    def load(y: Array) -> float:
        return -K * y[0] - B * y[1]

    def meets(_: float, y: Array) -> float:
        return load(y) if presses else -load(y)

    meets.terminal, meets.direction = True, -1  # type: ignore[attr-defined]
    while t < seconds:
        pushed = presses  # of this stretch

        def motion(_: float, y: Array, pushed: bool = pushed) -> list[float]:
            return [y[1], -GRAVITY * np.sin(y[0]) + (load(y) if pushed else 0.0)]

        found = solve_ivp(motion, (t, seconds), y, "DOP853", rtol=1e-11, atol=1e-13, events=meets)
        t, y, presses = float(found.t[-1]), found.y[:, -1], not presses
    return Moved(y[:1], y[1:], np.array([max(0.0, load(y))]))


def restitution(dt: float, share: float, K: float = 1e12, speed: float = 4.429) -> float:
    """Of a joint of 1 kg·m² on its stop, met from a share of a step away: speed after over speed before."""
    steps, begin, v = round(8.0 / np.sqrt(K) / dt) + 4, np.array([share * dt * speed]), 0.0
    for end in moved(FirstOrder(), begin, np.array([-speed]), dt, steps, lambda q, v: on_a_stop(q, v, dt, K, 1e-9, 0.0)):
        v = float(end.v[0])
        if v > 0.0 and end.q[0] > 0.0:
            break
    return max(v, 0.0) / speed


def ramp(mu: float, engine: FirstOrder, seconds: float = 1.0) -> Moved:
    """1 kg on a ramp of 15°, (along, above), from rest; forces of the first step (s, t, n) [N]  [Drumwright §6.4]."""
    engine = msgspec.structs.replace(engine, stiffness=RAMP_K, dissipation=1 / RAMP_K, tangential=1e6 / RAMP_DT)
    weight, J = RAMP_GRAVITY * np.array([-np.sin(RAMP), np.cos(RAMP)]), np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])

    def problem(q: Array, v: Array) -> ForwardProblem:
        force, gaps = np.zeros(2), q[1:].copy()
        return ForwardProblem(M=np.eye(2), h=weight, v=v, J=J, force=force, mu=np.array([mu]), gaps=gaps, dt=RAMP_DT)

    start, steps = np.array([0.0, -weight[1] / RAMP_K]), round(seconds / RAMP_DT)
    first, *_, end = moved(engine, start, np.zeros(2), RAMP_DT, steps, problem)
    return end._replace(forces=first.forces)


def exact_ramp(mu: float, seconds: float = 1.0) -> float:
    """How far it slides [m]."""
    return max(0.0, 0.5 * RAMP_GRAVITY * (np.sin(RAMP) - mu * np.cos(RAMP)) * seconds**2)
