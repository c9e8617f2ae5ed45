"""Limits of temperature and voltage: a warning with the joint's name, a stop after a time, nothing by default."""

import numpy as np
from fast import every

from controllers.build import controller_from_snapshot, load_controller
from controllers.command import Inputs
from idyn.types import State

DT = 1e-3


def commands(measured, ticks, **settings):
    """Return the commands of a standing quadruped. measured: tick → fields of the inputs"""
    snapshot = load_controller("quadruped").snapshot()
    snapshot["settings"]["alarms"].update(settings)
    controller = controller_from_snapshot(snapshot)
    state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
    contacts = controller.contacts(state)
    return controller.robot, [controller.step(state, contacts, Inputs(dt=DT, **measured(tick))) for tick in range(ticks)]


def temperature(hottest):
    return np.where(np.arange(12) == 7, hottest, 40.0)


LIMITS = {"motor_warm": 70.0, "motor_hot": 90.0, "volt_low": 22.0, "volt_empty": 20.0}


def test_nothing_is_limited_by_default():
    _, found = commands(lambda _: {"temperature": temperature(300.0), "voltage": 0.1}, 150)
    assert {command.mode for command in found} == {"ok"}


@every(
    ("measured", "says"),
    [
        ({"temperature": temperature(70.5)}, "hot motor: {joint} at 70.5 °C"),
        ({"voltage": 21.5}, "low voltage: 21.50 V"),
    ],
)
def test_a_warning_names_the_value_and_never_stops(measured, says):
    robot, found = commands(lambda _: measured, 300, **LIMITS)
    assert {command.message for command in found} == {says.format(joint=robot.joint_names[7])}
    assert {command.mode for command in found} == {"degraded"}


@every("measured", [{"temperature": temperature(91.0)}, {"voltage": 19.0}])
def test_a_lasting_excess_stops_the_robot(measured):
    _, found = commands(lambda tick: measured if tick >= 20 else {}, 130, **LIMITS)
    modes = [command.mode for command in found]
    assert set(modes[:20]) == {"ok"}
    assert set(modes[20:118]) == {"degraded"}
    assert set(modes[121:]) == {"fault"}


def test_a_short_excess_and_limits_that_are_met_do_not_stop_it():
    sags = {"voltage": 19.0}
    _, found = commands(lambda tick: sags if tick % 50 < 40 else {"voltage": 25.0}, 300, **LIMITS)
    assert {command.mode for command in found} == {"ok", "degraded"}
    _, found = commands(lambda _: {"temperature": temperature(70.0), "voltage": 22.0}, 150, **LIMITS)
    assert {command.mode for command in found} == {"ok"}
