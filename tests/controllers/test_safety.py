"""Safety: limits and their bits, faults and damping; the model-mismatch monitor, and the mode that follows."""

import re

import msgspec
import numpy as np
import pytest
from fast import every, every_row, first_is_fast, full
from rigs import RIGID, at_rest, controller

from controllers.command import Inputs, LimitedBy, Mode
from controllers.monitor.alarms import Alarms, AlarmSettings
from controllers.monitor.reality import MismatchMonitor, RealitySettings, react
from controllers.monitor.safety import Safety, SafetySettings, torque_rates
from idyn import Description, Flat, Ground, InputError, Robot, State, Status, contacts_from_geometry, load_robot, predict
from idyn.terms.dynamics import evaluate
from sim_harness.robot.hardware import Sensors
from sim_harness.robot.imperfections import BodySettings, ImperfectionSettings, Sensing, Spread, world_robot
from sim_harness.world.world import Push
from sim_harness.world.worlds import ENGINES, build_world

ROBOT, STANCE = load_robot("solo12")
LIMIT = 2.7
DT = 0.001
ROLLED, TURNED = {"q3": np.sin(0.49), "q6": np.cos(0.49)}, {"q5": np.sin(1.5), "q6": np.cos(1.5)}
TAU, G = 0.1, 9.81
NOISE = Spread(joint_position=1e-4, joint_speed=0.05, base_position=1e-3, base_velocity=0.02, base_rate=0.01)
WORDS = {
    "load": "from the prediction, the contact forces do not: a load or a push is not in the model",
    "motors": "% of the weight: contacts or motors are not as modelled",
    "unknown": "from the prediction: load, contacts or motors are not as modelled",
}


def safety(**settings):
    return Safety(SafetySettings(**settings), ROBOT, ROBOT.limits, STANCE, DT)


def state(**changes):
    q, v = STANCE.copy(), np.zeros(18)
    for place, value in changes.items():
        (q if place[0] == "q" else v)[int(place[1:])] = value
    return State(q=q, v=v)


class Judged:
    """States of a robot, judged one after the other."""

    def __init__(self, robot=ROBOT, **settings):
        self.robot, self.monitor = robot, MismatchMonitor(RealitySettings(**settings), robot, DT)
        safety, self.expect = Safety(SafetySettings(), robot, robot.limits, robot.neutral(), DT), self.monitor.expect
        self.alarms = Alarms(AlarmSettings(), robot, DT, robot.neutral(), safety, self.monitor)

    def fault(self, state):
        verdict = self.alarms.judge(self.robot.terms(state.q, state.v), Inputs(dt=0.0), None)
        return verdict.message if verdict else ""

    def measure(self, state, inputs):
        self.alarms.judge(self.robot.terms(state.q, state.v), inputs, None)
        return self.alarms.mismatch

    def reset(self):
        self.monitor.reset()
        self.alarms.reset()


def test_torques_are_clipped_and_flagged():
    tau = np.linspace(-5, 5, 12)
    limited, bits = safety().limit(tau, 0.0, None)
    np.testing.assert_array_equal(limited, np.clip(tau, -LIMIT, LIMIT))
    np.testing.assert_array_equal(bits, np.where(np.abs(tau) > LIMIT, LimitedBy.TORQUE, 0))


@every("applied", [3.5, -3.5, 50.0])
def test_the_torque_limit_acts_after_the_rate_limit(applied):
    """Whatever torque is reported as applied, no more than the limit is sent."""
    s = safety(torque_rate=100.0, first_command_guard=0.0)
    tau, _ = s.limit(np.full(12, np.sign(applied) * 9.0), DT, np.full(12, applied))
    assert np.abs(tau).max() <= LIMIT


