"""A scene that MuJoCo moves on: its collisions, its contact law, its solver, its integration; ours is only the question.

What it did is handed on in the terms of our engines, contacts and forces as MuJoCo had them, so that the checker judges it as
it does the others: by our inertia, our Jacobian and our Coriolis forces.

Modelling error: that of the mujoco world. A step of the scene is one of MuJoCo. Contacts that do not press are not told.
"""

import time

import msgspec
import numpy as np

from idyn.contact.contacts import first_tangents
from idyn.status import Status
from idyn.types import Array, ContactSet, DynamicsTerms, State
from sim_harness.engines.engine import ForwardSolution
from sim_harness.mujoco.bodies import geom_name, scene_model
from sim_harness.mujoco.coordinates import Coordinates
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.model import body_name
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.scenes.bodies.contacts import GROUND, Touching, touching_materials
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.rows import Constraints
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.residuals import Taken
from sim_harness.scenes.world import Step, applied_force, force_now, where_now
from sim_harness.world.engine_step import forward_problem
from sim_harness.world.jacobian import along_contacts
from sim_harness.world.world import checked_state

TAKEN = Taken(bodies=0.0, springs=0.0, dampers=1.0, rows=0.0)
"""MuJoCo's integrator `Euler`; the others take more at the end."""


class MujocoScene:
    """A `Scene` of `sim_harness.scenes.worlds`. Raises ConfigError for what MuJoCo cannot carry."""

    def __init__(self, settings: SceneSettings, engine: MujocoSettings) -> None:
        self.model = SceneModel(settings)
        self._mujoco = scene_model(self.model, engine)
        self._data = mujoco.MjData(self._mujoco)
        self._coordinates = Coordinates(self.model.robot, self._mujoco)
        self._constraints = Constraints(self.model)
        names = [geom_name(i) for i in range(len(settings.body))] + ([] if settings.ground is None else [geom_name(GROUND)])
        self._bodies = {self._mujoco.geom(name).id: i for i, name in enumerate(names)}
        if settings.ground is not None:
            self._bodies[self._mujoco.geom(geom_name(GROUND)).id] = GROUND
        self.reset(self.model.start.q, self.model.start.v)

    def reset(self, q: Array, v: Array) -> None:
        """Put the bodies at (q, v) and the clock to 0. Raises InputError for what is no state."""
        self._state = checked_state(self.model.robot, q, v)
        mujoco.mj_resetData(self._mujoco, self._data)
        self._data.qpos[:], self._data.qvel[:] = self._coordinates.to_mujoco(q, v)
        self.t = 0.0

    @property
    def state(self) -> State:
        return self._state

    def step(self) -> Step:
        """Move on by the scene's dt."""
        model, data, dt, before = self._mujoco, self._data, self.model.settings.dt, self._state
        warnings, qpos, begin = data.warning.number.sum(), data.qpos.copy(), time.perf_counter()
        mujoco.mj_step1(model, data)
        self._apply(self.t + dt / 2)
        mujoco.mj_step2(model, data)
        seconds = time.perf_counter() - begin
        touching, forces = self._touching()
        q, v = self._coordinates.from_mujoco(data.qpos, data.qvel)
        self._state = State(q=q, v=v)
        M, h, axes = self.model.terms(before.q, before.v)
        contacts = touching.contacts
        force = applied_force(self.model, before.q, axes, self.t + dt / 2)
        terms = DynamicsTerms(M=M, h=h, axes=axes)
        problem = forward_problem(self.model.robot, terms, before.v, contacts, force + self._tied(qpos), dt)
        solution = ForwardSolution(
            v_plus=self.model.before(before.q, self._state),
            p=along_contacts(dt * forces, contacts.tangents, contacts.normals)[:, [1, 2, 0]],
            status=self._status(data.warning.number.sum() > warnings),
            iterations=int(data.solver_niter.sum()),
            dynamics=float("nan"),
            contact=float("nan"),
        )
        problem = msgspec.structs.replace(problem, rows=self._constraints.rows(before.q, axes))
        self.t += dt
        return Step(touching=touching, problem=problem, solution=solution, taken=TAKEN, seconds=seconds)

    def _tied(self, qpos: Array) -> Array:
        """Generalised force of closures and stops, constraints of MuJoCo's own, in our velocities at qpos (nv)."""
        data, kinds = self._data, mujoco.mjtConstraint
        own = np.isin(data.efc_type, [int(kinds.mjCNSTR_EQUALITY), int(kinds.mjCNSTR_LIMIT_JOINT)])
        force = np.zeros(self._mujoco.nv)
        mujoco.mj_mulJacTVec(self._mujoco, data, force, np.where(own, data.efc_force, 0.0))
        return self._coordinates.from_mujoco(qpos, force)[1]

    def _apply(self, t: float) -> None:
        """The scene's forces; the bodies have been placed."""
        self._data.qfrc_applied[:] = 0.0
        for force in self.model.settings.force:
            i = self.model.names.index(force.body)
            body = self._mujoco.body(body_name(int(self.model.joints[i]))).id
            geom = self._data.geom(geom_name(i))
            push, none, where = force_now(force, t), np.zeros(3), geom.xpos + geom.xmat.reshape(3, 3) @ where_now(force, t)
            mujoco.mj_applyFT(self._mujoco, self._data, push, none, where, body, self._data.qfrc_applied)

    def _touching(self) -> tuple[Touching, Array]:
        """The contacts of the step, and the force on the first body of each, world frame [N] (n, 3)."""
        found, n = self._data.contact, self._data.ncon
        pairs, forces, wrench = np.zeros((n, 2), dtype=np.int64), np.zeros((n, 3)), np.zeros(6)
        frames = np.array(found.frame).reshape(n, 3, 3)
        for k in range(n):
            first, second = (self._bodies[geom] for geom in found.geom[k].tolist())
            sign = -1.0 if first != GROUND else 1.0  # MuJoCo's normal and force are towards and on the second
            pairs[k] = (first, second) if first != GROUND else (second, first)
            mujoco.mj_contactForce(self._mujoco, self._data, k, wrench)
            forces[k], frames[k] = sign * (wrench[:3] @ frames[k]), sign * frames[k]
        joints, normals = np.append(self.model.joints, 0), frames[:, 0].copy()
        mu = [touching_materials(self.model.settings, i, j).mu for i, j in pairs.tolist()]
        contacts = ContactSet(
            bodies=joints[pairs[:, 0]],
            others=joints[pairs[:, 1]],
            points=np.array(found.pos).reshape(n, 3),
            normals=normals,
            tangents=first_tangents(normals),
            mu=np.array(mu),
            gaps=np.array(found.dist).reshape(n),
            keys=tuple(f"{i} {j} {k}" for k, (i, j) in enumerate(pairs.tolist())),
        )
        touching = Touching(
            contacts=contacts,
            pairs=pairs,
            stiffness=np.full(n, np.inf),
            dissipation=np.zeros(n),
            pivots=(contacts.points, contacts.points),
        )
        return touching, forces

    def _status(self, warned: bool) -> Status:
        if not np.isfinite(self._state.q).all() or not np.isfinite(self._state.v).all():
            return Status.NON_FINITE
        return Status.NOT_CERTIFIED if warned else Status.SOLVED
