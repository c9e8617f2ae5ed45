"""Commanded height and attitude of the base in MuJoCo, while standing and while trotting."""

import numpy as np
import pytest
from fast import first_is_fast, full
from test_steering import PERIOD, VALID, Drive

from transport.log.replay import replay
from transport.protocol.messages.command import CommandMessage, GaitPart

LOWER, ROLL, PITCH = -0.04, 0.1, -0.06


class Posed(Drive):
    """A robot in MuJoCo whose base is commanded. poses: rows of height [m], roll and pitch [rad], one per tick"""

    def __init__(self, name, log=None):
        super().__init__(name, log)
        self.poses, self.torques = [], []

    def step(self, tau):
        self.torques.append(tau)
        super().step(tau)

    def roughness(self, seconds):
        """Mean |dτ/dt| over the last seconds, summed over the joints [N·m/s]."""
        return np.abs(np.diff(self.torques[-round(seconds * 1e3) :], axis=0)).sum(axis=1).mean() / 1e-3

    def run(self, seconds, **command):
        """Simulate, with a command every `PERIOD` ticks; without fields: no commands."""
        for tick in range(round(seconds / 1e-3)):
            if command and tick % PERIOD == 0:
                self.commands += 1
                reply = self.ask(CommandMessage(session=self.session, seq=self.commands, valid_for=VALID, **command))
                assert reply.__struct_config__.tag == "command_ack", reply
            super().run(1e-3, None)
            self.poses.append(pose(self.state()[0]))

    def mean(self, seconds):
        """Mean pose over the last seconds (3)."""
        return np.mean(self.poses[-round(seconds * 1e3) :], axis=0)


def pose(q):
    """Height of the base [m], roll and pitch [rad] (3), by the conventions of aviation: yaw, then pitch, then roll."""
    x, y, z, w = q[3:7]
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    return np.array([q[2], roll, np.arcsin(2 * (w * y - z * x))])


@pytest.mark.parametrize("name", first_is_fast(["go2", "a1", "solo12", "quadruped"]))
def test_a_standing_robot_moves_to_the_commanded_pose_and_back(name):
    robot, wanted = Posed(name), np.array([LOWER, ROLL, PITCH])  # in the same order as in replies
    robot.run(0.8)
    level = robot.mean(0.1)
    robot.run(1.5, height=LOWER, attitude=[ROLL, PITCH])
    error = np.abs(robot.mean(0.1) - level - wanted)
    np.testing.assert_allclose(robot.reply.pose, wanted, atol=1e-6)
    assert error[0] < 2e-3
    assert error[1:].max() < 5e-3
    robot.run(VALID + 1.5)
    back = np.abs(robot.mean(0.1) - level)
    assert back[0] < 1e-3
    assert back[1:].max() < 2e-3
    rates = np.diff(robot.poses, axis=0) / 1e-3
    assert (np.abs(rates).max(axis=0) < [0.15, 0.6, 0.6]).all()
    assert robot.reply.pose is None
    assert any("expired" in message for message in robot.messages)


@full
@pytest.mark.parametrize("name", ["go2-trot", "a1-trot", "solo12-trot", "quadruped-trot"])
def test_a_trotting_robot_follows_the_pose_while_it_moves(name):
    robot = Posed(name)
    robot.run(2.5, velocity=[0.2, 0.0, 0.0])
    level = robot.mean(0.8)
    robot.run(2.5, velocity=[0.2, 0.0, 0.0], height=LOWER, attitude=[ROLL, 0.0])
    error = np.abs(robot.mean(0.8) - level - [LOWER, ROLL, 0.0])
    assert error[0] < 2e-3
    assert error[1:].max() < 5e-3
    assert abs(robot.mean_velocity(0.8)[0] - 0.2) < 0.02


def test_a_run_with_poses_is_replayed_bit_for_bit(tmp_path):
    robot = Posed("quadruped", tmp_path / "log.mcap")
    robot.run(0.3, height=-0.02, attitude=[0.05, 0.0])
    robot.run(0.3)
    robot.recorder.close()
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 600


@full
@pytest.mark.parametrize("name", ["go2-trot", "a1-trot", "solo12-trot", "quadruped-trot", "solo8-trot", "fivebar-trot"])
def test_gaits_change_while_the_robot_walks(name):
    robot, forward = Posed(name), [0.15, 0.0, 0.0]
    walk = GaitPart(pattern="walk", period=0.8, duty=0.8)
    stand = GaitPart(pattern="stand")
    for gait in (None, walk, GaitPart(period=0.5, step_height=0.04), walk, stand, None):
        robot.run(2.5, velocity=None if gait == stand else forward, gait=gait)
        height, roll, pitch = pose(robot.state()[0])
        assert abs(height - robot.poses[0][0]) < 0.03
        assert max(abs(roll), abs(pitch)) < 0.05
        assert gait != stand or robot.roughness(0.4) < 10.0
    assert robot.mean_velocity(0.8)[0] == pytest.approx(0.15, abs=0.02)


def test_a_run_with_gaits_is_replayed_bit_for_bit(tmp_path):
    robot = Posed("quadruped-trot", tmp_path / "log.mcap")
    robot.run(0.6, velocity=[0.2, 0.0, 0.0], gait=GaitPart(period=0.4))
    robot.run(0.6, velocity=[0.2, 0.0, 0.0])
    robot.recorder.close()
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 1200
