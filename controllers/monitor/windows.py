"""Kernel of the alarms: measures of states and torques, and how long each exceeds its limit. All sums decay as s ← s (1 −
dt/τ): a leaky integral needs one number where a window of ticks needs a buffer."""

import math

import numpy as np

from controllers.monitor.reality import Expectations, compare
from controllers.monitor.safety import WITHIN, Last, fault_of
from idyn.library.kernels import compiled, entry
from idyn.library.records import ArrayRecord, Matrix, Vector
from idyn.solvers.linalg import copy, fill
from idyn.types import Array


class JointMemory(ArrayRecord):
    """Memory of the actuated joints; each array (na)."""

    angle: Vector  # measured last [rad]
    speed: Vector  # measured last [rad/s]
    drift: Vector  # ∫ (q̇ − v) dt [rad]
    still: Vector  # time for which the angle has not changed [s]
    start: Vector  # reference when it stopped changing [rad]
    start_asked: Vector  # torque asked then [N·m]
    base_start: Vector  # reference when the pose of the base stopped changing [rad]
    reference: Vector  # last one [rad]
    moved: Vector  # its motion in `WINDOW` [rad]
    asked: Vector  # Σ τ_asked² in `MOTOR_WINDOW` [(N·m)²]
    given: Vector  # Σ τ_asked τ_applied in `MOTOR_WINDOW` [(N·m)²]
    last_asked: Vector  # torque of the tick before [N·m]
    extreme: Vector  # last extreme of the torque [N·m]
    direction: Vector  # sign of its last swing
    swings: Vector  # their number in `WINDOW`
    rate: Vector  # mean |dτ/dt| in `WINDOW` [N·m/s]
    full: Vector  # share of `WINDOW` at the torque limit

    def __init__(self, na: int) -> None:
        self.put(**{name: np.zeros(na) for name in self.FIELDS})


class BaseMemory(ArrayRecord):
    """Memory of a floating base."""

    pose: Vector  # measured last (7)
    velocity: Vector  # measured last (6)
    motion: Vector  # ∫ (ṗ − R v) dt (3)
    turned: Vector  # ∫ (rate of the attitude − ω) dt (3)
    unmoved: Vector  # time for which the pose has not changed [s] (1)

    def __init__(self) -> None:
        self.put(pose=np.zeros(7), velocity=np.zeros(6), motion=np.zeros(3), turned=np.zeros(3), unmoved=np.zeros(1))


class AlarmState(ArrayRecord):
    """Limits and state of all measures."""

    memory: JointMemory  # of the joints
    base: BaseMemory  # of the base
    ring: Matrix  # torques asked in the last ticks [N·m] (ticks, na)
    values: Vector  # of the measures, in their order
    joints: Vector  # those of the largest values
    above: Vector  # times above the threshold [s], −1: below
    thresholds: Vector  # of the measures, in their order
    after: Vector  # time above a threshold until the mode is degraded [s]
    stop: Vector  # until the robot stops [s]
    tau_max: Vector  # torque limits [N·m] (na)
    feet: Matrix  # of the stance: joint, centre in its frame [m], radius [m] (n, 5)
    tall: float  # height of the base over the lowest foot in the stance [m]
    size: float  # of the robot, see `AlarmSettings.sunk` [m]
    moving: float  # threshold of the roughness while the reference moves
    max_gap: float  # longest time between states that are compared [s]
    lost_after: float  # beyond this time states were lost [s]
    floating: bool  # whether the base is free
    tick: int  # number of states since `reset`
    lay: bool  # whether the reference lay, and the robot has not risen since

    def __init__(self, limits: tuple[Array, Array, Array], moving: float, tau_max: Array, ticks: int) -> None:
        """limits: (thresholds, after, stop); ticks: length of the ring. Without feet, until they are put"""
        (thresholds, after, stop), na = limits, len(tau_max)
        self.put(thresholds=thresholds, after=after, stop=stop, moving=moving, tau_max=np.array(tau_max, dtype=np.float64))
        self.put(memory=JointMemory(na), base=BaseMemory(), ring=np.zeros((ticks, na)), tick=0)
        self.put(feet=np.zeros((0, 5)), tall=0.0, size=1.0, lay=False)
        self.put(**{name: np.zeros(len(thresholds)) for name in ("values", "joints", "above")})

    def reset(self) -> None:
        memories = [*self.memory.own.values(), *self.base.own.values()]
        for each in (*memories, self.ring, self.values, self.joints, self.above):
            each.fill(0.0)
        self.put(tick=0, lay=False)


