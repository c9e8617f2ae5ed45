"""The estimator in MuJoCo: the estimate beside the simulated state, and robots that walk by their own sensors."""

from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast, full
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from controllers.build import build_controller
from controllers.config.loading import load
from controllers.estimation.estimator import Estimator, Measurement
from controllers.estimation.memory import EstimatorSettings
from controllers.settings import ControllerSettings
from idyn import ConfigError, InputError, load_robot
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.robot.hardware import check_imperfections
from sim_harness.robot.imperfections import ImperfectionSettings, ImuSettings, Sensing, Spread
from sim_harness.run.experiment import run_in_process
from sim_harness.run.logs import LogBlocks
from sim_harness.run.plan import ExperimentSettings, build_plan
from transport.log.replay import replay

IMU = (-0.026, 0.0, 0.042)
GRAVITY = np.array([0.0, 0.0, -9.81])
SENSOR_NOISE = Spread(joint_position=1e-3, joint_speed=0.05, base_orientation=2e-3, base_rate=0.01)
BIAS = Spread(joint_position=3e-3, base_rate=0.01)
OVER, ASIDE = (1.0, 0.0, 0.0, 0.0), (0.5**0.5, 0.0, 0.0, 0.5**0.5)
LEVEL = (0.0, 0.0, 0.0, 1.0)
FIELDS = ("angles", "speeds", "torques", "attitude", "gyro", "accelerometer")


class Errors(NamedTuple):
    """Errors of the sensors: standard deviations of white noise and of constant offsets, the latter after the underscore. As of
    a small MEMS IMU (gyro 10 mrad/s, accelerometer 0.2 m/s² with an offset of 0.05), encoders of 1 mrad with offsets of 3 mrad,
    and speeds by differences."""

    gyro: float = 0.01
    gyro_offset: float = 0.01
    acceleration: float = 0.2
    acceleration_offset: float = 0.05
    attitude: float = 0.002
    angle: float = 1e-3
    angle_offset: float = 3e-3
    speed: float = 0.05


EXACT = Errors(*[0.0] * 8)


class Truth(NamedTuple):
    """What the estimate is compared with: q and v of the robot, velocity of the IMU in the world, feet that touch."""

    q: np.ndarray
    v: np.ndarray
    velocity: np.ndarray
    touching: np.ndarray


def readings(trace, every, errors=EXACT, seed=0):
    """Return the measurements of every n-th tick, and the truth."""
    rng, rows = np.random.default_rng(seed), np.arange(every, len(trace), every)
    dt, na = float(trace.t[every] - trace.t[0]), trace.tau.shape[1]
    R = Rotation.from_quat(trace.q[:, 3:7])
    velocity = R.apply(trace.v[:, :3] + np.cross(trace.v[:, 3:6], IMU))
    offsets = [size * rng.normal(size=k) for size, k in zip((errors[1], errors[3], errors[6]), (3, 3, na), strict=True)]
    found = []
    for k in rows:
        before = k - every
        middle = R[before] * Rotation.from_rotvec(0.5 * dt * trace.v[before, 3:6])
        acceleration = middle.inv().apply((velocity[k] - velocity[before]) / dt - GRAVITY)
        found.append(
            Measurement(
                t=float(trace.t[k]),
                angles=trace.q[k, 7:] + offsets[2] + errors.angle * rng.normal(size=na),
                speeds=trace.v[k, 6:] + errors.speed * rng.normal(size=na),
                torques=trace.tau[before:k].mean(axis=0),
                attitude=(R[k] * Rotation.from_rotvec(errors.attitude * rng.normal(size=3))).as_quat(),
                gyro=trace.v[k, 3:6] + offsets[0] + errors.gyro * rng.normal(size=3),
                accelerometer=acceleration + offsets[1] + errors.acceleration * rng.normal(size=3),
            )
        )
    touching = np.nan_to_num(trace.simulated[rows - 1, :, 0]) > 1.0
    return found, Truth(trace.q[rows], trace.v[rows], velocity[rows], touching)


