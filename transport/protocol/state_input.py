"""Checks of a state message, and conversion of its vectors to the robot's order."""

import math
from typing import NoReturn

import numpy as np

from controllers.command import Inputs, Reference, Schedule
from controllers.estimation.estimator import Estimate
from idyn.errors import FrameNotFound
from idyn.library.kernels import entry
from idyn.library.records import Indices, Spans, Vector, written
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, State
from transport.protocol.agreement import Agreement, check_contact_frame
from transport.protocol.codec import FLOAT64, Parts, concatenated, not_finite, refuse_non_finite, vector, vectors
from transport.protocol.contact_input import FootSwitches, read_contacts
from transport.protocol.errors import ProtocolError
from transport.protocol.joint_map import BASE_Q, BASE_V
from transport.protocol.messages import state as wire
from transport.protocol.messages.base import Code
from transport.protocol.messages.base import Vector as WireVector
from transport.protocol.messages.state import ON_TIME, StateMessage, Watchdog

LIMIT_FACTOR, LARGEST_TORQUE = 2.0, 1e4
"""`tau_applied` is ignored above this multiple of a joint's torque limit or, for joints without a limit, this torque [N·m]."""

LARGEST_FORCE = 1e5  # larger external forces [N] and moments [N·m] are errors of units
QUATERNION_TOLERANCE = 1e-3  # largest |length − 1| of a base quaternion that is accepted, and then normalised

GIVEN, FILLED = (Vector, Indices, Spans, Indices, Indices, Vector), written((Vector, Vector, Vector))
"""Arguments of `_convert`.

given: (numbers as sent, their order for the robot, start and end of each part of q that has length 1, indices of the actuated
    joints' positions (na), indices of their speeds (na), largest numbers (nq + nv + na))
filled: (numbers in the robot's order, angles of the actuated joints (na), their speeds (na))
"""

VALID, NOT_FINITE, TOO_LARGE, BEYOND = -1, -2, -3, -4
"""Results of `_convert`; a result ≥ 0 is the index of a part of q whose norm is not 1."""

SANE, TURN, SLOW = 10.0, 2.0 * np.pi, 10.0
"""Multiple of its limits that a joint is believed; range and speed that every joint is taken to have [rad or m, per s]."""

ANGLE, RATE = 1e4, 1e3  # bounds of joints without limits, the second also of rates of bases and gyros [rad or m, per s]

FAR, FALL, IMPACT = 1e6, 981.0, 9810.0
"""Bounds of a base's place [m], its speed, as after a fall of 100 s [m/s], and its specific force, 1000 g [m/s²]."""


class Measured(Inputs, kw_only=True, eq=False, gc=False):
    """A measured state in the robot's order, with the other inputs of its tick: the one record from the wire to the tick.

    `StateReader.read` fills what the message says, `Session.accept` the rest.
    """

    state: State  # configuration and velocity, base velocity in body axes
    # angles, speeds: of the actuated joints [rad], [rad/s] (na)
    angles: Array
    speeds: Array
    watchdog: Watchdog  # level by the time without states before this one
    contacts: ContactSet | FootSwitches | None = None  # as measured, or foot switches; None: to be computed from geometry
    # attitude (4), specific force [m/s²] (3) and rate [rad/s] (3) of the IMU, along its axes (10); None: not sent
    imu: Array | None = None
    note: str = ""  # which input was ignored and why, '' without one
    # what the base is from; None: it was measured. Before it is estimated, the base is at the origin and at rest
    estimate: Estimate | None = None


