"""World with MuJoCo's dynamics, contact law, solver and integration. Noise-free and deterministic.

Before each physics step a plane below each contact point is placed tangent to the terrain of `idyn.contact.terrain`.

Modelling error: first order in the physics step; in a corner (stairs) a contact point has one contact, with the nearer face.
Only the robot's contact points make contact, with terrain and boxes; with hulls, these and the feet. Joint limits are missing.
"""

from collections.abc import Callable, Sequence
from math import ceil
from time import perf_counter
from typing import Generic, TypeVar

import numpy as np
from msgspec.structs import replace

from controllers.robot.kinematics import feet_of
from idyn.status import Status
from idyn.terms.inputs import finite
from idyn.types import Array, ContactSet, Record, State
from sim_harness.engines.penalty import MU_CAP
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import HULL, PAIR, PLACE, PLANE, POINT, Coordinates, body_name, build_model
from sim_harness.world.bodies import Bodies, RobotBodies
from sim_harness.world.world import MARGIN, Push, StepResult, along_contacts, largest_difference, mark_felt, nearest

SLACK = 1e-9  # relative tolerance of the longest physics step, so that rounding does not divide 1 ms into two steps


class Ending(Record, frozen=True):
    """Outcome of a step of MuJoCo."""

    before: State  # state at the beginning of the step
    t: float  # time at the beginning [s]
    dt: float  # length of the step [s]
    status: Status  # outcome
    iterations: int  # solver iterations, sum over physics steps
    missed: float  # residual h ‖M v̇ + c − τ − Jᵀf‖∞, the largest of all physics steps of length h [N·s, N·m·s]
    seconds: float  # computation time [s]


B = TypeVar("B", bound=Bodies)
R = TypeVar("R", bound=StepResult)


