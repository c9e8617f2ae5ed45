"""Gait of two legs: tasks of the swinging foot, the centre of mass, the trunk and the posture  [Englsberger].

Each tick
1. phases and footsteps of the commanded velocity                            `controllers.planners.two_legs.steps`
2. planned centre of pressure p_ref and DCM ξ_ref; landing place from the measured DCM ξ
3. centre of pressure p = p_ref + (1 + k/ω) (ξ − ξ_ref), inside the soles    `controllers.planners.two_legs.feet`
4. tasks: acceleration ω² (c − p) of the centre of mass, its height, pose of the swinging foot, attitude of the base, load of
   the feet, posture with swinging arms (`.tasks`, `.arms`); with commanded ones (`.beside`). The contact law decides what
   forces realise them

Forces f on other limbs at points x, such as a hand on a wall, move the balance: without angular momentum about c,
c̈ = ω² (c + b − p), b = Σ (z f − (x − c) f_z)/W, z: height of a point above the ground, W: weight. With b of the forces that
commanded tasks ask for, as last predicted, 2 to 4 are those of c + b instead of c: the robot leans on the hand, and its soles
carry as without it. Other forces do not count: a robot that leans on a limb needs its force, and would go on leaning.

Point feet are soles of size zero: p rests on the standing foot, landing places alone correct ξ, and no task asks for the motion
of the centre of mass in the plane. Edges, soles without width as of legs with five joints, are points to the side: on one of
them a task asks for p, on both for the motion of the centre of mass.
"""

from typing import ClassVar

import numpy as np

from controllers.command import Reference, Schedule, Steering
from controllers.contact.ground import Known
from controllers.planners.trajectory import MotionSettings, Trajectory, smooth_step
from controllers.planners.two_legs.arms import arm_swing
from controllers.planners.two_legs.beside import check_beside, legs_of
from controllers.planners.two_legs.feet import (
    Feet,
    along,
    feet_of,
    fill_corners,
    heading,
    measure,
    nearest_inside,
    point,
    pose_of,
    put,
)
from controllers.planners.two_legs.knees import bent_knees
from controllers.planners.two_legs.reach import followed, keeps_reserve, sharpest_turn
from controllers.planners.two_legs.settings import BalanceSettings, StepSettings
from controllers.planners.two_legs.steps import (
    NONE,
    SIDES,
    Steps,
    Velocity,
    advance,
    reference,
    stand,
)
from controllers.planners.two_legs.tasks import Choice, GaitTasks, Targets, write_targets
from idyn.errors import ConfigError, InputError
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import ArrayRecord, Flags, Indices, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.solvers.linalg import copy, copy_rows, fill
from idyn.tasks import ForceTask, TaskStack
from idyn.tasks.centre import centroid
from idyn.types import Array, ContactSet, Kinematics, State

Command = tuple[float, float, float, float]

TICK = 0.01  # step of integration of the commands [s]
ANKLE = 0.8  # share of the way to the edge of a sole up to which the centre of pressure corrects without the steps
TOUCHES = 5e-4  # largest gap of a contact place that touches [m]
FOLLOWS = 0.05  # time constant with which the balance follows forces on other limbs [s]

RISING, AWAY = 0.3, 0.1  # mean speed of the joints from a first posture to the stance [rad/s]; from this distance on [rad]
LOWERS = 0.1  # mean speed at which the centre of mass goes to its height [m/s]
STILL = 0.0, 0.0, 0.0  # velocity of a robot that stands


class Gait(ArrayRecord):
    """State of a robot that walks on two legs, and what it does not change."""

    feet: Feet
    steps: Steps
    targets: Targets
    velocity: Vector  # within its largest change: forward, left [m/s], turn [rad/s] (3)
    pushed: Vector  # b, see above, of the last prediction [m] (2)
    lean: Vector  # b that the balance uses, which follows it within `FOLLOWS` [m] (2)
    touching: Flags  # which contact places touch (n)
    stance: Vector  # angles of the joints [rad] (na)
    first: Vector  # at the first tick [rad] (na)
    legs: Flags  # which joints move feet (na)
    arms: Vector  # angle per distance of the left foot ahead of the right one, see `arm_swing` [rad/m] (na)
    t: float  # of the last tick [s]
    ready: float  # when the robot has gone from the first posture to the stance [s]
    above: float  # height of the centre of mass then above that of its task [m]
    begun: bool  # whether there was a tick
    rises: bool  # whether the joints still go to the stance
    acceleration: float  # largest change of the velocity [m/s², rad/s²]
    gain: float  # see `BalanceSettings`
    margin: float
    lever: float  # mass of the robot times height of the centre of mass [kg·m]


