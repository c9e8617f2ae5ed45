"""One controller step: commands for valid and invalid inputs."""

import json
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from fast import every, fast, first_is_fast
from rigs import RIGID, at_rest, controller, nudged

from controllers.build import controller_from_snapshot
from controllers.command import Inputs, LimitedBy, Mode, Reference, Schedule
from controllers.controller import Controller
from controllers.planners.path import PathSettings
from idyn.contact.contacts import contacts_from_points
from idyn.errors import InputError
from idyn.laws import LAWS, make_law
from idyn.status import Conditions
from idyn.types import Selection, State

TICK = Inputs(dt=0.001)
FIRST = Inputs(dt=0.0)


def run(c, states, inputs=TICK):
    """Commands for a sequence of states, the first tick with dt = 0."""
    return [c.step(s, c.contacts(s.q), FIRST if k == 0 else inputs) for k, s in enumerate(states)]


@every("law", [law for law in LAWS if law != "enumeration"])  # it takes two contacts, not four
def test_every_law_lets_the_robot_stand(law):
    c = controller("solo12", law=law, **RIGID)
    command = run(c, [at_rest(c)])[0]
    assert command.mode is Mode.OK
    assert command.message == ""
    assert command.prediction.law == law
    np.testing.assert_array_equal(command.tau, command.tau_ff)
    assert not command.tau_fb.any()
    assert not command.limited_by.any()
    # nothing was measured; nothing has sunk in
    weightless = Conditions.FREE, Conditions.GIVEN, Conditions.COMPLIANT, Conditions.SOFT
    if make_law(law).conditions not in weightless:
        assert command.prediction.normal_force.sum() == pytest.approx(c.robot.total_mass * 9.81, rel=1e-6)


