"""Steering a robot while it walks, and the pose of its base."""

from itertools import product

import numpy as np
import pytest
from fast import every, first_is_fast, full
from mujoco_robot import DrivenRobot, pose

from idyn.model.so3 import tilt
from idyn.tasks import ForceTask, FrameTask
from transport.log.replay import replay
from transport.protocol.messages.command import GaitPart

VALID = 0.1
"""Validity of a command [s]."""


@pytest.mark.parametrize("name", [pytest.param("go2", marks=full), pytest.param("a1", marks=pytest.mark.long)])
def test_patterns_change_while_the_robot_walks(name):
    drive = DrivenRobot(f"{name}-trot")
    drive.run(2.0, velocity=(0.3, 0.0, 0.0))
    for pattern in ("pace", "bound", "trot", "walk", "bound", "pace", "stand", "pace"):
        slow, speed = pattern == "walk", 0.0 if pattern == "stand" else 0.3
        gait = GaitPart(pattern=pattern, period=0.6 if slow else 0.3, duty=0.8 if slow else 0.6)
        drive.run(4.0, velocity=(speed, 0.0, 0.0), gait=gait)
        assert tilt(drive.state[0][3:7]) < 0.12
        error = np.abs(drive.mean_velocity(2.0) - (speed, 0.0, 0.0))
        assert error.max() < (0.12 if pattern == "bound" else 0.015)


COMMANDS = [(0.3, 0.1, 0.5), (0.4, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 1.0)]
FASTER = [(1.0, 0.0, 0.0), (1.5, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, 0.0, 2.0)]
"""Of all robots but the paper's quadruped."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "seed"), [*product(["go2", "a1"], range(10)), ("solo12", 0), ("solo12", 1)])
def test_a_minute_of_random_commands(name, seed):
    """A new command every two seconds: up to 1.5 m/s forward, 0.5 m/s backward and sideways, 2 rad/s."""
    rng, drive = np.random.default_rng(seed), DrivenRobot(f"{name}-trot")
    for _ in range(30):
        drive.run(2.0, velocity=rng.uniform((-0.5, -0.5, -2.0), (1.5, 0.5, 2.0)).tolist())
        q, _ = drive.state
        assert tilt(q[3:7]) < 0.5


@pytest.mark.parametrize(
    ("name", "velocity"),
    [
        *(pytest.param(*each, marks=full) for each in product(["go2", "a1", "solo12", "quadruped"], COMMANDS)),
        *(pytest.param(*each, marks=pytest.mark.long) for each in product(["go2", "a1", "solo12"], FASTER)),
    ],
)
def test_the_base_moves_as_commanded(name, velocity):
    drive = DrivenRobot(f"{name}-trot")
    drive.run(9.0, velocity=velocity)
    off = np.abs(drive.mean_velocity(4.5 if velocity in COMMANDS else 3.0) - velocity).max()
    assert off < (0.03 if velocity in COMMANDS else 0.05) * np.abs(velocity).max()


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2", "solo12"]))
def test_the_robot_stands_within_a_second_after_the_commands_end(name):
    drive = DrivenRobot(f"{name}-trot")
    drive.run(2.5, velocity=(0.3, 0.0, 0.0))
    assert drive.mean_velocity(0.6)[0] > 0.2
    assert drive.messages <= {""} or name != "quadruped"
    drive.run(1.0 + VALID)
    drive.run(0.5)
    assert np.abs(drive.mean_velocity(0.5)).max() < 0.02
    assert any("expired" in message for message in drive.messages)


LOWER, ROLL, PITCH = -0.04, 0.1, -0.06


@pytest.mark.parametrize("name", first_is_fast(["go2", "a1", "solo12", "quadruped"]))
def test_a_standing_robot_moves_to_the_commanded_pose_and_back(name):
    robot, wanted = DrivenRobot(name), np.array([LOWER, ROLL, PITCH])  # in the same order as in replies
    robot.run(0.8)
    level = robot.mean_pose(0.1)
    robot.run(1.5, height=LOWER, attitude=[ROLL, PITCH])
    error = np.abs(robot.mean_pose(0.1) - level - wanted)
    np.testing.assert_allclose(robot.reply.pose, wanted, atol=1e-6)
    assert error[0] < 2e-3
    assert error[1:].max() < 5e-3
    robot.run(VALID + 1.5)
    back = np.abs(robot.mean_pose(0.1) - level)
    assert back[0] < 1e-3
    assert back[1:].max() < 2e-3
    rates = np.diff(robot.poses, axis=0) / 1e-3
    assert (np.abs(rates).max(axis=0) < [0.15, 0.6, 0.6]).all()
    assert robot.reply.pose is None
    assert any("expired" in message for message in robot.messages)


@full
@pytest.mark.parametrize("name", ["go2-trot", "a1-trot", "solo12-trot", "quadruped-trot"])
def test_a_trotting_robot_follows_the_pose_while_it_moves(name):
    robot = DrivenRobot(name)
    robot.run(2.5, velocity=[0.2, 0.0, 0.0])
    level = robot.mean_pose(0.8)
    robot.run(2.5, velocity=[0.2, 0.0, 0.0], height=LOWER, attitude=[ROLL, 0.0])
    error = np.abs(robot.mean_pose(0.8) - level - [LOWER, ROLL, 0.0])
    assert error[0] < 2e-3
    assert error[1:].max() < 5e-3
    assert abs(robot.mean_velocity(0.8)[0] - 0.2) < 0.02


@full
@pytest.mark.parametrize("name", ["go2-trot", "a1-trot", "solo12-trot", "quadruped-trot", "solo8-trot", "fivebar-trot"])
def test_gaits_change_while_the_robot_walks(name):
    robot, forward = DrivenRobot(name), [0.15, 0.0, 0.0]
    walk = GaitPart(pattern="walk", period=0.8, duty=0.8)
    stand = GaitPart(pattern="stand")
    for gait in (None, walk, GaitPart(period=0.5, step_height=0.04), walk, stand, None):
        robot.run(2.5, velocity=None if gait == stand else forward, gait=gait)
        height, roll, pitch = pose(robot.state[0])
        assert abs(height - robot.poses[0][0]) < 0.03
        assert max(abs(roll), abs(pitch)) < 0.05
        assert gait != stand or robot.roughness(0.4) < 10.0
    assert robot.mean_velocity(0.8)[0] == pytest.approx(0.15, abs=0.02)


@every(
    ("name", "first", "then"),
    [
        ("quadruped-trot", {"velocity": [0.3, 0.0, 0.5]}, {}),
        ("quadruped", {"height": -0.02, "attitude": [0.05, 0.0]}, {}),
        ("quadruped-trot", {"velocity": [0.2, 0.0, 0.0], "gait": GaitPart(period=0.4)}, {"velocity": [0.2, 0.0, 0.0]}),
        ("go2", {}, {"tasks": [FrameTask(frame="root_joint", rotation=np.eye(3)), ForceTask(contacts="FL_foot", normal=25.0)]}),
    ],
)
def test_a_steered_run_is_replayed_bit_for_bit(name, first, then, tmp_path):
    robot = DrivenRobot(name, tmp_path / "log.mcap")
    robot.run(1.0, **first)
    robot.run(0.6, **then)
    robot.recorder.close()
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 1600
