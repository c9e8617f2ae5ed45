"""Steps of a controller: commands for valid and invalid inputs, their cost, delays, and robots that stand in closed loop."""

import collections
import json
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from fast import every, fast, first_is_fast, full
from rigs import RIGID, at_rest, controller, nudged

import idyn.model.robot
from controllers.build import controller_from_snapshot, load_controller
from controllers.command import Inputs, LimitedBy, Mode, Reference, Schedule
from controllers.controller import Controller
from controllers.feedback import MAX_TICKS, DelayCompensation
from controllers.planners.path import PathSettings
from idyn import LAWS, Flat, InputError, Selection, State, contacts_from_points, load_robot, make_law
from idyn.certificate.certify import Conditions
from sim_harness.engines.penalty import Penalty
from sim_harness.world.worlds import ENGINES, build_world

TICK = Inputs(dt=0.001)
FIRST = Inputs(dt=0.0)


def run(c, states, inputs=TICK):
    return [c.step(s, c.contacts(s.q), FIRST if k == 0 else inputs) for k, s in enumerate(states)]


@every("law", [law for law in LAWS if law != "enumeration"])  # it takes two contacts, not four
def test_every_law_lets_the_robot_stand(law):
    c = controller("solo12", law=law, **RIGID)
    command = run(c, [at_rest(c)])[0]
    assert command.mode is Mode.OK
    assert (command.message, command.prediction.law) == ("", law)
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


def test_rate_limits_are_kept_from_the_second_tick_on():
    c = controller("solo12", safety__torque_rate=20.0)
    rng = np.random.default_rng(0)
    commands = run(c, [nudged(c, rng) for _ in range(10)])
    assert not (commands[0].limited_by & LimitedBy.RATE).any()
    for before, after in pairwise(commands):
        assert np.abs(after.tau - before.tau).max() <= 20.0 * 0.001 + 1e-12
    assert any((command.limited_by & LimitedBy.RATE).any() for command in commands[1:])


def test_the_reference_time_is_the_sum_of_the_periods():
    c = controller("solo12", reference__kind="sway", reference__start=0.0, **RIGID)
    state = at_rest(c)
    for dt in (0.0, 0.3, 0.2, 0.013):
        command = c.step(state, c.contacts(state.q), Inputs(dt=dt))
    other = controller("solo12", reference__kind="sway", reference__start=0.0, **RIGID)
    direct = other.step(state, other.contacts(state.q), Inputs(dt=0.513))
    np.testing.assert_allclose(command.prediction.v_plus, direct.prediction.v_plus, atol=1e-9)


@pytest.mark.parametrize("selection", fast(Selection, Selection.TORQUE_CHANGE))
@every("law", first_is_fast(["coulomb", "no-slip", "convex"]))
def test_a_controller_from_a_snapshot_gives_identical_commands(law, selection):
    first = controller("solo12", law=law, selection=selection, reference__kind="squat")
    second = controller_from_snapshot(json.loads(json.dumps(first.snapshot())))
    rng = np.random.default_rng(1)
    states = [nudged(first, rng, 0.005) for _ in range(20)]
    for one, other in zip(run(first, states), run(second, states), strict=True):
        for field in ("tau", "tau_ff", "limited_by"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
        np.testing.assert_array_equal(one.prediction.p, other.prediction.p)
        assert (one.mode, one.message, one.prediction.rung) == (other.mode, other.message, other.prediction.rung)


def test_reset_restores_the_initial_state():
    c = controller("solo12", feedback__ki=10.0, reference__kind="sway")
    rng = np.random.default_rng(2)
    states = [nudged(c, rng, 0.005) for _ in range(10)]
    before = [command.tau for command in run(c, states)]
    c.reset()
    after = [command.tau for command in run(c, states)]
    np.testing.assert_array_equal(before, after)


def test_an_emergency_stop_damps_and_limits_continue_from_there():
    """The motors have the torque that was sent last, Blending in starts with the first torque within the limits."""
    c = controller("solo12", safety__damping=0.1)
    state = nudged(c, np.random.default_rng(0), 0.5)
    command = c.step(state, c.contacts(state.q), Inputs(dt=0.0, estop="emergency stop"))
    assert (command.mode, command.message, command.prediction) == (Mode.DAMPING, "emergency stop", None)
    np.testing.assert_allclose(command.tau, -0.1 * state.v[6:])
    c = controller("solo12", safety__torque_rate=100.0)
    state = at_rest(c)
    run(c, [state])
    moving = State(q=c.stance, v=np.r_[np.zeros(6), np.full(12, 5.0)])
    stopped = c.step(moving, c.contacts(state.q), Inputs(dt=0.001, estop="emergency stop"))
    resumed = c.step(state, c.contacts(state.q), TICK)
    assert np.abs(resumed.tau - stopped.tau).max() <= 0.1 + 1e-12
    c = controller("solo12", safety__first_command_guard=0.1)
    had = Inputs(dt=0.0, tau_applied=np.full(12, 0.5))
    c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=0.0, estop="emergency stop"))
    np.testing.assert_array_equal(c.step(at_rest(c), c.contacts(c.stance), had).tau, 0.5)