def test_the_default_rate_scales_with_the_limit_of_each_joint_and_is_1000_for_the_quadruped():
    """The same share of tau_max per millisecond for 2.7 N·m and for 150 N·m; without tau_max no limit."""
    strong = msgspec.structs.replace(ROBOT.limits, tau_max=np.r_[np.full(6, 2.7), np.full(5, 150.0), np.inf])
    s = Safety(SafetySettings(first_command_guard=0.0), ROBOT, strong, STANCE, DT)
    s.limit(np.zeros(12), 0.0, None)
    tau, bits = s.limit(np.full(12, 2000.0), DT, np.zeros(12))
    np.testing.assert_allclose(tau[:11], strong.tau_max[:11] / 7.3)
    assert tau[11] == 2000.0
    assert [bool(bit & LimitedBy.RATE) for bit in bits] == [True] * 11 + [False]
    robot, _ = load_robot("quadruped")
    np.testing.assert_allclose(torque_rates(SafetySettings(), robot.limits), 1000.0)
    np.testing.assert_array_equal(torque_rates(SafetySettings(torque_rate=50.0), robot.limits), 50.0)


def test_the_rate_limit_starts_from_the_applied_torque_or_the_last_one_sent():
    """dt = 0: there is no earlier torque. After a lost message or a saturated motor, from the applied one."""
    tau, bits = safety(torque_rate=1.0).limit(np.full(12, 2.0), 0.0, None)
    np.testing.assert_array_equal(tau, 2.0)
    assert not bits.any()
    s = safety(torque_rate=100.0)
    first, _ = s.limit(np.zeros(12), 0.0, None)
    wanted = np.full(12, 0.25)
    steps = []
    for dt in (0.001, 0.001, 0.002):
        tau, bits = s.limit(wanted, dt, None)
        steps.append(tau[0])
        assert (bits == (LimitedBy.RATE if tau[0] < 0.25 else 0)).all()
    np.testing.assert_allclose(steps, [0.1, 0.2, 0.25])
    assert not first.any()
    s = safety(torque_rate=100.0, first_command_guard=0.0)
    s.limit(np.zeros(12), 0.0, None)
    tau, bits = s.limit(np.full(12, 1.0), DT, np.full(12, 0.5))
    np.testing.assert_allclose(tau, 0.6)
    assert (bits == LimitedBy.RATE).all()
    tau, _ = s.limit(np.full(12, -1.0), DT, np.full(12, 0.5))
    np.testing.assert_allclose(tau, 0.4)
    s = safety(torque_rate=100.0, first_command_guard=0.0)
    tau, bits = s.limit(np.full(12, 9.0), DT, np.zeros(12))
    np.testing.assert_allclose(tau, 0.1)
    assert (bits == (LimitedBy.TORQUE | LimitedBy.RATE)).all()


def test_the_first_torques_also_after_a_reset_are_blended_in_from_the_applied_torque():
    """Linear in time over the guard, from the first applied torque, whatever is applied later."""
    s = safety(first_command_guard=0.1, torque_rate=np.inf)
    had = np.full(12, -1.0)
    assert s.limit(np.full(12, 2.0), 0.0, had)[0][0] == -1.0
    for k in range(1, 100):
        tau, _ = s.limit(np.full(12, 2.0), DT, np.full(12, 0.3))
        assert tau[0] == pytest.approx(-1 + 3 * k * DT / 0.1)
    for _ in range(3):
        assert s.limit(np.full(12, 2.0), DT, np.full(12, 0.3))[0][0] == pytest.approx(2.0)
    s = safety(first_command_guard=0.1, torque_rate=np.inf)
    for _ in range(200):
        s.limit(np.full(12, 2.0), DT, np.zeros(12))
    assert s.last is not None
    s.reset()
    assert s.last is None
    assert s.limit(np.full(12, 2.0), 0.0, np.full(12, 0.5))[0][0] == 0.5


@every_row(
    ({"v10": 31.0}, r"joint FR_HFE at 31\.0 rad/s, limit 30"),
    ({"v10": -31.0}, r"at 31\.0 rad/s"),
    ({"v3": 6.1}, r"base turns at 6\.1 rad/s, limit 6"),
    ({"q3": np.sin(0.55), "q6": np.cos(0.55)}, r"base tilted by 1\.10 rad, limit 1"),
    ({"q4": np.sin(-0.55), "q6": np.cos(-0.55)}, r"base tilted by 1\.10 rad"),
)
def test_states_beyond_the_limits_are_faults(changes, says):
    assert re.search(says, Judged().fault(state(**changes)))


