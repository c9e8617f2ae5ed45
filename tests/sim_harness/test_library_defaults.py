"""The library's defaults in a plain MuJoCo loop: robots stand with them, and settings with which they do not are warned of."""

import logging

import numpy as np
import pytest
from fast import every, fast, full
from mujoco_robot import DT, MujocoRobot

from controllers.robot.load import load_robot
from idyn import Consistency, Flat, Ground, Options, Selection, State, contacts_from_geometry, make_law, predict
from idyn.prediction.solve import advice

UNSUITABLE = {
    "paper": Options.paper(),
    "rigid": Options(ground=Ground.rigid()),
    "as rigid as the period": Options(ground=Ground(relaxation=DT)),
    "project": Options(consistency=Consistency.PROJECT),
    "off": Options(consistency=Consistency.OFF),
    "torque": Options(selection=Selection.TORQUE),
    "torque-change": Options(selection=Selection.TORQUE_CHANGE),
    "short relaxation": Options(ground=Ground(relaxation=0.01, memory=0.002)),
}


def stand(name, seconds, ground="default", **options):
    """Stand in MuJoCo with q̈ = −100 e − 20 ė. Return over the last half: the largest joint error [rad], the mean |dτ/dt|
    [N·m/s], and the largest horizontal way of the base [m]. Infinite when the base leaves the height of a stance."""
    world = MujocoRobot(*load_robot(name), ground)
    robot, stance = world.robot, world.stance
    wanted, ticks, guess, errors, ways = robot.joint_angles(stance), int(seconds / DT), None, [], []
    for _ in range(ticks):
        q, v = world.state
        contacts = contacts_from_geometry(robot, q, Flat(), margin=0.002)
        q_ddot = -100.0 * (robot.joint_angles(q) - wanted) - 20.0 * v[robot.tree.a]
        last = predict(robot, State(q=q, v=v), contacts, q_ddot, law="coulomb", dt=DT, guess=guess, **options)
        guess = last.guess
        world.step(last.tau)
        errors.append(np.abs(robot.joint_angles(q) - wanted).max())
        ways.append(np.hypot(*(q[:2] - stance[:2])))
        if not 0.5 < q[2] / stance[2] < 1.5:
            return np.inf, np.inf, np.inf
    half, rates = ticks // 2, np.abs(np.diff(world.torques, axis=0)).mean(axis=1) / DT
    return max(errors[half:]), float(np.mean(rates[half - 1 :])), max(ways[half:])


@pytest.mark.parametrize("ground", fast(["default", "firm", "stiff"], "default"))
@every("name", ["go2", "quadruped"])
def test_robots_stand_with_the_defaults(name, ground):
    error, rate, way = stand(name, 1.0, ground)
    assert error < 1e-3
    assert rate < 1.0
    assert way < 1e-3


def test_the_defaults_get_no_advice_and_unsuitable_settings_are_warned_of_once(caplog):
    for law in ("coulomb", "no-slip", "exact-cone", "contact-free"):
        assert advice(make_law(law), Options(), DT) == []
    robot, stance = load_robot("quadruped")
    contacts, state = contacts_from_geometry(robot, stance, Flat(), margin=0.002), State(q=stance, v=np.zeros(robot.nv))
    options = Options(ground=Ground.rigid(relaxation=0.0123, memory=0.001))
    with caplog.at_level(logging.WARNING, "idyn.options"):
        for _ in range(3):
            predict(robot, state, contacts, np.zeros(robot.na), law="coulomb", dt=DT, options=options)
            predict(robot.twin(), state, contacts, np.zeros(robot.na), law="coulomb", dt=DT, options=options)
    assert [record.getMessage().count("ground.relaxation = 0.0123 s") for record in caplog.records] == [1]


@full
@pytest.mark.parametrize("name", UNSUITABLE)
def test_unsuitable_settings_are_advised_against_and_do_not_stand_quietly(name):
    options = UNSUITABLE[name]
    assert advice(make_law("coulomb"), options, DT)
    outcomes = [stand(robot, 4.0, options=options) for robot in ("go2", "quadruped")]
    assert max(error for error, _, _ in outcomes) > 5e-3 or max(rate for _, rate, _ in outcomes) > 100.0
