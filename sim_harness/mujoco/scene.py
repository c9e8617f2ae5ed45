"""A scene in a MuJoCo world, with MuJoCo's collision detection, contact law, solver and integration.

A step returns MuJoCo's contacts and forces in the form of the project's engines, so the same residuals apply. They are computed
with the project's inertia, Jacobian and Coriolis forces.

A step of the scene is one step of MuJoCo. Contacts without force are not reported.
"""

from collections.abc import Sequence

import numpy as np

from idyn.contact.contacts import first_tangents
from idyn.types import Array, ContactSet, State
from sim_harness.engines.engine import ForwardSolution
from sim_harness.mujoco.coordinates import Coordinates
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.robot_model import body_name
from sim_harness.mujoco.scene_model import geom_name, scene_model
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.mujoco.world import Content, Ending, MujocoWorld
from sim_harness.scenes.bodies.contacts import GROUND, touching_materials
from sim_harness.scenes.scene import Scene, force_now, where_now
from sim_harness.world.bodies import forward_problem
from sim_harness.world.jacobian import along_contacts
from sim_harness.world.world import ForceTimes, Push, Step, Touching, step_of

FORCE_TIMES = ForceTimes(bodies=0.0, springs=0.0, dampers=1.0, rows=0.0)
"""Force times of MuJoCo's integrator `Euler`. The other integrators evaluate more forces at the end of the step."""


def scene_world(scene: Scene, settings: MujocoSettings) -> MujocoWorld[Scene, Step]:
    """Return the MuJoCo world of a scene. Raises ConfigError for a scene that MuJoCo does not support."""
    model = scene_model(scene, settings)
    coordinates = Coordinates(scene.robot, model)
    return MujocoWorld(SceneContent(scene, model, coordinates), coordinates, settings)


class SceneContent(Content[Scene, Step]):
    """A scene, its external forces and its contact forces."""

    def __init__(self, scene: Scene, model: mujoco.MjModel, coordinates: Coordinates) -> None:
        self.bodies, self.model, self._coordinates = scene, model, coordinates
        named = list(range(len(scene.settings.body))) + ([] if scene.settings.ground is None else [GROUND])
        self.contacts = scene.touching(scene.start.q).contacts
        self._bodies = {model.geom(geom_name(i)).id: i for i in named}

    def begin(self, data: mujoco.MjData) -> None:
        self._qpos = data.qpos.copy()

    def load(self, data: mujoco.MjData, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> None:
        """Apply the scene's external forces, evaluated at the middle of the step."""
        scene, t = self.bodies, span[0] + span[1] / 2
        for force in scene.settings.force:
            i = scene.names.index(force.body)
            body, geom = self.model.body(body_name(int(scene.joints[i]))).id, data.geom(geom_name(i))
            where = geom.xpos + geom.xmat.reshape(3, 3) @ where_now(force, t)
            mujoco.mj_applyFT(self.model, data, force_now(force, t), np.zeros(3), where, body, data.qfrc_applied)

    def record_forces(self, data: mujoco.MjData, h: float) -> None:
        """Record the contacts of the step and the force on the first body of each, world frame [N] (n, 3)."""
        found, n, scene = data.contact, data.ncon, self.bodies
        pairs, forces, wrench = np.zeros((n, 2), dtype=np.int64), np.zeros((n, 3)), np.zeros(6)
        frames = np.array(found.frame).reshape(n, 3, 3)
        for k in range(n):
            first, second = (self._bodies[geom] for geom in found.geom[k].tolist())
            sign = -1.0 if first != GROUND else 1.0  # MuJoCo's normal points to the second geom, its force acts on it
            pairs[k] = (first, second) if first != GROUND else (second, first)
            mujoco.mj_contactForce(self.model, data, k, wrench)
            forces[k], frames[k] = sign * (wrench[:3] @ frames[k]), sign * frames[k]
        joints, normals = np.append(scene.joints, 0), frames[:, 0].copy()
        mu = [touching_materials(scene.settings, i, j).mu for i, j in pairs.tolist()]
        self.contacts = ContactSet(
            bodies=joints[pairs[:, 0]],
            others=joints[pairs[:, 1]],
            points=np.array(found.pos).reshape(n, 3),
            normals=normals,
            tangents=first_tangents(normals),
            mu=np.array(mu),
            gaps=np.array(found.dist).reshape(n),
            radii=np.zeros(n),
            keys=tuple(f"{i} {j} {k}" for k, (i, j) in enumerate(pairs.tolist())),
        )
        self._pairs, self._forces, self._tied = pairs, forces, self._of_constraints(data)

    def _of_constraints(self, data: mujoco.MjData) -> Array:
        """Return the generalised force of MuJoCo's equality and limit constraints, in Pinocchio's velocities at the beginning
        of the step (nv)."""
        kinds = mujoco.mjtConstraint
        own = np.isin(data.efc_type, [int(kinds.mjCNSTR_EQUALITY), int(kinds.mjCNSTR_LIMIT_JOINT)])
        force = np.zeros(self.model.nv)
        mujoco.mj_mulJacTVec(self.model, data, force, np.where(own, data.efc_force, 0.0))
        return self._coordinates.from_mujoco(self._qpos, force)[1]

    def result(self, ending: Ending, after: State) -> Step:
        scene, (q, v), contacts = self.bodies, (ending.before.q, ending.before.v), self.contacts
        terms = scene.terms(q, v)
        force = scene.force(terms[2], ending.before, (ending.t, ending.dt)) + self._tied
        problem = forward_problem(scene.robot, terms, v, contacts, force, ending.dt, rows=scene.rows(q, terms[2]))
        solution = ForwardSolution(
            v_plus=scene.before(q, after),
            p=along_contacts(ending.dt * self._forces, contacts.tangents, contacts.normals)[:, [1, 2, 0]],
            status=ending.status,
            iterations=ending.iterations,
            dynamics=float("nan"),
            contact=float("nan"),
        )
        return step_of(problem, solution, Touching(contacts=contacts, pairs=self._pairs), FORCE_TIMES, ending.seconds)
