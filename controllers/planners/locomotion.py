"""Locomotion planner: computes footsteps, foot motion and joint references from a commanded base velocity  [ZD §7.2.1].

The plan is kinematic: standing feet do not move, the base follows the command, except where it yields to a push
(`controllers.planners.steps`), and a swinging foot follows cubics to the point that will be under its hip in the middle of
its next stance. Joint references follow from the feet f in the frame of the planned base (c, R, velocity u), so that feet
touch down without sliding; a commanded pose displaces the base in this level frame (`controllers.planners.pose`):

    x = Rᵀ (f − c),     ẋ = Rᵀ ḟ − u − ω × x,     ẍ = Rᵀ f̈ − ω × Rᵀ ḟ − u̇ − ω̇ × x − ω × ẋ
Feedback: path and footholds use the measured velocity; a descending foot aims at the level of the standing feet; a foot that
has landed moves to its nominal height, which levels the base; lift-offs wait for feet that do not touch yet. A commanded
gait begins when all feet stand.
"""

from functools import cached_property

import numpy as np

from controllers.command import Reference, Schedule, Steering
from controllers.contact.ground import Known, StandingPlane
from controllers.planners.gait import GaitSettings, commanded
from controllers.planners.legs import Legs
from controllers.planners.path import Path, PathSettings, turned
from controllers.planners.plan import HALTS, HOLDS, Plan
from controllers.planners.pose import BasePose, PoseSettings, Reach, check_pose
from controllers.planners.slope import Slope as PlannedSlope
from controllers.planners.steps import follow, restart
from controllers.robot.kinematics import contact_places
from idyn.contact.terrain import Flat, Slope, Terrain, heights_below
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.model.so3 import rotation, yaw
from idyn.tasks import TaskStack
from idyn.types import Array, ContactSet, Kinematics, State

MARGIN = 0.03  # distance from an edge at which a foothold is safe [m]
EDGE = 0.01  # bend of the ground within the margin that counts as an edge: |h(−) − 2 h(0) + h(+)| [m]. It is 0 on every slope
FARTHEST, RINGS, RAYS = 0.1, 5, 8  # search for a foothold: largest displacement [m], number of circles, and of places on each
HABIT = 0.5  # cost of a change of the displacement since the last search, relative to that of a displacement

AROUND = MARGIN * np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7], [0.7, -0.7]])
"""From a foothold to one half of its surroundings; the other half is opposite [m]."""


def safe_shifts(terrain: Terrain, wanted: Array, last: Array) -> Array:
    """Return displacements of footholds from their wanted places [m] (n, 2).

    A displacement is the smallest one that leads away from edges; 0 where there is none.
    wanted: places in the plane [m] (n, 2); last: displacements of the last search (n, 2)
    """
    shifts = np.empty(wanted.shape)
    for i, place in enumerate(wanted):
        near = place + CANDIDATES
        around = np.concatenate([near[:, None], near[:, None] + AROUND, near[:, None] - AROUND], axis=1)
        h = heights_at(terrain, around.reshape(-1, 2)).reshape(len(near), -1)
        half = len(AROUND) + 1
        bends = np.abs(h[:, 1:half] + h[:, half:] - 2.0 * h[:, :1]).max(axis=1)
        cost = np.hypot(*CANDIDATES.T) + HABIT * np.hypot(*(CANDIDATES - last[i]).T)
        best = int(np.argmin(np.where(bends < EDGE, cost, np.inf))) if bends.min() < EDGE else 0
        shifts[i] = CANDIDATES[best]
    return shifts


def heights_at(terrain: Terrain, places: Array) -> Array:
    """Return the heights of the ground at places in the plane (n, 2) [m] (n)."""
    return heights_below(terrain, np.column_stack([places, np.full(len(places), HIGH)]))


_ANGLES, _RINGS = 2.0 * np.pi * np.arange(RAYS) / RAYS, FARTHEST * np.arange(1, RINGS + 1) / RINGS
_CIRCLES = _RINGS[:, None, None] * np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
CANDIDATES = np.concatenate([np.zeros((1, 2)), _CIRCLES.reshape(-1, 2)])  # displacements of footholds, in circles (n, 2)
HIGH = 10.0  # height from which the ground is searched [m]


LOOKS = 0.5  # share of the swing time, before its end, until which a foothold moves away from edges. Later a foot keeps its way


