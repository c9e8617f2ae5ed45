"""A scene in a MuJoCo world, with MuJoCo's collision detection, contact law, solver and integration.

A step of the scene is one step of MuJoCo, returned in the form of the project's engines. Contacts without force are left out.
"""

from collections.abc import Sequence

import numpy as np

from idyn.errors import ConfigError
from idyn.types import Array, State
from sim_harness.engines.engine import ForceTimes, ForwardSolution
from sim_harness.engines.penalty import MU_CAP
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.mujoco_world import Content, Ending, MujocoWorld
from sim_harness.mujoco.robot_model import Coordinates, add_pair, bodies_of, body_name, compiled_model, quaternion_of
from sim_harness.studies.scenes.contacts import GROUND, candidate_pairs, contact_set, touching_materials
from sim_harness.studies.scenes.scene import Scene, force_now, has_compliant_rows, where_now
from sim_harness.studies.scenes.scene_model import SceneModel, joint_name
from sim_harness.studies.scenes.scene_settings import ClosureSettings, Shape
from sim_harness.world.bodies import forward_problem
from sim_harness.world.world import Push, Step, Touching, along_contacts, step_of


def geom_name(body: int) -> str:
    """Return the name of the geometry of a body or of the ground."""
    return "ground" if body == GROUND else f"shape {body}"