@every("changes", [{}, {"v10": 29.9}, {"v0": 100.0}, {"v5": -5.9}, ROLLED, TURNED])
def test_states_within_the_limits_are_not_faults(changes):
    """Yaw is not tilt, and the base may move fast."""
    assert Judged().fault(state(**changes)) == ""


def test_the_fault_names_the_fastest_joint_and_a_fixed_base_does_not_tilt():
    fault = Judged().fault(state(v8=40.0, v12=-50.0))
    assert fault.startswith(f"joint {ROBOT.joint_names[6]} at 50.0 rad/s")
    arm = Robot(Description(urdf=ROBOT.description.urdf, base="fixed"))
    assert Judged(arm).fault(State(q=np.full(12, 2.0), v=np.full(12, 10.0))) == ""


def test_damping_opposes_motion_within_the_limits_and_is_zero_for_a_nan_speed():
    v = np.zeros(18)
    v[6:] = np.linspace(-29, 29, 12)
    tau = safety(damping=0.2).damping(State(q=STANCE, v=v))
    np.testing.assert_allclose(tau, np.clip(-0.2 * v[6:], -LIMIT, LIMIT))
    v = np.zeros(18)
    v[6:9] = [np.nan, np.inf, -np.inf]
    np.testing.assert_array_equal(safety(damping=0.2).damping(State(q=STANCE, v=v))[:3], [0, -LIMIT, LIMIT])


def test_applied_torques_of_other_joints_are_refused():
    c = controller("solo12")
    state = at_rest(c)
    with pytest.raises(InputError, match=r"^tau_applied: expected the torques of 12 joints, got 3"):
        c.step(state, c.contacts(state.q), Inputs(dt=1e-3, tau_applied=np.zeros(3)))
    assert c.step(state, c.contacts(state.q), Inputs(dt=1e-3, tau_applied=np.zeros(12))).mode is Mode.OK


@every("shape", [(4, 2), (12,), (4, 3, 1), (4, 4)])
def test_sensed_forces_of_a_wrong_shape_are_refused(shape):
    c = controller("solo12")
    state = at_rest(c)
    contacts = c.contacts(state)
    for _ in range(2):  # the second state is compared with a prediction
        c.step(state, contacts, Inputs(dt=1e-3, sensed_force=np.zeros((4, 3))))
    said = re.escape(f"sensed_force: expected shape (n, 3), a row for each contact, got {shape}")
    with pytest.raises(InputError, match=f"^{said}$"):
        c.step(state, contacts, Inputs(dt=1e-3, sensed_force=np.zeros(shape)))


@pytest.fixture(scope="module")
def stand():
    """The quadruped at rest, and the prediction that it stays at rest on forces that carry its weight."""
    return standing(controller("quadruped", **RIGID))


def standing(c):
    state = at_rest(c)
    prediction = c.step(state, c.contacts(state.q), Inputs(dt=0.0)).prediction
    return c.robot, state, msgspec.structs.replace(prediction, v_plus=state.v)


def moving(prediction, acceleration):
    return msgspec.structs.replace(prediction, v_plus=prediction.dt * acceleration)


def expect(r, robot, state, prediction):
    """A tick in which the motors receive the predicted torque."""
    contacts = contacts_from_geometry(robot, state.q, Flat(), margin=np.inf)
    dynamics = evaluate(robot, state, contacts, dt=prediction.dt, ground=Ground.rigid()).dynamics
    r.expect(prediction, (prediction.tau, prediction.tau), dynamics)


def falling(robot, state, k):
    v = state.v.copy()
    v[2] = -G * DT * k
    return State(q=state.q, v=v)


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_free_fall_predicted_as_stance_shows_as_one_g(name):
    """1 − e^{−t/τ}, for any weight; the missing forces count as the whole weight."""
    robot, state, prediction = standing(controller(name, **RIGID))
    r, felt = Judged(robot), np.zeros((4, 3))
    for k in range(500):
        found = r.measure(falling(robot, state, k), Inputs(dt=DT * (k > 0), sensed_force=felt))
        expect(r, robot, state, prediction)
        if k:
            assert found.motion == pytest.approx(-np.expm1(-k * DT / TAU), rel=1e-9)
            assert found.force == pytest.approx(found.motion, rel=1e-6)
    assert WORDS["motors"] in found.problem
    assert "differs by 9.7 m/s² (99 % of g)" in found.problem


