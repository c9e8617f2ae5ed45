"""Model-mismatch monitor: compares measured with predicted motion, and sensed with predicted contact forces, as sums over
the contacts (docs/concepts/model-mismatch.md). The generalised force that the model does not explain is, in the rows without
a motor,

    r = M_u x,      x = Δv/dt − a, averaged over the last τ;      reported: √(rᵀ M_uu⁻¹ r / m) / g
The response to commanded minus predicted torque is computed as if loaded contacts neither slipped nor opened. Errors that
cancel in the sums are not detected: feet that slip apart, or joint friction while the base moves as predicted.
"""

import math

import numpy as np

from controllers.command import Mismatch
from controllers.config.loading import NonNegative, Settings
from controllers.config.numbers import Numbers
from controllers.feedback import MAX_TICKS
from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import ArrayRecord, Cube, Flags, Indices, Matrix, Vector
from idyn.model.robot import Robot
from idyn.solvers.linalg import axpy, backward, cholesky, copy, copy_rows, dot, fill, fill_rows, forward
from idyn.status import Status
from idyn.terms.stages import Dynamics
from idyn.types import Array, Prediction

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


class RealityNumbers(Numbers, settings=RealitySettings):
    """Numbers of the settings."""


class Expectations(ArrayRecord):
    """Predictions for the periods in which the last torques act, in a ring of T ticks, and their mean differences."""

    acceleration: Matrix  # a [m/s², rad/s²] (T, nv)
    force: Matrix  # sums of the contact forces in the world frame [N] (T, 3)
    M_u: Cube  # rows of the inertia matrix without a motor (T, nu, nv)
    known: Flags  # of which ticks there is a prediction (T)
    v: Vector  # measured last (nv)
    mean: Vector  # x (nv)
    borne: Vector  # mean difference of the sums of the contact forces [N] (3)
    u: Indices  # of the rows without a motor (nu)
    rows: Indices  # stops: row, index of the position, range, see `idyn.model.tree.Stops`
    q: Indices
    low: Vector
    high: Vector
    tick: int  # number of states since `reset`
    limits: RealityNumbers
    longest: float  # time between two states that are compared [s]
    mass: float  # [kg]
    weight: float  # [N]
    exceeded: float  # time above the limit [s]
    degraded: bool  # whether it exceeded `patience`

    def __init__(self, settings: RealitySettings, robot: Robot, longest: float) -> None:
        ticks, nv, nu, stops = MAX_TICKS + 1, robot.nv, robot.nu, robot.stops
        self.put(acceleration=np.zeros((ticks, nv)), force=np.zeros((ticks, 3)), M_u=np.zeros((ticks, nu, nv)))
        self.put(known=np.zeros(ticks, np.bool_), v=np.zeros(nv), mean=np.zeros(nv), borne=np.zeros(3), u=robot.tree.u)
        self.put(rows=stops.rows, q=stops.q, low=stops.low, high=stops.high, limits=RealityNumbers(settings))
        self.put(longest=longest, mass=robot.total_mass, weight=robot.weight)


class MismatchMonitor:
    """Model-mismatch monitor. Stores the averages, and the predictions whose torques have not acted yet."""

    def __init__(self, settings: RealitySettings, robot: Robot, period: float) -> None:
        """period: control period [s]. Raises ConfigError."""
        if not 0 < settings.memory < np.inf:
            raise ConfigError("reality.memory", f"expected a finite number > 0, got {settings.memory}")
        if settings.recovered > settings.degraded:
            raise ConfigError("reality.recovered", f"expected ≤ degraded = {settings.degraded:g}, got {settings.recovered:g}")
        self._settings, self._g = settings, robot.weight / robot.total_mass
        self.record = Expectations(settings, robot, (MAX_GAP + 0.5) * period)
        self._moves_freely = robot.nu > 0
        self.reset()

    def reset(self) -> None:
        for means in (self.record.mean, self.record.borne, self.record.known):
            means.fill(0)
        self.record.put(tick=0, exceeded=0.0, degraded=False)

    def told(self, motion: float, force: float | None, degraded: bool) -> Mismatch:
        """Return the mismatch for the results of `compare`."""
        moved = motion if self._moves_freely else None
        return Mismatch(motion=moved, force=force, problem=self._message(moved, force) if degraded else "")

    def expect(self, prediction: Prediction, torques: tuple[Array, Array], dynamics: Dynamics) -> None:
        """Record the prediction of this tick. Ignores a prediction that is not certified.

        torques: commanded and predicted [N·m] (na)
        dynamics: dynamics terms from which the prediction was computed
        """
        if prediction.status is Status.SOLVED or prediction.status.certified:
            _expect(self.record, dynamics, (prediction.v_plus, prediction.p, prediction.force, *torques), prediction.dt)

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