def scene_model(scene: SceneModel, settings: MujocoSettings) -> mujoco.MjModel:
    """Return the MuJoCo model of a scene. Raises ConfigError for a scene that MuJoCo does not support."""
    _check(scene, settings)
    spec = bodies_of(scene.robot, settings)
    spec.option.gravity = scene.gravity
    spec.option.timestep = scene.settings.dt
    for i, body in enumerate(scene.settings.body):
        kind, size = _shape(body.shape)
        spec.body(body_name(int(scene.joints[i]))).add_geom(
            name=geom_name(i), type=kind, size=size, pos=scene.offsets[i], quat=quaternion_of(scene.rotations[i])
        )
    pairs = candidate_pairs(scene)
    if scene.settings.ground is not None:
        spec.worldbody.add_geom(name=geom_name(GROUND), type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
        moving = [i for i, body in enumerate(scene.settings.body) if body.touches and scene.joints[i]]
        pairs += [(i, GROUND) for i in moving]
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0  # only the listed pairs make contact
    for i, j in pairs:
        mu = min(max(touching_materials(scene.settings, i, j).mu, mujoco.mjMINMU), MU_CAP)
        add_pair(spec, f"{i} {j}", (geom_name(i), geom_name(j)), settings, mu)
    closures = [_add_closure(spec, scene, closure) for closure in scene.settings.closure]
    model = compiled_model(spec, scene.robot)
    for row, data in enumerate(closures):
        model.eq_data[row] = data  # the compiler has computed it at the neutral configuration
    _add_effects(model, scene)
    return model


def _check(scene: SceneModel, settings: MujocoSettings) -> None:
    if scene.settings.dt > settings.timestep * (1 + 1e-9):
        raise ConfigError(
            "engine.timestep", f"expected at least the step of the scene, {scene.settings.dt} s, got {settings.timestep} s"
        )
    ground = [] if scene.settings.ground is None else [("scene.ground", scene.settings.ground.material)]
    bodies = [(f"scene.body[{i}]", body.material) for i, body in enumerate(scene.settings.body)]
    for i, body in enumerate(scene.settings.body):
        if body.shape.hull is not None:
            raise ConfigError(
                f"scene.body[{i}].shape.hull", "expected a box, sphere or cylinder for the engine 'mujoco', got a hull"
            )
    if has_compliant_rows(scene.settings):
        raise ConfigError("scene", "the engine 'mujoco' does not support closures and stops with stiffness in scenes")
    if scene.settings.cells:
        raise ConfigError("scene.cells", "the engine 'mujoco' does not support cells, it has its own collision detection")
    for where, material in ground + bodies:
        if np.isfinite(material.stiffness):
            raise ConfigError(
                f"{where}.material.stiffness", "the engine 'mujoco' does not support stiffness in N/m, expected inf"
            )


def _shape(shape: Shape) -> tuple[int, list[float]]:
    kinds = mujoco.mjtGeom
    if shape.box is not None:
        return kinds.mjGEOM_BOX, [edge / 2 for edge in shape.box]
    if shape.sphere is not None:
        return kinds.mjGEOM_SPHERE, [shape.sphere, 0, 0]
    assert shape.cylinder is not None
    return kinds.mjGEOM_CYLINDER, [shape.cylinder[0], shape.cylinder[1] / 2, 0]


def _add_closure(spec: mujoco.MjSpec, scene: SceneModel, closure: ClosureSettings) -> Array:
    """Add an equality constraint between two bodies and return its data at the reference configuration."""
    joints = [int(scene.joints[scene.names.index(name)]) if name else 0 for name in closure.bodies]
    rotations, origins = scene.robot.place(scene.reference)
    (turn, place), (other_turn, other_place) = ((rotations[joint].copy(), origins[joint].copy()) for joint in joints)
    equality = spec.add_equality()
    equality.objtype = mujoco.mjtObj.mjOBJ_BODY
    equality.name1, equality.name2 = (body_name(joint) for joint in joints)
    data = np.zeros(len(equality.data))
    if closure.kind == "pin":
        equality.type = mujoco.mjtEq.mjEQ_CONNECT
        data[:3] = turn.T @ (np.array(closure.at) - place)
        data[3:6] = other_turn.T @ (np.array(closure.at) - other_place)
    else:
        equality.type = mujoco.mjtEq.mjEQ_WELD
        data[:3] = other_turn.T @ (np.array(closure.at) - other_place)
        data[3:6] = turn.T @ (np.array(closure.at) - place)
        data[6:10] = quaternion_of(turn.T @ other_turn)
        data[10] = 1.0
    equality.data = data
    return data


def _add_effects(model: mujoco.MjModel, scene: SceneModel) -> None:
    effects = scene.effects
    for body in scene.settings.body:
        for k in range(len(body.joints)):
            dof = scene.dofs[joint_name(body, k)][0]
            joint = model.body(body_name(int(scene.robot.tree.dof_joint[dof]))).jntadr[0]
            address = model.jnt_dofadr[joint]
            model.jnt_stiffness[joint], model.qpos_spring[model.jnt_qposadr[joint]] = effects.stiffness[dof], effects.rest[dof]
            model.dof_damping[address], model.dof_frictionloss[address] = effects.viscous[dof], effects.coulomb[dof]
            ends = np.array([effects.low[dof], effects.high[dof]])
            if np.isfinite(ends).any():
                model.jnt_limited[joint], model.jnt_range[joint] = 1, ends


FORCE_TIMES = ForceTimes(springs=0.0)
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
        mu = np.array([touching_materials(scene.settings, i, j).mu for i, j in pairs.tolist()])
        keys = tuple(f"{i} {j} {k}" for k, (i, j) in enumerate(pairs.tolist()))
        points, gaps = np.array(found.pos).reshape(n, 3), np.array(found.dist).reshape(n)
        self.contacts = contact_set(scene, pairs, points, frames[:, 0].copy(), gaps, mu, keys)
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
        terms, p = scene.terms(q, v), np.empty(self._forces.shape)
        along_contacts(ending.dt * self._forces, contacts.tangents, contacts.normals, p)
        force = scene.force(terms[2], ending.before, (ending.t, ending.dt)) + self._tied
        problem = forward_problem(scene.robot, terms, v, contacts, force, ending.dt, rows=scene.rows(q, terms[2]))
        solution = ForwardSolution(
            v_plus=scene.before(q, after),
            p=p[:, [1, 2, 0]],
            status=ending.status,
            iterations=ending.iterations,
            dynamics=float("nan"),
            contact=float("nan"),
        )
        return step_of(problem, solution, Touching(contacts=contacts, pairs=self._pairs), FORCE_TIMES, ending.seconds)
