"""Torques beside the prediction's: feedback, feed-forward, damping, spread, stabilisation; and which settings are stable."""

from collections import deque
from types import SimpleNamespace

import msgspec
import numpy as np
import pinocchio as pin
import pytest
import urdf
from fast import every, every_row, first_is_fast, full
from rigs import at_rest, controller, nudged

from controllers.command import Inputs, Reference
from controllers.config.loading import load
from controllers.feedback import FeedbackSettings, JointFeedback, Spread, SpreadSettings, Stabilisation, StabilisationSettings
from controllers.floors import VerticalLeg, critical_damping, floor_map, floor_warning, spectral_radius
from controllers.robot.damping import carried, carried_late, damping_gains
from controllers.settings import ControllerSettings
from idyn import ConfigError, Description, Flat, Robot, Selection, State, contacts_from_geometry, load_controller, load_robot
from sim_harness.studies.controllers import CONTROLLERS

# -- joint feedback ----------------------------------------------------------------------------------------------------


def hinges(na):
    """A robot with na hinges, as far as feedback uses it."""
    return SimpleNamespace(na=na, one_axis_each=True, joint_error=None)


@every("sign", [1.0, -1.0])
def test_the_integral_stops_at_its_limit_and_does_not_wind_up(sign):
    """However long the error lasted, the integral follows an error of the other sign from the next tick on."""
    feedback = JointFeedback(FeedbackSettings(kp=0.0, kd=0.0, ki=10.0, integral_limit=2.0), hinges(1))
    still = Reference(q=np.full(1, sign), v=np.zeros(1), a=np.zeros(1))
    for _ in range(1000):
        demand = feedback.add_to(still.a, feedback.motion(still, (np.zeros(1), np.zeros(1))), 0.01)
    assert demand[0] == sign * 2.0
    after = feedback.add_to(still.a, feedback.motion(still, (np.full(1, sign * 2.0), np.zeros(1))), 0.01)
    assert after[0] == pytest.approx(sign * (2.0 - 10 * 0.01))


# -- feed-forward torque of each kind of law [ZD §7.3] -----------------------------------------------------------------


FIRST, TICK = Inputs(dt=0.0), Inputs(dt=0.001)


def paper(name, base="paper-stand", **changes):
    return controller(base, **CONTROLLERS[name].changes, **changes)


def test_pid_is_proportional_derivative_and_integral():
    gains = {"kp": 20.0, "kd": 0.1, "ki": 3.0, "integral_limit": 10.0}
    c = controller("quadruped", law="pid", torque_feedback=gains, safety__torque_rate=np.inf)
    state = nudged(c, np.random.default_rng(0))
    angles, speeds = c.robot.joint_angles(state.q), state.v[c.robot.tree.a]
    reference = Reference(q=angles + 0.01, v=speeds + 0.5, a=np.full(12, 1e3))
    contacts = c.contacts(state.q)
    for k in range(5):
        inputs = msgspec.structs.replace(TICK if k else FIRST, reference=reference)
        command = c.step(state, contacts, inputs)
        np.testing.assert_allclose(command.tau, 20 * 0.01 + 0.1 * 0.5 + 3 * 0.01 * 0.001 * k, rtol=1e-9)
        np.testing.assert_array_equal(command.tau, command.tau_fb)
        assert command.prediction is None
        assert not command.tau_ff.any()
    c.reset()
    np.testing.assert_allclose(c.step(state, contacts, msgspec.structs.replace(FIRST, reference=reference)).tau, 0.25)