def test_predictions_are_compared_after_the_actuation_delay(stand):
    robot, state, prediction = stand
    rng = np.random.default_rng(0)
    accelerations = rng.normal(size=(60, robot.nv))
    for late in (0, 1, 4):
        for believed, matches in ((late, True), (late + 1, False)):
            r, v, worst = Judged(robot), np.zeros(robot.nv), 0.0
            for k in range(60):
                found = r.measure(State(q=state.q, v=v), Inputs(dt=DT, delay=believed * DT))
                expect(r, robot, state, moving(prediction, accelerations[k]))
                v = v + DT * accelerations[max(k - late, 0)]
                worst = max(worst, found.motion if found else 0.0)
            assert (worst < 1e-9) == matches


@full
@every(("at", "counts"), [("stop", False), ("middle", True)])
def test_the_load_of_a_stop_does_not_count(at, counts):
    """A knee without a motor is predicted to turn by 50 rad/s², as by a torque about it with motors locked; the robot rests."""
    whole, stance = load_robot("quadruped")
    knee = whole.joint_names.index("LF_Y_3")
    robot = whole.variant(unactuated=("LF_Y_3",))
    angles = whole.joint_angles(stance)
    low, high = whole.limits.q_min[knee], whole.limits.q_max[knee]
    angles[knee] = low if at == "stop" else 0.5 * (low + high)
    state = State(q=whole.with_joint_angles(stance, angles), v=np.zeros(robot.nv))
    contacts = contacts_from_geometry(robot, state.q, Flat(), margin=np.inf)
    prediction = predict(robot, state, contacts, np.zeros(robot.na), law="coulomb", dt=DT)
    row, u, acceleration = robot.tree.dof_names.index("LF_Y_3"), robot.tree.u, np.zeros(robot.nv)
    M = robot.terms(state.q, state.v).M
    acceleration[u] = np.linalg.solve(M[np.ix_(u, u)], (u == row).astype(float))
    acceleration *= 50.0 / acceleration[row]
    r = Judged(robot)
    for _ in range(500):
        found = r.measure(state, Inputs(dt=DT))
        expect(r, robot, state, moving(prediction, acceleration))
    assert (found.motion > 1e-3) == counts


def test_a_lost_tick_is_compared_and_longer_gaps_and_unsolved_predictions_are_not(stand):
    robot, state, prediction = stand
    r = Judged(robot)
    for k, dt in enumerate((0.0, DT, 2 * DT, 5 * DT)):
        found = r.measure(falling(robot, state, [0, 1, 3, 8][k]), Inputs(dt=dt))
        expect(r, robot, state, prediction)
    assert found.motion == pytest.approx(-np.expm1(-8 * DT / TAU), rel=1e-9)
    assert r.measure(falling(robot, state, 100), Inputs(dt=6 * DT)) == found
    assert r.measure(falling(robot, state, 200), Inputs(dt=DT)) == found  # nothing was predicted in the tick before
    r = Judged(robot)
    failed = msgspec.structs.replace(moving(prediction, np.full(robot.nv, np.nan)), status=Status.NOT_CERTIFIED)
    for k, expected in enumerate((prediction, failed, prediction, prediction)):
        found = r.measure(falling(robot, state, k), Inputs(dt=DT * (k > 0)))
        expect(r, robot, state, expected)
    assert found.motion == pytest.approx(-np.expm1(-2 * DT / TAU), rel=1e-9)


