"""A robot that trots in MuJoCo with joint sensors and an IMU only: the server estimates its base."""

import msgspec
import numpy as np
import pytest
from fast import every, full

from controllers.build import build_controller
from controllers.config.loading import load
from controllers.estimation.estimator import Estimator
from controllers.estimation.settings import EstimatorSettings
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.robot.hardware import check_imperfections
from sim_harness.robot.imperfections import ImperfectionSettings, ImuSettings, Sensing, Spread
from sim_harness.run.experiment import run_in_process
from sim_harness.run.logs import LogBlocks
from sim_harness.run.plan import ExperimentSettings, build_plan
from transport.log.replay import replay

IMU = (-0.026, 0.0, 0.042)
NOISE = Spread(joint_position=1e-3, joint_speed=0.05, base_orientation=2e-3, base_rate=0.01)
BIAS = Spread(joint_position=3e-3, base_rate=0.01)


def walk_plan(seconds, sensing):
    replace = msgspec.structs.replace
    settings = load("experiments", "trot-go2", ExperimentSettings)
    robot = replace(settings.robot, sensing=sensing)
    plan = build_plan(replace(settings, duration=seconds, engine=MujocoSettings(), contacts="geometry", robot=robot))
    return replace(plan, controller=replace(plan.controller, estimator=EstimatorSettings(imu=IMU)))


@full
def test_it_walks_and_its_log_replays(tmp_path):
    sensing = Sensing(noise=NOISE, bias=BIAS, imu=ImuSettings(position=IMU, noise=0.2, bias=0.05))
    log = tmp_path / "walk.mcap"
    run = run_in_process(walk_plan(6.0, sensing), "coulomb", lambda label, ticks: None, seed=1, log=log)
    true = run.trace.q
    assert true[-1, 0] > 1.8
    assert abs(true[-1, 1]) < 0.05
    assert not any(answer.startswith("refused") for answer in run.trace.answers)
    with LogBlocks(log) as blocks:  # joints of the states, base of the replies
        seen = np.concatenate([block.trace.q for block in blocks.blocks()])
    assert len(seen) == len(true)
    error = seen[:, :3] - true[:, :3] - (seen[0, :3] - true[0, :3])
    assert np.abs(error).max() < 0.03
    assert np.abs(seen[:, 7:] - true[:, 7:]).max() < 0.03  # 3 mrad of offset and 1 of noise
    assert np.abs(seen[:, 7:] - true[:, 7:]).max() > 1e-3
    report = replay(log)
    assert report.exact
    assert report.ticks == len(true)


OVER, ASIDE = (1.0, 0.0, 0.0, 0.0), (0.5**0.5, 0.0, 0.0, 0.5**0.5)
LEVEL = (0.0, 0.0, 0.0, 1.0)


@every(("mounted", "told"), [(OVER, OVER), (ASIDE, ASIDE), (OVER, LEVEL), (ASIDE, LEVEL)])
def test_a_robot_stands_on_an_imu_that_is_mounted_as_its_setting_says(mounted, told):
    """Upside down and on its side; the same robot without the setting does not get a torque."""
    settings = msgspec.structs.replace(
        load("experiments", "stand", ExperimentSettings),
        server="quadruped",
        duration=0.3,
        controller={"estimator": {"imu": IMU, "imu_quat": told}},
        robot=ImperfectionSettings(sensing=Sensing(imu=ImuSettings(position=IMU, quat=mounted))),
    )
    run = run_in_process(build_plan(settings), "coulomb", lambda label, ticks: None)
    assert run.summary.verdict.good == (mounted == told)
    if mounted == told:
        assert np.abs(run.trace.q[-1, 3:6]).max() < 0.01


def test_a_mounting_that_is_no_rotation_is_refused():
    robot = load_robot("go2")[0]
    for quat in ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.0, float("nan"))):
        with pytest.raises(ConfigError, match=r"estimator\.imu_quat: expected a rotation: a quaternion x, y, z, w of length 1"):
            Estimator(EstimatorSettings(imu_quat=quat), robot)
        with pytest.raises(ConfigError, match=r"sensing\.imu\.quat: expected a rotation"):
            check_imperfections(ImperfectionSettings(sensing=Sensing(imu=ImuSettings(quat=quat))), robot, 1e-3)


def test_a_fixed_robot_has_no_base_to_estimate():
    settings = load("controllers", "arm", ControllerSettings)
    with pytest.raises(ConfigError, match="estimator: expected a robot with a free base"):
        build_controller(msgspec.structs.replace(settings, estimator=EstimatorSettings()))
    sensing = Sensing(imu=ImuSettings())
    with pytest.raises(ConfigError, match=r"sensing\.imu: expected a robot with a free base"):
        check_imperfections(ImperfectionSettings(sensing=sensing), load_robot(settings.robot)[0], 1e-3)