def test_pid_torque_can_be_added_to_a_law_and_needs_gains():
    plain = paper("id-lcp-mu")
    both = paper("id-lcp-mu", torque_feedback={"kp": 20.0, "kd": 0.1})
    state = nudged(plain, np.random.default_rng(1))
    one, two = (c.step(state, c.contacts(state.q), FIRST) for c in (plain, both))
    feedback = paper("pid").step(state, plain.contacts(state.q), FIRST).tau_fb
    np.testing.assert_array_equal(two.tau_ff, one.tau_ff)
    np.testing.assert_array_equal(two.tau_fb, feedback)
    np.testing.assert_allclose(two.tau, np.clip(one.tau_ff + feedback, -7.3, 7.3), atol=1e-12)
    assert not one.tau_fb.any()
    with pytest.raises(ConfigError, match=r"torque_feedback\.kp"):
        controller("paper-stand", law="pid")


@every("delay", [1, 2])
def test_sensed_forces_are_used_after_the_set_number_of_measurements(delay):
    """The Coulomb law's prediction, measured one period after another, gives that law's torque after the delay."""
    predictive, sensing = paper("id-lcp-mu"), paper(f"id-t-{delay}")
    state = at_rest(predictive)
    contacts = predictive.contacts(state.q)
    answer = predictive.step(state, contacts, FIRST).prediction
    free = paper("contact-free").step(state, contacts, FIRST).tau_ff
    for k in range(delay + 1):
        sensed = answer.force if k == 1 else None
        tau = sensing.step(state, contacts, Inputs(dt=0.001 * (k > 0), sensed_force=sensed)).tau_ff
        expected = answer.tau if k == delay else free
        np.testing.assert_allclose(tau, expected, atol=1e-10)


# -- damping that does not drive light joints --------------------------------------------------------------------------


DT = 1e-3


def speeds_after(model, damping, steps, *, late=0):
    """Largest speeds after each step from 1 rad/s in all joints, without gravity. late: the torque is so many steps old"""
    data, q, v = model.createData(), pin.neutral(model), np.ones(model.nv)
    model.gravity.linear = np.zeros(3)
    largest, before = [], [v] * (late + 1)
    for _ in range(steps):
        v = v + DT * pin.aba(model, data, q, v, -damping * before[-1 - late])
        before.append(v)
        largest.append(np.abs(v).max())
    return largest


def light_finger(inertia):
    """Robot, and Pinocchio's model, of two links in a chain on the base; the second is a finger of this inertia [kg·m²]."""
    parts = [urdf.link("base")]
    for name, parent, mass, moment in (("arm", "base", 1.0, 0.01), ("finger", "arm", 1e-4, inertia)):
        parts.append(urdf.link(name, mass, moment))
        parts.append(urdf.joint(f"to_{name}", parent, name, axis="0 0 1", at=(0.1, 0, 0), limits=(-3, 3, 10, 10)))
    text = urdf.robot("r", *parts)
    return Robot(Description(urdf=text, base="fixed")), pin.buildModelFromXML(text)


@every("inertia", [1e-5, 1e-6, 1e-7])
def test_a_light_finger_is_damped_too(inertia):
    robot, model = light_finger(inertia)
    gains = damping_gains(0.1, robot, robot.neutral(), DT)
    assert gains[0] == 0.1
    assert 0.0 < gains[1] < 0.1
    speeds = speeds_after(model, gains, 100)
    assert speeds[-1] < 0.5
    assert max(speeds) < 3.0
    assert speeds_after(model, np.full(2, 0.1), 20)[-1] > 1e3


@every("inertia", [1e-3, 1e-5, 1e-6])
def test_feedback_that_is_a_period_late_does_not_drive_a_light_finger(inertia):
    robot, model = light_finger(inertia)
    share = carried(0.1, robot, robot.neutral(), DT)
    assert share[0] == 1.0
    assert (share[1] == 1.0) == (inertia > 5e-4)
    assert speeds_after(model, 0.1 * share, 300, late=1)[-1] < 0.1
    if share[1] < 1.0:
        assert speeds_after(model, np.full(2, 0.1), 20, late=1)[-1] > 1e3