def test_a_mismatch_is_reported_after_the_patience_and_with_hysteresis(stand):
    """A mismatch of 0.5 g is reported after the patience; around the limit it is then neither withdrawn nor repeated."""
    robot, state, prediction = stand
    r = Judged(robot, memory=DT / 10, degraded=0.2, patience=0.0495, recovered=0.1)  # hardly a mean at all
    v, told = np.zeros(robot.nv), []
    sizes = [0.5] * 100 + [0.19, 0.21] * 50 + [0.05] * 50 + [0.19, 0.21] * 50
    for k in range(len(sizes) + 1):
        found = r.measure(State(q=state.q, v=v), Inputs(dt=DT))
        expect(r, robot, state, prediction)
        v = v - DT * G * (sizes[k] if k < len(sizes) else 0.0) * np.eye(robot.nv)[2]
        told.append(bool(found and found.problem))
    assert told.index(True) == 50
    assert told[50:201] == [True] * 151
    assert told[203:] == [False] * (len(told) - 203)


def test_reset_clears_the_figures(stand):
    robot, state, prediction = stand
    r = Judged(robot)
    for k in range(300):
        found = r.measure(falling(robot, state, k), Inputs(dt=DT))
        expect(r, robot, state, prediction)
    assert found.problem
    r.reset()
    assert r.measure(state, Inputs(dt=0.0)) is None
    expect(r, robot, state, prediction)
    assert r.measure(state, Inputs(dt=DT)).motion == 0.0


# -- in the loop ------------------------------------------------------------------------------------------------------


class Loop:
    """Controller and world with a difference between them; `sensing` reports the contact forces."""

    def __init__(self, name, *, trunk=None, share=1.0, noise=None, sensing=False, **settings):
        self.c = controller(name, safety__torque_rate=np.inf, **settings)
        believed, stance = load_robot(name)
        robot = world_robot(believed, ImperfectionSettings(trunk=trunk or BodySettings()))
        self.world = build_world(ENGINES["lcp"](), robot, Flat(), stance)
        self.sensors = Sensors(Sensing(noise=noise or Spread()), robot, 0)
        self.share, self.sensing = share, sensing
        self.weight = believed.total_mass * G
        self.felt = {}

    def run(self, ticks, pushes=()):
        """The commands."""
        commands = []
        for k in range(ticks):
            state = self.sensors.measure(self.world.state)
            contacts = self.c.contacts(self.world.q)
            felt = np.array([self.felt.get(key, np.zeros(3)) for key in contacts.keys]) if self.sensing else None
            commands.append(self.c.step(state, contacts, Inputs(dt=DT * (k > 0), sensed_force=felt)))
            result = self.world.step(self.share * commands[-1].tau, DT, pushes)
            self.felt = dict(zip(result.contacts.keys, result.impulse / DT, strict=True))
        return commands


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_with_an_exact_model_the_mismatch_is_zero(name):
    commands = Loop(name, sensing=True, reference__kind="squat", reference__start=0.0, **RIGID).run(300)
    assert commands[0].reality is None
    assert {command.mode for command in commands} == {Mode.OK}
    assert max(command.reality.motion for command in commands[1:]) < 1e-6
    assert max(command.reality.force for command in commands[1:]) < 1e-6


def test_a_load_shows_as_its_share_of_the_weight():
    """At rest the ground carries weight and load: the forces are as predicted, the motion is not."""
    c = controller("quadruped")
    loop = Loop("quadruped", trunk=BodySettings(added_mass=0.3 * c.robot.total_mass), sensing=True, **RIGID)
    last = loop.run(700)[-1]
    assert last.reality.motion == pytest.approx(0.3, rel=0.02)
    assert last.reality.motion == pytest.approx(last.prediction.normal_force.sum() / loop.weight - 1, rel=1e-3)
    assert (last.mode, last.message) == (Mode.DEGRADED, last.reality.problem)
    assert WORDS["load"] in last.message


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12", "go2"], 0))
def test_joint_feedback_does_not_hide_a_load(name):
    loop = Loop(name, trunk=BodySettings(added_mass=0.3 * controller(name).robot.total_mass), sensing=True)
    last = loop.run(700)[-1]
    assert last.reality.motion == pytest.approx(0.3, rel=0.2)
    assert last.reality.force < 0.1
    assert last.mode is Mode.DEGRADED


