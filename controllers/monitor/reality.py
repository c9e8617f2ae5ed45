"""Whether the world does what the model says: motion against its prediction, and contact forces where they are sensed.

Every prediction says how the robot will accelerate, a, and what its contacts will bear. When the next state has come, the
generalised force that the prediction did not know of is, in the rows where no motor acts (the base, free bodies),

    r = M_u x,      x = Δv/dt − a, taken as its mean over the last τ

Torques are not in these rows; contacts, loads and pushes are. In g, for robots of any size alike, it amounts to

    √(rᵀ M_uu⁻¹ r / m) / g

the root mean square, over the mass, of the acceleration that r would give to the robot with its joints locked. A force through
the centre of mass counts with its share of the weight: a load carried there with its mass over the robot's, and a robot that
falls freely while it is believed to stand is 1 g off. Differences of v add up over τ, so white noise σ of it makes about σ/τ
however short the ticks are.

Forces are compared as sums over the contacts: how they are shared out is in part a choice (`idyn.selection`), the sum is not.

Torques that the prediction was not told of, limits and feedback on top of it, are accounted for as if its contacts held
(`controllers.monitor.reaction`). What cancels in the sum does not show: feet that slip apart, or joints that rub while the base
goes where it should.
"""

import math
from collections import deque
from collections.abc import Callable
from functools import cached_property, partial
from itertools import cycle

import numpy as np

from controllers.command import Disagreement, Inputs
from controllers.config.loading import NonNegative, Settings
from controllers.feedback.delay_compensation import LONGEST
from controllers.monitor.reaction import react
from idyn.errors import ConfigError
from idyn.jit.compiled import INDICES, MATRIX, REAL, VECTOR, compiled
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.jit.memory import local
from idyn.model.robot import Robot
from idyn.prediction.precompile import Way
from idyn.solvers.linalg import cholesky, copy, forward
from idyn.status import Status
from idyn.terms.stages import Dynamics
from idyn.types import Array, Prediction, Record

Arrays = tuple[Array, ...]

GAP = 5
"""Over more periods than this without a state nothing is compared: the drives had other torques meanwhile."""


class RealitySettings(Settings, frozen=True):
    """`[reality]` of a controller: when to say that its model does not describe the world.

    memory: τ, over which differences are averaged [s], > 0
    degraded: the mode is so when the motion, in g, or the forces, over the weight, are off by more than this; inf: never. ...
    patience: for so long [s]
    recovered: and until both are off by no more than this, ≤ degraded

    As shipped, in MuJoCo, quadruped and go2 are off by at most 0.001 standing and 0.06 trotting; with white noise of 0.02 m/s
    by 0.11, with a trunk 15 % heavier by 0.11, with answers missing for 30 ms by 0.08, pushed with 0.2 weights for 0.1 s by
    0.13. A load of 0.3 weights makes 0.24 to 0.30, a hand that bears half of the robot 0.35 to 0.5, motors that give half of
    the torque 0.8 to 0.95.
    """

    memory: NonNegative = 0.1
    degraded: NonNegative = 0.2
    patience: NonNegative = 0.1
    recovered: NonNegative = 0.12


class _Expected(Record, frozen=True):
    """Of the period that a torque acts in: acceleration (nv), sum of the contact forces [N] (3), and M_u (nu, nv)."""

    acceleration: Array
    force: Array
    M_u: Array


def _room_for(robot: Robot) -> _Expected:
    return _Expected(acceleration=np.empty(robot.nv), force=np.empty(3), M_u=np.empty((robot.nu, robot.nv)))


ANSWER, EXPECTED = Lent(VECTOR, VECTOR, MATRIX, VECTOR), Filled(VECTOR, VECTOR, MATRIX)
KNOWN, MEANS = Lent(MATRIX, INDICES, VECTOR, VECTOR, VECTOR), Filled(VECTOR)
"""What `_expect` and `_measure` take."""


