"""Contact sources: which contacts take part in the prediction, and feet that touch down."""

import msgspec
import numpy as np
import pytest
from fast import every
from rigs import at_rest, controller

from controllers.command import Inputs, Schedule
from controllers.config.loading import parse
from controllers.contact.source import RESTS, AnySource, Landing
from controllers.monitor.alarms import AlarmSettings
from controllers.monitor.switches import Switches
from idyn import Flat, Ground, State, load_controller, load_robot
from idyn.contact.contacts import contacts_from_geometry

DT = 0.001
ALL = np.ones(4, dtype=bool)
FAR = np.full(4, 1.0)
ROBOT, STANCE = load_robot("solo12")
TWO = np.array([False, True, True, False])


def measured(gaps):
    """Contacts of the robot in its stance with these gaps [m] (4)."""
    contacts = contacts_from_geometry(ROBOT, STANCE, Flat(), margin=1.0)
    return msgspec.structs.replace(contacts, gaps=np.array(gaps))


def source(kind, **settings):
    margin = settings.pop("margin", 0.002)
    return parse({"kind": kind, **settings}, AnySource, "source").build(ROBOT, margin, Ground.rigid(), DT)


def schedule(stance, wait=FAR):
    return Schedule(stance=stance, time_to_switch=wait)


def test_geometry_uses_the_margin_alone_and_planner_the_plan_alone():
    """Stance feet count as touching, near or not; the others are left out even where they touch."""
    contacts = measured([0.0, 0.0019, 0.0021, -0.001])
    picked = source("geometry", margin=0.002).pick(contacts, schedule(TWO))
    assert picked.keys == tuple(ROBOT.spheres.keys[i] for i in (0, 1, 3))
    np.testing.assert_array_equal(picked.gaps, contacts.gaps[[0, 1, 3]])
    np.testing.assert_array_equal(picked.points, contacts.points[[0, 1, 3]])
    contacts = measured([0.0, 0.03, -0.002, 0.0])
    picked = source("planner").pick(contacts, schedule(TWO))
    assert picked.keys == ROBOT.spheres.keys[1:3]
    np.testing.assert_array_equal(picked.gaps, [0.0, -0.002])


def test_fused_requires_plan_and_gap_accepts_early_touchdown_and_without_a_plan_all_near_contacts():
    contacts = measured([0.0, 0.0, 0.05, 0.0])
    s = source("fused")
    picked = s.pick(contacts, schedule(TWO))
    assert picked.keys == ROBOT.spheres.keys[1:2]
    assert s.missing(picked, schedule(TWO)) == ROBOT.spheres.keys[2:3]
    contacts = measured(np.zeros(4))
    wait = np.array([0.02, 1.0, 1.0, 0.04])
    assert source("fused", early=0.03).pick(contacts, schedule(TWO, wait)).keys == ROBOT.spheres.keys[:3]
    s = source("fused", margin=0.002)
    assert len(s.pick(measured([0.0, 0.001, 0.003, 0.0]), None)) == 3
    assert s.missing(measured(np.zeros(4)), None) == ()


def test_fused_has_hysteresis_until_a_reset():
    """In below `margin`, out above `release`, and back in only below `margin`."""
    s = source("fused", margin=0.002, release=0.004)
    gaps = (0.003, 0.0019, 0.003, 0.0039, 0.0041, 0.003, 0.001)
    there = [len(s.pick(measured([gap, 1.0, 1.0, 1.0]), schedule(ALL))) for gap in gaps]
    assert there == [0, 1, 1, 1, 0, 0, 1]
    s = source("fused")
    s.pick(measured(np.zeros(4)), schedule(ALL))
    s.reset()
    assert len(s.pick(measured(np.full(4, 0.003)), schedule(ALL))) == 0


def test_sensed_source_uses_no_geometry():
    c = controller("solo12", contact__source="sensed")
    assert len(c.contacts(c.stance)) == 0
    assert len(controller("solo12").contacts(c.stance)) == 4


