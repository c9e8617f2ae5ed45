"""Feedback of joints and base, internal forces that bring feet back, and compensation of the actuation delay."""

import math
from collections import deque
from typing import Annotated

import numpy as np

from controllers.command import Reference
from controllers.config.loading import NonNegative, Settings
from controllers.config.tables import within
from controllers.robot.kinematics import contact_places
from idyn.contact.contacts import fill_centres
from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import ArrayRecord, Indices, Matrix, Vector, written
from idyn.model import so3
from idyn.model.robot import Robot
from idyn.terms.dynamics import contact_jacobian
from idyn.types import Array, ContactSet, Kinematics, Selection, State


class FeedbackSettings(Settings, frozen=True):
    """Feedback gains on acceleration, the same for every joint.

    On torque (`[torque_feedback]`) the units are: kp [N·m/rad], kd [N·m·s/rad], ki [N·m/(rad s)], integral_limit [N·m].
    """

    # [1/s²]; √kp is the angular frequency of the stiffness and must stay well below 1/dt
    kp: Annotated[float, within(0, 1e7, "1/s² (on torque: N·m/rad)")] = 900.0
    # [1/s]; 2√kp is critical damping. 1/dt demands the reference velocity at the end of the next period, whatever the measured
    # velocity is. Compliant ground requires this: a rigid law interprets the motion of the ground under the feet as motion of
    # the robot and amplifies it
    kd: Annotated[float, within(0, 1e5, "1/s (on torque: N·m·s/rad)")] = 60.0
    ki: Annotated[float, within(0, 1e8, "1/s³ (on torque: N·m/(rad s))")] = 0.0  # [1/s³]
    integral_limit: Annotated[float, within(0, 1e6, "rad/s² (on torque: N·m)")] = 20.0  # limit of the integral term [rad/s²]


class Pid(ArrayRecord):
    """Gains and integral of a PID on joint positions."""

    kp: float
    kd: float
    ki: float
    most: float  # limit of the integral
    integral: Vector  # (na)
    shares: Matrix  # share of the joints' feedback after each number of ticks of delay (ticks, na)

    def __init__(self, gains: tuple[float, float, float, float], shares: Array) -> None:
        self.put(**dict(zip(("kp", "kd", "ki", "most"), gains, strict=True)))
        self.put(integral=np.zeros(shares.shape[1]), shares=shares)


MOTION = (Vector,) * 4
Motion = tuple[Array, Array, Array, Array]
"""Reference angles, measured angles, reference velocities, measured velocities of the joints, each (na)."""


class JointFeedback:
    """PID on joint positions. Stores the integral."""

    def __init__(self, settings: FeedbackSettings, robot: Robot, shares: Array | None = None) -> None:
        """shares: see `Pid`; None: all of it, whatever the delay"""
        gains = settings.kp, settings.kd, settings.ki, settings.integral_limit
        self.pid = Pid(gains, np.ones((1, robot.na)) if shares is None else shares)
        self._error, self._one_axis_each, self._zero = robot.joint_error, robot.one_axis_each, np.zeros(robot.na)
        self.active = max(settings.kp, settings.kd, settings.ki) > 0.0

    def reset(self) -> None:
        self.pid.integral.fill(0.0)

    def motion(self, reference: Reference, joints: tuple[Array, Array]) -> Motion:
        """Return what the PID compares. joints: measured angles [rad] and speeds [rad/s] (na)"""
        angles, speeds = joints
        if self._one_axis_each:
            return reference.q, angles, reference.v, speeds
        return self._error(angles, reference.q), self._zero, reference.v, speeds

    def add_to(self, base: Array, motion: Motion, dt: float) -> Array:
        """Return `base` plus the feedback term (na): q̈_des [rad/s²] if `base` is the reference acceleration.

        Raises ValueError if the sizes differ.
        """
        total = base.copy()
        if not _add(self.pid, motion, dt, total):
            sizes = f"{len(base)}, {len(motion[0])}, {len(motion[2])}"
            raise ValueError(f"expected base, reference angles and velocity of {len(motion[3])} joints, got {sizes}")
        return total


@compiled
def pull(pid: Pid, motion: Motion, dt: float, late: int, total: Array) -> None:
    """Add the feedback term to `total` (na) and update the integral. late: delay [ticks]"""
    (wanted, angles, v, speeds), integral, ki_dt, most = motion, pid.integral, pid.ki * dt, pid.most
    for k in range(len(total)):
        # Kp (q_ref − q) + Kd (q̇_ref − q̇) + Ki ∫ (q_ref − q) dt
        error = wanted[k] - angles[k]
        correction = pid.kp * error + pid.kd * (v[k] - speeds[k])
        if ki_dt > 0.0:
            integral[k] += ki_dt * error
            if abs(integral[k]) > most:
                integral[k] = most if integral[k] > 0.0 else -most
        total[k] += (correction + integral[k]) * pid.shares[late, k]