NOISY = Errors()


@cache
def trotted(seconds):
    """A go2 that trots in MuJoCo, on its default ground."""
    settings = load("experiments", "trot-go2", ExperimentSettings)
    plan = build_plan(msgspec.structs.replace(settings, duration=seconds, engine=MujocoSettings()))
    return load_robot("go2")[0], run_in_process(plan, "coulomb", lambda label, ticks: None).trace


def estimator(robot, **changes):
    return Estimator(EstimatorSettings(imu=IMU, **changes), robot)


@full
@pytest.mark.parametrize(("errors", "seconds"), [(EXACT, 2.0), (NOISY, 6.0)], ids=["exact", "noisy"])
def test_a_trotting_robot_knows_its_motion(errors, seconds):
    robot, trace = trotted(seconds)
    measured, truth = readings(trace, 2, errors)
    estimates = [estimator_.update(each) for estimator_ in [estimator(robot)] for each in measured]
    q, v = (np.array([getattr(each.state, name) for each in estimates]) for name in ("q", "v"))
    R, true = Rotation.from_quat(q[:, 3:7]), Rotation.from_quat(truth.q[:, 3:7])
    errors = R.apply(v[:, :3]) - true.apply(truth.v[:, :3]), q[:, :3] - truth.q[:, :3], (R * true.inv()).as_rotvec()
    velocity, position, attitude = (each[len(measured) // 4 :] for each in errors)  # in the world, (n, 3) each
    assert np.sqrt((velocity**2).mean(axis=0)).max() < 0.02
    assert np.abs(attitude[:, :2]).max() < 0.01
    assert abs(position[:, 2].mean()) < 0.003
    way = np.linalg.norm(truth.q[-1, :2] - truth.q[0, :2])
    assert way > 0.05 * seconds
    assert np.linalg.norm(position[-1, :2] - position[0, :2]) < 0.01 * way + 0.002 * seconds
    right = np.array([each.touching for each in estimates])[50:] == truth.touching[50:]
    assert right.mean() > 0.97


@full
def test_the_errors_are_as_large_as_the_covariance_says():
    """Squared errors over variances, mean: about 1; a filter that trusts its legs ten times too much gets more than 9."""
    robot, trace = trotted(3.0)
    means = {}
    for name, changes in (("told", {}), ("too sure", {"leg": 2e-4, "creep": 2e-3, "ground": 3e-4})):
        squares = []
        for seed in range(3):
            measured, truth = readings(trace, 2, NOISY, seed)
            filter_ = estimator(robot, **changes)
            for each, true in zip(measured, truth.velocity, strict=True):
                estimate = filter_.update(each)
                q, v = estimate.state.q, estimate.state.v
                imu = Rotation.from_quat(q[3:7]).apply(v[:3] + np.cross(v[3:6], IMU))
                squares.append(((imu - true) / estimate.deviations[3:6]) ** 2)
        means[name] = np.mean(squares)
    assert 0.1 < means["told"] < 2.0
    assert means["too sure"] > 4.0 * means["told"]


def at_rest(robot, stance, k, **changes):
    """A measurement of a robot that lies still, held by something else."""
    torques = robot.terms(stance, np.zeros(robot.nv)).h[robot.tree.a].copy()
    motors = {"angles": robot.joint_angles(stance), "speeds": np.zeros(robot.na), "torques": torques}
    imu = {"attitude": np.array(LEVEL), "gyro": np.zeros(3), "accelerometer": np.array([0.0, 0.0, 9.81])}
    return Measurement(**{"t": 0.002 * k} | motors | imu | changes)


def test_readings_of_a_turned_imu_give_the_same_estimate():
    """Against SciPy's rotations: the axes of the sensor turned by any rotation, the same motion."""
    robot, stance = load_robot("go2")
    rng, mount = np.random.default_rng(0), Rotation.random(random_state=1)
    along, turned = estimator(robot), estimator(robot, imu_quat=tuple(mount.as_quat().tolist()))
    for k in range(20):
        attitude, gyro = Rotation.from_rotvec(0.02 * rng.normal(size=3)), 0.1 * rng.normal(size=3)
        force = np.array([0.0, 0.0, 9.81]) + rng.normal(size=3)
        own = {"attitude": (attitude * mount).as_quat(), "gyro": mount.inv().apply(gyro)}
        one = along.update(at_rest(robot, stance, k, attitude=attitude.as_quat(), gyro=gyro, accelerometer=force))
        other = turned.update(at_rest(robot, stance, k, **own, accelerometer=mount.inv().apply(force)))
        np.testing.assert_allclose(other.state.v, one.state.v, atol=1e-10)
        np.testing.assert_allclose(other.state.q, one.state.q, atol=1e-10)


def test_a_robot_that_lies_still_does_not_drift():
    """No foot carries it, and its accelerometer has an offset of 0.1 m/s²."""
    robot, stance = load_robot("go2")
    filter_ = estimator(robot)
    for k in range(1500):
        estimate = filter_.update(at_rest(robot, stance, k, accelerometer=np.array([0.1, 0.0, 9.81])))
    assert not estimate.touching.any()
    assert np.abs(estimate.state.v).max() < 0.01
    assert np.linalg.norm(estimate.state.q[:2]) < 0.02


def test_after_a_reset_or_a_gap_the_estimate_begins_anew():
    robot, stance = load_robot("go2")
    filter_ = estimator(robot)
    first = filter_.update(at_rest(robot, stance, 0))
    for k in range(1, 50):
        filter_.update(at_rest(robot, stance, k, accelerometer=np.array([3.0, 0.0, 9.81]), gyro=np.array([0.0, 0.0, 1.0])))
    again = filter_.update(at_rest(robot, stance, 5000))
    np.testing.assert_array_equal(again.state.q, first.state.q)
    np.testing.assert_array_equal(again.state.v, first.state.v)
    filter_.reset()
    np.testing.assert_array_equal(filter_.update(at_rest(robot, stance, 3)).state.q, first.state.q)


@full
def test_a_foot_that_slides_is_named_and_not_believed():
    """A standing go2 whose front left foot is dragged forward by 0.5 m/s under load."""
    robot, trace = trotted(0.25)
    measured, _ = readings(trace, 2)
    still = measured[100]
    filter_ = estimator(robot)
    for k in range(150):
        filter_.update(msgspec.structs.replace(still, t=0.002 * k, speeds=np.zeros(robot.na), gyro=np.zeros(3)))
    names = [robot.joint_names.index(f"FL_{part}_joint") for part in ("thigh", "calf")]
    slipped, fastest, angles = np.zeros(4, bool), 0.0, still.angles
    for k in range(150, 200):
        speeds = np.zeros(robot.na)
        speeds[names] = min(1.0, (k - 149) / 20) * np.array([-2.0, 1.0])
        angles = angles + 0.002 * speeds
        estimate = filter_.update(msgspec.structs.replace(still, t=0.002 * k, speeds=speeds, angles=angles, gyro=np.zeros(3)))
        slipped |= estimate.slipped
        fastest = max(fastest, np.linalg.norm(estimate.state.v[:3]))
    assert slipped.tolist() == [name.startswith("FL") for name in robot.spheres.keys]
    assert fastest < 0.04


@examples(max_examples=30, deadline=None)
@given(st.sampled_from(FIELDS), st.sampled_from([np.nan, np.inf, "short", "list"]))
def test_wrong_measurements_are_named_and_change_nothing(field, wrong):
    robot, stance = load_robot("go2")
    filter_, other = estimator(robot), estimator(robot)
    good = at_rest(robot, stance, 0)
    for each in (filter_, other):
        each.update(good)
    value = getattr(good, field)
    changed = value[:-1] if wrong == "short" else value.astype(np.float32) if wrong == "list" else np.full_like(value, wrong)
    with pytest.raises(InputError, match=field):
        filter_.update(msgspec.structs.replace(good, t=0.002, **{field: changed}))
    with pytest.raises(InputError, match="t: expected a finite time after 0"):
        filter_.update(msgspec.structs.replace(good, t=-1.0))
    following = at_rest(robot, stance, 1, accelerometer=np.array([0.3, 0.0, 9.81]))
    np.testing.assert_array_equal(filter_.update(following).state.v, other.update(following).state.v)


def test_robots_and_settings_that_do_not_apply_are_refused():
    arm, _ = load_robot("arm")
    with pytest.raises(ConfigError, match="a free base, feet"):
        Estimator(EstimatorSettings(), arm)
    with pytest.raises(ConfigError, match=r"estimator.release: expected a number < touch"):
        Estimator(EstimatorSettings(release=0.2), load_robot("go2")[0])
    robot = load_robot("go2")[0]
    for quat in ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.0, float("nan"))):
        with pytest.raises(ConfigError, match=r"estimator\.imu_quat: expected a rotation: a quaternion x, y, z, w of length 1"):
            Estimator(EstimatorSettings(imu_quat=quat), robot)
        with pytest.raises(ConfigError, match=r"sensing\.imu\.quat: expected a rotation"):
            check_imperfections(ImperfectionSettings(sensing=Sensing(imu=ImuSettings(quat=quat))), robot, 1e-3)
    settings = load("controllers", "arm", ControllerSettings)
    with pytest.raises(ConfigError, match="estimator: expected a robot with a free base"):
        build_controller(msgspec.structs.replace(settings, estimator=EstimatorSettings()))
    sensing = Sensing(imu=ImuSettings())
    with pytest.raises(ConfigError, match=r"sensing\.imu: expected a robot with a free base"):
        check_imperfections(ImperfectionSettings(sensing=sensing), load_robot(settings.robot)[0], 1e-3)


