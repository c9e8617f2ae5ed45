"""The world that MuJoCo moves on: its dynamics, its contact law, its solver and its integration. Deterministic.

The ground is ours: below each contact place a plane touches the terrain at the point nearest to the place, laid anew before each
physics step. So gaps and normals are those of `idyn.terrain` on every terrain, and friction may change from foothold to foothold.
Modelling error: first order in the physics step; in a corner (stairs) a place has one contact, with the nearer side. Friction is
between 1e-5, MuJoCo's least, and MU_CAP. Joint limits are not simulated.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np

from idyn.contacts import contacts_from_geometry
from idyn.robot import Robot
from idyn.status import Status
from idyn.terrain import Terrain
from idyn.types import Array, ContactSet, State
from sim_harness.joint_friction import JointFriction
from sim_harness.mujoco.coordinates import Coordinates
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.model import body_name, build_model, pair_name, place_name, plane_name
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.world import MARGIN, Push, StepResult, checked_state

MU_CAP = 100.0
"""Stands for unlimited friction, as in the `penalty` engine."""


class MujocoWorld:
    """A `World`.

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
        self._model = model = build_model(robot, settings)
        self._data = mujoco.MjData(model)
        self._coordinates = Coordinates(robot, model)
        if friction is not None:
            self._resist(friction)
        self._keys = robot.contact_keys + robot.pair_keys
        rows = range(len(self._keys))
        self._pairs = np.array([model.pair(pair_name(row)).id for row in rows], dtype=np.int64)
        geoms = zip(model.pair_geom1[self._pairs], model.pair_geom2[self._pairs], strict=True)
        self._rows = {frozenset(map(int, pair)): row for row, pair in enumerate(geoms)}
        places = range(len(robot.contact_keys))
        self._planes = np.array([model.body(plane_name(i)).mocapid[0] for i in places], dtype=np.int64)
        self._spheres = {model.geom(place_name(i)).id for i in places}
        self.reset(q)

    def _resist(self, friction: JointFriction) -> None:
        """Friction in the joints. MuJoCo's own is soft: by default a light leg creeps under its load at more than 1 rad/s."""
        model, dofs = self._model, self._coordinates.dofs
        model.dof_damping[dofs], model.dof_frictionloss[dofs] = friction.viscous, friction.coulomb
        model.dof_solref[:], model.dof_solimp[:, :2] = (2 * self.settings.timestep, 1.0), mujoco.mjMAXIMP

    @property
    def state(self) -> State:
        return State(q=self.q, v=self.v)

    def reset(self, q: Array, v: Array | None = None) -> None:
        state = checked_state(self.robot, q, v)
        mujoco.mj_resetData(self._model, self._data)
        self._data.qpos[:], self._data.qvel[:] = self._coordinates.to_mujoco(state.q, state.v)
        self.t = 0.0
        self._move(state.q, state.v)

    def step(self, tau: Array, dt: float, pushes: Sequence[Push] = ()) -> StepResult:
        before = self._everywhere
        count = max(ceil(dt / self.settings.timestep - 1e-9), 1)
        self._model.opt.timestep = h = dt / count
        impulses = np.zeros((len(self._rows), 3))
        iterations, missed = 0, 0.0
        for k in range(count):
            self._lay_ground()
            mujoco.mj_step1(self._model, self._data)
            self._apply(tau, pushes, self.t + k * h, h)
            mujoco.mj_step2(self._model, self._data)
            impulses += h * self._forces()
            iterations += int(self._data.solver_niter[0])
            missed = max(missed, h * self._missed())
            self._move(*self._coordinates.from_mujoco(self._data.qpos, self._data.qvel))
        self.t += dt
        contacts = _rows_of(before, (before.gaps <= self.margin) | impulses.any(axis=1))
        impulse = impulses[[self._keys.index(key) for key in contacts.keys]]
        return StepResult(
            contacts=contacts,
            impulse=impulse,
            force=_along_contacts(impulse, contacts) / dt,
            status=self._status(),
            iterations=iterations,
            dynamics=missed,
        )

    def _lay_ground(self) -> None:
        """A plane below each contact place, tangent to the terrain, and the friction of all contacts."""
        c, n = self._everywhere, len(self._planes)
        self._data.mocap_pos[self._planes] = c.points[:n] - c.gaps[:n, None] * c.normals[:n]
        for plane, normal in zip(self._planes, c.normals, strict=False):
            mujoco.mju_quatZ2Vec(self._data.mocap_quat[plane], normal)
        self._model.pair_friction[self._pairs, :2] = np.clip(c.mu, mujoco.mjMINMU, MU_CAP)[:, None]

    def _apply(self, tau: Array, pushes: Sequence[Push], t: float, h: float) -> None:
        """Torques and pushes of the physics step [t, t + h]; the bodies have been placed."""
        model, data = self._model, self._data
        data.qfrc_applied[:] = 0.0
        data.qfrc_applied[self._coordinates.dofs[self.robot.a]] = tau
        for push in pushes:
            body = model.body(body_name(self.robot.joint_of_frame(push.frame))).id
            point = data.xpos[body] + data.xmat[body].reshape(3, 3) @ np.array(push.point)
            force = push.share(t, h) * np.array(push.force)
            mujoco.mj_applyFT(model, data, force, np.zeros(3), point, body, data.qfrc_applied)

    def _forces(self) -> Array:
        """On the bodies of the contact places, world frame, in the order of the keys [N] (·, 3)."""
        forces, wrench = np.zeros((len(self._rows), 3)), np.zeros(6)
        for i, (first, second) in enumerate(self._data.contact.geom.tolist()):
            mujoco.mj_contactForce(self._model, self._data, i, wrench)
            on_second = wrench[:3] @ self._data.contact.frame[i].reshape(3, 3)
            forces[self._rows[frozenset((first, second))]] += on_second if second in self._spheres else -on_second
        return forces

    def _missed(self) -> float:
        """‖M v̇ + c − τ − Jᵀf‖∞ of the physics step: how far MuJoCo's solver came [N, N·m]."""
        data, inertial = self._data, np.zeros(self._model.nv)
        mujoco.mj_mulM(self._model, data, inertial, data.qacc)
        forces = data.qfrc_passive + data.qfrc_applied + data.qfrc_constraint
        return float(np.abs(inertial + data.qfrc_bias - forces).max())

    def _status(self) -> Status:
        if not (np.isfinite(self.q).all() and np.isfinite(self.v).all()):
            return Status.NON_FINITE
        return Status.NOT_CERTIFIED if any(warning.number for warning in self._data.warning) else Status.SOLVED

    def _move(self, q: Array, v: Array) -> None:
        self.q, self.v = q, v
        self._everywhere = c = contacts_from_geometry(self.robot, q, self.terrain, margin=np.inf, mu=self._mu)
        self.contacts = _rows_of(c, c.gaps <= self.margin)


def _rows_of(c: ContactSet, kept: Array) -> ContactSet:
    """The contacts that are kept (n of bool)."""
    return ContactSet(
        bodies=c.bodies[kept],
        others=c.others[kept],
        points=c.points[kept],
        normals=c.normals[kept],
        tangents=c.tangents[kept],
        mu=c.mu[kept],
        gaps=c.gaps[kept],
        keys=tuple(key for key, keep in zip(c.keys, kept, strict=True) if keep),
    )


def _along_contacts(vectors: Array, c: ContactSet) -> Array:
    """World vectors (n, 3) along n, s and t = n × s of each contact (n, 3)."""
    frames = np.stack([c.normals, c.tangents, np.cross(c.normals, c.tangents)], axis=1)
    return np.einsum("nij,nj->ni", frames, vectors)