def test_a_fault_damps_a_torque_beyond_the_limits_degrades_and_both_are_reported():
    c = controller("solo12")
    v = np.zeros(18)
    v[7] = 99.0
    command = c.step(State(q=c.stance, v=v), c.contacts(c.stance), FIRST)
    assert command.mode is Mode.FAULT
    assert "99.0 rad/s" in command.message
    assert np.abs(command.tau).max() <= 2.7
    c = controller("solo12", consistency="off")
    reference = Reference(q=c.robot.joint_angles(c.stance), v=np.zeros(12), a=np.full(12, 3000.0))
    command = c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=0.0, reference=reference))
    assert command.mode is Mode.DEGRADED
    assert "the demand exceeds the torque limits by" in command.message
    assert np.abs(command.tau).max() == 2.7
    assert np.abs(command.tau_ff).max() > 2.7


def broken_contacts(c):
    """A contact with a NaN point: no law can answer, nor can the inverse dynamics."""
    contacts = c.contacts(c.stance)
    points = contacts.points.copy()
    points[0, 0] = np.nan
    return msgspec.structs.replace(contacts, points=points)


@every(("fallback", "mode"), [("hold", Mode.HOLD), ("damping", Mode.DAMPING)])
def test_without_a_prediction_the_fallback_acts(fallback, mode):
    c = controller("solo12", safety__fallback=fallback, safety__damping=0.1)
    assert c.step(at_rest(c), broken_contacts(c), FIRST).mode is Mode.DAMPING  # there is no torque to hold
    state = nudged(c, np.random.default_rng(0))
    before = c.step(state, c.contacts(state.q), TICK)
    for _ in range(3):
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


@every("source", ["geometry", "planner", "fused"])
def test_a_schedule_of_other_feet_is_refused(source):
    c = controller("solo12", contact__source={"kind": source})
    still = {name: np.zeros(12) for name in ("q", "v", "a")}
    plan = Schedule(stance=np.ones(1, dtype=bool), time_to_switch=np.ones(1))
    with pytest.raises(InputError, match=r"reference\.schedule: expected 4 entries each, one per contact, got 1 and 1"):
        c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=0.0, reference=Reference(**still, schedule=plan)))


@every("source", ["geometry", "planner", "fused"])
def test_arrays_of_any_dtype_and_memory_order_are_accepted(source):
    c, other = (controller("quadruped", contact__source={"kind": source}) for _ in range(2))
    state, zero = at_rest(c), np.zeros(12)
    contacts = c.contacts(state.q, c.robot.contact_names)
    plan = Schedule(stance=np.ones(4, dtype=bool), time_to_switch=np.full(4, np.inf))
    reference = Reference(q=c.robot.joint_angles(c.stance), v=zero, a=zero, schedule=plan)
    turned = {name: np.asfortranarray(getattr(contacts, name)) for name in ("normals", "points")}
    strange = msgspec.structs.replace(contacts, gaps=np.repeat(contacts.gaps, 2)[::2], **turned)
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


@every("law", first_is_fast(LAWS, 3))
@pytest.mark.parametrize("name", first_is_fast(["solo12", "quadruped"]))
def test_arbitrary_finite_inputs_give_a_finite_torque_within_limits(name, law):
    c = controller(name, law=law)
    rng = np.random.default_rng(0)
    tau_max = c.robot.limits.tau_max
    with np.errstate(all="ignore"):
        for k in range(60):
            size = 10.0 ** rng.integers(-3, 5)
            q, v = c.stance + size * rng.normal(size=19), size * rng.normal(size=18)
            if k % 2:
                q[3:7] /= np.linalg.norm(q[3:7])
            n = int(rng.integers(0, 5))
            keys, normals = tuple(rng.permutation(list(c.robot.spheres.keys))[:n]), rng.normal(size=(n, 3))
            normals /= np.linalg.norm(normals, axis=1, keepdims=True)
            mu, points = rng.choice([0.0, 0.5, 1e6, np.inf], n), size * rng.normal(size=(n, 3))
            contacts = contacts_from_points(c.robot, keys, points, normals, mu, size * rng.normal(size=n))
            reference = Reference(*[], **{f: size * rng.normal(size=12) for f in ("q", "v", "a")}) if k % 3 == 0 else None
            inputs = Inputs(dt=abs(size * rng.normal()), tau_applied=size * rng.normal(size=12), reference=reference)
            command = c.step(State(q=q, v=v), contacts, inputs)
            assert np.isfinite(command.tau).all()
            assert (np.abs(command.tau) <= tau_max + 1e-12).all()
            assert command.mode in set(Mode)


