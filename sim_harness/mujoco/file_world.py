"""A robot in the world of its own MJCF: its shapes, friction, damping, springs and MuJoCo's options are those of the file.

What the controller believes of feet, friction and rotors may be wrong here, as on the real robot. A floor is added where the
file has none. Actuators are off: torques act on the joints.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from idyn.model.mjcf import Reading
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.mujoco.coordinates import Coordinates
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.robot import PlacedContent
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.mujoco.world import MujocoWorld
from sim_harness.world.robot_bodies import RobotBodies
from sim_harness.world.world import Push, StepResult

FLOOR = "idyn floor"
"""Name of the floor that is added."""

CLOSE = 1e-6
"""Relative difference of two numbers that are not worth a sentence."""

SHOWN = 4
"""Names of joints in one sentence."""


class FileContent(PlacedContent):
    """The robot of a file, and its contact forces at the contact places that the controller knows.

    The force of each contact with the world counts for the nearest place; contacts of the robot with itself are no contacts
    with the ground.
    """

    def __init__(self, bodies: RobotBodies, reading: Reading, model: mujoco.MjModel, motors: Array) -> None:
        """motors: MuJoCo's index of the velocity of each actuated joint (na)"""
        self.bodies, self.model, self._motors = bodies, model, motors
        self._own = np.isin(model.body_rootid, model.body_rootid[reading.bodies]) & (np.arange(model.nbody) > 0)
        links = {name: i for (kind, i), name in reading.names.items() if kind == "body"}
        frames = bodies.robot.frames
        self._of_joint = {frames.attached(name).joint: links[name] for name in frames.links if name in links}

    def load(self, data: mujoco.MjData, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> None:
        if tau is not None:
            data.qfrc_applied[self._motors] = tau
        self.push(data, span, pushes, self._of_joint.__getitem__)

    def record_forces(self, data: mujoco.MjData, h: float) -> None:
        """Add the impulses of a physics step at the contact places, on the robot in the world frame [N·s] (·, 3)."""
        points, wrench = self._before.points, np.zeros(6)
        if not len(points):
            return
        for i in range(data.ncon):
            contact = data.contact[i]
            first, second = (bool(self._own[self.model.geom_bodyid[g]]) for g in contact.geom)
            if first == second or contact.efc_address < 0:
                continue
            mujoco.mj_contactForce(self.model, data, i, wrench)
            force = wrench[:3] @ contact.frame.reshape(3, 3)
            row = int(np.linalg.norm(points - contact.pos, axis=1).argmin())
            self._impulses[row] += h * (force if second else -force)


def file_world(bodies: RobotBodies, path: Path, height: float) -> MujocoWorld[RobotBodies, StepResult]:
    """Return the world of an MJCF. height: of an added floor [m]. Raises ModelError for a file that is refused."""
    reading, spec = Reading(path), mujoco.MjSpec.from_file(str(path))
    flat = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
    if not any(geom.type in flat for geom in spec.geoms):
        spec.worldbody.add_geom(name=FLOOR, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=[0.0, 0.0, height])
    model = spec.compile()
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION | mujoco.mjtDisableBit.mjDSBL_AUTORESET
    coordinates = Coordinates(bodies.robot, model, reading.joints_of(bodies.robot.tree.dof_names))
    content = FileContent(bodies, reading, model, coordinates.dofs[bodies.robot.tree.a])
    return MujocoWorld(content, coordinates, MujocoSettings(timestep=float(model.opt.timestep)))


def beliefs(robot: Robot, path: Path) -> list[str]:
    """Return in which figures the controller's model differs from the file: masses, rotors, limits, friction of the feet."""
    fields, found = Reading(path).fields, []
    own, armature = robot.description, fields["armature"]
    assert isinstance(own.armature, dict)  # as `Robot` stores it
    names = [name for name in robot.tree.dof_names if _differ(own.armature.get(name, 0.0), armature.get(name, 0.0))]
    if names:
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        first = names[0]
        values = f"{own.armature.get(first, 0.0):.3g} for {armature.get(first, 0.0):.3g} kg·m²"
        found.append(f"rotor inertia: believed {values} ({shown})")
    limits = dict(zip(robot.joint_names, robot.limits.tau_max.tolist(), strict=True))
    names = [name for name, value in limits.items() if _differ(value, fields["tau_max"].get(name, np.inf))]
    if names:
        first = names[0]
        theirs = fields["tau_max"].get(first, np.inf)
        found.append(f"torque limit of {first}: believed {limits[first]:g}, in the file {theirs:g}")
    mu = {contact.frame: contact.mu for contact in fields["contact"]}
    feet = [place for place in own.contact if place.frame in mu and _differ(place.mu, mu[place.frame])]
    if feet:
        found.append(f"friction of {feet[0].frame}: believed {feet[0].mu:g}, in the file {mu[feet[0].frame]:g}")
    return found


def _differ(one: float, other: float) -> bool:
    return one != other and not abs(one - other) <= CLOSE * max(abs(one), abs(other))