@every("ticks", [1, 2, 3, 5])
@every("rotor", [0.0, 1e-4, 5e-4])
def test_late_feedback_does_not_drive_a_finger_whose_rotor_is_absent(rotor, ticks):
    """The demand damps the finger as if it had the rotor of the model; the torque's feedback adds to that."""
    bare, model = light_finger(3e-4)
    robot, demand = bare.variant(armature={"to_finger": rotor}), 20.0
    late = carried_late((0.15, demand), robot, robot.neutral(), DT, 5)
    np.testing.assert_array_equal(late[0], carried(0.15, robot, robot.neutral(), DT))
    assert (np.diff(late, axis=0) <= 0.0).all()
    asked = np.diag(robot.terms(robot.neutral(), np.zeros(2)).M) * demand
    assert speeds_after(model, 0.15 * late[ticks] + asked, 500, late=ticks)[-1] < 0.1


@every("name", ["quadruped-trot", "solo12-trot", "go2-trot", "a1", "g1", "talos", "bolt", "arm"])
def test_shipped_damping_is_stable_as_it_is(name):
    settings = load("controllers", name, ControllerSettings)
    robot, stance = load_robot(settings.robot)
    damping = settings.safety.damping
    np.testing.assert_array_equal(damping_gains(damping, robot, stance, settings.period), damping)


# -- spread: displaced feet are pushed towards their reference positions -----------------------------------------------


def astray(c, angle=0.1):
    """The stance with one leg's first joint turned, so that its foot stands too far out; and that foot's row."""
    state = at_rest(c)
    angles = c.robot.joint_angles(state.q)
    wrong = angles.copy()
    wrong[0] += angle
    return msgspec.structs.replace(state, q=c.robot.with_joint_angles(state.q, wrong)), angles


def contacts_of(c, q):
    return c.contacts(q, c.robot.spheres.keys)


def test_a_displaced_foot_is_pushed_back_within_friction():
    """The ground pushes it outwards when it is too far out: the leg pulls it back."""
    c = controller("quadruped")
    state, angles = astray(c)
    contacts = contacts_of(c, state.q)
    force = Spread(SpreadSettings(most=np.inf), c.robot, Selection.FORCE).preferred(c.robot.kinematics(state), contacts, angles)
    straight = contacts_of(c, c.robot.with_joint_angles(state.q, angles))
    expected = 5.0 * c.robot.total_mass * 9.81 * (contacts.points[0] - straight.points[0])
    np.testing.assert_allclose(force[0, :2], expected[:2], rtol=0.05)
    assert force[0, 2] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(force[1:], 0.0, atol=1e-12)
    most, sizes = 0.2 * c.robot.total_mass * 9.81 / 4, []
    for angle in [*np.linspace(0.005, 0.1, 20), 0.8]:
        state, angles = astray(c, angle)
        free, limited = (
            Spread(settings, c.robot, Selection.FORCE).preferred(c.robot.kinematics(state), contacts_of(c, state.q), angles)
            for settings in (SpreadSettings(most=np.inf), SpreadSettings())
        )
        size = np.linalg.norm(free[0])
        np.testing.assert_allclose(limited[0], free[0] * min(1.0, most / size), rtol=1e-3)
        sizes.append(size)
    assert min(sizes) < 0.7 * most < 0.9 * most < max(sizes)


def test_spread_changes_internal_forces_and_not_the_motion():
    """Internal forces move nothing: v⁺ and the sum of the contact forces are the same with and without."""
    c = controller("quadruped", safety__first_command_guard=0.0)
    loose = controller("quadruped", safety__first_command_guard=0.0, spread__stiffness=0.0)
    state, _ = astray(c, 0.05)
    answers = [x.step(state, contacts_of(x, state.q), Inputs(dt=0.0)).prediction for x in (c, loose)]
    np.testing.assert_allclose(answers[0].v_plus, answers[1].v_plus, atol=1e-9)
    np.testing.assert_allclose(answers[0].force.sum(axis=0), answers[1].force.sum(axis=0), atol=1e-6)
    spread, angles = Spread(c.settings.spread, c.robot, Selection.FORCE), c.robot.joint_angles(c.stance)
    lean = spread.preferred(c.robot.kinematics(state), contacts_of(c, state.q), angles)
    assert (answers[0].force - answers[1].force)[0] @ lean[0] > 0.25 * lean[0] @ lean[0]


