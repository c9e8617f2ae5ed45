"""Armature: its effect on inertia and energy, its place in the settings, and invalid values."""

import json

import numpy as np
import pinocchio as pin
import pytest
from fast import every

from controllers.build import controller_from_snapshot, load_controller
from controllers.config.loading import parse
from controllers.feedback.grip import released
from controllers.robot.load import RobotSettings, load_robot
from idyn.errors import ConfigError, InputError
from idyn.model.description import Description
from idyn.model.robot import Robot

ROBOTS = ("quadruped", "solo12", "a1", "go2")


def some_state(robot, seed=0):
    rng = np.random.default_rng(seed)
    return robot.integrate(robot.neutral(), rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


@every("name", ROBOTS)
def test_armature_adds_to_the_diagonal_of_the_mass_matrix_only(name):
    bare = load_robot(name)[0].variant(armature=0.0)
    q, v = some_state(bare)
    before = bare.terms(q, v)
    rotors = dict(zip(bare.joint_names, 0.001 * np.arange(1, 13), strict=True))
    after = bare.variant(armature=rotors).terms(q, v)
    added = np.zeros(bare.nv)
    added[bare.tree.a] = list(rotors.values())
    np.testing.assert_allclose(after.M - before.M, np.diag(added), atol=1e-15)
    np.testing.assert_array_equal(after.h, before.h)


@every("name", ROBOTS)
def test_mass_matrix_and_recursive_newton_euler_agree(name):
    """M v̇ + h = rnea with rotors: two algorithms that share no code."""
    robot, _ = load_robot(name)
    robot = robot.variant(armature=0.01)
    q, v = some_state(robot, 1)
    acceleration = np.random.default_rng(2).normal(size=robot.nv)
    terms = robot.terms(q, v)
    np.testing.assert_allclose(terms.M @ acceleration + terms.h, robot.inverse_dynamics(q, v, acceleration), atol=1e-11)


@every("name", ROBOTS)
def test_armature_adds_to_the_kinetic_energy(name):
    bare = load_robot(name)[0].variant(armature=0.0)
    q, v = some_state(bare, 3)
    more = bare.variant(armature=0.02).energy(q, v) - bare.energy(q, v)
    assert more == pytest.approx(0.5 * 0.02 * (v[bare.tree.a] ** 2).sum(), rel=1e-9)


def test_energy_is_kinetic_plus_potential():
    robot = load_robot("solo12")[0].variant(armature=0.0)
    q, v = some_state(robot, 4)
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    data = model.createData()
    expected = pin.computeKineticEnergy(model, data, q, v) + pin.computePotentialEnergy(model, data, q)
    assert robot.energy(q, v) == pytest.approx(expected, rel=1e-12)


def test_the_shipped_robots_have_armature():
    assert load_robot("quadruped")[0].description.armature == {}
    assert set(load_robot("solo12")[0].description.armature.values()) == {0.00036207}
    go2 = load_robot("go2")[0].description.armature
    assert (go2["FL_hip_joint"], go2["RR_calf_joint"]) == (0.0045, 0.0165)


def test_a_snapshot_carries_the_armature():
    first = load_controller("go2")
    second = controller_from_snapshot(json.loads(json.dumps(first.snapshot())))
    assert second.robot.description.armature == first.robot.description.armature
    q, v = some_state(first.robot)
    assert first.robot.terms(q, v).M.tobytes() == second.robot.terms(q, v).M.tobytes()


def test_released_joints_keep_their_armature():
    robot = load_robot("quadruped")[0].variant(armature=0.01)
    free = released(robot, ["LF_X_1"])
    assert free.na == 11
    assert free.description.armature == robot.description.armature


def test_invalid_armature_is_refused_by_name():
    robot, _ = load_robot("quadruped")
    with pytest.raises(InputError, match=r"armature: no degree of freedom named 'LF_X1' \(nearest: LF_X_1"):
        robot.variant(armature={"LF_X1": 0.01})
    with pytest.raises(InputError, match=r"armature.LF_X_1: expected a finite number ≥ 0, got inf"):
        robot.variant(armature={"LF_X_1": np.inf})
    with pytest.raises(InputError, match=r"armature"):
        Robot(Description(urdf=robot.description.urdf, armature={"root_joint": 0.1}))
    with pytest.raises(ConfigError, match=r"robots\.x\.armature"):
        parse({"urdf": "x.urdf", "armature": -0.1}, RobotSettings, "robots.x")