class StateReader:
    """Reads the states of a session. Buffers and constant arguments are allocated once."""

    def __init__(self, agreement: Agreement) -> None:
        robot, joints = agreement.robot, agreement.joints
        self._agreement, self._robot, self._joints = agreement, robot, joints
        self._one_axis_each = bool((robot.tree.q_index >= 0).all())
        self._ends = robot.nq, robot.nq + robot.nv
        nothing: tuple[list[wire.Contact], ContactSet | FootSwitches, Array | None] = [], FootSwitches(keys=(), mu=None), None
        self._reported = nothing  # the last contacts, as sent and as read
        self._sent = np.zeros(robot.nq + robot.nv + robot.na)
        free = (0, 0) if agreement.estimator is None else (BASE_Q, BASE_V)  # numbers of the base, which are not sent
        self._sent[BASE_Q - 1 : free[0]] = 1.0  # then its attitude is level
        (q, v), end = self._ends, len(self._sent)
        self._spans = (free[0], q), (q + free[1], v), (v, end)
        whole = memoryview(self._sent.view(np.uint8))  # type: ignore[arg-type]
        self._places = tuple(whole[8 * first : 8 * last] for first, last in self._spans)
        self._tau_bound = np.where(np.isfinite(robot.limits.tau_max), LIMIT_FACTOR * robot.limits.tau_max, LARGEST_TORQUE)
        tree, most = robot.tree, largest_sane(robot)
        self._most = np.empty_like(most)  # as sent
        self._most[joints.state] = most
        largest = np.concatenate((most[:v], self._tau_bound))
        self._given = self._sent, joints.state, tree.unit_spans, tree.q_index, robot.nq + tree.a, largest

    def read(self, message: StateMessage) -> Measured:
        """Check a state and convert what it says. Raises ProtocolError with the first invalid field."""
        agreement = self._agreement
        if message.rtt_us is not None and not math.isfinite(message.rtt_us):
            raise not_finite("rtt_us", message.rtt_us)
        if message.a_meas is not None:
            vector(message.a_meas, self._robot.nv, "a_meas")  # recorded only
        if message.volt is not None and not math.isfinite(message.volt):
            raise not_finite("volt", message.volt)
        imu = None if message.imu is None else _sane_imu(message.imu)
        measured = self.motion(message.q, message.vel, message.tau_applied)
        measured.imu, measured.voltage = imu, message.volt
        if message.contacts is not None:
            if message.contacts != self._reported[0]:  # switches seldom change
                self._reported = message.contacts, *read_contacts(message.contacts, agreement)
            measured.contacts, measured.sensed_force = self._reported[1:]
        if message.ref is not None:
            measured.reference = _reference(message.ref, agreement)
        if message.tau_meas is not None:
            measured.tau_measured = self._per_motor(message.tau_meas, "tau_meas", bounded=True)
        if message.temp is not None:
            measured.temperature = self._per_motor(message.temp, "temp")
        if message.schedule is not None:
            measured.schedule = _schedule(message.schedule, agreement)
        if message.f_ext is not None:
            measured.applied = external_force(message.f_ext, self._robot, measured.state.q)
        return measured

    def motion(self, q: WireVector, vel: WireVector, tau_applied: WireVector | None = None) -> Measured:
        """Check and convert q, vel and tau_applied. Raises ProtocolError with the first invalid field."""
        values = (q, vel) if tau_applied is None else (q, vel, tau_applied)
        robot, (nq, nqv) = self._robot, self._ends
        try:
            for place, value in zip(self._places, values):  # noqa: B905
                place[:] = value  # type: ignore[assignment]
        except (TypeError, ValueError):  # a list of numbers, or a wrong length
            for part, (first, last) in zip(self._parts(values), self._spans):  # noqa: B905
                self._sent[first:last] = concatenated((part,))
        size, na = nqv if len(values) == 2 else len(self._sent), robot.na
        numbers, angles, speeds = np.empty(size), np.empty(na), np.empty(na)
        found = _convert(self._given, size, (numbers, angles, speeds))
        if found >= 0:
            self._refuse_norm(numbers, *robot.tree.unit_spans[found].tolist())
        if found == BEYOND:
            for (_, _, field), (first, last) in zip(self._parts(values), self._spans):  # noqa: B905
                check_sane(self._sent[first:last], self._most[first:last], field)
        if found == NOT_FINITE:
            refuse_non_finite(concatenated(self._parts(values)), self._parts(values))
        state = State(q=numbers[:nq], v=numbers[nq:nqv])
        if self._joints.base_in_world and not self._spans[0][0]:
            self._joints.base_to_body(state.v, state.q)
        return Measured(
            dt=0.0,
            watchdog=ON_TIME,
            state=state,
            angles=angles if self._one_axis_each else robot.joint_angles(state.q),
            speeds=speeds,
            tau_applied=numbers[nqv:] if size > nqv and found == VALID else None,
            note="" if found == VALID else self._torque_note(numbers[nqv:]),
        )

    def _per_motor(self, values: WireVector, field: str, *, bounded: bool = False) -> Array:
        """Return values per motor in the robot's order (na). bounded: as torques. Raises ProtocolError."""
        sent = vector(values, self._robot.na, field)
        if bounded:
            check_sane(sent, self._most[-len(sent) :], field)
        return self._joints.torques_to_robot(sent)

    def _parts(self, values: tuple[WireVector, ...]) -> Parts:
        sizes = (last - first for first, last in self._spans)
        return tuple(zip(values, sizes, ("q", "vel", "tau_applied")))  # noqa: B905

    def _torque_note(self, tau: Array) -> str:
        """Return why `tau_applied` is ignored."""
        k = int((np.abs(tau) > self._tau_bound).argmax())
        name, most = self._robot.joint_names[k], self._tau_bound[k]
        return f"tau_applied ignored: {tau[k]:g} N·m at {name}, expected at most {most:g}"

    def _refuse_norm(self, q: Array, start: int, end: int) -> NoReturn:
        """Raise ProtocolError for a part of q whose norm is not 1."""
        order, length = "xyzw" if end - start == 4 else "cos, sin", math.sqrt(sum(x * x for x in q[start:end].tolist()))
        raise ProtocolError(Code.QUATERNION_NOT_UNIT, f"q[{start}:{end}]", f"expected length 1 ({order}), got {length:.6g}")