@entry(Pid, MOTION, float, written(Vector))
def _add(pid: Pid, motion: Motion, dt: float, total: Array) -> bool:
    """Add the feedback term without delay, see `pull`. Return False if the sizes differ."""
    fits = len(total) == len(pid.integral)
    for each in motion:
        fits = fits and len(each) == len(total)
    if fits:
        pull(pid, motion, dt, 0, total)
    return fits


Gains = tuple[float, float, float, float, float, float]
ZERO: Gains = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
LEVEL = np.zeros(3)


class StabilisationSettings(Settings, frozen=True):
    """Gains in the base frame: forward, left, up, roll, pitch, yaw. All zero: off."""

    kp: Gains = ZERO  # on position and attitude [N/m, N·m/rad]; only height, roll and pitch: the others must be 0
    kv: Gains = ZERO  # on velocity [N·s/m, N·m·s/rad]
    literal: bool = False  # as in the authors' software, see `Stabilisation`


class Stabilisation:
    """VIIP: virtual compressive forces at the standing feet, which correct the base  [ZD §7.3; MATHEMATICS §8]. Stateless.

        w = Kp (x_des ⊖ x) + Kv (v_des − v)                 wrench on the base (6)
        f = max(0, N_b w)                                   along each contact's normal
        τ = −N_qᵀ f
    N_b, N_q are the columns of the base and of the joints in the normal rows of the contact Jacobian. The forces have no
    tangential part: they neither pull nor slip, and realise the wrench only as far as pushing forces can. As no system of
    equations is solved for w, the gains are not the stiffness and damping of the base. `literal` reproduces the authors'
    software: all three rows of each contact, N, S and T, and the positive tangential components.
    """

    def __init__(self, settings: StabilisationSettings, robot: Robot, height: float) -> None:
        """height: nominal height of the base above the contact points of the standing feet [m]. Raises ConfigError."""
        self.active = any(settings.kp) or any(settings.kv)
        for field in ("kp", "kv"):
            if any(not 0 <= gain < np.inf for gain in getattr(settings, field)):
                raise ConfigError(f"stabilisation.{field}", f"expected finite gains ≥ 0, got {list(getattr(settings, field))}")
        if any(settings.kp[i] for i in (0, 1, 5)):
            raise ConfigError("stabilisation.kp", "expected 0 for forward, left and yaw: only height and tilt have a reference")
        if self.active and not robot.floating:
            raise ConfigError("stabilisation", "expected a robot with a floating base, got a fixed one")
        self._robot, self._height, self._literal = robot, height, settings.literal
        self._kp, self._kv = np.array(settings.kp), np.array(settings.kv)

    def torque(self, at: Kinematics, contacts: ContactSet, velocity: Array | None, pose: Array | None = None) -> Array:
        """Return the joint torques for the standing contacts [N·m] (na).

        velocity: desired velocity of the base, forward, left [m/s], turn [rad/s] (3); None: zero
        pose: desired height relative to the nominal one [m], roll, pitch [rad] (3); None: zero
        """
        robot = self._robot
        tau = np.zeros(robot.na)
        if not len(contacts):
            return tau
        # w = Kp (x_des ⊖ x) + Kv (v_des − v)
        desired = np.zeros(6) if velocity is None else np.array([velocity[0], velocity[1], 0.0, 0.0, 0.0, velocity[2]])
        wrench = self._kp * self._error(at, contacts, LEVEL if pose is None else pose) + self._kv * (desired - at.v[:6])
        # τ = −N_qᵀ max(0, N_b w); `literal`: rows N, S, T of each contact
        J = contact_jacobian(robot, at, contacts)
        for i in range(len(contacts)):
            for row in J[[3 * i + 2, 3 * i, 3 * i + 1]] if self._literal else J[3 * i + 2 : 3 * i + 3]:
                tau -= row[robot.tree.a] * max(0.0, float(row[:6] @ wrench))
        return tau

    def _error(self, at: Kinematics, contacts: ContactSet, pose: Array) -> Array:
        """Return the errors x_des ⊖ x of height and tilt in the base frame (6). pose: see `torque`"""
        (height, roll, pitch), up = pose.tolist(), so3.up(at.q[3:7])
        too_low = self._height + height - (at.q[2] - contacts.points[:, 2].mean())
        desired = np.array([-math.sin(pitch), math.cos(pitch) * math.sin(roll), math.cos(pitch) * math.cos(roll)])
        axis = np.cross(desired, up)  # the base turns about it by the angle between the two
        sine = float(np.linalg.norm(axis))
        angle = math.atan2(sine, float(desired @ up))
        return np.concatenate([too_low * up, axis * (angle / max(sine, 1e-12))])


def standing_height(robot: Robot, stance: Array) -> float:
    """Return the height of the base above the contact points at a configuration (nq) [m]; 0 without contact spheres or base."""
    if not (robot.spheres.keys and robot.floating):
        return 0.0
    return float(stance[2] - (contact_places(robot, stance)[:, 2] - robot.spheres.radii).mean())


class SpreadSettings(Settings, frozen=True):
    """Settings of the spread. Active with `selection = "force"` on robots with a floating base."""

    stiffness: NonNegative = 5.0  # k, share of the weight per displacement of a foot [1/m]; 0: off
    most: NonNegative = 0.2  # largest such force, as a share of the mean weight per foot


