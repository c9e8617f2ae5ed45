"""A participant that speaks only ROS 2 reads and steers a robot in MuJoCo; server and bridge are processes of their own."""

import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
from fast import full
from mujoco_robot import ClientRobot, served
from ros import OWN_DOMAIN, SENSOR, Ros, matched, message_type
from wire import running


@contextmanager
def bridged(controller, folder):
    """A robot, with a server and a bridge."""
    with served(folder, controller, "ros2") as (server, client):
        command = [sys.executable, "-m", "sim_harness", "bridge", "ros2", server.endpoint, "--domain", str(OWN_DOMAIN)]
        bridge = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert bridge.stdout.readline().startswith("go2_description: ")
            yield ClientRobot("go2", client)
        finally:
            bridge.send_signal(signal.SIGINT)
            output, _ = bridge.communicate(timeout=30)
        assert bridge.returncode == 0, output
        assert output.startswith("states: ")


@contextmanager
def repeated(publisher, message):
    """Publish a message 20 times a second."""

    def publish(end):
        while not end.wait(0.05):
            publisher.write(message)

    with running(publish):
        yield


def twist(forward, turn):
    vector = message_type("geometry_msgs/msg/Vector3")
    return message_type("geometry_msgs/msg/Twist")(vector(forward, 0.0, 0.0), vector(0.0, 0.0, turn))


@full
def test_a_robot_walks_faster_turns_and_stands_as_cmd_vel_says(tmp_path, record_property):
    ros = Ros(own=True)
    with bridged("go2-trot", tmp_path) as robot:
        states = ros.reader("joint_states", "sensor_msgs/msg/JointState")
        contacts = {
            foot: ros.reader(f"contacts/{foot}", "geometry_msgs/msg/WrenchStamped", SENSOR)
            for foot in robot.robot.contact_names
        }
        steer = matched(ros.writer("cmd_vel", "geometry_msgs/msg/Twist"))
        for velocity in ((0.1, 0.0), (0.35, 0.0), (0.1, 0.5)):
            with repeated(steer, twist(*velocity)):
                robot.run(4.0)
            forward, _, turn = robot.mean_velocity(2.0)
            record_property(f"{velocity}", f"{forward:.3f} m/s and {turn:.3f} rad/s")
            assert abs(forward - velocity[0]) < 0.03
            assert abs(turn - velocity[1]) < 0.03
        while "expired" not in robot.messages[-1]:
            robot.run(0.01)
        robot.run(1.5)
        assert np.abs(robot.mean_velocity(0.5)).max() < 0.02
        found = states.take()
        carried = [reader.take()[-1].wrench.force for reader in contacts.values()]
    assert len(found) > 50
    order = [found[-1].name.index(name) for name in robot.robot.joint_names]
    measured = np.array(robot.angles)
    for state in found:
        assert (measured == np.array(state.position)[order]).all(axis=1).any()  # that of a tick, to the last bit
    force = sum(np.linalg.norm([each.x, each.y, each.z]) for each in carried)
    assert abs(force - robot.robot.weight) < 0.1 * robot.robot.weight


@full
def test_joints_move_as_joint_commands_say(tmp_path):
    ros = Ros(own=True)
    with bridged("go2", tmp_path) as robot:
        states = ros.reader("joint_states", "sensor_msgs/msg/JointState")
        order = matched(ros.writer("joint_commands", "sensor_msgs/msg/JointState"))
        robot.run(0.5)
        names = list(robot.robot.joint_names)
        wanted = dict(zip(names, robot.angles[-1], strict=True))
        for name in names:
            wanted[name] += 0.1 if "thigh" in name else -0.2 if "calf" in name else 0.0
        header = message_type("std_msgs/msg/Header")(message_type("builtin_interfaces/msg/Time")(0, 0), "")
        with repeated(order, message_type("sensor_msgs/msg/JointState")(header, names, list(wanted.values()), [], [])):
            robot.run(4.0)
        reached = states.take()[-1]
    for name, angle in wanted.items():
        assert abs(reached.position[reached.name.index(name)] - angle) < 0.02, name