def _reference(ref: wire.Reference, agreement: Agreement) -> Reference:
    """Return the reference of a state message in the robot's order, each (na). Raises ProtocolError."""
    na = agreement.robot.na
    rows = vectors((ref.q, na, "ref.q"), (ref.v, na, "ref.v"), (ref.a, na, "ref.a")).reshape(3, na)
    q, v, a = (agreement.joints.torques_to_robot(row) for row in rows)
    return Reference(q=q, v=v, a=a)


@entry(GIVEN, int, FILLED)
def _convert(given: tuple[Array, ...], size: int, filled: tuple[Array, ...]) -> int:
    """Convert q, v and, if sent, torques (`size` numbers) to the robot's order and normalise quaternions and (cos, sin) pairs.

    given, filled: see `GIVEN`, `FILLED`
    Return the first that applies: NOT_FINITE; BEYOND for q or v; index of the first part whose norm is not 1; TOO_LARGE for
    torques; VALID.
    """
    sent, order, spans, in_q, in_v, largest = given
    numbers, angles, speeds = filled
    # the robot's order
    finite = True
    for i in range(size):
        numbers[i] = sent[order[i]]
        finite = finite and bool(np.isfinite(numbers[i]))
    if not finite:
        return NOT_FINITE
    first = len(order) - len(in_v)
    for i in range(first):
        if abs(numbers[i]) > largest[i]:
            return BEYOND
    # normalise quaternions and (cos, sin) pairs
    for k in range(len(spans)):
        start, end = spans[k]
        square = 0.0
        for i in range(start, end):
            square += numbers[i] * numbers[i]
        length = math.sqrt(square)
        if not abs(length - 1.0) <= QUATERNION_TOLERANCE:
            return k
        for i in range(start, end):
            numbers[i] /= length
    # angles and speeds of the actuated joints, then bounds of the torques
    for k in range(len(in_v)):
        angles[k], speeds[k] = numbers[in_q[k]], numbers[in_v[k]]
    for i in range(first, size):
        if abs(numbers[i]) > largest[i]:
            return TOO_LARGE
    return VALID