def test_kinematics_are_recomputed_when_the_state_was_modified():
    c, other = controller("quadruped"), controller("quadruped")
    state = at_rest(c)
    contacts = c.contacts(state)
    state.q[7] += 0.05
    expected = other.step(State(q=state.q.copy(), v=state.v.copy()), contacts, TICK)
    np.testing.assert_array_equal(c.step(state, contacts, TICK).tau, expected.tau)


@every("of", ["q", "state"])
def test_an_unknown_contact_is_refused_by_its_name(of):
    c = controller("quadruped")
    state = at_rest(c)
    with pytest.raises(InputError, match=r"LF_FOT.*nearest: LF_FOOT") as refused:
        c.contacts(state.q if of == "q" else state, ("RF_FOOT", "LF_FOT"))
    assert refused.value.field == "contacts.frame"


@every("broken", [7, 2, slice(None)])
def test_a_state_with_nan_has_the_contacts_that_are_told_and_the_tick_damps(broken):
    c = controller("quadruped")
    c.step(at_rest(c), c.contacts(at_rest(c)), FIRST)
    state, keys = at_rest(c), c.robot.contact_names
    state.q[broken] = np.nan
    contacts, problem = c.believed(state, keys, TICK, {})
    assert (contacts.keys, problem) == (keys, "")
    assert c.contacts(state, keys).keys == keys
    command = c.step(state, contacts, TICK)
    assert command.mode in (Mode.DAMPING, Mode.FAULT)
    assert command.message
    assert np.isfinite(command.tau).all()


# -- cost of a tick ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quadruped", "quadruped-trot"])
def test_each_algorithm_of_pinocchio_runs_once_per_configuration(monkeypatch, name):
    controller, counts, pin = load_controller(name), collections.Counter(), idyn.model.robot.pin

    class Counting:
        def __getattr__(self, algorithm):
            def counted(*arguments):
                counts[algorithm] += 1
                return getattr(pin, algorithm)(*arguments)

            return counted

    rungs = []
    inputs = Inputs(dt=controller.settings.period, tau_applied=np.zeros(controller.robot.na))
    for tick in range(40):
        state = at_rest(controller)
        state.q[2] -= 1e-9 * tick  # another configuration in each tick
        if tick == 39:
            monkeypatch.setattr(idyn.model.robot, "pin", Counting())
        command = controller.step(state, controller.contacts(state), inputs)
        rungs.append(command.prediction.rung)
    assert rungs[-1] == "warm"
    assert counts == {"crba": 1, "nonLinearEffects": 1, "forwardKinematics": 1}


# -- delay compensation ------------------------------------------------------------------------------------------------


DT = 0.001


def test_the_state_is_extrapolated_by_the_pending_predictions_that_are_kept():
    """The predictions of the last ticks, oldest first, integrated as the world integrates."""
    c = controller("solo12")
    compensation, state = DelayCompensation(c.robot, DT), at_rest(c)
    assert compensation.extrapolate(state, 0.005) is state
    compensation.record(np.zeros(c.robot.nv), np.ones(c.robot.nv), 1.0)
    assert compensation.extrapolate(state, 0.0) is state
    compensation.reset()
    assert compensation.extrapolate(state, 0.005) is state
    c, rng = controller("solo12"), np.random.default_rng(0)
    compensation, state = DelayCompensation(c.robot, DT), nudged(c, rng)
    accelerations = rng.normal(size=(7, c.robot.nv))
    for a in accelerations:
        compensation.record(np.zeros(c.robot.nv), a, 1.0)
    q, v = state.q, state.v
    for a in accelerations[-3:]:
        v = v + DT * a
        q = c.robot.integrate(q, DT * v)
    ahead = compensation.extrapolate(state, 3 * DT)
    np.testing.assert_array_equal(ahead.v, v)
    np.testing.assert_array_equal(ahead.q, q)
    c = controller("solo12")
    compensation, state = DelayCompensation(c.robot, DT), at_rest(c)
    for _ in range(2 * MAX_TICKS):
        compensation.record(np.zeros(c.robot.nv), np.r_[0.0, 0.0, 1.0, np.zeros(c.robot.nv - 3)], 1.0)
    assert compensation.extrapolate(state, 1.0).v[2] == pytest.approx(MAX_TICKS * DT)