@every("changes", [{"spread__stiffness": 0.0}, {"selection": "torque"}])
def test_spread_is_inactive_without_stiffness_or_with_another_selection(changes):
    c = controller("quadruped", **changes)
    assert not Spread(c.settings.spread, c.robot, c.settings.selection).active


# -- VIIP: virtual forces that only push -------------------------------------------------------------------------------


STILL = np.zeros(3)


ROBOT_AND_STANCE = load_robot("quadruped")


def torque(robot, q, v=None, velocity=STILL, height=0.161853, **settings):
    state = State(q=q, v=np.zeros(robot.nv) if v is None else v)
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1.0)
    stabilisation = Stabilisation(StabilisationSettings(**settings), robot, height)
    return stabilisation.torque(robot.kinematics(state), contacts, velocity), contacts


def joint_torque_of_pushes(robot, q, contacts, forces):
    """−Jᵀ f by differences of the contact points' heights: what joints exert that push the ground with `forces` [N] (n)."""
    e = 1e-7
    tau = np.zeros(robot.na)
    rotations, origins = (part.copy() for part in robot.place(q))
    local = [rotations[b].T @ (p - origins[b]) for b, p in zip(contacts.bodies, contacts.points, strict=True)]
    for k in range(robot.na):
        heights = []
        for sign in (-1, 1):
            step = np.zeros(robot.nv)
            step[robot.tree.a[k]] = sign * e
            rotations, origins = robot.place(robot.integrate(q, step))
            heights.append([(origins[b] + rotations[b] @ x)[2] for b, x in zip(contacts.bodies, local, strict=True)])
        tau[k] = -np.dot((np.array(heights[1]) - heights[0]) / (2 * e), forces)
    return tau


def tilted(q, roll):
    q = q.copy()
    q[3:7] = np.sin(roll / 2), 0.0, 0.0, np.cos(roll / 2)
    return q


def test_a_base_too_low_or_falling_is_pushed_up_and_one_too_high_is_not_pulled_down():
    robot, q = ROBOT_AND_STANCE
    tau, contacts = torque(robot, q, kp=(0, 0, 100.0, 0, 0, 0), height=q[2] + 0.01)
    np.testing.assert_allclose(tau, joint_torque_of_pushes(robot, q, contacts, np.ones(4)), atol=1e-6)
    assert np.abs(tau).max() > 0.01
    tau, _ = torque(robot, q, kp=(0, 0, 100.0, 0, 0, 0), height=q[2] - 0.01)
    assert not tau.any()
    v = np.zeros(robot.nv)
    v[2] = -0.1
    tau, contacts = torque(robot, q, v, kv=(0, 0, 30.0, 0, 0, 0))
    np.testing.assert_allclose(tau, joint_torque_of_pushes(robot, q, contacts, np.full(4, 3.0)), atol=1e-6)
    v[2] = 0.1
    assert not torque(robot, q, v, kv=(0, 0, 30.0, 0, 0, 0))[0].any()


def test_only_the_lower_side_pushes():
    """Rolled to the right (roll > 0 lifts the left): the right feet push with k · roll · lever each, the left ones not."""
    robot, q = ROBOT_AND_STANCE
    roll = 0.05
    q = tilted(q, roll)
    tau, contacts = torque(robot, q, kp=(0, 0, 0, 20.0, 0, 0))
    c, s = np.cos(roll), np.sin(roll)
    levers = (contacts.points - q[:3]) @ np.array([0.0, c, s])  # along the base's y axis
    pushes = np.maximum(0.0, 20.0 * roll * -1.0 * (levers * c - ((contacts.points - q[:3]) @ np.array([0.0, -s, c])) * s))
    assert (pushes > 0).sum() == 2
    np.testing.assert_allclose(tau, joint_torque_of_pushes(robot, q, contacts, pushes), atol=1e-6)