class Footholds:
    """Heights of the ground at the footholds of a plan; its `slope` gets them, and height and gradient of their plane."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._unseen = plan, True

    def reset(self) -> None:
        self._unseen = True

    def look(self, terrain: Terrain, q: Array, t: float) -> None:
        """Find safe footholds of the feet in the air on a known terrain, and the plane through all footholds.

        q: configuration; t: time [s]
        """
        plan, slope = self._plan, self._plan.slope
        places, swings, R = plan.places(t), plan.swinging, turned(yaw(q[3:7]) - plan.pose[2])  # R: to the world, in the plane
        places[swings] = slope.goal[swings] + slope.shift[swings]
        looks = swings & (plan.end - t > LOOKS * plan.swing_time)
        if looks.any():
            wanted = (slope.goal[looks] - plan.pose[:2]) @ R.T + q[:2]
            slope.shift[looks] = safe_shifts(terrain, wanted, slope.shift[looks] @ R.T) @ R
            places[looks] = slope.goal[looks] + slope.shift[looks]
        offsets = (places - plan.pose[:2]) @ R.T  # from the base, world axes
        updates = swings | self._unseen
        self._unseen = False
        if updates.any():
            slope.heights[updates] = heights_at(terrain, offsets[updates] + q[:2])
        height, gradient = plane(offsets, slope.heights)
        slope.put(below=height)
        slope.target[:] = gradient


def plane(places: Array, heights: Array) -> tuple[float, Array]:
    """Return height at the origin [m] and gradient (2) of the plane that fits heights [m] (n) at places [m] (n, 2)."""
    fit = np.linalg.lstsq(np.column_stack([np.ones(len(places)), places]), heights, rcond=None)[0]
    return float(fit[0]), fit[1:]


DEFAULT_POSE = PoseSettings()

UNREACHED = "reference out of reach: the gait planner placed a foot where its leg does not reach"

CUT = "step shortened: the foothold for this velocity is beyond {} from the hip, where the leg does not reach"


class Locomotion:
    """Gait planner: feet step by the gait while the base follows the path. Stores the plan."""

    def __init__(
        self,
        robot: Robot,
        stance: Array,
        start: float,
        gait: GaitSettings,
        path: PathSettings,
        period: float,
        pose: PoseSettings = DEFAULT_POSE,
    ) -> None:
        """stance: configuration in which the robot starts; on a steep slope it may lean (nq)
        start: start of the gait [s]
        period: control period [s]
        pose: limits of the commanded height and attitude
        """
        self._gait = self._present = self._wanted = gait
        self._robot, self._path, self.legs = robot, Path(path), Legs(robot, stance)
        self._keys, self._rows = robot.spheres.keys, robot.spheres.rows(robot.spheres.keys)  # of the last contacts
        self._angles = self.legs.angles(stance)
        self._feet = self.legs.feet(self._angles) @ rotation(stance[3:7]).T
        # the mean of the feet is below the centre of mass: in a trot the robot stands on diagonal pairs
        shift = robot.center_of_mass(stance) - stance[:3] - self._feet.mean(axis=0)
        hips = self._feet + shift * [1.0, 1.0, 0.0]
        self._terrain: Terrain = Flat()
        self._base, self._steering, self._slope = BasePose(pose), Steering(), PlannedSlope(len(self._feet))
        self.reach = Reach(self.legs, self._angles, hips, (robot.limits.q_min, robot.limits.q_max))
        times = start, period
        self._hips, self._stance = hips, stance
        self.plan = Plan(self.legs, self._path, self._base, self._slope, hips=hips, gait=gait, times=times, angles=self._angles)
        self._footholds = Footholds(self.plan)
        self.on(self._terrain, "flat")

    @cached_property
    def limits(self) -> Array:
        """Limits of height [m], roll and pitch [rad] (3, 2)."""
        return self.reach.limits(self._base.bounds)

    def check(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        """Raise InputError if the gait cannot follow, with the field of a command."""
        if tasks is not None and steering.velocity is not None:
            raise InputError("tasks", "expected none beside a velocity: the gait of four legs is a motion of all their joints")
        gait, velocity = commanded(self._gait, steering.gait, len(self._feet)), steering.velocity
        if velocity is not None and velocity.any() and gait.pattern == "stand":
            raise InputError("velocity", "expected zero or none for the gait 'stand'")
        for k in (1, 2):
            if velocity is not None and velocity[k] and self.legs.planar:
                raise InputError(f"velocity[{k}]", "expected zero: legs of two hinges neither step sideways nor turn")
        if steering.posed:
            check_pose(steering.pose, self.limits)
        if steering.gait is not None and not self.reach.reaches(tuple(steering.pose.tolist()), (0.0, 0.0, gait.step_height)):
            raise InputError("gait.step_height", f"the legs do not reach {gait.step_height:g} m at this height and attitude")

    def steer(self, steering: Steering) -> None:
        """Follow a velocity of the base instead of the path, and move to its height and attitude, until `reset`."""
        if steering is self._steering:
            return
        self._steering = steering
        if steering.velocity is not None:
            self._path.steer(steering.velocity)
        self._base.target[:] = steering.pose
        self._wanted = commanded(self._gait, steering.gait, len(self._feet))
        changes = self._wanted != self._present
        self.plan.change[HALTS] = changes and self._wanted.pattern == "stand"
        self.plan.change[HOLDS] = changes and self._wanted.pattern != "stand"

    def on(self, terrain: Terrain, known: Known) -> None:
        """Walk on this terrain. known: what the controller knows of it"""
        self._terrain = terrain
        if isinstance(terrain, StandingPlane):
            terrain.gradient = self._slope.x
        told = known in ("level", "told")
        uneven = told and not isinstance(terrain, Flat | Slope)
        self._slope.put(follows=known != "flat", told=told, uneven=uneven, watches=known == "standing")
        self._told, self._uneven = told, uneven
        # the stance is level on this ground: its feet are on the slope, from which their planned heights count
        if self._slope.uneven:
            places = contact_places(self._robot, self._stance)
            self._flatten(heights_below(terrain, places) - self._stance[2])
        elif self._slope.follows and not isinstance(terrain, Flat | StandingPlane):
            self._flatten((self._hips[:, :2] - self._hips[:, :2].mean(axis=0)) @ self._gradient(self._stance))
        forward, aside = self.reach.strides
        self.plan.put(stride=forward, slender=forward / max(aside, 1e-9))
        reach = f"{forward:.2f} m" if forward == aside else f"{forward:.2f} m forwards or {aside:.2f} m sideways"
        self._cut = CUT.format(reach)
        self.reset()

    def prepare(self) -> None:
        _ = self.limits

    def reset(self) -> None:
        """Return to the stance."""
        self._steering = Steering()
        self._present = self._wanted = self._gait
        self.plan.adopt(self._gait)
        self._path.reset()
        self._base.reset()
        self._slope.reset()
        self._footholds.reset()
        self.plan.cubics.rest(self._feet)
        self.plan.angles[:] = self._angles
        restart(self.plan)

    def expect(self, contacts: ContactSet, force: Array, asked: TaskStack | None) -> None:
        """Ignore contact forces."""

    def at(self, t: float, state: State | Kinematics, contacts: ContactSet) -> Reference:
        """Return the reference at time t [s], which must not decrease. Path and heights use the base of `state`."""
        robot, q, m, na, n = self._robot, state.q, len(self._angles), self._robot.na, len(self._feet)
        motion = np.empty(m), np.empty(m), np.empty(m)
        base, pose, stance, wait = np.empty(3), np.empty(3), np.empty(n, np.bool_), np.empty(n)
        measured = q, state.v, q[self.legs.q_index] if robot.one_axis_each else self.legs.angles(q)
        if contacts.keys is not self._keys:
            self._keys, self._rows = contacts.keys, robot.spheres.rows(contacts.keys)
        near = self._rows, np.ascontiguousarray(contacts.gaps, np.float64)
        if self._uneven:
            self._footholds.look(self._terrain, q, t)
        elif self._told:
            self._slope.target[:] = self._gradient(q)
        reached, cut, away, ready = follow(self.plan, t, measured, near, motion, (base, pose, wait, stance))
        if ready and self._wanted is not self._present:
            self.plan.adopt(self._wanted)
            self.plan.restart_cycle(t)
            self._present = self._wanted
            base, wait, stance = self.plan.u.copy(), self.plan.wait.copy(), ~self.plan.swinging
        q, v, a = (part[:na] for part in motion) if na < m else motion
        schedule, problem = Schedule(stance=stance, time_to_switch=wait), UNREACHED if not reached else self._cut if cut else ""
        return Reference(q=q, v=v, a=a, schedule=schedule, base=base, pose=pose if away else None, problem=problem)

    def _flatten(self, heights: Array) -> None:
        """Make the stance one on level ground. heights: of the ground below its feet [m] (n)"""
        for feet in (self._hips, self._feet):
            feet[:, 2] -= heights - heights.mean()

    def _gradient(self, q: Array) -> Array:
        """Return the gradient of the plane through the known ground below the nominal feet (2)."""
        c, s = np.cos(yaw(q[3:7])), np.sin(yaw(q[3:7]))
        R = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
        points = self._hips @ R + q[:3]
        d = points[:, :2] - points[:, :2].mean(axis=0)
        gradient: Array = np.linalg.solve(d.T @ d, d.T @ heights_below(self._terrain, points))
        return gradient