MEASURED, CONTACTS = (Matrix, Vector, Vector), (Indices, Vector)


@entry(Gait, float, (float,) * 3, MEASURED, CONTACTS, written(Matrix))
def follow(
    gait: Gait, t: float, wanted: tuple[float, ...], measured: tuple[Array, ...], contacts: tuple[Array, Array], motion: Array
) -> tuple[int, ...]:
    """Update the gait to time t [s], write the targets of its tasks, and return the choice among them, but for `touching`.

    wanted: velocity; measured: (placements of the joints (njoints, 12); centre of mass [m], its velocity [m/s], angular
        momentum about it [kg·m²/s] (9); angles of the joints (na))
    contacts: (their places (n), gaps [m] (n)); motion: angles of the joints, speeds and accelerations (3, na)
    """
    (placements, mass, angles), steps, balance = measured, gait.steps, gait.targets
    dt, gait.t = t - gait.t, t
    near = _touches(gait, contacts)
    measure(gait.feet, placements, steps.measured)
    lean = point(gait.lean)
    put(lean + min(dt / FOLLOWS, 1.0) * (point(gait.pushed) - lean), gait.lean)
    over, speed = point(mass) + point(gait.lean), complex(mass[3], mass[4])
    if not balance.flat or balance.edges:
        # points and edges: a pendulum with the robot's angular momentum about the ground, which swinging legs do not change
        speed += complex(mass[7], -mass[6]) * (1.0 / gait.lever)
    dcm = over + speed * (1.0 / steps.omega)
    velocity = _velocity(gait, wanted if t >= gait.ready else STILL, gait.acceleration * dt)
    if not gait.begun:
        _start(gait, t, angles, over)
    elif steps.standing:
        copy_rows(steps.measured, steps.planted)  # estimates of a base drift
    if gait.rises and t >= gait.ready:
        gait.above, gait.ready, gait.rises = mass[2] - balance.height, t, False
    outside, corners = 0j, stack_array(8, np.complex128)
    if (steps.standing or (steps.stops and steps.swinging == NONE)) and near[0] and near[1] and not gait.rises:
        outside = dcm - nearest_inside(dcm, corners[: _support(gait, near, corners)])
    foot = steps.swinging
    advance(steps, t, velocity, foot != NONE and near[foot], outside)
    p, planned = reference(steps, t, Velocity(velocity.plane + point(steps.correction), velocity.turn), dcm)
    steps.error = abs(dcm - planned)
    p = nearest_inside(p + (1.0 + gait.gain / steps.omega) * (dcm - planned), corners[: _support(gait, near, corners)])
    above = _move(gait, t, angles, motion)
    _swing_arms(gait, t, motion)
    push = (over - p) * (steps.omega * steps.omega)
    turns, centre, pressed, loaded = write_targets(balance, gait.feet, steps, near, push, p, above)
    return steps.swinging, turns, centre, pressed, loaded, int(gait.rises)


@compiled
def _velocity(gait: Gait, wanted: tuple[float, ...], most: float) -> Velocity:
    """Move the velocity, each part by at most `most`, to what is followed of the wanted one, and return it. Where its parts on
    their own would leave the reserve of the steps, they arrive together; what keeps it is not convex: some percent beyond."""
    aim, share = followed(gait.steps, Velocity(complex(wanted[0], wanted[1]), wanted[2])), 1.0
    ways, parts = stack_array(3), stack_array(3)
    put(aim.plane, ways)
    ways[2] = aim.turn
    for k in range(3):
        ways[k] -= gait.velocity[k]
        parts[k] = gait.velocity[k] + min(max(ways[k], -most), most)
        if abs(ways[k]) > most:
            share = min(share, most / abs(ways[k]))
    apart = keeps_reserve(gait.steps, Velocity(point(parts), parts[2]))
    for k in range(3):
        gait.velocity[k] = parts[k] if apart else gait.velocity[k] + share * ways[k]
    return Velocity(point(gait.velocity), gait.velocity[2])