JOINT_DRIFT, BASE_DRIFT, ATTITUDE_DRIFT, JOINT_FROZEN, JOINT_RIGID, BASE_FROZEN, MOTOR, SATURATION, ROUGHNESS, REALITY = range(
    10
)
SUNK = REALITY + 1  # measures, in the order of `controllers.monitor.alarms.ALARMS`
WINDOW, DRIFT_WINDOW, MOTOR_WINDOW = 0.2, 2.0, 0.03  # time constants [s] of roughness and saturation, drifts, motors
FROZEN = 0.015  # a value that stays the same for this long is frozen, if it should have changed [s]
RIGID = 0.05  # the same for angles whose torque changes while the references of other joints move [s]

SWING, LOADED, FULL_SHARE = 0.07, 0.05, 0.999
"""Shares of a joint's torque limit: smallest swing; smallest root mean square of asked torques by which motors are judged; the
limit."""

STANDS = 1e-3  # the reference stands while that of no joint moves by more than this in `WINDOW` [rad]

Arrays = tuple[Array, ...]


class Watched(ArrayRecord):
    """What is known of a robot before a state."""

    last: Last
    expected: Expectations
    alarms: AlarmState


MEASURED = (*[Vector] * 6, Matrix, Matrix)  # type of the argument `measured` of `judge`


@entry(Watched, float, (int, int), (bool, bool, bool, bool), MEASURED)
def judge(
    watched: Watched, dt: float, ages: tuple[int, int], are: tuple[bool, bool, bool, bool], measured: Arrays
) -> tuple[int, int, float, bool, float, float, bool, int]:
    """Update all memory. Return the results of `fault_of` and, without a fault, of `compare`, whether the mismatch is degraded
    and the result of `watch`.

    dt: time since the last state [s]; ages: see `compare` and `watch`
    are: whether the emergency stop is engaged, forces are sensed, there is a reference, and it is that of a lying robot
    measured: q, v, angles of the actuated joints (na, or 0: from q) and their reference [rad] (na), torque asked in the last
        tick [N·m] (na), torque applied since then [N·m] (na or 0: unknown), sensed contact forces [N] (n, 3), placements, see
        `Kinematics`
    """
    (q, v, angles, reference, asked, applied, sensed, placements), last = measured, watched.last
    (stopped, senses, follows, lies), (age, lag), expected, alarm = are, ages, watched.expected, -1
    why, joint, value = fault_of(last, q, v, dt)
    copy(angles, last.angles[: len(angles)])
    if why != WITHIN or stopped:
        return why, joint, value, False, 0.0, 0.0, False, alarm
    compared, motion, force = compare(expected, (q, v, sensed), dt, age, senses)
    if follows:
        seen = q, v, last.angles, last.speeds, reference, asked, applied, placements
        alarm = watch(watched.alarms, dt, lag, expected.degraded, lies, seen)
    else:
        watched.alarms.tick = 0
    return why, joint, value, compared, motion, force, expected.degraded, alarm


