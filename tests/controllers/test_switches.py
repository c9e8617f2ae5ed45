"""Foot switches that contradict forces and kinematics: what is named and corrected, and that plausible ones are left alone."""

import numpy as np
import pytest
from fast import every

from controllers.build import load_controller
from controllers.monitor.alarm_settings import AlarmSettings
from controllers.monitor.switches import Switches
from idyn.contact.contacts import centres_of, surface_at
from idyn.types import State

DT = 1e-3


@pytest.fixture(scope="module")
def controller():
    return load_controller("quadruped")


class Feet:
    """A standing quadruped's switches. move: tick → (change of the base's height [m], change of all joint angles [rad])"""

    def __init__(self, controller, **settings):
        self.robot, self.q0 = controller.robot, controller.stance
        self.switches, self.terrain = Switches(AlarmSettings(**settings), self.robot), controller.terrain
        self.feet = self.robot.spheres.keys
        self.lift = lambda tick: 0.0
        self.joints = np.zeros(self.robot.na)
        self.off = lambda tick: 0.0
        self.lifted = ()
        self.tick = 0

    def run(self, ticks, closed, forces=None):
        """Return (tick, keys, text) of every tick with a text."""
        found = []
        for _ in range(ticks):
            q = self.q0.copy()
            q[2] += self.lift(self.tick)
            q[7:] += self.joints
            at = self.robot.kinematics(State(q=q, v=np.zeros(self.robot.nv)))
            off = np.full(self.robot.na, self.off(self.tick))
            since = DT if self.tick else 0.0, self.tick > 0
            surface = surface_at(centres_of(self.robot, at, self.robot.spheres), self.terrain)
            keys, text = self.switches.judge(surface, tuple(closed), off, since, forces or {}, self.lifted)
            if text:
                found.append((self.tick, keys, text))
            else:
                assert keys == tuple(closed)
            self.tick += 1
        return found


def folded(feet):
    """Fold the first leg: its foot is more than 5 cm above the others."""
    feet.joints[1], feet.joints[2] = 0.3, 0.6


def test_plausible_switches_are_left_alone(controller):
    """All closed, none closed in a fall, one open at rest, and a base whose height drifts."""
    feet = Feet(controller)
    assert feet.run(100, feet.feet, dict.fromkeys(feet.feet, feet.robot.weight / 4)) == []
    feet.lift = lambda tick: -0.5 * 9.81 * (DT * tick) ** 2
    feet.off = lambda tick: 0.001 * tick
    assert feet.run(100, ()) == []
    feet = Feet(controller)
    assert feet.run(300, feet.feet[1:]) == []
    feet = Feet(controller)
    feet.lift = lambda tick: 3e-4 * tick
    assert feet.run(500, feet.feet) == []


def test_a_switch_that_is_closed_in_the_air_counts_as_open(controller):
    feet = Feet(controller)
    folded(feet)
    found = feet.run(100, feet.feet)
    tick, keys, text = found[0]
    assert 0.019 < tick * DT < 0.024
    assert set(keys) == set(feet.feet[1:])
    assert text.startswith(f"foot switch: {feet.feet[0]} is closed 0.")
    assert text.endswith("it counts as open")
    assert feet.run(50, feet.feet[1:]) == []


def test_short_closings_in_the_air_and_feet_some_centimetres_apart_are_left_alone(controller):
    feet = Feet(controller)
    folded(feet)
    for _ in range(20):
        assert feet.run(15, feet.feet) == []
        assert feet.run(5, feet.feet[1:]) == []
    feet = Feet(controller)
    feet.joints[1], feet.joints[2] = 0.2, 0.4
    q = feet.q0.copy()
    q[7:] += feet.joints
    gaps = controller.contacts(q, None).gaps
    assert len(gaps) < 4  # the foot is above the ground, by 4.4 cm
    assert feet.run(200, feet.feet) == []