def largest_sane(robot: Robot) -> Array:
    """Return the largest |q|, |v| and measured |τ| that are believed, in the robot's order (nq + nv + na).

    Far beyond any motion, which the plausibility check and the alarms judge.
    """
    limits, tree, nq, nqv = robot.limits, robot.tree, robot.nq, robot.nq + robot.nv
    most, one_axis = np.repeat([ANGLE, RATE, LARGEST_TORQUE], [nq, robot.nv, robot.na]), tree.q_index >= 0
    ranges = SANE * np.maximum(np.maximum(np.abs(limits.q_min), np.abs(limits.q_max)), TURN)
    most[tree.q_index[one_axis]] = np.minimum(ranges, ANGLE)[one_axis]
    most[nq + tree.a] = np.minimum(SANE * np.maximum(limits.v_max, SLOW), RATE)
    most[nqv:] = np.where(np.isfinite(limits.tau_max), SANE * limits.tau_max, LARGEST_TORQUE)
    if robot.floating:
        most[:3], most[nq : nq + 3] = FAR, FALL
    return most


def check_sane(values: Array, most: Array, field: str) -> None:
    """Raise ProtocolError for the first number beyond its bound. values, most: (n); field: name of the vector"""
    if (beyond := np.abs(values) > most).any():
        i = int(beyond.argmax())
        raise ProtocolError(Code.BAD_SCHEMA, f"{field}[{i}]", f"expected at most {most[i]:.4g} in size, got {values[i]:g}")


def imu_readings(imu: wire.Imu) -> Array:
    """Return attitude, specific force and rate (10). Raises ProtocolError for a wrong length and for non-finite numbers."""
    numbers = vectors((imu.quat, 4, "imu.quat"), (imu.gyro, 3, "imu.gyro"), (imu.acc, 3, "imu.acc"))
    return np.concatenate((numbers[:4], numbers[7:], numbers[4:7]))


def _sane_imu(imu: wire.Imu) -> Array:
    """Return the readings of an IMU, see `imu_readings`. Raises ProtocolError also for readings beyond their bounds."""
    quat, force, rate = imu.quat, imu.acc, imu.gyro
    if isinstance(quat, bytes) and isinstance(force, bytes) and isinstance(rate, bytes):
        joined = bytearray(quat + force + rate)
        if len(quat) == 32 and len(force) == len(rate) == 24:  # nearly all messages: each norm is finite and within the bound
            numbers = np.frombuffer(joined, FLOAT64)
            w, x, y, z, *rest = numbers.tolist()
            if math.isfinite(w + x + y + z) and math.hypot(*rest[:3]) <= IMPACT and math.hypot(*rest[3:]) <= RATE:
                return numbers
    numbers = imu_readings(imu)
    for field, values, most in ("imu.gyro", numbers[7:], RATE), ("imu.acc", numbers[4:7], IMPACT):
        check_sane(values, np.full(3, most), field)
    return numbers


def _schedule(schedule: list[wire.Stance], agreement: Agreement) -> Schedule:
    """Return which contact places are planned to stand; those that are not listed stand. Raises ProtocolError."""
    keys = agreement.robot.spheres.keys
    stance, time_to_switch = np.ones(len(keys), np.bool_), np.full(len(keys), np.inf)
    for i, each in enumerate(schedule):
        check_contact_frame(agreement.robot, each.frame, f"schedule[{i}].frame")
        if not math.isfinite(each.time_to_switch):
            raise not_finite(f"schedule[{i}].time_to_switch", each.time_to_switch)
        if each.frame in keys:
            k = keys.index(each.frame)
            stance[k], time_to_switch[k] = each.stance, max(each.time_to_switch, 0.0)
    return Schedule(stance=stance, time_to_switch=time_to_switch)


def external_force(force: wire.ExternalForce, robot: Robot, q: Array) -> Array:
    """Return the generalised force of an external force at the configuration q [N, N·m] (nv). Raises ProtocolError."""
    wrench = vector(force.wrench, 6, "f_ext.wrench")
    if (np.abs(wrench) > LARGEST_FORCE).any():
        raise ProtocolError(Code.BAD_SCHEMA, "f_ext.wrench", f"expected at most {LARGEST_FORCE:g}, got {wrench.tolist()}")
    try:
        applied: Array = robot.frames.jacobian(force.frame, q).T @ wrench
    except FrameNotFound as error:
        raise ProtocolError(Code.BAD_SCHEMA, "f_ext.frame", str(error)) from error
    return applied