@compiled
def watch(alarms: AlarmState, dt: float, lag: int, mismatch: bool, lies: bool, measured: Arrays) -> int:
    """Update all measures. Return 2k for the first alarm k that makes the mode degraded, 2k + 1 for the first that stops; −1.

    dt: time since the last state [s]; lag: age of the torque that acted [ticks], −1: that of the most similar torque
    mismatch: whether the mismatch monitor is degraded; lies: whether the reference is that of a lying robot
    measured: as of `judge`, with the speeds of the actuated joints
    """
    q, v, angles, speeds, reference, asked, applied, placements = measured
    memory, ring, base, values, found = alarms.memory, alarms.ring, alarms.base, alarms.values, (alarms.values, alarms.joints)
    fill(values, 0.0)
    values[REALITY] = 1.0 if mismatch else 0.0
    values[SUNK] = _sunk(alarms, q, placements, lies)
    # torque that acted
    own = ring[alarms.tick % len(ring)]
    copy(asked, own)
    acted = ring[(alarms.tick - lag) % len(ring)]
    if lag < 0 and len(applied):
        acted = ring[((ring - applied) ** 2).sum(axis=1).argmin()]
    # measures; after a gap they begin anew
    if 0.0 < dt <= alarms.max_gap and alarms.tick > 0:
        lost = dt > alarms.lost_after
        _joints(angles, speeds, reference, memory, found, (dt, lost))
        _rigid(asked, alarms.tau_max, memory, found)
        _torques(asked, acted, applied, alarms.tau_max, memory, found, dt)
        if alarms.floating:
            _base(q, v, base, memory, reference, found, (dt, lost))
    else:
        for j in range(len(angles)):
            memory.extreme[j] = memory.last_asked[j] = memory.start_asked[j] = asked[j]
            memory.start[j] = memory.base_start[j] = reference[j]
    # remember this state
    for j in range(len(angles)):
        memory.angle[j], memory.speed[j], memory.reference[j] = angles[j], speeds[j], reference[j]
    if alarms.floating:
        copy(q, base.pose)
        copy(v, base.velocity)
    alarms.tick += 1
    return _first(alarms, dt)


@compiled
def _sunk(alarms: AlarmState, q: Array, placements: Array, lies: bool) -> float:
    """Return by how much the base is too low over the lowest foot, as a share of the robot's size; 0 for one that may lie."""
    feet, lowest = alarms.feet, math.inf
    for i in range(len(feet)):
        at = placements[int(feet[i, 0])]  # z of R c + p, R by columns
        lowest = min(lowest, at[2] * feet[i, 1] + at[5] * feet[i, 2] + at[8] * feet[i, 3] + at[11] - feet[i, 4])
    if lowest == math.inf:
        return 0.0
    sunk = (alarms.tall - (q[2] - lowest)) / alarms.size
    if lies:
        alarms.lay = True
    elif sunk < 0.5 * alarms.thresholds[SUNK]:
        alarms.lay = False
    return 0.0 if alarms.lay else sunk


@compiled
def _first(alarms: AlarmState, dt: float) -> int:
    """Update how long each measure has exceeded its threshold. Return the first alarm, as `watch` does.

    Damping drops a robot that stands. While its feet carry it, rough torques do not stop it, nor a mismatch with them.
    """
    values, above, moves, first = alarms.values, alarms.above, _moves(alarms.memory), -1
    carried = len(alarms.feet) > 0 and not (moves or alarms.lay or values[SUNK] > alarms.thresholds[SUNK])
    spared = carried and values[ROUGHNESS] > alarms.thresholds[ROUGHNESS]
    for k in range(len(values)):
        most = alarms.moving if moves and k == ROUGHNESS else alarms.thresholds[k]
        if not values[k] > most:
            above[k] = -1.0
            continue
        above[k] = 0.0 if above[k] < 0.0 else above[k] + dt
        if above[k] >= alarms.stop[k] and not (spared and k in (ROUGHNESS, REALITY)):
            return 2 * k + 1
        if first < 0 and above[k] >= alarms.after[k]:
            first = 2 * k
    return first