@compiled
def _touches(gait: Gait, contacts: tuple[Array, Array]) -> tuple[bool, bool]:
    """Find which contact places touch. Return whether the feet do."""
    (places, gaps), left, right = contacts, False, False
    fill(gait.touching, False)
    for i in range(len(places)):
        if places[i] >= 0 and gaps[i] <= TOUCHES:
            gait.touching[places[i]] = True
            left, right = left or gait.feet.sides[places[i]] == 0, right or gait.feet.sides[places[i]] == 1
    return left, right


@compiled
def _start(gait: Gait, t: float, angles: Array, over: complex) -> None:
    """Begin at the first tick: the joints go to the stance. over: centre of mass in the plane [m]"""
    away = 0.0
    for j in range(len(angles)):
        if gait.legs[j]:
            away = max(away, abs(gait.stance[j] - angles[j]))
    copy(angles, gait.first)
    stand(gait.steps, over)
    gait.ready, gait.begun = t + away / RISING if away > AWAY else t, True


@compiled
def _support(gait: Gait, near: tuple[bool, bool], corners: Array) -> int:
    """Fill the corners of the soles that carry the robot, and return their number. near: whether the feet touch"""
    steps, count = gait.steps, 0
    carries = near[0] and steps.swinging != 0, near[1] and steps.swinging != 1
    for side in range(2):
        if carries[side] or (not (carries[0] or carries[1]) and steps.swinging != side):
            fill_corners(gait.feet.halves[side], pose_of(steps.planted[side]), gait.margin, corners[count : count + 4])
            count += 4
    return count


@compiled
def _move(gait: Gait, t: float, angles: Array, motion: Array) -> tuple[float, float, float]:
    """Fill the motion of the posture (3, na). Return how much higher the centre of mass shall be [m], with its derivatives.

    Straight knees cannot follow a height: first all joints go to the stance.
    """
    since, lasts = (t, gait.ready) if gait.rises else (t - gait.ready, max(abs(gait.above) / LOWERS, 1e-3))
    share, rate, change = smooth_step(since, lasts)
    for j in range(len(angles)):
        way = gait.stance[j] - gait.first[j]
        motion[0, j], motion[1, j], motion[2, j] = angles[j] if gait.legs[j] else gait.stance[j], 0.0, 0.0
        if gait.rises:
            motion[0, j], motion[1, j], motion[2, j] = gait.first[j] + share * way, rate * way, change * way
    return (1.0 - share) * gait.above, -rate * gait.above, -change * gait.above


@compiled
def _swing_arms(gait: Gait, t: float, motion: Array) -> None:
    """Add the swing of the arms to angles and speeds of the posture (3, na). Accelerations of a foot whose goal moves with a
    noisy state would shake the arms."""
    steps, ahead, speed, turn = gait.steps, 0j, 0j, 0j
    for side in range(2):
        if steps.swinging == side:
            ahead += SIDES[side] * point(steps.swing.x)
            speed = SIDES[side] * point(steps.swing.v)
            turn += heading(steps.swing.x[3])
        else:
            ahead += SIDES[side] * pose_of(steps.planted[side]).place
            turn += heading(steps.planted[side, 3])
    turn = turn * (1.0 / max(abs(turn), 1e-9))
    share = smooth_step(t, gait.ready)[0] if gait.rises else 1.0
    for j in range(len(gait.arms)):
        motion[0, j] += share * gait.arms[j] * along(turn, ahead).real
        motion[1, j] += share * gait.arms[j] * along(turn, speed).real


