"""Paths: waypoints in order, turning, stopping."""

import math

import numpy as np
import pytest
from fast import every

from controllers.planners.path import DONE, NEXT, Path, PathSettings, command
from idyn.errors import ConfigError

TASK = ((0.0, 0.0), (0.25, 0.0), (0.0, 0.25), (0.0, -0.25), (-0.25, 0.0))


def go(path, t, x, y, yaw):
    """The command at time t with the base at that pose (3)."""
    return np.array(command(path.fields, t, (x, y, yaw)))


def drive(path, seconds, dt=0.01):
    """Poses (n, 3) and commands (n, 3) of a point that follows the command at once."""
    pose, poses, commands = np.zeros(3), [], []
    for k in range(round(seconds / dt)):
        u = go(path, k * dt, *pose)
        c, s = math.cos(pose[2]), math.sin(pose[2])
        pose = pose + dt * np.array([c * u[0] - s * u[1], s * u[0] + c * u[1], u[2]])
        poses.append(pose)
        commands.append(u)
    return np.array(poses), np.array(commands)


def test_waypoints_are_visited_in_order():
    poses, _ = drive(Path(PathSettings(waypoints=TASK, repeat=False)), 30)
    reached = [np.flatnonzero(np.hypot(*(poses[:, :2] - np.array(point)).T) < 0.031) for point in TASK]
    firsts = [reached[0][0]]
    for visits in reached[1:]:
        later = visits[visits > firsts[-1]]
        assert len(later)
        firsts.append(later[0])
    assert np.hypot(*(poses[-1, :2] - np.array(TASK[-1]))) < 0.031


def test_a_repeated_path_does_not_end():
    path = Path(PathSettings(waypoints=TASK, repeat=True))
    drive(path, 60)
    assert not path.progress[DONE]


def test_the_command_keeps_its_limits():
    _, commands = drive(Path(PathSettings(waypoints=TASK, repeat=True, speed=0.2, turn=0.7)), 30)
    assert commands[:, 0].max() == pytest.approx(0.2, rel=1e-3)
    assert commands[:, 0].min() >= 0.0
    assert np.abs(commands[:, 2]).max() <= 0.7
    assert not commands[:, 1].any()


def test_the_command_turns_in_place_towards_a_waypoint_behind():
    path = Path(PathSettings(waypoints=((-1.0, 0.1),)))
    forward, _, turn = go(path, 0.0, 0.0, 0.0, 0.0)
    assert forward == 0.0
    assert turn > 0.0
    assert go(path, 0.0, 0.0, 0.0, 2.9)[0] > 0.0


@every("yaw", [3.0, -3.0])
def test_the_command_turns_the_short_way(yaw):
    turn = go(Path(PathSettings(waypoints=((-1.0, 0.0),))), 0.0, 0.0, 0.0, yaw)[2]
    assert np.sign(turn) == np.sign(yaw)


def test_the_command_slows_down_before_the_last_waypoint():
    """v² = 2 a d: from there it can stop."""
    path = Path(PathSettings(waypoints=((1.0, 0.0),), speed=0.5, acceleration=0.5))
    assert go(path, 0.0, 0.0, 0.0, 0.0)[0] == pytest.approx(0.5)
    assert go(path, 0.0, 0.96, 0.0, 0.0)[0] == pytest.approx(math.sqrt(2 * 0.5 * 0.04))
    assert not path.progress[DONE]
    assert not go(path, 0.0, 0.98, 0.0, 0.0).any()
    assert path.progress[DONE]


def test_a_constant_command_lasts_for_its_duration():
    path = Path(PathSettings(velocity=(0.1, 0.2, 0.3), duration=1.0))
    np.testing.assert_array_equal(go(path, 0.9, 5.0, 5.0, 1.0), [0.1, 0.2, 0.3])
    assert not go(path, 1.0, 0.0, 0.0, 0.0).any()


@every("field", ["tolerance", "acceleration"])
def test_bad_paths_are_refused(field):
    with pytest.raises(ConfigError, match=rf"reference\.path\.{field}: expected > 0, got -1"):
        Path(PathSettings(**{field: -1.0}))


def test_integers_are_accepted_as_coordinates():
    path = Path(PathSettings(waypoints=((1, 0),), velocity=(1, 0, 0)))
    assert go(path, 0.0, 0.0, 0.0, 0.0)[0] > 0.0
    np.testing.assert_array_equal(go(Path(PathSettings(velocity=(1, 0, 0))), 0.0, 0.0, 0.0, 0.0), [1.0, 0.0, 0.0])


def test_waypoints_within_tolerance_do_not_loop_forever():
    path = Path(PathSettings(waypoints=((0.0, 0.0), (0.01, 0.0)), repeat=True, tolerance=0.1))
    assert np.isfinite(go(path, 0.0, 0.0, 0.0, 0.0)).all()
    assert path.progress[NEXT] == 0