@compiled
def _moves(memory: JointMemory) -> bool:
    """Return whether a reference moves."""
    found = False
    for j in range(len(memory.moved)):
        found = found or memory.moved[j] > STANDS
    return found


@compiled
def _beyond(error: float, change: float, since: tuple[float, bool]) -> float:
    """Return the part of an error Δx − ½ (v + v⁻) dt that a loss of states does not explain: between them the speed may have
    been any from v⁻ to v.

    change: v − v⁻; since: (dt [s], whether states were lost)
    """
    dt, lost = since
    return math.copysign(max(abs(error) - 0.5 * abs(change) * dt, 0.0), error) if lost else error


@compiled
def _joints(
    angles: Array, speeds: Array, reference: Array, memory: JointMemory, found: Arrays, since: tuple[float, bool]
) -> None:
    """Update drift and frozen angles of the joints. found: (values, joints); since: see `_beyond`"""
    (values, joints), dt = found, since[0]
    keep, forget = 1.0 - dt / DRIFT_WINDOW, 1.0 - dt / WINDOW
    for j in range(len(angles)):
        # e ← e (1 − dt/τ) + (q − q⁻) − ½ (v + v⁻) dt, with turns of 2π removed
        step = angles[j] - memory.angle[j]
        step -= 2.0 * math.pi * math.floor(step / (2.0 * math.pi) + 0.5)
        error = step - 0.5 * (speeds[j] + memory.speed[j]) * dt
        drift = memory.drift[j] * keep + _beyond(error, speeds[j] - memory.speed[j], since)
        memory.drift[j] = drift
        _largest(abs(drift), j, JOINT_DRIFT, values, joints)
        # motion of the reference since the angle last changed
        if step != 0.0:
            memory.still[j], memory.start[j] = 0.0, reference[j]
        else:
            memory.still[j] += dt
        if memory.still[j] >= FROZEN:
            _largest(abs(reference[j] - memory.start[j]), j, JOINT_FROZEN, values, joints)
        memory.moved[j] = memory.moved[j] * forget + abs(reference[j] - memory.reference[j])


@compiled
def _rigid(asked: Array, tau_max: Array, memory: JointMemory, found: Arrays) -> None:
    """Find angles that have not changed while their torque did and a reference moved. found: (values, joints)"""
    values, joints = found
    moves = _moves(memory)
    for j in range(len(asked)):
        if memory.still[j] == 0.0:
            memory.start_asked[j] = asked[j]
        elif moves and memory.still[j] >= RIGID:
            _largest(abs(asked[j] - memory.start_asked[j]) / tau_max[j], j, JOINT_RIGID, values, joints)


@compiled
def _torques(asked: Array, acted: Array, applied: Array, tau_max: Array, memory: JointMemory, found: Arrays, dt: float) -> None:
    """Update the motors' share, saturation and roughness. found: (values, joints)

    asked: in the last tick, acted: the torque that acted since the last state, both before the drives [N·m] (na)
    """
    values, joints = found
    keep, forget = max(1.0 - dt / MOTOR_WINDOW, 0.0), 1.0 - dt / WINDOW
    swings = 0.0
    for j in range(len(asked)):
        if len(applied):
            memory.asked[j] = memory.asked[j] * keep + acted[j] * acted[j] * dt
            memory.given[j] = memory.given[j] * keep + acted[j] * applied[j] * dt
            least = LOADED * min(tau_max[j], 1e4)
            if memory.asked[j] > least * least * MOTOR_WINDOW:
                _largest(abs(1.0 - memory.given[j] / memory.asked[j]), j, MOTOR, values, joints)
        full = 1.0 if abs(asked[j]) >= FULL_SHARE * tau_max[j] else 0.0
        memory.full[j] += (full - memory.full[j]) * dt / WINDOW
        _largest(memory.full[j], j, SATURATION, values, joints)
        # a swing: the torque has turned by SWING since its last extreme
        back = asked[j] - memory.extreme[j]
        memory.swings[j] *= forget
        if memory.direction[j] * back >= 0.0:
            memory.extreme[j] = asked[j]
            if memory.direction[j] == 0.0:
                memory.direction[j] = 1.0
        elif abs(back) > SWING * tau_max[j]:
            memory.extreme[j] = asked[j]
            memory.direction[j] = -memory.direction[j]
            memory.swings[j] += 1.0
        swings += memory.swings[j]
        rate = abs(asked[j] - memory.last_asked[j]) / dt
        memory.last_asked[j] = asked[j]
        memory.rate[j] += (rate - memory.rate[j]) * dt / WINDOW
    values[ROUGHNESS] = swings / max(len(asked), 1)