@full
def test_it_walks_and_its_log_replays(tmp_path):
    sensing = Sensing(noise=SENSOR_NOISE, bias=BIAS, imu=ImuSettings(position=IMU, noise=0.2, bias=0.05))
    log, settings = tmp_path / "walk.mcap", load("experiments", "trot-go2", ExperimentSettings)
    replace = msgspec.structs.replace
    robot = replace(settings.robot, sensing=sensing)
    plan = build_plan(replace(settings, duration=6.0, engine=MujocoSettings(), contacts="geometry", robot=robot))
    plan = replace(plan, controller=replace(plan.controller, estimator=EstimatorSettings(imu=IMU)))
    run = run_in_process(plan, "coulomb", lambda label, ticks: None, seed=1, log=log)
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


@every(("mounted", "told"), first_is_fast([(OVER, OVER), (ASIDE, LEVEL), (ASIDE, ASIDE), (OVER, LEVEL)], 2))
def test_a_robot_stands_on_an_imu_that_is_mounted_as_its_setting_says(mounted, told):
    """Upside down and on its side; the same robot without the setting does not get a torque."""
    robot = ImperfectionSettings(sensing=Sensing(imu=ImuSettings(position=IMU, quat=mounted)))
    settings = msgspec.structs.replace(load("experiments", "stand", ExperimentSettings), server="quadruped", duration=0.3)
    settings = msgspec.structs.replace(settings, controller={"estimator": {"imu": IMU, "imu_quat": told}}, robot=robot)
    run = run_in_process(build_plan(settings), "coulomb", lambda label, ticks: None)
    assert run.summary.verdict.good == (mounted == told)
    if mounted == told:
        assert np.abs(run.trace.q[-1, 3:6]).max() < 0.01