def test_with_a_delay_the_reference_is_that_of_the_time_when_the_torque_acts():
    """It never goes back when the delay shrinks."""
    moving = {"reference__kind": "sway", "reference__start": 0.0, "reference__ramp": 0.1}
    c, late = controller("quadruped", **moving), controller("quadruped", **moving)
    state = at_rest(c)
    prompt, delayed = [], []
    for k in range(60):
        dt = DT * (k > 0)
        prompt.append(c.step(state, c.contacts(state.q), Inputs(dt=dt)).reference.q)
        inputs = Inputs(dt=dt, delay=0.005 if k < 50 else 0.0)
        delayed.append(late.step(state, late.contacts(state.q), inputs).reference.q)
    np.testing.assert_allclose(delayed[44], prompt[49], atol=1e-12)
    np.testing.assert_allclose(delayed[51], prompt[54], atol=1e-12)
    np.testing.assert_allclose(delayed[59], prompt[59], atol=1e-12)


# -- closed loop -------------------------------------------------------------------------------------------------------


FREE_OF_LIMITS = {"safety__torque_rate": np.inf, "safety__first_command_guard": 0.0}
EXACT = RIGID | FREE_OF_LIMITS


def world_of(name, engine="lcp", **settings):
    robot, stance = load_robot(name)
    return build_world(ENGINES[engine](**settings), robot, Flat(), stance)


class Loop:
    """One second of it is a thousand of these."""

    def __init__(self, c, world):
        self.c, self.world, self.applied = c, world, None
        self.taus, self.bases, self.predicted, self.simulated, self.modes = [], [], [], [], []

    def tick(self, k):
        state = self.world.state
        inputs = Inputs(dt=DT * (k > 0), tau_applied=self.applied)
        command = self.c.step(state, self.c.contacts(state.q), inputs)
        result = self.world.step(command.tau, DT)
        self.applied = command.tau
        self.taus.append(command.tau)
        self.bases.append(self.world.q[:3].copy())
        self.modes.append(command.mode)
        self.predicted.append(command.prediction.normal_force.sum() if command.prediction else np.nan)
        self.simulated.append(result.normal_force.sum())
        assert result.status.ok

    def run(self, steps):
        for k in range(steps):
            self.tick(k)
        return self


@pytest.mark.parametrize("law", first_is_fast(["no-slip", "coulomb"]))
@every(("kind", "axis"), first_is_fast([("sway", 1), ("squat", 2)]))
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_motion_and_contact_forces_match_the_prediction(name, kind, axis, law):
    """A sway or squat of a centimetre under the rigid engine: the base goes where it should, forces as predicted to 1e-6."""
    motion = {"reference__kind": kind, "reference__start": 0.0, "reference__ramp": 0.3}
    c = controller(name, law=law, selection="torque", **motion, **EXACT)
    loop = Loop(c, world_of(name)).run(600)
    assert set(loop.modes) == {Mode.OK}
    np.testing.assert_allclose(loop.predicted, loop.simulated, rtol=1e-6)
    travel = np.array(loop.bases)[:, axis] - c.stance[axis]
    t = DT * np.arange(1, 601)
    ramp = np.minimum(t / 0.3, 1)
    wanted = 0.01 * ramp**3 * (10 - 15 * ramp + 6 * ramp**2) * np.sin(2 * np.pi * t)
    np.testing.assert_allclose(travel, wanted, atol=1e-3)
    assert np.abs(travel).max() > 0.009


@full
@every("kind", first_is_fast(["squat", "sway"]))
def test_selection_removes_the_chatter_of_an_indeterminate_stance(kind):
    """Basic solutions found anew each tick jump between feet; with it torques are smooth, at the same motion [ZD Table 4].
    Rounding decides when they jump: the ratio is 55 with the BLAS kernels of one processor, above 100 with others."""
    settings = {"law": "coulomb", "consistency": "stick"} | EXACT | {"reference__kind": kind, "reference__start": 0.0}
    loops = {
        selection: Loop(controller("solo12", selection=selection, warm_start=warm, **settings), world_of("solo12")).run(500)
        for selection, warm in (("torque", True), ("off", False))
    }
    np.testing.assert_allclose(loops["torque"].bases, loops["off"].bases, atol=1e-9)
    rate = {key: np.abs(np.diff(loop.taus, axis=0)).mean() / DT for key, loop in loops.items()}
    assert rate["torque"] < 0.5  # N·m/s
    assert rate["off"] > 30 * rate["torque"]