def test_planned_contacts_that_do_not_touch_are_reported_as_missing():
    c = controller("paper-trot")
    state = at_rest(c)
    q = state.q.copy()
    q[3:5] = 0.02, 0.0
    q[3:7] /= np.linalg.norm(q[3:7])
    command = c.step(State(q=q, v=state.v), c.contacts(q), Inputs(dt=0.0))
    assert set(command.missing) == {"LF_FOOT", "LH_FOOT"}
    assert c.step(state, c.contacts(state.q), Inputs(dt=DT)).missing == ()


# -- landing ----------------------------------------------------------------------------------------------------------


def contact_velocity(robot, state, contacts, i, dt, q_ddot):
    """Velocity of contact i (3) over a period with accelerated joints and a fixed base, by differences of position [m/s]."""
    v = state.v.copy()
    v[robot.tree.a] += dt * q_ddot
    e = 1e-7
    places = []
    for sign in (-1, 1):
        rotations, origins = (part.copy() for part in robot.place(robot.integrate(state.q, sign * e * v)))
        places.append((rotations, origins))
    rotations, origins = (part.copy() for part in robot.place(state.q))
    joint = contacts.bodies[i]
    local = rotations[joint].T @ (contacts.points[i] - origins[joint])
    return (places[1][1][joint] + places[1][0][joint] @ local - places[0][1][joint] - places[0][0][joint] @ local) / (2 * e)


def test_a_foot_that_reaches_the_ground_lands_at_rest():
    """The base sinks at 0.2 m/s; one foot is 0.1 mm above the ground and reaches it within the period."""
    rng = np.random.default_rng(0)
    v = 0.05 * rng.normal(size=ROBOT.nv)
    v[2] = -0.2
    state = State(q=STANCE, v=v)
    contacts = measured([1e-4, 0.01, 0.01, 0.01])
    landing = Landing(ROBOT, Ground.rigid(noise=0.0), DT)
    touches, q_ddot = landing.anticipate(ROBOT.kinematics(state), contacts, rng.normal(size=ROBOT.na))
    np.testing.assert_array_equal(touches, [True, False, False, False])
    np.testing.assert_allclose(contact_velocity(ROBOT, state, contacts, 0, DT, q_ddot), [0.0, 0.0, -0.1], atol=1e-5)


def test_landing_changes_the_demand_of_the_landing_leg_only_and_without_landing_none():
    v = np.zeros(ROBOT.nv)
    v[2] = -0.2
    contacts = measured([1e-4, 0.01, 0.01, 0.01])
    demand = np.arange(12.0)
    _, q_ddot = Landing(ROBOT, Ground.rigid(), DT).anticipate(ROBOT.terms(STANCE, v), contacts, demand)
    own = ROBOT.tree.support[contacts.bodies[0]][ROBOT.tree.a]
    np.testing.assert_array_equal(q_ddot[~own], demand[~own])
    assert (q_ddot[own] != demand[own]).all()
    v[2] = -0.05
    touches, q_ddot = Landing(ROBOT, Ground.rigid(), DT).anticipate(ROBOT.terms(STANCE, v), contacts, demand)
    assert not touches.any()
    np.testing.assert_array_equal(q_ddot, demand)


def test_the_demand_of_standing_feet_is_unchanged_and_a_lifted_foot_lands_again():
    landing = Landing(ROBOT, Ground.rigid(), DT)
    rest = State(q=STANCE, v=np.zeros(ROBOT.nv))
    down = measured(np.zeros(4))
    for _ in range(4):
        landing.anticipate(ROBOT.kinematics(rest), down, np.zeros(12))
    demand = np.full(12, 50.0)
    touches, q_ddot = landing.anticipate(ROBOT.kinematics(rest), down, demand)
    assert touches.all()
    np.testing.assert_array_equal(q_ddot, demand)
    touches, _ = landing.anticipate(ROBOT.kinematics(rest), measured([2 * RESTS, 0.0, 0.0, 0.0]), np.zeros(12))
    np.testing.assert_array_equal(touches, [False, True, True, True])


# -- foot switches that contradict forces and kinematics ---------------------------------------------------------------


@pytest.fixture(scope="module")
def quadruped():
    return load_controller("quadruped")


