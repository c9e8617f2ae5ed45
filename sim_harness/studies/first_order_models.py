"""Small systems of [Drumwright] with the engine `first-order`, and their exact solutions: pendulums, stops, a ramp."""

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
"""Moment of inertia of the pendulum's bob about its centre; its mass is 1 kg, its arm 1 m [kg·m²]."""

RAMP_GRAVITY, RAMP, RAMP_DT, RAMP_K = 9.8, np.deg2rad(15), 0.01, 1e10
"""Gravity [m/s²], inclination [rad], time step [s] and contact stiffness [N/m] of the ramp  [Drumwright §6.4]."""

EMPTY = ForwardProblem(
    M=np.eye(1), h=np.zeros(1), v=np.zeros(1), J=np.zeros((0, 1)), force=np.zeros(1), mu=np.zeros(0), gaps=np.zeros(0), dt=1e-3
)
"""Forward problem of one degree of freedom without contacts and rows; other problems replace its fields."""


class Motion(NamedTuple):
    """State after a step, and forces during the step: of the rows (b), or of the contact (3) [N, N·m]."""

    q: Array
    v: Array
    forces: Array


def springs(G: Array, g: Array, K: float, B: float, stop: bool) -> Rows:
    """Return compliant rows G, g with K [N/m, N·m/rad] and B [N·s/m, N·m·s/rad]. stop: whether they are unilateral"""
    n = len(g)
    return Rows(G=G, g=g, stops=np.full(n, stop), compliance=np.full(n, 1 / K), dissipation=np.full(n, B / K))


def simulated(
    engine: FirstOrder, q: Array, v: Array, dt: float, steps: int, problem: Callable[[Array, Array], ForwardProblem]
) -> Iterator[Motion]:
    """Simulate from q, v and yield the motion after each step. Raises RuntimeError if a step is not solved.

    problem: function of q, v that returns the forward problem of a step
    """
    for _ in range(steps):
        solution = engine.solve(problem(q, v))
        if not solution.status.ok:
            raise RuntimeError(solution.status.sentence)
        v = solution.v_plus
        q = q + dt * v
        yield Motion(q, v, (solution.p[0] if solution.rows is None else solution.rows) / dt)


def pendulum(dt: float, seconds: float = 1.0, K: float = 1e15, B: float = 1.0) -> Motion:
    """Simulate a pendulum in the plane, released with a horizontal arm  [Drumwright §4.4].

    Two rows tie the bob (x, y, angle) to its pivot.
    """

    def problem(q: Array, v: Array) -> ForwardProblem:
        c, s = np.cos(q[2]), np.sin(q[2])
        rows = springs(np.array([[1.0, 0.0, s], [0.0, 1.0, -c]]), q[:2] - np.array([c, s]), K, B, stop=False)
        return msgspec.structs.replace(
            EMPTY, M=M, h=np.array([0.0, GRAVITY, 0.0]), v=v, J=np.zeros((0, 3)), force=np.zeros(3), dt=dt, rows=rows
        )

    M = np.diag([1.0, 1.0, INERTIA])
    *_, end = simulated(FirstOrder(), np.array([1.0, 0.0, 0.0]), np.zeros(3), dt, round(seconds / dt), problem)
    return end


def exact_pendulum(seconds: float = 1.0) -> Motion:
    """Return the exact final motion of `pendulum` with rigid rows, from the equation of its angle."""
    pull = GRAVITY / (1.0 + INERTIA)
    found = solve_ivp(lambda _, y: [y[1], -pull * np.cos(y[0])], (0, seconds), [0.0, 0.0], "DOP853", rtol=1e-12, atol=1e-12)
    a, w = found.y[:, -1]
    c, s, turn = np.cos(a), np.sin(a), -pull * np.cos(a)
    speed = w * np.array([-s, c, 1.0])
    forces = np.array([-s * turn - c * w * w, c * turn - s * w * w + GRAVITY])
    return Motion(np.array([c, s, a]), speed, forces)