def test_a_held_foot_with_an_open_switch_counts_as_closed_until_it_closes(controller):
    feet = Feet(controller)
    first = feet.feet[0]
    feet.off = lambda tick: 1e-3 * min(max(tick - 50, 0), 60)
    found = feet.run(150, feet.feet[1:])
    tick, keys, text = found[0]
    assert tick == pytest.approx(50 + 31, abs=1)
    assert set(keys) == set(feet.feet)
    assert text.startswith(f"foot switch: {first} is open while its foot is held")
    assert len(found) == 150 - tick
    feet.off = lambda tick: 0.0
    assert len(feet.run(50, feet.feet[1:])) == 50
    assert feet.run(50, feet.feet) == []
    assert feet.run(50, feet.feet[1:]) == []


def test_a_foot_that_shall_be_in_the_air_is_not_held(controller):
    """A jumping robot moves its joints at the top, where its feet hardly move."""
    feet = Feet(controller)
    feet.off = lambda tick: 1e-3 * min(max(tick - 50, 0), 60)
    feet.lifted = feet.feet
    assert feet.run(150, ()) == []
    feet.lifted = feet.feet[1:]
    feet.off = lambda tick: 1e-3 * min(tick - 150, 60)
    found = feet.run(150, ())
    assert {keys for _, keys, _ in found} == {feet.feet[:1]}
    feet.lifted = feet.feet
    assert feet.run(50, ()) == []


def test_a_moving_foot_is_not_held(controller):
    feet = Feet(controller)
    feet.lift = lambda tick: 2.5e-4 * (tick % 40 if tick % 80 < 40 else 40 - tick % 40)  # 0.25 m/s
    feet.off = lambda tick: 2e-3 * (tick % 10)
    assert feet.run(400, ()) == []


def test_an_open_switch_under_a_force_counts_as_closed(controller):
    feet = Feet(controller)
    share = dict.fromkeys(feet.feet, 0.25 * feet.robot.weight)
    found = feet.run(100, feet.feet[:3], share)
    tick, keys, text = found[0]
    assert 0.019 < tick * DT < 0.024
    assert set(keys) == set(feet.feet)
    assert text == f"foot switch: {feet.feet[3]} is open at 25% of the weight, it counts as closed"
    light = dict.fromkeys(feet.feet, 0.05 * feet.robot.weight)
    assert feet.run(100, feet.feet[:3], light) == []


def test_a_closed_switch_without_a_force_is_only_told(controller):
    feet = Feet(controller)
    forces = dict.fromkeys(feet.feet, 0.3 * feet.robot.weight) | {feet.feet[2]: 0.0}
    found = feet.run(700, feet.feet, forces)
    tick, keys, text = found[0]
    assert tick == pytest.approx(500, abs=2)
    assert keys == feet.feet
    assert text.startswith(f"foot switch: {feet.feet[2]} is closed without a force for 0.5 s")


@every("setting", ["switch_air", "switch_held", "switch_force", "switch_unloaded"])
def test_each_contradiction_can_be_switched_off(controller, setting):
    def run(feet, case):
        if case == "switch_air":
            folded(feet)
            return feet.run(100, feet.feet)
        if case == "switch_held":
            feet.off = lambda tick: 1e-3 * tick
            return feet.run(100, feet.feet[1:])
        forces = dict.fromkeys(feet.feet, 0.0 if case == "switch_unloaded" else feet.robot.weight)
        return feet.run(700, feet.feet if case == "switch_unloaded" else feet.feet[1:], forces)

    assert run(Feet(controller), setting)
    assert run(Feet(controller, **{setting: np.inf}), setting) == []


def test_a_reset_forgets_switches(controller):
    feet = Feet(controller)
    feet.off = lambda tick: 1e-3 * tick
    assert feet.run(60, feet.feet[1:])
    feet.switches.reset()
    feet.tick, feet.off = 0, lambda tick: 0.0
    assert feet.run(60, feet.feet[1:]) == []