def test_the_literal_variant_keeps_positive_tangential_forces():
    """For a forward velocity error feet on level ground have no normal part: the force is zero, or, literally, friction."""
    robot, q = ROBOT_AND_STANCE
    gains = {"kv": (10.0, 0.0, 0.0, 0.0, 0.0, 0.0)}
    forwards, backwards = np.array([0.2, 0.0, 0.0]), np.array([-0.2, 0.0, 0.0])
    np.testing.assert_allclose(torque(robot, q, velocity=forwards, **gains)[0], 0, atol=1e-9)
    assert np.abs(torque(robot, q, velocity=forwards, literal=True, **gains)[0]).max() > 0.1
    np.testing.assert_allclose(torque(robot, q, velocity=backwards, literal=True, **gains)[0], 0, atol=1e-9)


def test_without_contacts_stabilisation_is_zero():
    robot, q = ROBOT_AND_STANCE
    nothing = contacts_from_geometry(robot, q, Flat(-1.0), margin=0.01)
    stabilisation = Stabilisation(StabilisationSettings(kp=(0, 0, 100.0, 0, 0, 0)), robot, 1.0)
    assert not stabilisation.torque(robot.terms(q, np.zeros(robot.nv)), nothing, STILL).any()


def test_stabilisation_is_part_of_the_feedback_torque():
    c = controller("quadruped", stabilisation__kp=(0.0, 0.0, 0.0, 200.0, 200.0, 0.0))
    q = tilted(c.stance, 0.001)
    command = c.step(State(q=q, v=np.zeros(c.robot.nv)), c.contacts(q), Inputs(dt=0.0))
    assert np.abs(command.tau_fb).max() > 1e-4
    np.testing.assert_allclose(command.tau, command.tau_ff + command.tau_fb)


def test_stabilisation_does_not_show_as_a_model_mismatch():
    gains = {"stabilisation__kp": (0.0, 0.0, 1e-9, 0.0, 0.0, 0.0), "torque_feedback__kp": 0.0, "torque_feedback__kd": 0.0}
    c = controller("quadruped", **gains, reality__memory=1e-6)
    state, dt = State(q=c.stance, v=np.zeros(c.robot.nv)), 0.001
    angles = c.robot.joint_angles(c.stance)
    rising = Reference(q=angles + 0.02, v=np.zeros(c.robot.na), a=np.zeros(c.robot.na))
    command = c.step(state, c.contacts(state.q), Inputs(dt=0.0, reference=rising))
    v = command.prediction.v_plus
    assert np.abs(v).max() > 1e-3
    state = State(q=c.robot.integrate(state.q, dt * v), v=v)
    assert c.step(state, c.contacts(state.q), Inputs(dt=dt, reference=rising)).reality.motion < 1e-6


# -- stability of the vertical leg -------------------------------------------------------------------------------------


QUADRUPED = VerticalLeg(base=1.15, foot=0.05, kp=900.0, kd=60.0)
SOFT = VerticalLeg(base=1.15, foot=0.05, kp=400.0, kd=40.0, relaxation=0.025, torque_kp=20.0, torque_kd=2.0)
RIGID = VerticalLeg(base=1.15, foot=0.05, kp=900.0, kd=60.0, relaxation=0.0, memory=0.0)


