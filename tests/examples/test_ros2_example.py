"""The example for ROS 2: names of joints and topics. It is not run: that needs ROS."""

import re
from pathlib import Path
from xml.etree import ElementTree

from controllers.robot.load import load_robot
from transport.bridges.ros2.bridge import JOINT_STATES, POSTURE

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "ros2"
MOTOR = "{http://www.ros.org/wiki/xacro}motor"


def test_joints_and_topics_are_those_of_robot_and_bridge():
    joints = load_robot("go2")[0].joint_names
    hardware = ElementTree.parse(FOLDER / "go2.urdf.xacro").getroot().find("ros2_control")
    assert tuple(motor.get("name") for motor in hardware.iter(MOTOR)) == joints
    topics = {param.get("name"): param.text for param in hardware.iter("param")}
    assert topics["joint_states_topic"] == f"/{JOINT_STATES.name}"
    assert topics["joint_commands_topic"] == f"/{POSTURE.name}"
    assert tuple(re.findall(r"- (\w+)", (FOLDER / "controllers.yaml").read_text())) == joints
    used = {param.get("from") for param in ElementTree.parse(FOLDER / "idyn.launch.xml").getroot().iter("param")}
    assert "$(dirname)/controllers.yaml" in used