@full
def test_motors_at_half_torque_show_as_the_missing_torque():
    for sensing, words in ((True, "motors"), (False, "unknown")):
        loop = Loop("quadruped", share=0.5, sensing=sensing, **RIGID)
        last = loop.run(700)[-1]
        excess = last.prediction.normal_force.sum() / loop.weight - 1
        assert last.reality.motion == pytest.approx(excess, rel=1e-2)
        assert (last.reality.force == pytest.approx(excess, rel=1e-2)) if sensing else last.reality.force is None
        assert WORDS[words] in last.message


@pytest.mark.full
def test_an_external_lift_is_detected_and_forgotten_when_it_ends():
    loop = Loop("quadruped")
    held = loop.run(500, [Push(frame="BODY0", force=(0.0, 0.0, 0.5 * loop.weight), duration=0.4)])
    assert held[399].mode is Mode.DEGRADED
    assert held[399].reality.motion == pytest.approx(0.5, abs=0.05)
    assert {command.mode for command in held[:100]} == {Mode.OK}
    assert loop.run(1000)[-1].mode is Mode.OK


@full
def test_sensor_noise_is_not_reported_as_a_mismatch():
    """White noise σ of the base's speeds shows as about σ/(g τ), √3 σ in space: 0.035."""
    commands = Loop("quadruped", noise=NOISE).run(1500)
    motion = np.array([command.reality.motion for command in commands[300:]])
    assert not any(command.reality.problem for command in commands[1:])
    assert np.sqrt(np.mean(motion**2)) == pytest.approx(np.sqrt(3) * 0.02 / (G * TAU), rel=0.2)
    assert motion.max() < RealitySettings().recovered


def test_a_fully_actuated_robot_has_no_figures(stand):
    """Every joint has a motor, so no row is free of torques. An arm with a box has the rows of the box."""
    robot, state, prediction = stand
    fixed = robot.variant(base="fixed")
    r = Judged(fixed)
    at_rest = State(q=state.q[7:], v=state.v[6:])
    for k in range(2):
        found = r.measure(at_rest, Inputs(dt=DT * k))
        expect(r, fixed, at_rest, msgspec.structs.replace(prediction, v_plus=at_rest.v))
    assert (found.motion, found.force, found.problem) == (None, None, "")
    assert max(command.reality.motion for command in Loop("arm").run(50)[1:]) < 1e-3


# -- response to torques while contacts hold ---------------------------------------------------------------------------


@every("name", ["quadruped", "solo12"])
@every("held", [[], [0], [0, 3], [0, 1, 2, 3]])
def test_motion_and_forces_match_the_full_system(name, held):
    """[M −Jᵀ; J 0] [a; f] = [Pᵀ τ; 0] with the rows of the feet that push."""
    c, rng = controller(name), np.random.default_rng(len(held))
    robot, push = c.robot, np.zeros(12)
    q = robot.integrate(c.stance, 0.05 * rng.normal(size=robot.nv))
    contacts = c.contacts(q, robot.contact_names)
    d = evaluate(robot, State(q=q, v=0.1 * rng.normal(size=robot.nv)), contacts, dt=1e-3, ground=Ground.rigid()).dynamics
    push[[3 * i + 2 for i in held]] = 0.01
    tau, a, borne = rng.normal(size=robot.na), np.zeros(robot.nv), np.zeros(3)
    react(d, push, tau, a, borne)
    J, P = d.J[[3 * i + row for i in held for row in range(3)]], np.zeros((robot.na, robot.nv))
    P[range(robot.na), robot.tree.a] = 1.0
    system = np.block([[d.given.M, -J.T], [J, np.zeros((len(J), len(J)))]])
    solution = np.linalg.lstsq(system, np.r_[P.T @ tau, np.zeros(len(J))], rcond=None)[0]
    frames = [np.array([s, np.cross(n, s), n]) for s, n in zip(contacts.tangents, contacts.normals, strict=True)]
    forces = solution[robot.nv :].reshape(-1, 3)
    sums = sum((f @ frames[i] for i, f in zip(held, forces, strict=True)), np.zeros(3))
    np.testing.assert_allclose(a, solution[: robot.nv], rtol=1e-6, atol=1e-6 * np.abs(a).max())
    np.testing.assert_allclose(borne, sums, atol=1e-6 * max(1.0, np.abs(sums).max()))