def growth(leg, k, d, delay, seconds=0.6, steps=200):
    """Ratio of the motion in the last quarter of a simulation to that in the second quarter; about the equilibrium."""
    zf, zb, u, w, f = 1e-6, -1e-6, 0.0, 0.0, 0.0
    m, dt, h, relaxation = leg.base + leg.foot, leg.period, leg.period / steps, leg.relaxation or leg.period
    queue, expected, sizes = deque([0.0] * delay), deque([(0.0, 0.0)] * delay), []
    for _ in range(round(seconds / dt)):
        a, b, p, s = zf, zb, u, w
        for du, dw in expected:
            p, s = p + du, s + dw
            a, b = a + dt * p, b + dt * s
        wanted = -leg.kp * (b - a) - leg.kd * (s - p)
        # a foot of the rigid law: F with u⁺ = (1 − dt/T_r) u − (T_p/m) (F − F⁻), m u̇ = F − m_b q̈
        left = np.array([[dt / m + leg.memory / m]])
        right = np.array([-dt / relaxation * p + dt * leg.base * wanted / m + leg.memory / m * f])
        f = float(np.linalg.solve(left, right)[0])
        foot_rate = (f - leg.base * wanted) / m
        tau = leg.base * (foot_rate + wanted) - leg.torque_kp * (b - a) - leg.torque_kd * (s - p)
        queue.append(tau)
        expected.append((dt * foot_rate, dt * (foot_rate + wanted)))
        acting = queue.popleft()
        expected.popleft()
        for _ in range(steps):
            u += h * (-k * zf - d * u - acting) / leg.foot
            w += h * acting / leg.base
            zf, zb = zf + h * u, zb + h * w
        sizes.append(abs(u) + abs(w))
        if sizes[-1] > 1e6:
            return np.inf
    quarter = len(sizes) // 4
    return max(sizes[-quarter:]) / max(sizes[quarter : 2 * quarter])


@every("leg", first_is_fast([QUADRUPED, SOFT, RIGID]))
@every("delay", first_is_fast([1, 0, 3]))
def test_eigenvalues_agree_with_a_simulation(leg, delay):
    judged = 0
    for k in (1e3, 2e4, 3e5):
        for d in (0.5, 8.0, 60.0):
            radius = spectral_radius(leg, k, d, delay)
            if abs(radius - 1.0) > 0.01:
                judged += 1
                assert (growth(leg, k, d, delay) > 1.0) == (radius > 1.0), (k, d, radius)
    assert judged


def test_the_rigid_law_needs_much_damping_and_tolerates_no_delay():
    assert critical_damping(RIGID, 1e4, 0) > 500.0
    assert critical_damping(RIGID, 1e4, 1) == np.inf
    assert critical_damping(QUADRUPED, 1e4, 0) < 5.0


@every("name", ["quadruped", "go2"])
def test_the_map_of_a_shipped_robot(name):
    found, light = floor_map(load_controller(name))
    assert max(found[0]) < light
    assert max(found[5]) > max(found[0])


@every("name", ["arm", "fivebar"])
def test_robots_without_a_free_base_have_no_map(name):
    assert floor_map(load_controller(name)) is None


@every("name", ["go2-trot", "solo12", "quadruped-trot", "arm"])
def test_shipped_controllers_are_not_warned_about(name):
    assert floor_warning(load_controller(name)) == ""


@every_row(
    ("go2", {"period": 0.01}, "period = 0.01 s (stable with 0.001 s):"),
    pytest.param("go2", {"ground": {"relaxation": 0.005}}, "ground.relaxation = 0.005 s (stable with 0.05 s):", marks=full),
    ("go2", {"feedback": {"kp": 1e4, "kd": 2e3}}, "feedback.kp = 10000, feedback.kd = 2000 on a foot of"),
    pytest.param("paper-stand", {}, "ground.relaxation = 0 s (stable with 0.05 s)", marks=full),
)
def test_settings_that_cannot_hold_are_named(name, changes, cause):
    """The map, which `idyn check` prints, agrees."""
    controller = load_controller(name, changes)
    found, light = floor_map(controller)
    assert max(found[0]) > light
    assert cause in floor_warning(controller)
