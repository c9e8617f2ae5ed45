"""What the tests of MuJoCo's world share: worlds, and the maps between the two kinds of velocities and accelerations."""

import numpy as np

from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.worlds import build_world

BLOCK = """
<robot name="block"><link name="block"><inertial><mass value="2"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.04"/></inertial></link></robot>
"""
CORNERS = [(x, y, -0.05) for x in (-0.2, 0.2) for y in (-0.15, 0.15)]


def block_world(mu=0.5, terrain=None, **settings):
    """A 2 kg block, 0.4 × 0.3 × 0.1 m, on the ground."""
    robot = Robot(
        Description(urdf=BLOCK, contact=tuple(ContactPoint(frame="block", offset=corner, mu=mu) for corner in CORNERS))
    )
    q = robot.neutral()
    q[2] = 0.05
    return build_world(MujocoSettings(**settings), robot, Flat() if terrain is None else terrain, q)


def robot_world(name="quadruped", terrain=None, **settings):
    robot, q = load_robot(name)
    return build_world(MujocoSettings(**settings), robot, Flat() if terrain is None else terrain, q)


def velocity_map(world, q):
    """T (nv, nv) with qvel = T v; v is linear and angular in the body's frame, qvel linear in the world's."""
    return np.array([world.coordinates.to_mujoco(q, unit)[1] for unit in np.eye(len(world.v))]).T


def turning(world, q, v):
    """Ṫ v (nv): the linear acceleration of a free body in the world frame has R (ω × v) beside R v̇."""
    robot, bend = world.robot, np.zeros(len(v))
    for joint in set(robot.tree.dof_joint.tolist()):
        columns = np.flatnonzero(robot.tree.dof_joint == joint)
        if len(columns) == 6:
            bend[columns[:3]] = np.cross(v[columns[3:]], v[columns[:3]])
    return velocity_map(world, q) @ bend