class Content(Generic[B, R]):
    """Base class of the content of a MuJoCo world: a robot or a scene."""

    bodies: B
    model: mujoco.MjModel
    contacts: ContactSet  # contacts at the current state

    def move(self, state: State) -> None:
        """Update the content for a new finite state."""

    def begin(self, data: mujoco.MjData) -> None:
        """Prepare for a step; called once, before its first physics step."""

    def prepare(self, data: mujoco.MjData) -> None:
        """Prepare for a physics step; called before the kinematics."""

    def load(self, data: mujoco.MjData, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> None:
        """Add the forces of a physics step to `qfrc_applied`, after the kinematics; span: time and length of the step [s]."""

    def record_forces(self, data: mujoco.MjData, h: float) -> None:
        """Record the contact forces of a physics step of h [s]."""

    def result(self, ending: Ending, after: State) -> R:
        """Return the result of a step; after: state at its end."""
        raise NotImplementedError


class MujocoWorld(Generic[B, R]):
    """A `World` simulated by MuJoCo.

    model, data: MuJoCo's objects; callers must not modify them
    coordinates: conversion between Pinocchio's and MuJoCo's coordinates
    """

    def __init__(self, content: Content[B, R], coordinates: Coordinates, settings: MujocoSettings) -> None:
        self._content, self.coordinates, self._longest = content, coordinates, settings.timestep
        self.bodies, self.model = content.bodies, content.model
        self.robot, self.terrain = self.bodies.robot, self.bodies.terrain
        self.data = mujoco.MjData(self.model)
        self.reset(self.bodies.start.q, self.bodies.start.v)

    @property
    def contacts(self) -> ContactSet:
        return self._content.contacts

    def reset(self, q: Array, v: Array | None = None) -> None:
        state = self.bodies.checked(q, v)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(state.q, state.v)
        self.t, self._warnings, self._h = 0.0, 0, 0.0
        self._move(state)

    def _move(self, state: State) -> None:
        self.state, self.q, self.v = state, state.q, state.v
        self._finite = finite(state.q) and finite(state.v)
        if self._finite:  # for a non-finite state the contacts of the last finite one remain
            self._content.move(state)

    def step(self, tau: Array | None = None, dt: float | None = None, pushes: Sequence[Push] = ()) -> R:
        dt, data, content = self.bodies.dt if dt is None else dt, self.data, self._content
        before, t, count = self.state, self.t, max(ceil(dt / self._longest - SLACK), 1)
        if (h := dt / count) != self._h:
            self.model.opt.timestep = self._h = h
        iterations, missed, seconds = 0, 0.0, 0.0
        content.begin(data)
        for k in range(count):
            content.prepare(data)
            begin = perf_counter()
            mujoco.mj_step1(self.model, data)
            data.qfrc_applied[:] = 0.0
            content.load(data, (t + k * h, h), tau, pushes)
            mujoco.mj_step2(self.model, data)
            seconds += perf_counter() - begin
            content.record_forces(data, h)
            iterations += sum(data.solver_niter.tolist())
            missed = max(missed, h * self._missed())
            q, v = self.coordinates.from_mujoco(data.qpos, data.qvel)
            self._move(State(q=q, v=v))
        self.t += dt
        warnings, self._warnings = self._warnings, sum(data.warning.number.tolist())
        warned = self._warnings > warnings
        status = Status.NON_FINITE if not self._finite else Status.NOT_CERTIFIED if warned else Status.SOLVED
        ending = Ending(
            before=before, t=t, dt=dt, status=status, iterations=iterations, missed=missed, seconds=seconds
        )  # fmt: skip
        return content.result(ending, self.state)

    def _missed(self) -> float:
        """Return the residual ‖M v̇ + c − τ − Jᵀf‖∞ of the physics step [N, N·m]."""
        data, inertial = self.data, np.empty(self.model.nv)
        mujoco.mj_mulM(self.model, data, inertial, data.qacc)
        return largest_difference((inertial, data.qfrc_bias), (data.qfrc_passive, data.qfrc_applied, data.qfrc_constraint))


AWAY = 100.0  # how far the planes of contact places that touch nothing are moved down [m]


def robot_world(bodies: RobotBodies, settings: MujocoSettings) -> MujocoWorld[RobotBodies, StepResult]:
    """Return the MuJoCo world of a robot. Raises ConfigError for a robot that MuJoCo does not support."""
    floor = bodies.terrain.query(np.zeros((1, 3)))[0][0]
    model = build_model(bodies.robot, settings, bodies.hulls, -float(floor))
    coordinates = Coordinates(bodies.robot, model)
    if bodies.friction is not None:
        # stiffer than MuJoCo's default, under which a loaded light leg creeps at over 1 rad/s
        dofs, friction = coordinates.dofs, bodies.friction
        model.dof_damping[dofs], model.dof_frictionloss[dofs] = friction.viscous, friction.coulomb
        model.dof_solref[:], model.dof_solimp[:, :2] = (2 * settings.timestep, 1.0), mujoco.mjMAXIMP
    return MujocoWorld(RobotContent(bodies, model, coordinates.dofs), coordinates, settings)


class PlacedContent(Content[RobotBodies, StepResult]):
    """A robot whose contact forces are recorded at its contact places: what its worlds share."""

    _motors: Array  # MuJoCo's index of the velocity of each actuated joint (na)
    _body_of: Callable[[int], int]  # joint → MuJoCo's body

    def move(self, state: State) -> None:
        self._q = state.q
        self._everywhere = self.bodies.near(state.q, np.inf)
        self.contacts = self._everywhere.within(MARGIN)

    def begin(self, data: mujoco.MjData) -> None:
        self._before, self._near, self._impulses = self._everywhere, self.contacts, np.zeros(self._everywhere.points.shape)
        self._beside, self._mu = np.zeros(len(self._impulses)), self._before.mu.copy()

    def load(self, data: mujoco.MjData, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> None:
        if tau is not None:
            data.qfrc_applied[self._motors] = tau
        for push in pushes:
            joint = self.bodies.robot.joint_of_frame(push.frame)
            rotations, origins = self.bodies.robot.place(self._q)
            point = origins[joint] + rotations[joint] @ np.array(push.point)
            force = push.share(*span) * np.array(push.force)
            mujoco.mj_applyFT(self.model, data, force, np.zeros(3), point, self._body_of(joint), data.qfrc_applied)

    def result(self, ending: Ending, after: State) -> StepResult:
        marks = np.empty(len(self._mu), np.bool_)
        mark_felt(self._before.gaps, self._impulses, MARGIN, marks)
        felt = marks.nonzero()[0]
        contacts = self._near if len(felt) == len(self._near.keys) else self._before.take(felt)
        impulse, force = self._impulses.take(felt, 0), np.empty((len(felt), 3))
        along_contacts(impulse / ending.dt, contacts.tangents, contacts.normals, force)
        return StepResult(
            contacts=replace(contacts, mu=self._mu.take(felt)),
            impulse=impulse,
            force=force,
            status=ending.status,
            iterations=ending.iterations,
            dynamics=ending.missed,
            beside=self._beside.take(felt) / ending.dt,
        )


class RobotContent(PlacedContent):
    """A robot, its terrain planes and its contact forces."""

    def __init__(self, bodies: RobotBodies, model: mujoco.MjModel, dofs: Array) -> None:
        """dofs: MuJoCo's index of each of Pinocchio's velocities (nv)"""
        self.bodies, self.model, self._motors = bodies, model, dofs[bodies.robot.tree.a]
        self._body_of = lambda joint: int(model.body(body_name(joint)).id)
        places, keys = range(len(bodies.robot.spheres.keys)), range(len(bodies.robot.contact_names))
        radii = bodies.robot.spheres.radii[:, None]
        self._grown = np.maximum(radii, POINT) - radii  # the plane is as much lower, so that gaps are exact
        self._planes = np.array([model.body(PLANE.format(i)).mocapid[0] for i in places], dtype=np.int64)
        spheres = {model.geom(PLACE.format(i)).id for i in places}
        self._pairs = np.array([model.pair(PAIR.format(row)).id for row in keys], dtype=np.int64)
        geoms = zip(model.pair_geom1[self._pairs].tolist(), model.pair_geom2[self._pairs].tolist(), strict=True)
        self._rows = {frozenset(pair): row for row, pair in enumerate(geoms)}
        self._touching = spheres | {model.geom(HULL.format(i)).id for i in range(len(bodies.hulls))}
        self._hull_pairs = np.array([model.pair(HULL.format(i)).id for i in range(len(bodies.hulls))], dtype=np.int64)
        body = np.ones(len(places), np.bool_)
        body[feet_of(bodies.robot, bodies.start.q)] = False
        self._away = np.outer(body, [0.0, 0.0, -AWAY]) if bodies.hulls else 0.0  # of the planes of places that are no feet

    def prepare(self, data: mujoco.MjData) -> None:
        """Place the tangent plane below each contact point and set the friction of all contacts."""
        c, n, quaternions = self._everywhere, len(self._planes), data.mocap_quat
        data.mocap_pos[self._planes] = c.points[:n] - (c.gaps[:n, None] + self._grown) * c.normals[:n] + self._away
        for plane, normal in zip(self._planes.tolist(), c.normals[:n], strict=True):
            mujoco.mju_quatZ2Vec(quaternions[plane], normal)
        self.model.pair_friction[self._pairs, :2] = np.clip(c.mu, mujoco.mjMINMU, MU_CAP)[:, None]
        if len(self._hull_pairs):
            self.model.pair_friction[self._hull_pairs, :2] = np.clip(c.mu.mean(), mujoco.mjMINMU, MU_CAP)

    def record_forces(self, data: mujoco.MjData, h: float) -> None:
        """Add the impulses of a physics step to those of the step, in the world frame [N·s] (·, 3).

        Rows: contact points, then pairs; the impulse acts on the body of the contact point. That on a hull counts for the
        nearest contact point.
        """
        forces, wrench, found = np.zeros((len(self._pairs), 3)), np.zeros(6), data.contact
        points, places = self._everywhere.points[: len(self._planes)], found.pos
        for i, ((first, second), frame) in enumerate(zip(found.geom.tolist(), found.frame, strict=True)):
            mujoco.mj_contactForce(self.model, data, i, wrench)
            on_second = wrench[:3].dot(frame.reshape(3, 3))
            row = self._rows.get(frozenset((first, second)))
            if row is None:
                row = nearest(points, places[i])
                self._beside[row] += h * wrench[0]
            forces[row] += on_second if second in self._touching else -on_second
        self._impulses += h * forces