class Reality:
    """Compares, tick by tick, and judges; owns the means and the predictions whose torques are yet to act."""

    def __init__(self, settings: RealitySettings, robot: Robot, period: float) -> None:
        """period: of the ticks [s]. Raises ConfigError."""
        if not 0 < settings.memory < np.inf:
            raise ConfigError("reality.memory", f"expected a finite number > 0, got {settings.memory}")
        if settings.recovered > settings.degraded:
            raise ConfigError("reality.recovered", f"expected ≤ degraded = {settings.degraded:g}, got {settings.recovered:g}")
        self._settings, self._robot, self._period = settings, robot, period
        self._g = float(np.linalg.norm(robot.bodies.gravity))
        self._weight = robot.total_mass * self._g
        self._expected: deque[_Expected | None] = deque(maxlen=LONGEST + 1)
        self._room = cycle([_room_for(robot) for _ in range(LONGEST + 1)])  # whose turn it is has left the queue
        self.reset()

    @cached_property
    def _expect(self) -> Callable[..., None]:
        return entrance(_expect, Dynamics.TYPE, ANSWER, EXPECTED, REAL)

    @cached_property
    def _measure(self) -> Callable[..., float]:
        return entrance(_measure, KNOWN, MEANS, REAL, REAL)

    def ways(self) -> list[Way]:
        """Pieces of work that compile all that is needed here, see `idyn.prediction.precompile`."""
        return [partial(getattr, self, "_expect"), partial(getattr, self, "_measure")]

    def reset(self) -> None:
        """Nothing has been predicted or measured, and nothing is wrong."""
        self._expected.clear()
        self._before: Array | None = None
        self._mean, self._force = np.zeros(self._robot.nv), np.zeros(3)
        self._off, self._degraded = 0.0, False  # for how long [s]; whether it was for long enough
        self._known: Disagreement | None = None

    def measure(self, v: Array, inputs: Inputs) -> Disagreement | None:
        """Compare the measured velocity (nv) with what was predicted for the time since the last; None before there was
        anything to compare."""
        before, self._before, expected = self._before, v.copy(), None
        k = (
            1 + round(inputs.delay / self._period) if inputs.delay else 1
        )  # the torque that acted was computed so many ticks ago
        if k <= len(self._expected):
            expected = self._expected[-k]
        self._expected.append(None)  # until `expect`
        if before is None or expected is None or not 0.0 < inputs.dt < (GAP + 0.5) * self._period:
            return self._known
        share, robot, motion = -math.expm1(-inputs.dt / self._settings.memory), self._robot, None
        if robot.nu:
            known = expected.M_u, robot.tree.u, self._before, before, expected.acceleration
            motion = math.sqrt(self._measure(known, (self._mean,), inputs.dt, share) / robot.total_mass) / self._g
        force = None if inputs.sensed_force is None else self._bearing(inputs.sensed_force, expected.force, share)
        self._known = self._judged(motion, force, inputs.dt)
        return self._known

    def expect(self, prediction: Prediction, beyond: Array, dynamics: Dynamics) -> None:
        """What was predicted in this tick, of those dynamics; no prediction that is not certified is held against the world.
        beyond: what the motors were told beyond the predicted torque [N·m] (na)"""
        if prediction.status is not Status.SOLVED and not prediction.status.certified:
            return
        expected = next(self._room)
        answer = prediction.v_plus, prediction.p, prediction.force, beyond
        self._expect(dynamics.fields, answer, (expected.acceleration, expected.force, expected.M_u), prediction.dt)
        self._expected[-1] = expected

    def _bearing(self, sensed: Array, expected: Array, share: float) -> float:
        """The mean disagreement of the forces, over the weight, after these [N] (n, 3), (3)."""
        self._force += share * (sensed.sum(axis=0) - expected - self._force)
        return math.hypot(*self._force.tolist()) / self._weight

    def _judged(self, motion: float | None, force: float | None, dt: float) -> Disagreement:
        """The figures with what follows from them."""
        s, worst = self._settings, max(motion or 0.0, force or 0.0)
        self._off = self._off + dt if worst > s.degraded else 0.0
        self._degraded = worst > s.recovered if self._degraded else self._off > s.patience
        return Disagreement(motion=motion, force=force, problem=self._words(motion, force) if self._degraded else "")

    def _words(self, motion: float | None, force: float | None) -> str:
        """What is wrong, and what may be the cause."""
        limit = self._settings.recovered
        if motion is None or motion <= limit:
            bears = f"the contacts bear {100 * (force or 0.0):.0f} % of the weight otherwise than predicted"
            return f"{bears}, and yet it moves so: something else bears the robot, or the force sensors are wrong"
        moves = f"the robot accelerates {motion * self._g:.1f} m/s² ({100 * motion:.0f} % of g) otherwise than predicted"
        if force is None:
            return f"{moves}: load, contacts or motors are not as modelled"
        if force <= limit:
            return f"{moves}, with contact forces as predicted: a load or a push is not in the model"
        return f"{moves}, the contacts bear {100 * force:.0f} % of the weight otherwise: contacts or motors are not as modelled"


@compiled
def _expect(d: Dynamics, answer: Arrays, expected: Arrays, dt: float) -> None:
    """Fill the fields of an `_Expected`.

    answer: v⁺, p and the forces (n, 3) of a prediction over dt [s]; what the motors are told beyond it (na)
    """
    (v_plus, p, forces, beyond), (acceleration, force, M_u), more, g = answer, expected, False, d.given
    # a = (v⁺ − v)/dt, Σ f
    for j in range(len(acceleration)):
        acceleration[j] = (v_plus[j] - g.v[j]) / dt
    force[:] = 0.0
    for each in forces:
        for c in range(3):
            force[c] += each[c]
    # torques beyond the predicted ones, as if the contacts held
    for torque in beyond:
        more = more or torque != 0.0
    if more:
        react(d, p, beyond, acceleration, force)
    # M_u
    for i in range(len(g.model.u)):
        copy(g.M[g.model.u[i]], M_u[i])


@compiled
def _measure(known: Arrays, means: Arrays, dt: float, share: float) -> float:
    """rᵀ M_uu⁻¹ r with r = M_u x, x being the mean (nv), which Δv/dt − a is added to with its share before.

    known: M_u, u, v, v before, a; means: x
    """
    (M_u, u, v, before, a), (mean,) = known, means
    # x ← x + share (Δv/dt − a − x)
    for k in range(len(mean)):
        mean[k] += share * ((v[k] - before[k]) / dt - a[k] - mean[k])
    # r = M_u x, L Lᵀ = M_uu
    n = len(u)
    L, r = local((n, n)), local(n)
    for i in range(n):
        r[i] = 0.0
        for j in range(n):
            L[i, j] = M_u[i, u[j]]
        for k in range(len(mean)):
            r[i] += M_u[i, k] * mean[k]
    # ‖L⁻¹ r‖²
    cholesky(L)
    forward(L, r)
    return np.sum(r * r)