@every("law", ["no-slip", "coulomb", "cone"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12", "a1", "go2"]))
def test_the_shipped_controller_carries_the_weight_from_the_first_tick(name, law):
    """A robot held at rest: ground with memory has no memory of missing forces before the first tick."""
    c = controller(name, law=law)
    commands = run(c, [at_rest(c)] * 20)
    forces = [command.prediction.normal_force.sum() for command in commands]
    np.testing.assert_allclose(forces, c.robot.total_mass * 9.81, rtol=1e-6)
    assert {command.mode for command in commands} == {Mode.OK}


def test_the_demand_is_the_feedback_acceleration():
    """A joint error of 0.01 rad gives kp · 0.01; consistency is off, so the demand is predicted unchanged."""
    c = controller("quadruped", consistency="off", law="coulomb")
    state = at_rest(c)
    reference = Reference(q=c.robot.joint_angles(c.stance) + 0.01, v=np.full(12, 0.1), a=np.full(12, -0.5))
    command = c.step(state, c.contacts(state.q), Inputs(dt=0.0, reference=reference))
    s = c.settings.feedback
    demand = -0.5 + s.kp * 0.01 + s.kd * 0.1
    np.testing.assert_allclose(command.prediction.v_plus[c.robot.tree.a] / 0.001, demand, rtol=1e-9)


def test_the_rate_limit_starts_with_the_second_tick():
    c = controller("solo12", safety__torque_rate=20.0)
    rng = np.random.default_rng(0)
    commands = run(c, [nudged(c, rng) for _ in range(10)])
    assert not (commands[0].limited_by & LimitedBy.RATE).any()
    for before, after in pairwise(commands):
        assert np.abs(after.tau - before.tau).max() <= 20.0 * 0.001 + 1e-12
    assert any((command.limited_by & LimitedBy.RATE).any() for command in commands[1:])


def test_the_reference_time_is_the_sum_of_the_periods():
    """dt is measured: a trajectory is where the sum of the periods says."""
    c = controller("solo12", reference__kind="sway", reference__start=0.0, **RIGID)
    state = at_rest(c)
    for dt in (0.0, 0.3, 0.2, 0.013):
        command = c.step(state, c.contacts(state.q), Inputs(dt=dt))
    other = controller("solo12", reference__kind="sway", reference__start=0.0, **RIGID)
    direct = other.step(state, other.contacts(state.q), Inputs(dt=0.513))
    np.testing.assert_allclose(command.prediction.v_plus, direct.prediction.v_plus, atol=1e-9)


@pytest.mark.parametrize("selection", fast(Selection, Selection.TORQUE_CHANGE))
@every("law", ["no-slip", "coulomb", "convex"])
def test_a_controller_from_a_snapshot_gives_identical_commands(law, selection):
    """Through JSON into a new controller: equal commands for equal states, over many ticks."""
    first = controller("solo12", law=law, selection=selection, reference__kind="squat")
    second = controller_from_snapshot(json.loads(json.dumps(first.snapshot())))
    rng = np.random.default_rng(1)
    states = [nudged(first, rng, 0.005) for _ in range(20)]
    for one, other in zip(run(first, states), run(second, states), strict=True):
        for field in ("tau", "tau_ff", "limited_by"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
        np.testing.assert_array_equal(one.prediction.p, other.prediction.p)
        assert (one.mode, one.message, one.prediction.rung) == (other.mode, other.message, other.prediction.rung)


@every("name", ["quadruped", "a1", "go2"])
def test_a_snapshot_survives_a_round_trip(name):
    c = controller(name, law="convex-infinite")
    snapshot = c.snapshot()
    assert controller_from_snapshot(json.loads(json.dumps(snapshot))).snapshot() == snapshot


def test_reset_restores_the_initial_state():
    c = controller("solo12", feedback__ki=10.0, reference__kind="sway")
    rng = np.random.default_rng(2)
    states = [nudged(c, rng, 0.005) for _ in range(10)]
    before = [command.tau for command in run(c, states)]
    c.reset()
    after = [command.tau for command in run(c, states)]
    np.testing.assert_array_equal(before, after)


def test_an_emergency_stop_damps():
    c = controller("solo12", safety__damping=0.1)
    state = nudged(c, np.random.default_rng(0), 0.5)
    command = c.step(state, c.contacts(state.q), Inputs(dt=0.0, estop="emergency stop"))
    assert (command.mode, command.message, command.prediction) == (Mode.DAMPING, "emergency stop", None)
    np.testing.assert_allclose(command.tau, -0.1 * state.v[6:])


def test_a_fault_damps_and_reports_its_reason():
    c = controller("solo12")
    v = np.zeros(18)
    v[7] = 99.0
    command = c.step(State(q=c.stance, v=v), c.contacts(c.stance), FIRST)
    assert command.mode is Mode.FAULT
    assert "99.0 rad/s" in command.message
    assert np.abs(command.tau).max() <= 2.7


def test_after_an_emergency_stop_the_rate_limit_starts_from_the_damping_torque():
    """The motors have the torque that was sent last, by any mode."""
    c = controller("solo12", safety__torque_rate=100.0)
    state = at_rest(c)
    run(c, [state])
    moving = State(q=c.stance, v=np.r_[np.zeros(6), np.full(12, 5.0)])
    stopped = c.step(moving, c.contacts(state.q), Inputs(dt=0.001, estop="emergency stop"))
    resumed = c.step(state, c.contacts(state.q), TICK)
    assert np.abs(resumed.tau - stopped.tau).max() <= 0.1 + 1e-12


def broken_contacts(c):
    """A contact with a NaN point: no law can answer, nor can the inverse dynamics."""
    contacts = c.contacts(c.stance)
    points = contacts.points.copy()
    points[0, 0] = np.nan
    return msgspec.structs.replace(contacts, points=points)


def test_an_emergency_stop_before_the_first_command_keeps_the_first_command_guard():
    """Blending in starts with the first torque that passes the limits."""
    c = controller("solo12", safety__first_command_guard=0.1)
    had = Inputs(dt=0.0, tau_applied=np.full(12, 0.5))
    c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=0.0, estop="emergency stop"))
    np.testing.assert_array_equal(c.step(at_rest(c), c.contacts(c.stance), had).tau, 0.5)


def test_hold_repeats_the_last_torque():
    c = controller("solo12", safety__fallback="hold")
    before = run(c, [at_rest(c)])[0]
    for _ in range(3):
        command = c.step(nudged(c, np.random.default_rng(0)), broken_contacts(c), TICK)
        np.testing.assert_array_equal(command.tau, before.tau)


@every(("fallback", "mode"), [("hold", Mode.HOLD), ("damping", Mode.DAMPING)])
def test_without_a_prediction_the_fallback_acts(fallback, mode):
    c = controller("solo12", safety__fallback=fallback, safety__damping=0.1)
    state = nudged(c, np.random.default_rng(0))
    before = run(c, [state])[0]
    command = c.step(state, broken_contacts(c), TICK)
    assert command.mode is mode
    assert command.message.startswith("contacts.points[0]: expected finite coordinates")
    np.testing.assert_allclose(command.tau, before.tau if fallback == "hold" else -0.1 * state.v[6:])
    after = c.step(state, c.contacts(state.q), TICK)
    assert after.mode is Mode.OK


@every("fallback", ["hold", "damping"])
def test_too_many_ticks_without_a_torque_are_a_fault(fallback):
    c = controller("solo12", safety__fallback=fallback, safety__unanswered=5)
    c.step(at_rest(c), c.contacts(at_rest(c)), FIRST)
    commands = [c.step(at_rest(c), broken_contacts(c), TICK) for _ in range(6)]
    assert [command.mode is Mode.FAULT for command in commands] == [False] * 5 + [True]
    assert commands[-1].message.startswith(f"no torque in more than 5 ticks: {commands[0].message}")


def test_ticks_without_a_torque_count_also_when_others_lie_between():
    c = controller("solo12", safety__unanswered=5)
    for tick in range(8):
        assert c.step(at_rest(c), c.contacts(at_rest(c)), TICK if tick else FIRST).mode is not Mode.FAULT
        last = c.step(at_rest(c), broken_contacts(c), TICK)
        if last.mode is Mode.FAULT:
            break
    assert tick == 5


def test_hold_without_a_previous_torque_damps():
    c = controller("solo12", safety__fallback="hold")
    assert c.step(at_rest(c), broken_contacts(c), FIRST).mode is Mode.DAMPING


def test_a_torque_beyond_the_limits_is_reported():
    c = controller("solo12", consistency="off")
    reference = Reference(q=c.robot.joint_angles(c.stance), v=np.zeros(12), a=np.full(12, 3000.0))
    command = c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=0.0, reference=reference))
    assert command.mode is Mode.DEGRADED
    assert "the demand exceeds the torque limits by" in command.message
    assert np.abs(command.tau).max() == 2.7
    assert np.abs(command.tau_ff).max() > 2.7


