"""The world that MuJoCo moves on: its dynamics, its contact law, its solver and its integration. Noise-free and deterministic.

The ground is that of `idyn.contact.terrain`: below each contact place lies a plane that touches the terrain at the point
nearest to the place, laid anew before each physics step. So gaps and normals are the terrain's own, on hills as on the flat,
and friction may change from foothold to foothold.

Modelling error: first order in the physics step; in a corner (stairs) a place has one contact, with the nearer side. Friction
coefficients are between 1e-5, MuJoCo's least, and `MU_CAP`. Joint limits, and contact of anything but the robot's contact
places, with the terrain and with boxes of other bodies, are not simulated.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.status import Status
from idyn.types import Array, State
from sim_harness.mujoco.coordinates import Coordinates
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.model import body_name, build_model, pair_name, place_name, plane_name
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.world.jacobian import along_contacts
from sim_harness.world.joint_friction import JointFriction
from sim_harness.world.world import MARGIN, Push, StepResult, checked_state

MU_CAP = 100.0
"""Stands for unlimited friction, as in the `penalty` engine."""

SLACK = 1e-9
"""Share of a physics step by which it may be longer than the setting, so that 1 ms are not two steps of 0.5 ms."""


class MujocoWorld:
    """A `World`.

    model, data: MuJoCo's own, to be looked at; `coordinates` leads from ours to theirs
    mu: friction coefficients instead of the terrain's and the robot's own (one per contact place, then one per pair)
    friction: in the joints, none by default
    """

    def __init__(
        self,
        robot: Robot,
        terrain: Terrain,
        settings: MujocoSettings,
        q: Array,
        *,
        mu: Array | None = None,
        friction: JointFriction | None = None,
        margin: float = MARGIN,
    ) -> None:
        self.robot = robot
        self.terrain = terrain
        self.settings = settings
        self.margin = margin
        self._mu = mu
        self.model = model = build_model(robot, settings)
        self.data = mujoco.MjData(model)
        self.coordinates = Coordinates(robot, model)
        if friction is not None:
            self._resist(friction)
        places, keys = range(len(robot.spheres.keys)), range(len(robot.contact_names))
        self._planes = np.array([model.body(plane_name(i)).mocapid[0] for i in places], dtype=np.int64)
        self._spheres = {model.geom(place_name(i)).id for i in places}
        self._pairs = np.array([model.pair(pair_name(row)).id for row in keys], dtype=np.int64)
        geoms = zip(model.pair_geom1[self._pairs].tolist(), model.pair_geom2[self._pairs].tolist(), strict=True)
        self._rows = {frozenset(pair): row for row, pair in enumerate(geoms)}
        self.reset(q)

    def _resist(self, friction: JointFriction) -> None:
        """Friction in the joints. MuJoCo's own is soft: by default a light leg creeps under its load at more than 1 rad/s."""
        model, dofs = self.model, self.coordinates.dofs
        model.dof_damping[dofs], model.dof_frictionloss[dofs] = friction.viscous, friction.coulomb
        model.dof_solref[:], model.dof_solimp[:, :2] = (2 * self.settings.timestep, 1.0), mujoco.mjMAXIMP

    @property
    def state(self) -> State:
        return State(q=self.q, v=self.v)

    def reset(self, q: Array, v: Array | None = None) -> None:
        state = checked_state(self.robot, q, v)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(state.q, state.v)
        self.t = 0.0
        self._move(state.q, state.v)

    def step(self, tau: Array, dt: float, pushes: Sequence[Push] = ()) -> StepResult:
        data, before, warnings = self.data, self._everywhere, self.data.warning.number.sum()
        count = max(ceil(dt / self.settings.timestep - SLACK), 1)
        self.model.opt.timestep = h = dt / count
        impulses, iterations, missed = np.zeros((len(self._pairs), 3)), 0, 0.0
        for k in range(count):
            self._lay_ground()
            mujoco.mj_step1(self.model, data)
            self._apply(tau, pushes, self.t + k * h, h)
            mujoco.mj_step2(self.model, data)
            impulses += h * self._forces()
            iterations += int(data.solver_niter.sum())
            missed = max(missed, h * self._missed())
            self._move(*self.coordinates.from_mujoco(data.qpos, data.qvel))
        self.t += dt
        felt = (before.gaps <= self.margin) | impulses.any(axis=1)
        contacts = before.take(felt)
        return StepResult(
            contacts=contacts,
            impulse=impulses[felt],
            force=along_contacts(impulses[felt] / dt, contacts.tangents, contacts.normals),
            status=self._status(data.warning.number.sum() > warnings),
            iterations=iterations,
            dynamics=missed,
        )

    def _lay_ground(self) -> None:
        """A plane below each contact place, tangent to the terrain, and the friction of all contacts."""
        c, n = self._everywhere, len(self._planes)
        self.data.mocap_pos[self._planes] = c.points[:n] - c.gaps[:n, None] * c.normals[:n]
        for plane, normal in zip(self._planes, c.normals[:n], strict=True):
            mujoco.mju_quatZ2Vec(self.data.mocap_quat[plane], normal)
        self.model.pair_friction[self._pairs, :2] = np.clip(c.mu, mujoco.mjMINMU, MU_CAP)[:, None]

    def _apply(self, tau: Array, pushes: Sequence[Push], t: float, h: float) -> None:
        """Torques and pushes of the physics step [t, t + h]; the bodies have been placed."""
        model, data = self.model, self.data
        data.qfrc_applied[:] = 0.0
        data.qfrc_applied[self.coordinates.dofs[self.robot.tree.a]] = tau
        for push in pushes:
            body = model.body(body_name(self.robot.joint_of_frame(push.frame))).id
            point = data.xpos[body] + data.xmat[body].reshape(3, 3) @ np.array(push.point)
            force = push.share(t, h) * np.array(push.force)
            mujoco.mj_applyFT(model, data, force, np.zeros(3), point, body, data.qfrc_applied)

    def _forces(self) -> Array:
        """On the bodies of the contact places, world frame, contact places first and then pairs [N] (·, 3)."""
        forces, wrench = np.zeros((len(self._pairs), 3)), np.zeros(6)
        found = self.data.contact
        for i, ((first, second), frame) in enumerate(zip(found.geom.tolist(), found.frame, strict=True)):
            mujoco.mj_contactForce(self.model, self.data, i, wrench)
            on_second = wrench[:3] @ frame.reshape(3, 3)
            forces[self._rows[frozenset((first, second))]] += on_second if second in self._spheres else -on_second
        return forces

    def _missed(self) -> float:
        """‖M v̇ + c − τ − Jᵀf‖∞ of the physics step: how far MuJoCo's solver came [N, N·m]."""
        data, inertial = self.data, np.zeros(self.model.nv)
        mujoco.mj_mulM(self.model, data, inertial, data.qacc)
        forces = data.qfrc_passive + data.qfrc_applied + data.qfrc_constraint
        return float(np.abs(inertial + data.qfrc_bias - forces).max())

    def _status(self, warned: bool) -> Status:
        if not self._finite:
            return Status.NON_FINITE
        return Status.NOT_CERTIFIED if warned else Status.SOLVED

    @property
    def _finite(self) -> bool:
        return bool(np.isfinite(self.q).all() and np.isfinite(self.v).all())

    def _move(self, q: Array, v: Array) -> None:
        self.q, self.v = q, v
        if not self._finite:
            return  # nowhere has no contacts: the last ones stay
        self._everywhere = contacts_from_geometry(self.robot, q, self.terrain, margin=np.inf, mu=self._mu)
        self.contacts = self._everywhere.within(self.margin)
