"""Robots that walk on two legs in MuJoCo: steered, pushed, with swinging arms."""

import msgspec
import mujoco
import numpy as np
import pytest
from fast import full
from mujoco_robot import DrivenRobot
from stands import quiet

from idyn.tasks import PostureTask
from sim_harness.measure.fall import base_tilt
from sim_harness.measure.verdict import Ending
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import (
    PushSettings,
    load_plan,
    with_controller,
)


@full
@pytest.mark.parametrize("robot", ["g1", "talos"])
def test_a_humanoid_walks_and_stops(robot: str) -> None:
    plan = with_controller(load_plan(f"walk-{robot}", 8.0), {"reference": {"commands": [[4.0, 0.3, 0.0, 0.0]]}})
    run = run_in_process(plan, "walk", quiet)
    assert run.summary.verdict.ending == Ending.WALKED, run.summary.verdict.text
    assert abs(run.trace.q[-1, 0] - 1.2) < 0.2
    assert run.summary.torque_rate < 200.0
    end = run.trace.v[-200:, :3]
    assert np.abs(end).max() < 0.05


@full
@pytest.mark.parametrize("period", [0.4, 0.5])
def test_quick_steps_stop_soon(period: float) -> None:
    """Where a foot lands after each step depends on where the robot is as it lifts, the more the shorter the double support."""
    settings = {"reference": {"commands": [[2.0, 0.3, 0.0, 0.0]], "step": {"period": period}}}
    run = run_in_process(with_controller(load_plan("walk-g1", 8.0), settings), "walk", quiet)
    assert run.summary.verdict.ending == Ending.WALKED, run.summary.verdict.text
    assert np.abs(run.trace.v[6000:, :6]).max() < 0.05


@full
@pytest.mark.parametrize("name", ["g1", "talos"])
def test_a_humanoid_follows_a_stick_at_its_ends_as_far_as_its_steps_keep_a_reserve(name: str) -> None:
    robot = DrivenRobot(f"{name}-walk")
    height = robot.state[0][2]
    for stick in [0.6, 0.3, 2.0], [-0.6, -0.3, -2.0], [0.0, 0.3, 0.0], [0.6, 0.0, 0.0]:
        robot.run(5.0, velocity=stick)
        assert robot.state[0][2] > 0.9 * height
    np.testing.assert_allclose(robot.mean_velocity(2.8), [0.45, 0.0, 0.0], atol=0.06)


@full
@pytest.mark.parametrize(
    ("name", "joints"),
    [
        ("g1", ["left_shoulder_pitch_joint", "right_shoulder_pitch_joint"]),
        ("talos", ["arm_left_4_joint", "arm_right_4_joint"]),
    ],
)
def test_arms_swing_against_the_angular_momentum_of_the_legs(name: str, joints: list[str]) -> None:
    """By MuJoCo, about the vertical through the centre of mass, against arms that a commanded task holds."""
    rms = []
    for held in (False, True):
        robot = DrivenRobot(f"{name}-walk")
        angles = [robot.robot.joint_angles(robot.stance)[robot.robot.joint_names.index(joint)] for joint in joints]
        tasks, found = [PostureTask(joints=joints, angles=angles, stiffness=400.0)] if held else None, []
        for _ in range(700):
            robot.run(0.01, velocity=[0.4, 0.0, 0.0], tasks=tasks)
            mujoco.mj_subtreeVel(robot.model, robot.data)
            found.append(robot.data.subtree_angmom[1, 2])
        assert robot.mean_velocity(2.8)[0] == pytest.approx(0.4, abs=0.05)
        rms.append(np.sqrt(np.mean(np.square(found[200:]))))
    assert rms[0] < 0.5 * rms[1]


@full
@pytest.mark.parametrize(("size", "angle"), [(0.4, 0), (0.4, 180), (0.38, 180), (0.4, 30), (0.4, 330), (0.42, 150)])
def test_a_humanoid_that_stands_steps_where_it_is_pushed_rests_and_walks_on(size: float, angle: int) -> None:
    """Pushes [weights] for 0.1 s towards an angle [degree]; without a step it bears 0.2."""
    commands, turn = [[7.0, 0.0, 0.0, 0.0], [4.0, 0.3, 0.0, 0.0]], np.deg2rad(angle)
    plan = with_controller(load_plan("walk-g1", 15.0), {"reference": {"commands": commands}})
    pushed = (PushSettings(weights=(size * np.cos(turn), size * np.sin(turn), 0.0), start=1.5, duration=0.1),)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, push=pushed))
    run = run_in_process(plan, "stand", quiet)
    assert run.summary.upright, run.summary.verdict.text
    assert np.abs(run.trace.v[6500:7000, :6]).max() < 0.05
    assert base_tilt(run.trace.q[6500:7000]).max() < 0.02
    assert run.trace.q[-1, 0] - run.trace.q[7000, 0] > 0.8
    assert np.abs(run.trace.v[-200:, :6]).max() < 0.05


@full
def test_bolt_steps_in_place_and_walks_on_point_feet() -> None:
    commands = [[4.0, 0.0, 0.0, 0.0], [6.0, 0.2, 0.0, 0.0]]
    plan = with_controller(load_plan("walk-bolt", 10.0), {"reference": {"commands": commands}})
    run = run_in_process(plan, "walk", quiet)
    assert run.summary.verdict.ending == Ending.WALKED, run.summary.verdict.text
    assert run.summary.torque_rate < 15.0
    x = run.trace.q[:, 0]
    assert abs(x[3900] - x[0]) < 0.05  # after 3.9 s in place
    assert (x[-1] - x[-2001]) / 2.0 == pytest.approx(0.2, rel=0.15)