@every("source", ["geometry", "planner", "fused"])
def test_a_schedule_of_other_feet_is_refused(source):
    c = controller("solo12", contact__source={"kind": source})
    still = {name: np.zeros(12) for name in ("q", "v", "a")}
    plan = Schedule(stance=np.ones(1, dtype=bool), time_to_switch=np.ones(1))
    with pytest.raises(InputError, match=r"reference\.schedule: expected 4 entries each, one per contact, got 1 and 1"):
        c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=0.0, reference=Reference(**still, schedule=plan)))


@every("source", ["geometry", "planner", "fused"])
def test_arrays_of_any_dtype_and_memory_order_are_accepted(source):
    """Contacts and a schedule with other array types: the same numbers, the same torques."""
    c, other = (controller("quadruped", contact__source={"kind": source}) for _ in range(2))
    state, zero = at_rest(c), np.zeros(12)
    contacts = c.contacts(state.q, c.robot.contact_names)
    plan = Schedule(stance=np.ones(4, dtype=bool), time_to_switch=np.full(4, np.inf))
    reference = Reference(q=c.robot.joint_angles(c.stance), v=zero, a=zero, schedule=plan)
    strange = msgspec.structs.replace(
        contacts,
        normals=np.asfortranarray(contacts.normals),
        points=np.asfortranarray(contacts.points),
        gaps=np.repeat(contacts.gaps, 2)[::2],
    )
    stance = np.ones(8, dtype=bool)[::2]
    also = msgspec.structs.replace(reference, schedule=Schedule(stance=stance, time_to_switch=np.full(4, np.inf, np.float32)))
    for dt in (0.0, 1e-3, 1e-3):
        a = c.step(state, contacts, Inputs(dt=dt, reference=reference))
        b = other.step(state, strange, Inputs(dt=dt, reference=also))
        np.testing.assert_array_equal(a.tau, b.tau)
    assert a.mode is Mode.OK


def test_settings_need_not_be_hashable():
    path = PathSettings(waypoints=[(1.0, 0.0)])
    with pytest.raises(TypeError):
        hash(path)
    trot = controller("quadruped-trot")
    unhashable = msgspec.structs.replace(trot.settings, reference=msgspec.structs.replace(trot.settings.reference, path=path))
    c = Controller(unhashable, trot.robot, trot.stance)
    assert c.step(at_rest(c), c.contacts(c.stance), FIRST).mode is Mode.OK


@every("law", LAWS)
@pytest.mark.parametrize("name", first_is_fast(["solo12", "quadruped"]))
def test_arbitrary_finite_inputs_give_a_finite_torque_within_limits(name, law):
    """For any finite state, contacts, reference and period: a torque within the limits, a mode, and no exception."""
    c = controller(name, law=law)
    rng = np.random.default_rng(0)
    tau_max = c.robot.limits.tau_max
    with np.errstate(all="ignore"):
        for k in range(60):
            size = 10.0 ** rng.integers(-3, 5)
            q, v = c.stance + size * rng.normal(size=19), size * rng.normal(size=18)
            if k % 2:
                q[3:7] /= np.linalg.norm(q[3:7])
            contacts = random_contacts(c, rng, size)
            reference = Reference(*[], **{f: size * rng.normal(size=12) for f in ("q", "v", "a")}) if k % 3 == 0 else None
            inputs = Inputs(dt=abs(size * rng.normal()), tau_applied=size * rng.normal(size=12), reference=reference)
            command = c.step(State(q=q, v=v), contacts, inputs)
            assert np.isfinite(command.tau).all()
            assert (np.abs(command.tau) <= tau_max + 1e-12).all()
            assert command.mode in set(Mode)


def random_contacts(c, rng, size):
    n = int(rng.integers(0, 5))
    keys = tuple(rng.permutation(list(c.robot.spheres.keys))[:n])
    normals = rng.normal(size=(n, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    mu = rng.choice([0.0, 0.5, 1e6, np.inf], n)
    return contacts_from_points(c.robot, keys, size * rng.normal(size=(n, 3)), normals, mu, size * rng.normal(size=n))


def test_kinematics_are_recomputed_when_the_state_was_modified():
    """The kinematics of the contact search are reused only for an unchanged state."""
    c, other = controller("quadruped"), controller("quadruped")
    state = at_rest(c)
    contacts = c.contacts(state)
    state.q[7] += 0.05
    expected = other.step(State(q=state.q.copy(), v=state.v.copy()), contacts, TICK)
    np.testing.assert_array_equal(c.step(state, contacts, TICK).tau, expected.tau)