@every("kind", ["sway", "squat"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_cold_starts_are_solved_by_their_first_rung(name, kind):
    """Begun anew in a degenerate stance, the law needs no regularisation and gives up no demand on which all feet stay."""
    settings = EXACT | {"law": "coulomb", "selection": "off", "warm_start": False, "ground__drift": True}
    c = controller(name, reference__kind=kind, reference__start=0.0, **settings)
    world = world_of(name)
    for k in range(300):
        state = world.state
        command = c.step(state, c.contacts(state.q), Inputs(dt=DT * (k > 0)))
        assert (command.prediction.law, command.prediction.rung) == ("coulomb", "cold")
        assert command.prediction.demand_change > 0 or k < 2
        world.step(command.tau, DT)


@every("engine", first_is_fast(["penalty", "lcp"]))
@pytest.mark.parametrize("law", fast(["no-slip", "coulomb", "cone"], "coulomb"))
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_the_shipped_controller_stands_on_rigid_and_on_soft_ground(name, law, engine):
    """Another contact model than the law's: the robot sinks as far as four springs give, and the forces are those predicted."""
    c = controller(name, law=law)
    loop = Loop(c, world_of(name, engine)).run(600)
    weight = c.robot.total_mass * 9.81
    sinkage = weight / (4 * Penalty().kp) if engine == "penalty" else 0.0
    assert c.stance[2] - loop.bases[-1][2] == pytest.approx(sinkage, abs=1e-6)
    assert loop.simulated[-1] == pytest.approx(weight, rel=0.01)
    assert loop.predicted[-1] == pytest.approx(loop.simulated[-1], rel=0.01)
    assert np.abs(np.diff(loop.taus[-100:], axis=0)).mean() / DT < 5.0


@pytest.mark.parametrize(("name", "steps"), first_is_fast([("go2-trot", 700), ("go2", 200), ("g1-walk", 300)], 0))
def test_a_run_in_utm_coordinates_is_that_at_the_origin(name, steps):
    """5500 km away, where positions are rounded to 0.9 nm: every torque within 5 µN·m, the base within 0.1 µm."""
    loops = []
    for x, y in ((0.0, 0.0), (4.5e5, 5.5e6)):
        c = controller(name, **({"reference__path": {"waypoints": [[x + 2.0, y]]}} if name == "go2-trot" else {}))
        stance = c.stance.copy()
        stance[:2] += x, y
        c = Controller(c.settings, c.robot, stance)
        loops.append(Loop(c, build_world(ENGINES["lcp"](), c.robot, c.terrain, stance)).run(steps))
        assert set(loops[-1].modes) == {Mode.OK}
        loops[-1].bases -= np.array([x, y, 0.0])
    here, there = loops
    np.testing.assert_allclose(there.taus, here.taus, rtol=0.0, atol=5e-6)
    np.testing.assert_allclose(there.bases, here.bases, rtol=0.0, atol=1e-7)


def test_noise_of_speeds_reaches_the_torques_less_with_a_memory_and_a_kick_is_still_met():
    """White noise of 0.05 rad/s and 0.02 m/s: torques jump less by √((1 − k)/(1 + k)), k the share that is kept. After a kick
    of the base the robot comes to rest as without a memory."""
    jumps, heights = [], []
    for memory in (0.0, 0.005):
        c, rng = controller("quadruped", speed_memory=memory, **FREE_OF_LIMITS), np.random.default_rng(0)
        world, taus = world_of("quadruped", "penalty"), []
        for k in range(800):
            state = world.state
            if k == 400:
                world.v[2] -= 0.2
            noise = np.concatenate([np.full(3, 0.02), np.full(3, 0.01), np.full(c.robot.na, 0.05)])
            seen = State(q=state.q, v=state.v + noise * rng.standard_normal(c.robot.nv))
            command = c.step(seen, c.contacts(state.q), Inputs(dt=DT * (k > 0)))
            assert command.mode is not Mode.FAULT
            world.step(command.tau, DT)
            taus.append(command.tau)
        jumps.append(np.diff(taus[100:400], axis=0).std())
        heights.append(world.q[2])
    assert 0.1 < jumps[1] / jumps[0] < 0.45  # k = 5/6: 0.30 of what comes from speeds
    np.testing.assert_allclose(heights[1], heights[0], atol=1e-3)