class TwoLegs(Trajectory):
    """Walks on two legs. Stores the phase of the gait."""

    def __init__(self, robot: Robot, stance: Array, settings: "TwoLegsSettings") -> None:
        """stance: level configuration (nq). Raises ConfigError for other robots."""
        self._robot, self._settings, self._stance, self._gait = robot, settings, stance, Gait()
        feet = feet_of(robot, stance)
        found, balance = Feet(robot, feet), settings.balance
        left, right = map(pose_of, found.measured(robot.terms(stance, np.zeros(robot.nv)).placements))
        width = settings.step.width or (left.place - right.place).imag
        ground = 0.5 * (left.height + right.height)
        height = float(robot.center_of_mass(stance)[2]) - ground - balance.lower
        if not height > 0.0:
            raise ConfigError("reference.balance.lower", "expected less than the height of the centre of mass")
        omega = float(np.sqrt(robot.weight / (robot.total_mass * height)))
        self._walks = not any(foot.edge and foot.along for foot in feet)
        if (settings.commands or settings.march) and not self._walks:
            raise ConfigError("reference.commands", "expected none: on soles without length the robot does not walk")
        half = zip(*(foot.half for foot in feet), strict=True)
        length, side = (max(ANKLE * (min(each) - balance.margin), 0.0) for each in half)
        targets = Targets(robot, feet, ground + height)
        stands, sharpest = targets.flat and not settings.march, sharpest_turn(robot, stance, feet)
        steps = Steps(settings.step, width, sharpest, omega, stands, complex(length, side))
        for k, (_, *asked) in enumerate(settings.commands):
            if not np.isfinite(asked).all():
                raise ConfigError(f"reference.commands[{k}]", f"expected finite numbers, got {asked}")
            most = followed(steps, Velocity(complex(*asked[:2]), asked[2]))
            shares = [x / y for x, y in zip((most.plane.real, most.plane.imag, most.turn), asked, strict=True) if y]
            if (share := min(shares, default=1.0)) != 1.0:
                least = f"a velocity whose steps keep a reserve, such as {int(100 * share)} % of this one"
                raise ConfigError(f"reference.commands[{k}]", f"expected {least}, got {asked}")
        gait, na, places = self._gait, robot.na, len(robot.spheres.keys)
        gait.put(feet=found, steps=steps, targets=targets, velocity=np.zeros(3), touching=np.zeros(places, np.bool_))
        gait.put(stance=robot.joint_angles(stance), first=np.zeros(na), legs=legs_of(robot, stance), pushed=np.zeros(2))
        gait.put(arms=arm_swing(robot, stance, feet, settings.step.longest))
        gait.put(lean=np.zeros(2), lever=robot.total_mass * height)
        gait.put(acceleration=settings.step.acceleration, gain=balance.gain, margin=balance.margin)
        knees = bent_knees(robot, stance, feet)
        self._tasks, self._centroid = GaitTasks(robot, feet, targets, omega, knees), np.zeros(9)
        self._ground, self._limbs, self._always = ground, found.sides < 0, np.full(places, np.inf)
        self.reset()

    def reset(self) -> None:
        gait, robot = self._gait, self._robot
        self._commanded: tuple[float, ...] | None = None
        gait.velocity[:] = gait.pushed[:] = gait.lean[:] = 0.0
        gait.put(t=0.0, ready=0.0, above=0.0, begun=False, rises=True)
        gait.steps.measured[:] = gait.feet.measured(robot.terms(self._stance, np.zeros(robot.nv)).placements)
        stand(gait.steps, 0j)

    def check(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        if steering.gait is not None:
            raise InputError("gait", "the gait of two legs has no other patterns")
        if steering.posed:
            raise InputError("height" if steering.height is not None else "attitude", "the gait of two legs keeps its own")
        if steering.velocity is not None and not np.isfinite(steering.velocity).all():
            raise InputError("velocity", "expected finite numbers")
        if steering.velocity is not None and np.any(steering.velocity) and not self._walks:
            raise InputError("velocity", "expected zero: on soles without length it stands and does not walk")
        check_beside(self._robot, self._gait.legs, tasks or TaskStack())

    def steer(self, steering: Steering) -> None:
        """A velocity is followed as far as its steps keep a reserve, see `controllers.planners.two_legs.reach.followed`."""
        if steering.velocity is not None:
            self._commanded = tuple(np.array(steering.velocity, np.float64).tolist())

    def _wanted(self, t: float) -> tuple[float, ...]:
        """Return the commanded velocity at time t [s]: forward, left [m/s], turn [rad/s]."""
        if t < self._settings.start:
            return STILL
        if self._commanded is not None:
            return self._commanded
        ends = self._settings.start
        for lasts, *velocity in self._settings.commands:
            ends += lasts
            if t < ends:
                return tuple(velocity)
        return STILL

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference and its tasks at time t [s], which must not decrease, for the measured state and contacts.

        Raises InputError for gaps of another number than the contacts.
        """
        robot, gait, motion = self._robot, self._gait, np.empty((3, self._robot.na))
        at = robot.kinematics(state)
        measured = at.placements, self._mass(at), robot.joint_angles(at.q)
        places = robot.spheres.rows(contacts.keys), np.ascontiguousarray(contacts.gaps, np.float64)
        if len(places[0]) != len(places[1]):
            raise InputError("contacts.gaps", f"expected {len(places[0])} numbers, one per key, got {len(places[1])}")
        swinging, *chosen = follow(gait, t, self._wanted(t), measured, places, motion)
        tasks = self._tasks.stack(Choice(swinging, gait.touching.tobytes(), *chosen))
        q, v, a = motion
        stands = np.where(self._limbs, gait.touching, gait.feet.sides != swinging)
        schedule = Schedule(stance=stands, time_to_switch=self._always)
        return Reference(q=q, v=v, a=a, schedule=schedule, base=gait.velocity.copy(), tasks=tasks)

    def expect(self, contacts: ContactSet, force: Array, asked: TaskStack | None) -> None:
        whole: dict[str, bool] = {}  # of the contacts of tasks that are not left out, whether the whole force is asked for
        for task in asked.tasks if asked is not None else ():
            if isinstance(task, ForceTask) and all(key in contacts.keys for key in task.contact_keys()):
                whole |= {key: whole.get(key, False) or task.normal is None for key in task.contact_keys()}
        self._gait.pushed[:] = 0.0
        for i, key in enumerate(contacts.keys if whole else ()):
            if key in whole:
                n, arm = contacts.normals[i], contacts.points[i] - [*self._centroid[:2], self._ground]
                f = force[i] if whole[key] else (force[i] @ n) * n
                self._gait.pushed += (arm[2] * f[:2] - f[2] * arm[:2]) / self._robot.weight

    def _mass(self, at: Kinematics) -> Array:
        """Return centre of mass, its velocity, and the angular momentum about it (9)."""
        robot, out = self._robot, self._centroid
        if robot.weighs_base:
            centroid(at.M.T, at.v, at.placements[1], out)
        else:
            com = robot.frames.centroidal(at.q, at.v)
            out[:3], out[3:6], out[6:] = com.position, com.velocity, com.angular
        return out


class TwoLegsSettings(MotionSettings, frozen=True, tag="two-legs"):
    """Steps of a robot on two legs, with soles or point feet. A commanded velocity replaces `commands`."""

    # velocities one after another, then the robot stops: duration [s], forward, left [m/s], turn [rad/s] (n, 4)
    commands: tuple[Command, ...] = ()
    march: bool = False  # whether the robot steps in place where it could stand. Point feet always step
    step: StepSettings = StepSettings()  # timing and size of the steps
    balance: BalanceSettings = BalanceSettings()  # feedback of the divergent component of motion
    walks: ClassVar[bool] = True
    grounds: ClassVar[tuple[Known, ...]] = ("flat", "standing", "level")

    def goal(self, seconds: float) -> Array:
        """Return where a robot that starts at the origin is after a time [s] without any lag: x, y [m], turn [rad] (3)."""
        pose, ends = np.zeros(3), self.start
        for lasts, *velocity in self.commands:
            left, ends = min(lasts, seconds - ends), ends + lasts
            for _ in range(max(round(left / TICK), 0)):
                c, s, u = np.cos(pose[2]), np.sin(pose[2]), velocity
                pose += TICK * np.array([c * u[0] - s * u[1], s * u[0] + c * u[1], u[2]])
        return pose

    def build(self, robot: Robot, stance: Array, period: float) -> Trajectory:
        self._check(robot, floating=True)
        return TwoLegs(robot, stance, self)