class Spread:
    """Brings displaced feet back by internal contact forces. Stateless.

    On compliant ground, feet under tangential load creep, and after a push feet stay where they slid. Joint feedback cannot
    bring them back: contacts do not permit this motion, and the projection removes it from the demand (`Consistency.HOLD`). So
    each foot pushes along the ground towards its reference position relative to the base, with f = k m g (x − x_ref) up to a
    share of the weight that friction can always carry. On ground that creeps the feet return; elsewhere friction balances
    these forces.
    """

    def __init__(self, settings: SpreadSettings, robot: Robot, selection: Selection) -> None:
        self._robot = robot
        weight = robot.weight
        self._stiffness, self._most = settings.stiffness * weight, settings.most * weight
        self.active = settings.stiffness > 0.0 and robot.floating and selection is Selection.FORCE

    def preferred(self, at: Kinematics, contacts: ContactSet, angles: Array) -> Array:
        """Return the preferred contact forces on the robot, world frame [N] (n, 3).

        angles: reference joint angles [rad] (na)
        """
        robot, keys = self._robot, contacts.keys
        force, places = np.empty((len(keys), 3)), robot.spheres
        if keys != places.keys:
            places = places.among(keys)
        if not 0 < len(keys) == len(places.keys):
            force.fill(0.0)
            return force
        robot.place(robot.with_joint_angles(at.q, angles))
        normals = np.ascontiguousarray(contacts.normals, np.float64)
        given = at.placements, robot.placements, places.offsets, normals
        _lean(given, (places.joints,), (force,), self._stiffness, self._most / len(keys))
        return force


@entry((Matrix, Matrix, Matrix, Matrix), (Indices,), written((Matrix,)), float, float)
def _lean(places: tuple[Array, ...], joints: tuple[Array], out: tuple[Array], stiffness: float, most: float) -> None:
    """Fill contact forces along the ground, k m g (x − x_ref), at most `most` [N] (n, 3).

    places: `Kinematics.placements` measured and at the reference, sphere offsets [m] (n, 3), contact normals (n, 3)
    joints: joint of each sphere (n)
    stiffness: k m g [N/m]
    """
    (placements, wanted_placements, offsets, normals), (force,) = places, out
    here, wanted = stack_array(offsets.shape), stack_array(offsets.shape)
    fill_centres((placements, offsets), joints, (here,))
    fill_centres((wanted_placements, offsets), joints, (wanted,))
    for i in range(len(force)):
        # f = k m g (I − n nᵀ) (x − x_ref), then limited to ‖f‖ ≤ most
        off, square = 0.0, 0.0
        for c in range(3):
            force[i, c] = here[i, c] - wanted[i, c]
            off += force[i, c] * normals[i, c]
        for c in range(3):
            force[i, c] = stiffness * (force[i, c] - off * normals[i, c])
            square += force[i, c] ** 2
        if square > most * most:
            for c in range(3):
                force[i, c] *= most / np.sqrt(square)


MAX_TICKS = 20  # longest extrapolation [ticks]. A longer one would be less accurate than the measurement itself


class DelayCompensation:
    """Extrapolates the measured state over a known actuation delay, and corrects predicted speeds by measured ones. Stores the
    velocity changes predicted in the last ticks.

    The robot moves on under earlier torques: v ← v + a_k dt, q ← q ⊕ v dt with the accelerations a_k predicted for the torques
    that had not acted when the state was measured. Prediction errors accumulate over the delay only.
    """

    def __init__(self, robot: Robot, period: float) -> None:
        """period: control period [s]"""
        self._robot, self._period = robot, period
        self._predicted: deque[tuple[Array, Array, float]] = deque(maxlen=MAX_TICKS)

    def reset(self) -> None:
        self._predicted.clear()

    def extrapolate(self, state: State | Kinematics, delay: float) -> State | Kinematics:
        """Return the state expected after `delay` [s], or after as many ticks as there are predictions for."""
        if delay == 0.0:
            return state
        ticks = min(round(delay / self._period), len(self._predicted))
        q, v = state.q, state.v
        for k in range(len(self._predicted) - ticks, len(self._predicted)):
            before, after, dt = self._predicted[k]
            v = v + self._period * ((after - before) / dt)
            q = self._robot.integrate(q, self._period * v)
        return State(q=q, v=v) if ticks else state

    def corrected(self, v: Array, delay: float, share: float) -> Array:
        """Return the velocity (nv) that was predicted for now, plus a share of the difference from it of the measured one, v
        (nv); v if nothing was predicted."""
        k = 1 + min(round(delay / self._period), MAX_TICKS - 1)
        if k > len(self._predicted):
            return v
        expected = self._predicted[-k][1]
        return expected + share * (v - expected)

    def record(self, before: Array, after: Array, dt: float) -> None:
        """Record the prediction of a tick: the velocities (nv) before and after a period dt [s] under its torque."""
        self._predicted.append((before.copy(), after, dt))