@entry(Expectations, Dynamics, (Vector, Vector, Matrix, Vector, Vector), float)
def _expect(e: Expectations, d: Dynamics, answer: Arrays, dt: float) -> None:
    """Record the prediction of this tick.

    answer: (v⁺ (nv), p (3n), contact forces [N] (n, 3)) of a prediction over dt [s], commanded and predicted torque [N·m] (na)
    """
    (v_plus, p, forces, commanded, predicted), g, own, more = answer, d.given, (e.tick - 1) % len(e.known), False
    acceleration, force, beyond = e.acceleration[own], e.force[own], stack_array(len(commanded))
    # a = (v⁺ − v)/dt, Σ f
    for j in range(len(acceleration)):
        acceleration[j] = (v_plus[j] - g.v[j]) / dt
    fill(force, 0.0)
    for each in forces:
        axpy(1.0, each, force)
    # response of a and Σ f to commanded minus predicted torque, with loaded contacts fixed
    for k in range(len(beyond)):
        beyond[k] = commanded[k] - predicted[k]
        more = more or beyond[k] != 0.0
    if more:
        react(d, p, beyond, acceleration, force)
    # M_u
    for i in range(len(g.model.u)):
        copy(g.M[g.model.u[i]], e.M_u[own, i])
    e.known[own] = True


@compiled
def compare(e: Expectations, measured: Arrays, dt: float, age: int, senses: bool) -> tuple[bool, float, float]:
    """Compare a state with its prediction, of `age` ticks ago. Return whether there is one, mismatch of motion [g] and force
    [weights].

    measured: (q (nq), v (nv), sensed contact forces on the robot [N] (n, 3)); dt: time since the last state [s]
    senses: whether forces are sensed; otherwise their mismatch is 0, as that of motion without `u`
    """
    (q, v, sensed), ticks, limits, motion, force = measured, len(e.known), e.limits, 0.0, 0.0
    then, now = (e.tick - age) % ticks, e.tick % ticks
    compared = age <= min(e.tick, ticks) and e.known[then] and 0.0 < dt < e.longest
    if compared:
        # x ← x + share (Δv/dt − a − x), share = 1 − e^{−dt/τ}
        share, a = -math.expm1(-dt / limits.memory), e.acceleration[then]
        for k in range(len(v)):
            e.mean[k] += share * ((v[k] - e.v[k]) / dt - a[k] - e.mean[k])
        if len(e.u):  # √(rᵀ M_uu⁻¹ r / m) / g
            motion = math.sqrt(_unexplained(e, e.M_u[then], q) / e.mass) / (e.weight / e.mass)
        if senses:
            for c in range(3):
                total = 0.0
                for i in range(len(sensed)):
                    total += sensed[i, c]
                e.borne[c] += share * (total - e.force[then, c] - e.borne[c])
            force = math.sqrt(dot(e.borne, e.borne)) / e.weight
        worst = max(motion, force)
        e.exceeded = e.exceeded + dt if worst > limits.degraded else 0.0
        e.degraded = worst > limits.recovered if e.degraded else e.exceeded > limits.patience
    copy(v, e.v)
    e.known[now] = False  # `_expect` changes it
    e.tick += 1
    return compared, motion, force


@compiled
def _unexplained(e: Expectations, M_u: Array, q: Array) -> float:
    """Return rᵀ M_uu⁻¹ r with r = M_u x, without the rows of joints at their stops."""
    n, counted = 0, stack_array(len(e.u), np.int64)
    for i in range(len(e.u)):
        free = True
        for k in range(len(e.rows)):
            at = q[e.q[k]]
            free = free and not (e.rows[k] == i and (at < e.low[k] + AT_STOP or at > e.high[k] - AT_STOP))
        if free:
            counted[n] = i
            n += 1
    # r = M_u x, L Lᵀ = M_uu
    L, r = stack_array((n, n)), stack_array(n)
    for i in range(n):
        r[i] = 0.0
        for j in range(n):
            L[i, j] = M_u[counted[i], e.u[counted[j]]]
        for k in range(len(e.mean)):
            r[i] += M_u[counted[i], k] * e.mean[k]
    # ‖L⁻¹ r‖²
    cholesky(L)
    forward(L, r)
    return dot(r, r)