def on_a_stop(q: Array, v: Array, dt: float, K: float, B: float, pull: float) -> ForwardProblem:
    """Return the forward problem of a joint of 1 kg·m² with a stop at 0. pull: torque of gravity at 90° [N·m]"""
    return msgspec.structs.replace(EMPTY, h=pull * np.sin(q), v=v, dt=dt, rows=springs(np.eye(1), q, K, B, stop=True))


def limited_pendulum(dt: float, seconds: float, K: float, B: float) -> Motion:
    """Simulate a mass of 1 kg at 1 m from its joint that falls from θ = π/2 onto a stop at θ = 0  [Drumwright §5.4]."""
    steps, start = round(seconds / dt), np.array([np.pi / 2])
    *_, end = simulated(FirstOrder(), start, np.zeros(1), dt, steps, lambda q, v: on_a_stop(q, v, dt, K, B, GRAVITY))
    return end


def exact_limited_pendulum(seconds: float, K: float, B: float) -> Motion:
    """Return the exact final motion of `limited_pendulum`, integrated between the times at which contact begins and ends.

    The stop presses with max(0, −K θ − B θ̇).
    """
    y, t = np.array([np.pi / 2, 0.0]), 0.0
    presses = False

    def load(y: Array) -> float:
        return -K * y[0] - B * y[1]

    def meets(_: float, y: Array) -> float:
        return load(y) if presses else -load(y)

    meets.terminal, meets.direction = True, -1  # type: ignore[attr-defined]
    while t < seconds:
        pushed = presses  # constant until the next event

        def motion(_: float, y: Array, pushed: bool = pushed) -> list[float]:
            return [y[1], -GRAVITY * np.sin(y[0]) + (load(y) if pushed else 0.0)]

        found = solve_ivp(motion, (t, seconds), y, "DOP853", rtol=1e-11, atol=1e-13, events=meets)
        t, y, presses = float(found.t[-1]), found.y[:, -1], not presses
    return Motion(y[:1], y[1:], np.array([max(0.0, load(y))]))


def restitution(dt: float, share: float, K: float = 1e12, speed: float = 4.429) -> float:
    """Return the coefficient of restitution of a joint of 1 kg·m² at its stop: (speed after impact) / (speed before it).

    share: initial distance from the stop, as a multiple of speed · dt; speed: before the impact [rad/s]
    """
    steps, begin, v = round(8.0 / np.sqrt(K) / dt) + 4, np.array([share * dt * speed]), 0.0
    for end in simulated(FirstOrder(), begin, np.array([-speed]), dt, steps, lambda q, v: on_a_stop(q, v, dt, K, 1e-9, 0.0)):
        v = float(end.v[0])
        if v > 0.0 and end.q[0] > 0.0:
            break
    return max(v, 0.0) / speed


def ramp(mu: float, engine: FirstOrder, seconds: float = 1.0) -> Motion:
    """Simulate 1 kg on a ramp of 15° from rest  [Drumwright §6.4].

    q: position along and above the ramp [m]; forces: of the first step along s, t, n [N]
    """
    engine = msgspec.structs.replace(engine, stiffness=RAMP_K, dissipation=1 / RAMP_K, tangential=1e6 / RAMP_DT)
    weight, J = RAMP_GRAVITY * np.array([-np.sin(RAMP), np.cos(RAMP)]), np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])

    def problem(q: Array, v: Array) -> ForwardProblem:
        force, gaps = np.zeros(2), q[1:].copy()
        return ForwardProblem(M=np.eye(2), h=weight, v=v, J=J, force=force, mu=np.array([mu]), gaps=gaps, dt=RAMP_DT)

    start, steps = np.array([0.0, -weight[1] / RAMP_K]), round(seconds / RAMP_DT)
    first, *_, end = simulated(engine, start, np.zeros(2), RAMP_DT, steps, problem)
    return end._replace(forces=first.forces)


def exact_ramp(mu: float, seconds: float = 1.0) -> float:
    """Return the exact distance that the block of `ramp` slides [m]."""
    return max(0.0, 0.5 * RAMP_GRAVITY * (np.sin(RAMP) - mu * np.cos(RAMP)) * seconds**2)
