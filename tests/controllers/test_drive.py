"""Drive gains: zero at joints that grip, set at joints that follow the reference, and part of the command."""

import numpy as np
from fast import every

from controllers.build import build_controller, load_controller
from controllers.command import Inputs
from controllers.config.loading import load
from controllers.drive import DriveSettings, drive_gains
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn.types import State


def test_all_joints_that_follow_the_reference_have_drive_gains():
    robot, q = load_robot("quadruped")
    gripping = robot.joint_names[3], robot.joint_names[7]
    gains = drive_gains(DriveSettings(kp=10.0, kd=0.1), robot, q, gripping)
    expected = np.full(robot.na, 10.0)
    expected[[3, 7]] = 0.0
    np.testing.assert_array_equal(gains.kp, expected)
    np.testing.assert_array_equal(gains.kd, expected / 100)


def test_without_gains_in_the_settings_the_command_has_none():
    robot, _ = load_robot("quadruped")
    assert drive_gains(DriveSettings(), robot, robot.neutral(), ()) is None
    assert drive_gains(DriveSettings(kd=0.1), robot, robot.neutral(), ()) is not None


@every("name", ["quadruped", "quadruped-trot", "solo12-trot", "go2-trot", "a1-trot"])
def test_shipped_drive_gains_carry_the_weight(name):
    """Without feed-forward torque the springs alone carry the weight before a joint is a quarter radian off."""
    settings = load("controllers", name, ControllerSettings)
    robot, q = load_robot(settings.robot)
    height = q[2]
    lever = 0.5 * height  # of a foot's force about a knee, in the worst case
    assert settings.drive.kp * 0.25 > robot.total_mass * 9.81 / len(robot.spheres.keys) * lever


def test_a_command_carries_drive_gains_and_their_reference():
    controller = load_controller("quadruped")
    state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
    command = controller.step(state, controller.contacts(state.q), Inputs(dt=0.0))
    assert command.reference is not None
    np.testing.assert_array_equal(command.drive.kp, np.full(12, controller.settings.drive.kp))
    stopped = controller.step(state, controller.contacts(state.q), Inputs(dt=1e-3, estop="emergency stop"))
    assert stopped.drive is None


def test_a_robot_without_the_setting_gets_no_gains():
    controller = build_controller(ControllerSettings(robot="quadruped"))
    state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
    assert controller.step(state, controller.contacts(state.q), Inputs(dt=0.0)).drive is None