class Feet:
    """A standing quadruped's switches. move: tick → (change of the base's height [m], change of all joint angles [rad])"""

    def __init__(self, quadruped, **settings):
        self.robot, self.q0 = quadruped.robot, quadruped.stance
        self.switches, self.terrain = Switches(AlarmSettings(**settings), self.robot), quadruped.terrain
        self.feet = self.robot.spheres.keys
        self.lift = lambda tick: 0.0
        self.joints = np.zeros(self.robot.na)
        self.off = lambda tick: 0.0
        self.lifted = ()
        self.tick, self.believed, self.rests = 0, set(), True

    def run(self, ticks, closed, forces=None):
        found = []
        for _ in range(ticks):
            q = self.q0.copy()
            q[2] += self.lift(self.tick)
            q[7:] += self.joints
            at = self.robot.kinematics(State(q=q, v=np.zeros(self.robot.nv)))
            off = np.full(self.robot.na, self.off(self.tick))
            since = DT if self.tick else 0.0, self.tick > 0, self.rests
            contacts = contacts_from_geometry(self.robot, at, self.terrain, margin=np.inf)
            keys, text = self.switches.judge(contacts, tuple(closed), off, since, forces or {}, self.lifted)
            if text:
                found.append((self.tick, keys, text))
            self.believed = set(keys)
            assert text or self.believed >= set(closed)
            self.tick += 1
        return found


def folded(feet):
    """Fold the first leg: its foot is more than 5 cm above the others."""
    feet.joints[1], feet.joints[2] = 0.3, 0.6


def test_plausible_switches_are_left_alone(quadruped):
    """All closed, none closed in a fall, one open at rest, and a base whose height drifts."""
    feet = Feet(quadruped)
    assert feet.run(100, feet.feet, dict.fromkeys(feet.feet, feet.robot.weight / 4)) == []
    feet.lift = lambda tick: -0.5 * 9.81 * (DT * tick) ** 2
    feet.off = lambda tick: 0.001 * tick
    assert feet.run(100, ()) == []
    feet = Feet(quadruped)
    assert feet.run(300, feet.feet[1:]) == []
    feet = Feet(quadruped)
    feet.lift = lambda tick: 3e-4 * tick
    assert feet.run(500, feet.feet) == []


def test_a_switch_that_is_closed_in_the_air_counts_as_open(quadruped):
    feet = Feet(quadruped)
    folded(feet)
    found = feet.run(100, feet.feet)
    tick, keys, text = found[0]
    assert 0.019 < tick * DT < 0.024
    assert set(keys) == set(feet.feet[1:])
    assert text.startswith(f"foot switch: {feet.feet[0]} is closed 0.")
    assert text.endswith("it counts as open")
    assert feet.run(50, feet.feet[1:]) == []


def test_short_closings_in_the_air_and_feet_some_centimetres_apart_are_left_alone(quadruped):
    feet = Feet(quadruped)
    folded(feet)
    for _ in range(20):
        assert feet.run(15, feet.feet) == []
        assert feet.run(5, feet.feet[1:]) == []
    feet = Feet(quadruped)
    feet.joints[1], feet.joints[2] = 0.2, 0.4
    q = feet.q0.copy()
    q[7:] += feet.joints
    gaps = quadruped.contacts(q, None).gaps
    assert len(gaps) < 4  # the foot is above the ground, by 4.4 cm
    assert feet.run(200, feet.feet) == []


def test_a_switch_that_opens_after_a_tap_counts_as_closed_for_20_ms_unless_its_foot_leaves(quadruped):
    feet = Feet(quadruped)
    for tap, lift, most in (1, 0.0, 20), (3, 0.0, 20), (3, 3e-4, 6), (3, 1e-2, 0), (4, 0.0, 0), (50, 0.0, 0):
        feet.lift = lambda tick: 0.0
        assert feet.run(50, feet.feet[1:]) == []
        assert feet.run(tap, feet.feet) == []
        feet.lift = lambda tick, from_=feet.tick - 1, lift=lift: lift * (tick - from_)
        held = [set(feet.feet) == feet.believed for _ in range(40) if feet.run(1, feet.feet[1:]) == []]
        assert len(held) == 40
        assert held == sorted(held, reverse=True)
        assert sum(held) in (max(most - 1, 0), most)
    assert feet.believed == set(feet.feet[1:])
    feet.lift, feet.rests = (lambda tick: 0.0), False
    assert feet.run(3, feet.feet) == feet.run(1, feet.feet[1:]) == []
    assert feet.believed == set(feet.feet[1:])