@compiled
def _base(
    q: Array, v: Array, base: BaseMemory, memory: JointMemory, reference: Array, found: Arrays, since: tuple[float, bool]
) -> None:
    """Update drift and frozen pose of a floating base. found: (values, joints); since: see `_beyond`

    Linear velocity in body axes, R v̄ is taken at the present attitude
    """
    (values, joints), dt = found, since[0]
    keep = 1.0 - dt / DRIFT_WINDOW
    x, y, z, w = q[3], q[4], q[5], q[6]
    mean = (0.5 * (v[0] + base.velocity[0]) * dt, 0.5 * (v[1] + base.velocity[1]) * dt, 0.5 * (v[2] + base.velocity[2]) * dt)
    # R u = u + 2 (w (a × u) + a × (a × u)), a = (x, y, z)
    cross = y * mean[2] - z * mean[1], z * mean[0] - x * mean[2], x * mean[1] - y * mean[0]
    moved = (
        mean[0] + 2.0 * (w * cross[0] + y * cross[2] - z * cross[1]),
        mean[1] + 2.0 * (w * cross[1] + z * cross[0] - x * cross[2]),
        mean[2] + 2.0 * (w * cross[2] + x * cross[1] - y * cross[0]),
    )
    # small rotation Q⁻* Q ≈ (½ φ, 1)
    a, b, c, d = base.pose[3], base.pose[4], base.pose[5], base.pose[6]
    sign = 2.0 if a * x + b * y + c * z + d * w >= 0.0 else -2.0
    turned = (
        sign * (d * x - a * w - b * z + c * y),
        sign * (d * y - b * w - c * x + a * z),
        sign * (d * z - c * w - a * y + b * x),
    )
    motion = rotation = linear = 0.0
    same = True
    for i in range(3):
        linear += (v[i] - base.velocity[i]) ** 2
    for i in range(3):
        error = q[i] - base.pose[i] - moved[i]
        base.motion[i] = base.motion[i] * keep + _beyond(error, math.sqrt(linear), since)
        error = turned[i] - 0.5 * (v[3 + i] + base.velocity[3 + i]) * dt
        base.turned[i] = base.turned[i] * keep + _beyond(error, v[3 + i] - base.velocity[3 + i], since)
        motion += base.motion[i] ** 2
        rotation += base.turned[i] ** 2
    for i in range(7):
        same = same and q[i] == base.pose[i]
    values[BASE_DRIFT], values[ATTITUDE_DRIFT] = math.sqrt(motion), math.sqrt(rotation)
    # motion of the references since the pose last changed
    base.unmoved[0] = base.unmoved[0] + dt if same else 0.0
    for j in range(len(reference)):
        if not same:
            memory.base_start[j] = reference[j]
        elif base.unmoved[0] >= FROZEN:
            _largest(abs(reference[j] - memory.base_start[j]), j, BASE_FROZEN, values, joints)


@compiled
def _largest(value: float, j: int, measure: int, values: Array, joints: Array) -> None:
    """Keep the largest value of a measure and its joint."""
    if value > values[measure]:
        values[measure], joints[measure] = value, j
