"""Gait by model-predictive control: tasks of the body and the feet for the server, planned beside its loop  [Di Carlo 2018].
Feet are tasks, so legs may have any number of joints. The planner knows no foot switches: a foot that is low enough late in
its swing has landed. The contact law decides which forces act."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from controllers.config.loading import Positive, Settings
from controllers.config.tables import within
from controllers.planners.gait import GaitSettings
from controllers.planners.path import Path, PathSettings, command, corrected, turned
from controllers.planners.plan import GRAVITY
from controllers.planners.rigid_body import STATE, Body, Horizon, Weights, planned_motion
from controllers.planners.steps import from_hip
from controllers.planners.two_legs.swing import ANY, Swing, aim, lift, move
from controllers.planners.two_legs.tasks import BASE
from controllers.robot.kinematics import contact_places
from idyn.model.robot import Robot
from idyn.model.so3 import rotation
from idyn.tasks import ComTask, ForceTask, FrameTask
from idyn.tasks.forces import ContactTask
from idyn.tasks.motion import MotionTask
from idyn.types import Array, State


class MpcSettings(Settings, frozen=True):
    """A gait planned by model-predictive control beside the control loop."""

    gait: GaitSettings = GaitSettings(period=0.35, duty=0.55, step_height=0.05)  # timing and shape of the steps
    rate: Annotated[float, within(20, 500, "Hz")] = 100.0  # plans per second [Hz]
    # steps, step: number and duration of the steps of the horizon [s]
    steps: Annotated[int, within(2, 30, "")] = 12
    step: Annotated[float, within(0.01, 0.1, "s")] = 0.02
    friction: Positive = 0.5  # coefficient up to which forces are planned
    path: PathSettings = PathSettings(acceleration=1.0)  # motion of the base


LATE, TOUCHES = 0.6, 1e-3  # share of a swing after which a foot lower than this above its goal has landed [m]


class Phases:
    """Which foot stands when: phases run evenly."""

    def __init__(self, gait: GaitSettings, feet: int) -> None:
        """Raises ConfigError if the settings are not a gait of these feet."""
        self._touchdown, self._walks = gait.phases(feet), gait.pattern != "stand"
        self.gait, self._cycle = gait, 0.0

    def advance(self, dt: float) -> None:
        """Go on by a time [s]."""
        self._cycle += dt / self.gait.period

    def at(self, ahead: float | Array) -> Array:
        """Return the phases of the feet a time ahead [s]: share of the period since touchdown (…, n)."""
        phases: Array = (self._cycle + np.asarray(ahead)[..., None] / self.gait.period - self._touchdown) % 1.0
        return phases

    def stands(self, ahead: float | Array) -> Array:
        """Return which feet stand a time ahead [s] (…, n)."""
        return np.asarray((self.at(ahead) < self.gait.duty) | (not self._walks))


class Step(NamedTuple):
    """A foot in the air. swing: its path; share: of the swing time since lift-off"""

    swing: Swing
    share: float


class Feet:
    """Swings of the feet.

    steps: of each foot, None while it stands; landed: whether a foot touched before its planned time (n)
    """

    def __init__(self, count: int) -> None:
        self.steps: list[Step | None] = [None] * count
        self.landed = np.zeros(count, np.bool_)

    def update(self, phases: Phases, places: Array, goals: Array) -> None:
        """Lift, aim and land feet. places: where the feet are [m] (n, 3); goals: where those in the air shall land (n, 3)"""
        stands, gait = phases.stands(0.0), phases.gait
        lasts = (1.0 - gait.duty) * gait.period
        shares = (phases.at(0.0) - gait.duty) / (1.0 - gait.duty)
        for i, (step, share) in enumerate(zip(self.steps, shares.tolist(), strict=True)):
            low = step is not None and step.share > LATE and places[i, 2] < goals[i, 2] + TOUCHES
            self.landed[i] = not stands[i] and (low or self.landed[i])
            if stands[i] or self.landed[i]:
                self.steps[i] = None
                continue
            if step is None:
                swing = Swing()
                lift(swing, _four(places[i]), _four(goals[i]), lasts, gait.step_height)
            else:
                swing = step.swing
                aim(swing, _four(goals[i]), share * lasts, ANY)
            move(swing, share * lasts)
            self.steps[i] = Step(swing, share)


def _four(place: Array) -> Array:
    return np.array([*place, 0.0])


TRUNK = 0.1  # weight of the attitude of the base: on two feet no force turns it about the line between them
STIFFNESS, SWING_STIFFNESS = 100.0, 400.0  # stiffness of the tasks of body and swinging feet [1/s²]; their damping is critical

LOWERING, ABOVE = 0.15, 0.005
"""Speed of a foot that is to stand and does not touch [m/s]; height above the lowest foot from which it does not touch [m]."""

Tasks = list[MotionTask | ContactTask]


def body_tasks(body: "Measured", acceleration: Array, turning: Array) -> Tasks:
    """Return the tasks of the body for an acceleration [m/s²] and an angular acceleration [rad/s²] in the world (3 each)."""
    turn, turning = (np.concatenate([np.zeros(3), each]) for each in (body.turn, turning))
    com = ComTask(position=body.com, velocity=body.velocity, acceleration=acceleration, stiffness=STIFFNESS)
    gains: dict[str, Any] = {"stiffness": STIFFNESS, "weight": TRUNK}
    return [com, FrameTask(frame=BASE, name="trunk", rotation=body.R, velocity=turn, acceleration=turning, **gains)]


def foot_tasks(robot: Robot, q: Array, feet: tuple[Array, Array], steps: Sequence[Step | None]) -> Tasks:
    """Return the tasks of the feet: swings, the way down of feet that do not touch, and forces, below all other tasks.

    feet: their centres (n, 3), and preferred forces on them (n, 3); steps: of each foot, None while it stands
    """
    places, forces = feet
    tasks, lowest, pad = Tasks(), float(places[:, 2].min()), np.zeros(3)
    rows = zip(robot.spheres.keys, robot.description.contact, steps, places, forces, strict=True)
    for key, place, step, at, force in rows:
        if step is not None:
            x, v, a = step.swing.x[:3], step.swing.v[:3], step.swing.a[:3]
            offset = at - robot.frames.placement(place.frame, q).translation
            task: MotionTask | ContactTask = FrameTask(
                frame=place.frame,
                name=f"swing {key}",
                position=x - offset,
                velocity=np.concatenate([v, pad]),
                acceleration=np.concatenate([a, pad]),
                stiffness=SWING_STIFFNESS,
            )
        elif at[2] - lowest > ABOVE:
            task = FrameTask(
                frame=place.frame,
                name=f"landing {key}",
                velocity=[0.0, 0.0, -LOWERING, 0.0, 0.0, 0.0],
                stiffness=0.0,
                damping=2.0 * float(np.sqrt(SWING_STIFFNESS)),
                mask=(True, True, True, False, False, False),
            )
        else:
            task = ForceTask(contacts=key, force=force, name=f"force {key}", level=1)
        tasks.append(task)
    return tasks


def angles_of(R: Array) -> Array:
    """Return roll, pitch and yaw of a rotation Rz(yaw) Ry(pitch) Rx(roll) [rad] (3)."""
    return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])])


AHEAD = 0.03  # largest distance of the reference from the measured body in the plane [m, rad]: after a push it does not return

ERRORS = np.array([10.0, 10.0, 5.0, 20.0, 20.0, 100.0, 0.1, 0.1, 0.3, 10.0, 10.0, 5.0])
"""Weights of errors: roll, pitch, yaw [1/rad²], centre of mass [1/m²], angular velocity [s²/rad²], velocity [s²/m²]."""

FORCE = 3.0  # weight of the difference of the forces from equal shares of the weight [1/weight²]
STRONGEST = 3.0  # largest planned normal force of a foot, in weights
OPENS = 0.5  # share of a swing in which the contact of the foot is told to be open; later a foot that touches stands


HORIZON = 3  # validity of a command, in periods of the planner: so many late plans do not matter. Then the robot stands


class Asked(NamedTuple):
    """Tasks and contact modes for a command. problem: why there are none, '' otherwise"""

    tasks: Tasks
    modes: dict[str, Literal["stick", "slide", "open"]]
    problem: str = ""


class Measured(NamedTuple):
    """Measured body: attitude (3, 3), roll, pitch, yaw [rad], centre of mass [m], velocity [m/s], angular velocity [rad/s], in
    the world (3 each)."""

    R: Array
    angles: Array
    com: Array
    velocity: Array
    turn: Array

    @property
    def plane(self) -> Array:
        """Return x, y of the centre of mass and the yaw (3)."""
        return np.array([*self.com[:2], self.angles[2]])


class MpcPlanner:
    """Plans the gait of a robot. path: the commanded motion, which `path.steer` changes"""

    def __init__(self, robot: Robot, stance: Array, settings: MpcSettings) -> None:
        """stance: level configuration (nq). Raises ConfigError for settings that are no gait of this robot."""
        self._robot, self._settings, self.path = robot, settings, Path(settings.path, "path")
        places = contact_places(robot, stance) - robot.center_of_mass(stance)
        places[:, :2] -= places[:, :2].mean(axis=0)
        self._hips, self._height = places, float(robot.spheres.radii.mean() - places[:, 2].mean())
        inertia = robot.frames.momentum_matrix(stance)[3:, 3:6] @ rotation(stance[3:7]).T
        self._body = Body(robot.weight / GRAVITY, inertia)
        self._weights = Weights(ERRORS, FORCE / robot.weight**2, settings.friction, STRONGEST * robot.weight)
        self._phases, self._feet = Phases(settings.gait, len(places)), Feet(len(places))
        self._velocity, self._t = np.zeros(3), np.nan
        self._reference: Array | None = None  # x, y, yaw of the body

    def adopt(self, gait: GaitSettings) -> None:
        """Step by another gait from now on. Raises ConfigError if it is none of this robot."""
        self._phases = Phases(gait, len(self._hips))

    def plan(self, t: float, state: State) -> Asked:
        """Return what to ask for at time t [s], which must not decrease, for the measured state."""
        robot, q = self._robot, state.q
        dt, self._t = (0.0 if np.isnan(self._t) else t - self._t), t
        R, com, places = rotation(q[3:7]), robot.frames.centroidal(q, state.v), contact_places(robot, q)
        body = Measured(R, angles_of(R), com.position, com.velocity, R @ state.v[3:6])
        self._follow(t, dt, body)
        self._phases.advance(dt)
        stands = self._phases.stands(0.0)
        soles = places[:, 2] - robot.spheres.radii
        ground = float(soles[stands].mean() if stands.any() else soles.min())
        goals = self._goals(body, ground)
        self._feet.update(self._phases, places, goals)
        horizon = self._horizon(body, (places, goals), ground)
        start = np.concatenate([body.angles, body.com, body.turn, body.velocity])
        found = planned_motion(self._body, start, horizon, self._weights)
        if found is None:
            return Asked([], {}, "the quadratic program was not solved")
        change = (found.states[0] - start) / horizon.step
        steps = self._feet.steps
        tasks = [*body_tasks(body, change[9:12], change[6:9]), *foot_tasks(robot, q, (places, found.forces[0]), steps)]
        opens = [step is not None and step.share < OPENS for step in steps]
        keys = zip(robot.spheres.keys, opens, strict=True)
        return Asked(tasks, {key: "open" if up else "stick" for key, up in keys})

    def _follow(self, t: float, dt: float, body: Measured) -> None:
        """Update the commanded velocity and the reference, which stays near the measured body."""
        x, y, yaw = body.plane.tolist()
        forward = turned(yaw).T @ body.velocity[:2]
        moving = np.array([*forward, 0.0, 0.0, 0.0, body.turn[2]])
        wanted = command(self.path, t, (x, y, yaw))
        wanted, most = corrected(self.path, wanted, self._velocity, moving, dt), self.path.accelerations * dt
        self._velocity = self._velocity + np.clip(wanted - self._velocity, -most, most)
        at = body.plane if self._reference is None else self._reference
        at = at + dt * np.array([*(turned(at[2]) @ self._velocity[:2]), self._velocity[2]])
        off = at - body.plane
        off[2] -= 2.0 * np.pi * np.round(off[2] / (2.0 * np.pi))
        self._reference = body.plane + np.clip(off, -AHEAD, AHEAD)

    def _goals(self, body: Measured, ground: float) -> Array:
        """Return where the feet land next [m] (n, 3). ground: height [m]"""
        gait, goals, yaw = self._phases.gait, np.empty_like(self._hips), float(body.angles[2])
        times = 0.5 * gait.duty * gait.period, gait.capture * float(np.sqrt(self._height / GRAVITY))
        left = (1.0 - self._phases.at(0.0)) * gait.period  # until the next touchdown
        u, v, w = self._velocity.tolist()
        off = turned(yaw).T @ body.velocity[:2] - (u, v)
        for i, (x, y) in enumerate(self._hips[:, :2].tolist()):
            dx, dy = from_hip((x, y), (u, v, w), (float(off[0]), float(off[1]), 0.0), times)
            goals[i, :2] = body.com[:2] + left[i] * body.velocity[:2] + turned(yaw + left[i] * w) @ (x + dx, y + dy)
            goals[i, 2] = ground + self._robot.spheres.radii[i]
        return goals

    def _horizon(self, body: Measured, feet: tuple[Array, Array], ground: float) -> Horizon:
        """Return what is planned over the horizon. feet: where they are, and where they land [m] (n, 3)"""
        N, T, gait = self._settings.steps, self._settings.step, self._phases.gait
        assert self._reference is not None
        ends, middles = T * np.arange(1, N + 1), T * (np.arange(N) + 0.5)
        wanted = np.zeros((N, STATE))
        yaw = self._reference[2] + ends * self._velocity[2]
        along = np.array([turned(each) @ self._velocity[:2] for each in yaw])
        wanted[:, 2], wanted[:, 8], wanted[:, 9:11] = yaw, self._velocity[2], along
        wanted[:, 3:5] = self._reference[:2] + T * np.cumsum(along, axis=0)
        wanted[:, 5] = ground + self._height
        left = (1.0 - self._phases.at(0.0)) * gait.period
        stands = self._phases.stands(middles) | (self._feet.landed & (middles[:, None] < left))
        here, goals = feet
        present = np.logical_and.accumulate(stands)[..., None]  # still in its present stance
        return Horizon(T, wanted, stands, np.where(present, here, goals))