def test_switches_that_close_by_turns_are_closed_together(quadruped):
    """Two feet that touch for a tick in eleven: the law is asked about both, and may load them."""
    feet = Feet(quadruped)
    for tick in range(110):
        closed = feet.feet[:2] + tuple(key for key, at in zip(feet.feet[2:], (0, 4), strict=True) if tick % 11 == at)
        assert feet.run(1, closed) == []
        assert tick < 4 or feet.believed == set(feet.feet)


def test_a_held_foot_with_an_open_switch_counts_as_closed_until_it_closes(quadruped):
    feet = Feet(quadruped)
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


def test_feet_that_shall_be_in_the_air_and_moving_feet_are_not_held(quadruped):
    """A jumping robot moves its joints at the top, where its feet hardly move."""
    feet = Feet(quadruped)
    feet.off = lambda tick: 1e-3 * min(max(tick - 50, 0), 60)
    feet.lifted = feet.feet
    assert feet.run(150, ()) == []
    feet.lifted = feet.feet[1:]
    feet.off = lambda tick: 1e-3 * min(tick - 150, 60)
    found = feet.run(150, ())
    assert {keys for _, keys, _ in found} == {feet.feet[:1]}
    feet.lifted = feet.feet
    assert feet.run(50, ()) == []
    feet = Feet(quadruped)
    feet.lift = lambda tick: 2.5e-4 * (tick % 40 if tick % 80 < 40 else 40 - tick % 40)  # 0.25 m/s
    feet.off = lambda tick: 2e-3 * (tick % 10)
    assert feet.run(400, ()) == []


def test_an_open_switch_under_a_force_counts_as_closed_and_a_closed_one_without_is_only_told(quadruped):
    feet = Feet(quadruped)
    share = dict.fromkeys(feet.feet, 0.25 * feet.robot.weight)
    found = feet.run(100, feet.feet[:3], share)
    tick, keys, text = found[0]
    assert 0.019 < tick * DT < 0.024
    assert set(keys) == set(feet.feet)
    assert text == f"foot switch: {feet.feet[3]} is open at 25% of the weight, it counts as closed"
    light = dict.fromkeys(feet.feet, 0.05 * feet.robot.weight)
    assert feet.run(100, feet.feet[:3], light) == []
    feet = Feet(quadruped)
    forces = dict.fromkeys(feet.feet, 0.3 * feet.robot.weight) | {feet.feet[2]: 0.0}
    found = feet.run(700, feet.feet, forces)
    tick, keys, text = found[0]
    assert tick == pytest.approx(500, abs=2)
    assert keys == feet.feet
    assert text.startswith(f"foot switch: {feet.feet[2]} is closed without a force for 0.5 s")


@every("setting", ["switch_air", "switch_held", "switch_force", "switch_unloaded"])
def test_each_contradiction_can_be_switched_off(quadruped, setting):
    def run(feet, case):
        if case == "switch_air":
            folded(feet)
            return feet.run(100, feet.feet)
        if case == "switch_held":
            feet.off = lambda tick: 1e-3 * tick
            return feet.run(100, feet.feet[1:])
        forces = dict.fromkeys(feet.feet, 0.0 if case == "switch_unloaded" else feet.robot.weight)
        return feet.run(700, feet.feet if case == "switch_unloaded" else feet.feet[1:], forces)

    assert run(Feet(quadruped), setting)
    assert run(Feet(quadruped, **{setting: np.inf}), setting) == []


def test_a_reset_forgets_switches(quadruped):
    feet = Feet(quadruped)
    feet.off = lambda tick: 1e-3 * tick
    assert feet.run(60, feet.feet[1:])
    feet.switches.reset()
    feet.tick, feet.off = 0, lambda tick: 0.0
    assert feet.run(60, feet.feet[1:]) == []
