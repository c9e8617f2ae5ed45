"""Model-mismatch monitor: compares measured with predicted motion, and sensed with predicted contact forces, as sums over
the contacts (docs/concepts/model-mismatch.md). The generalised force that the model does not explain is, in the rows without
a motor,

    r = M_u x,      x = Δv/dt − a, averaged over the last τ;      reported: √(rᵀ M_uu⁻¹ r / m) / g
The response to commanded minus predicted torque is computed as if loaded contacts neither slipped nor opened. Errors that
cancel in the sums are not detected: feet that slip apart, or joint friction while the base moves as predicted.
"""

import math
from collections import deque
from itertools import cycle

import numpy as np

from controllers.command import Inputs, Mismatch
from controllers.config.loading import NonNegative, Settings
from controllers.feedback import MAX_TICKS
from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.solvers.linalg import axpy, backward, cholesky, copy, copy_rows, dot, fill, fill_rows, forward
from idyn.status import Status
from idyn.terms.stages import Dynamics
from idyn.types import Array, Kinematics, Prediction, Record, State

EPSILON = 1e-9  # regularisation of J M⁻¹ Jᵀ, relative to its mean diagonal. It permits redundant contact rows


@compiled
def react(d: Dynamics, p: Array, tau: Array, acceleration: Array, borne: Array) -> None:
    """Add the response to torques τ (na) to the acceleration [m/s², rad/s²] (nv) and to the sum of the contact forces [N] (3).

    p: contact impulses (3n); contacts with p_N > 0 are loaded
    borne: sum of the contact forces on the robot, world frame [N] (3)
    """
    g, nv, held, count = d.given, len(d.given.v), stack_array(len(p) // 3, np.int64), 0
    for i in range(len(held)):
        if p[3 * i + 2] > 0.0:
            held[count] = i
            count += 1
    rows = 3 * count
    # [Jᵀ, Pᵀ τ] and Lᵀ L = M, then [W, w] = L⁻ᵀ [Jᵀ, Pᵀ τ]
    L, W = stack_array((nv, nv)), stack_array((nv, rows + 1))
    copy_rows(g.M, L)
    fill_rows(W, 0.0)
    for row in range(rows):
        J = d.J[3 * held[row // 3] + row % 3]
        for j in range(nv):
            W[j, row] = J[j]
    for k in range(len(tau)):
        W[g.model.a[k], rows] = tau[k]
    _factor(L)
    _towards_root(L, W)
    # Wᵀ W f = −Wᵀ w, and Σ f in the world
    f = stack_array(rows)
    _hold(W, f)
    for i in range(count):
        s, n, fs, ft, fn = g.tangents[held[i]], g.normals[held[i]], f[3 * i], f[3 * i + 1], f[3 * i + 2]
        borne[0] += fs * s[0] + ft * (n[1] * s[2] - n[2] * s[1]) + fn * n[0]
        borne[1] += fs * s[1] + ft * (n[2] * s[0] - n[0] * s[2]) + fn * n[1]
        borne[2] += fs * s[2] + ft * (n[0] * s[1] - n[1] * s[0]) + fn * n[2]
    # a = L⁻¹ (w + W f)
    x = stack_array(nv)
    for j in range(nv):
        x[j] = W[j, rows]
        for row in range(rows):
            x[j] += W[j, row] * f[row]
        for i in range(j):
            x[j] -= L[j, i] * x[i]
        x[j] /= L[j, j]
        acceleration[j] += x[j]


@compiled
def _hold(W: Array, f: Array) -> None:
    """Fill the contact forces f (3n) [N]: (Wᵀ W + ε) f = −Wᵀ w.

    W: [L⁻ᵀ Jᵀ, L⁻ᵀ Pᵀ τ] (nv, 3n + 1)
    """
    rows = len(f)
    D, trace = stack_array((rows, rows)), 0.0
    fill_rows(D, 0.0)
    fill(f, 0.0)
    # Wᵀ W, lower triangle, and −Wᵀ w
    for w in W:
        for row in range(rows):
            if w[row] != 0.0:
                for other in range(row + 1):
                    D[row, other] += w[row] * w[other]
                f[row] -= w[row] * w[rows]
    # + ε, relative to the mean diagonal
    for row in range(rows):
        trace += D[row, row]
    for row in range(rows):
        D[row, row] += EPSILON * trace / rows
    cholesky(D)
    forward(D, f)
    backward(D, f)


@compiled
def _factor(M: Array) -> None:
    """M ← L with Lᵀ L = M, in the lower triangle, in place."""
    for k in range(len(M) - 1, -1, -1):
        row = M[k]
        row[k] = np.sqrt(row[k])
        share = 1.0 / row[k]
        for i in range(k):
            row[i] *= share
        for i in range(k):
            if row[i] != 0.0:
                for j in range(i + 1):
                    M[i, j] -= row[i] * row[j]


@compiled
def _towards_root(L: Array, X: Array) -> None:
    """X ← L⁻ᵀ X, in place."""
    for k in range(len(L) - 1, -1, -1):
        share = 1.0 / L[k, k]
        for c in range(X.shape[1]):
            X[k, c] *= share
        for i in range(k):
            if L[k, i] != 0.0:
                axpy(-L[k, i], X[k], X[i])


Arrays = tuple[Array, ...]

AT_STOP = 0.02  # distance from the end of its range at which a joint is at its stop [rad, m]
MAX_GAP = 5  # longest time between two states that are compared [periods]. After a longer one other torques acted


class RealitySettings(Settings, frozen=True):
    """`[reality]` of a controller: the model-mismatch monitor.

    Figures with the shipped settings in MuJoCo, quadruped and go2: at most 0.001 standing, 0.06 trotting, 0.11 with white noise
    of 0.02 m/s, 0.11 with a trunk 15 % heavier, 0.08 with replies missing for 30 ms, 0.13 for a push of 0.2 weights over 0.1 s.
    Larger ones: 0.24 to 0.30 for a load of 0.3 weights, 0.35 to 0.5 for a hand that carries half of the robot, 0.8 to 0.95 for
    motors that give half of the torque.
    """

    memory: NonNegative = 0.1  # τ, time constant of the averages [s], > 0
    degraded: NonNegative = 0.2  # the mode becomes `degraded` when motion [g] or force [weights] exceeds this; inf: never
    patience: NonNegative = 0.1  # time above `degraded` until the mode changes [s]
    recovered: NonNegative = 0.12  # the mode recovers when neither motion nor force exceeds this; ≤ degraded


class _Expected(Record, frozen=True):
    """Prediction for the period in which a torque acts."""

    acceleration: Array  # a [m/s², rad/s²] (nv)
    force: Array  # sum of the contact forces in the world frame [N] (3)
    M_u: Array  # rows of the inertia matrix without a motor (nu, nv)


ANSWER, EXPECTED = (Vector, Vector, Matrix, Vector), written((Vector, Vector, Matrix))
KNOWN, MEANS = (Matrix, Indices, Vector, Vector, Vector), written((Vector,))  # arguments of `_expect`, `_measure`


class MismatchMonitor:
    """Model-mismatch monitor. Stores the averages, and the predictions whose torques have not acted yet."""

    def __init__(self, settings: RealitySettings, robot: Robot, period: float) -> None:
        """period: control period [s]. Raises ConfigError."""
        if not 0 < settings.memory < np.inf:
            raise ConfigError("reality.memory", f"expected a finite number > 0, got {settings.memory}")
        if settings.recovered > settings.degraded:
            raise ConfigError("reality.recovered", f"expected ≤ degraded = {settings.degraded:g}, got {settings.recovered:g}")
        self._settings, self._robot, self._period = settings, robot, period
        self._g, self._weight = robot.weight / robot.total_mass, robot.weight
        self._expected: deque[_Expected | None] = deque(maxlen=MAX_TICKS + 1)
        sizes = {"acceleration": robot.nv, "force": 3, "M_u": (robot.nu, robot.nv)}
        buffers = [_Expected(**{name: np.empty(size) for name, size in sizes.items()}) for _ in range(MAX_TICKS + 1)]
        self._buffers = cycle(buffers)  # as many as the queue holds: reused in order
        self.reset()

    def reset(self) -> None:
        self._expected.clear()
        self._before: Array | None = None
        self._mean, self._force = np.zeros(self._robot.nv), np.zeros(3)
        self._exceeded, self._degraded = 0.0, False  # time above the limit [s], and whether it exceeded `patience`
        self._latest: Mismatch | None = None

    def measure(self, at: State | Kinematics, inputs: Inputs) -> Mismatch | None:
        """Compare the measured velocity with the prediction for the time since the last call.

        Returns the last result if there is nothing to compare, None before the first.
        """
        before, self._before, expected = self._before, at.v.copy(), None
        k = 1 + round(inputs.delay / self._period) if inputs.delay else 1  # age of the torque that acted [ticks]
        if k <= len(self._expected):
            expected = self._expected[-k]
        self._expected.append(None)  # `expect` replaces it
        if before is None or expected is None or not 0.0 < inputs.dt < (MAX_GAP + 0.5) * self._period:
            return self._latest
        # weight of the new difference in the means: 1 − e^{−dt/τ}
        share, robot, motion = -math.expm1(-inputs.dt / self._settings.memory), self._robot, None
        if robot.nu:
            rows = self._counted(expected.M_u, at.q) if robot.stops.rows.size else (expected.M_u, robot.tree.u)
            known = *rows, self._before, before, expected.acceleration
            # √(rᵀ M_uu⁻¹ r / m) / g
            motion = math.sqrt(_measure(known, (self._mean,), inputs.dt, share) / robot.total_mass) / self._g
        force = None if inputs.sensed_force is None else self._bearing(inputs.sensed_force, expected.force, share)
        limits, worst = self._settings, max(motion or 0.0, force or 0.0)
        self._exceeded = self._exceeded + inputs.dt if worst > limits.degraded else 0.0
        self._degraded = worst > limits.recovered if self._degraded else self._exceeded > limits.patience
        problem = self._message(motion, force) if self._degraded else ""
        self._latest = Mismatch(motion=motion, force=force, problem=problem)
        return self._latest

    def expect(self, prediction: Prediction, beyond: Array, dynamics: Dynamics) -> None:
        """Record the prediction of this tick. Ignores a prediction that is not certified.

        beyond: commanded minus predicted torque [N·m] (na)
        dynamics: dynamics terms from which the prediction was computed
        """
        if prediction.status is not Status.SOLVED and not prediction.status.certified:
            return
        expected = next(self._buffers)
        answer = prediction.v_plus, prediction.p, prediction.force, beyond
        _expect(dynamics, answer, (expected.acceleration, expected.force, expected.M_u), prediction.dt)
        self._expected[-1] = expected

    def _counted(self, M_u: Array, q: Array) -> tuple[Array, Array]:
        """Return the rows M_u that count, and their indices: not those of joints at their stops."""
        u, stops = self._robot.tree.u, self._robot.stops
        held = (q[stops.q] < stops.low + AT_STOP) | (q[stops.q] > stops.high - AT_STOP)
        if not held.any():
            return M_u, u
        counted = np.delete(np.arange(len(u)), stops.rows[held])
        return M_u[counted], u[counted]

    def _bearing(self, sensed: Array, expected: Array, share: float) -> float:
        """Update the mean of the force difference, the sum over contacts of `sensed` minus `expected`. Return its norm divided
        by the weight of the robot [–].

        sensed: measured contact forces [N] (n, 3); expected: predicted sum of the contact forces [N] (3)
        share: weight of the new difference in the mean
        """
        self._force += share * (sensed.sum(axis=0) - expected - self._force)
        return math.hypot(*self._force.tolist()) / self._weight

    def _message(self, motion: float | None, force: float | None) -> str:
        """Return the message: which figure exceeds its limit, and possible causes."""
        limit = self._settings.recovered
        if motion is None or motion <= limit:
            force_off = f"the sensed contact forces differ by {100 * (force or 0.0):.0f} % of the weight from the prediction"
            return f"{force_off}, the motion does not: an external support carries the robot, or the force sensors are wrong"
        motion_off = f"the acceleration differs by {motion * self._g:.1f} m/s² ({100 * motion:.0f} % of g) from the prediction"
        if force is None:
            return f"{motion_off}: load, contacts or motors are not as modelled"
        if force <= limit:
            return f"{motion_off}, the contact forces do not: a load or a push is not in the model"
        return f"{motion_off}, the contact forces by {100 * force:.0f} % of the weight: contacts or motors are not as modelled"


@entry(Dynamics, ANSWER, EXPECTED, float)
def _expect(d: Dynamics, answer: Arrays, expected: Arrays, dt: float) -> None:
    """Fill the fields of an `_Expected`.

    answer: (v⁺ (nv), p (3n), contact forces [N] (n, 3)) of a prediction over dt [s], and commanded minus predicted torque [N·m]
        (na)
    """
    (v_plus, p, forces, beyond), (acceleration, force, M_u), more, g = answer, expected, False, d.given
    # a = (v⁺ − v)/dt, Σ f
    for j in range(len(acceleration)):
        acceleration[j] = (v_plus[j] - g.v[j]) / dt
    fill(force, 0.0)
    for each in forces:
        axpy(1.0, each, force)
    # response of a and Σ f to commanded minus predicted torque, with loaded contacts fixed
    for torque in beyond:
        more = more or torque != 0.0
    if more:
        react(d, p, beyond, acceleration, force)
    # M_u
    for i in range(len(g.model.u)):
        copy(g.M[g.model.u[i]], M_u[i])


@entry(KNOWN, MEANS, float, float)
def _measure(known: Arrays, means: Arrays, dt: float, share: float) -> float:
    """Update the mean difference x (nv) and return rᵀ M_uu⁻¹ r with r = M_u x.

    known: (M_u (nu, nv), u: indices of the rows without a motor, v (nv), previous v (nv), predicted acceleration a (nv))
    means: tuple of one array, x
    share: weight of the new difference Δv/dt − a
    """
    (M_u, u, v, before, a), (mean,) = known, means
    # x ← x + share (Δv/dt − a − x)
    for k in range(len(mean)):
        mean[k] += share * ((v[k] - before[k]) / dt - a[k] - mean[k])
    # r = M_u x, L Lᵀ = M_uu
    n = len(u)
    L, r = stack_array((n, n)), stack_array(n)
    for i in range(n):
        r[i] = 0.0
        for j in range(n):
            L[i, j] = M_u[i, u[j]]
        for k in range(len(mean)):
            r[i] += M_u[i, k] * mean[k]
    # ‖L⁻¹ r‖²
    cholesky(L)
    forward(L, r)
    return dot(r, r)
