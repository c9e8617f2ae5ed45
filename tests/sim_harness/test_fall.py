"""Falls: their definition, and that a run in lock-step ends with one."""

import msgspec
import numpy as np
import pytest

from controllers.robot.load import load_robot
from controllers.robot.stance import standing
from idyn.contact.terrain import Flat, Slope
from idyn.errors import ConfigError
from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot
from sim_harness.measure.fall import Posture
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import PushSettings, load_plan, pushes_of


def moved(q, up=0.0, roll=0.0):
    """A configuration with the base higher by `up` [m] and rolled from level [rad]."""
    other = q.copy()
    other[2] += up
    other[3:7] = np.sin(roll / 2), 0.0, 0.0, np.cos(roll / 2)
    return other


def test_a_robot_is_down_when_tilted_or_low_over_its_ground():
    robot, q = load_robot("quadruped")
    posture = Posture(robot, Flat(), q)
    low = -0.5 * q[2]
    for up, roll, upright in ((0.0, 0.0, True), (0.0, 0.49, True), (0.0, 0.51, False), (0.0, np.pi, False), (0.05, 0.0, True),
                              (low + 1e-3, 0.0, True), (low - 1e-3, 0.0, False)):  # fmt: skip
        assert posture.upright(moved(q, up, roll)[None]) is upright
        assert posture.upright(np.array([q, moved(q, up, roll), q])) is upright
    assert not posture.upright(np.full((1, robot.nq), np.nan))


def test_a_base_frame_at_the_ground_has_not_fallen_yet():
    """The frame of the base is where the modeller put it: here, 1 cm below the feet. The robot is down when its mass is."""
    text = "".join(
        f'<link name="{name}"><inertial><origin xyz="0 0 {z}"/><mass value="1"/>'
        '<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        for name, z in (("base", 0.4), ("foot", 0.0))
    )
    text += (
        '<joint name="j" type="prismatic"><parent link="base"/><child link="foot"/><origin xyz="0 0 0.01"/><axis xyz="0 0 1"/>'
    )
    text = f'<robot name="low">{text}<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>'
    robot = Robot(Description(urdf=text, contact=(ContactPoint(frame="foot"),)))
    q = standing(robot, {})
    mass = robot.center_of_mass(q)[2]
    assert (q[2], mass) == (pytest.approx(-0.01), pytest.approx(0.195))
    posture = Posture(robot, Flat(), q)
    assert posture.upright(q[None])
    assert posture.upright(moved(q, up=-0.49 * mass)[None])
    assert not posture.upright(moved(q, up=-0.51 * mass)[None])
    assert not posture.upright(moved(q, roll=0.51)[None])


def test_height_is_measured_above_the_ground_below():
    """Up a slope the same height over the world's origin is a fall."""
    robot, q = load_robot("quadruped")
    posture = Posture(robot, Slope(0.3, 0.1), q)
    along = moved(q)
    along[0] += 0.5
    assert not posture.upright(along[None])
    along[2] += 0.5 * np.tan(0.3)
    assert posture.upright(along[None])


def test_a_fixed_base_does_not_fall():
    robot, q = load_robot("arm")
    assert Posture(robot, Flat(), q).upright(np.zeros((2, robot.nq)))


def tipped(seconds):
    """The quadruped stands for 0.1 s and is then pushed over."""
    plan = load_plan("stand", seconds)
    push = PushSettings(weights=(0.0, 6.0, 0.0), start=0.1, duration=0.2)
    return msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, push=(push,)))


def test_a_run_ends_with_a_fall_and_reports_its_duration():
    run = run_in_process(tipped(3.0), "", lambda *_: None)
    assert not run.summary.upright
    assert 0.1 < run.summary.seconds < 1.0
    assert len(run.trace) == round(run.summary.seconds / 1e-3)


def test_a_trace_up_to_a_fall_equals_that_of_a_shorter_run():
    """The rows of the run that fell are those of a shorter one."""
    long, short = (run_in_process(tipped(seconds), "", lambda *_: None).trace for seconds in (3.0, 0.12))
    assert len(short) == 120
    np.testing.assert_array_equal(long.q[:120], short.q)
    np.testing.assert_array_equal(long.tau[:120], short.tau)


def pushed(**push):
    """The pushes of a run of 2 s."""
    plan = load_plan("stand", 2.0)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, push=(PushSettings(**push),)))
    return pushes_of(plan, load_robot("quadruped")[0])


def test_a_repeated_push_turns_from_one_to_the_next():
    found = pushed(force=(3.0, 0.0, 1.0), start=0.5, duration=0.1, every=0.6, turn=np.pi / 2)
    np.testing.assert_allclose([p.start for p in found], [0.5, 1.1, 1.7])
    np.testing.assert_allclose([p.force for p in found], [(3.0, 0.0, 1.0), (0.0, 3.0, 1.0), (-3.0, 0.0, 1.0)], atol=1e-12)


def test_a_push_that_is_repeated_before_it_ends_is_refused():
    with pytest.raises(ConfigError, match=r"push\[0\]\.every: expected 0 or at least the duration 0\.1 s, got 0\.05"):
        pushed(force=(3.0, 0.0, 1.0), start=0.5, duration=0.1, every=0.05)
