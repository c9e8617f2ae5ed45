"""A wheel about a vertical axis: no gravity, no contact, one joint; what friction and rotors do to it has a known answer."""

from idyn.contact.terrain import Flat
from idyn.model.description import Description
from idyn.model.robot import Robot
from sim_harness.world.bodies import JointFriction
from sim_harness.world.worlds import ENGINES, EngineWorld, build_world

INERTIA = 0.02
WHEEL = f"""
<robot name="wheel"><link name="stand"/>
<link name="wheel"><inertial><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="{INERTIA}"/></inertial></link>
<joint name="axle" type="revolute"><parent link="stand"/><child link="wheel"/><axis xyz="0 0 1"/>
<limit lower="-1000" upper="1000" effort="10" velocity="100"/></joint></robot>
"""


def wheel(armature: float = 0.0) -> Robot:
    return Robot(Description(urdf=WHEEL, base="fixed", armature=armature))


def wheel_world(viscous: float = 0.0, coulomb: float = 0.0, armature: float = 0.0) -> EngineWorld:
    robot = wheel(armature)
    friction = JointFriction.of(robot, {"axle": viscous}, {"axle": coulomb})
    return build_world(ENGINES["lcp"](), robot, Flat(), robot.neutral(), friction=friction)
