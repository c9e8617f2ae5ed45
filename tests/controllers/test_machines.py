"""Robots other than walkers: arms, wheels, platforms, closed chains."""

import msgspec
import numpy as np
import pytest
import urdf
from fast import every, first_is_fast

from controllers.build import load_controller
from controllers.command import Inputs, Mode, Reference
from controllers.config.loading import parse
from controllers.controller import Controller
from controllers.robot.kinematics import closing
from controllers.settings import ControllerSettings
from idyn import LAWS, ConfigError, Flat, Options, Robot, Selection, State, contacts_from_geometry, hello_for, make_law, predict
from idyn.certificate.certify import CERTIFIED
from idyn.model.description import ContactPoint, Description
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.worlds import ENGINES, build_world
from transport.protocol.messages.base import Code
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback
from transport.startup.warm_up import warm_up

# -- arms on a fixed base: without contact, touching a table, with passive joints --------------------------------------


DT, REACH = 1e-3, 0.4
NAMES = ("shoulder", "elbow", "wrist")


ARM = [urdf.link("stand")]
TIP = ContactPoint(frame="wrist_link", offset=(REACH, 0.0, 0.0), mu=0.6)
KINDS = {
    "free": {},
    "touching": {"contact": (TIP,)},
    "passive": {"unactuated": ("wrist",)},
    "passive and touching": {"unactuated": ("elbow",), "contact": (TIP,)},
}
POSE = np.array([-0.6, 0.9, 0.4])
for parent, name, x in zip(("stand", "shoulder_link", "elbow_link"), NAMES, (0.0, REACH, REACH), strict=True):
    ARM.append(urdf.link(f"{name}_link", 1.0, (0.002, 0.02, 0.02), (0.2, 0, 0)))
    ARM.append(urdf.joint(name, parent, f"{name}_link", axis="0 1 0", at=(x, 0, 0), limits=(-3, 3, 60, 20)))


def arm(kind):
    return Robot(Description(urdf=urdf.robot("arm", *ARM), base="fixed", **KINDS[kind]))


def table(robot):
    """A plane at the height of the tip, for robots with a tip contact."""
    tips = contacts_from_geometry(robot, POSE, Flat(), margin=np.inf).gaps
    return float(tips[0]) if len(tips) else -9.0


def build(kind, **settings):
    robot = arm(kind)
    settings = {
        "robot": "arm", "contact": {"ground": table(robot)}, "safety": {"torque_rate": np.inf, "first_command_guard": 0.0}
    } | settings  # fmt: skip
    return Controller(parse(settings, ControllerSettings, "test"), robot, POSE.copy())


@every("law", first_is_fast(LAWS, 4))
@every("kind", KINDS)
def test_predictions_are_certified(kind, law):
    robot, rng = arm(kind), np.random.default_rng(0)
    for _ in range(5):
        state = State(q=POSE, v=0.1 * rng.normal(size=3))
        contacts = contacts_from_geometry(robot, POSE, Flat(table(robot)), margin=0.01)
        assert len(contacts) == len(robot.spheres.keys)
        answer = predict(robot, state, contacts, rng.normal(size=robot.na), law=make_law(law), dt=DT)
        assert answer.status.certified, answer.status
        assert answer.residuals.worst < CERTIFIED


@every("law", ["no-slip", "coulomb", "cone"])
def test_with_all_joints_actuated_the_selection_decides_the_contact_force(law):
    """The motion is the demand in any case; the force is zero with the free arm's torque, or that of the smallest torque."""
    still, none = State(q=POSE, v=np.zeros(3)), np.zeros(3)
    robot = arm("touching")
    contacts = contacts_from_geometry(robot, POSE, Flat(table(robot)), margin=0.01)
    answers = {}
    for selection in (Selection.FORCE, Selection.TORQUE):
        options = Options.paper(selection=selection)
        answers[selection] = answer = predict(robot, still, contacts, none, law=make_law(law), dt=DT, options=options)
        assert answer.status.ok
        np.testing.assert_allclose(answer.v_plus, 0, atol=1e-12)
    free = robot.inverse_dynamics(POSE, none, none)
    np.testing.assert_allclose(answers[Selection.FORCE].p, 0, atol=1e-12)
    np.testing.assert_allclose(answers[Selection.FORCE].tau, free, atol=1e-9)
    assert np.linalg.norm(answers[Selection.TORQUE].tau) < 0.7 * np.linalg.norm(free)
    assert answers[Selection.TORQUE].normal_force[0] > 1.0


@every("kind", KINDS)
def test_arms_are_served_over_the_wire(kind):
    controller = build(kind)
    settings = ServerSettings(controller="arm")
    warm_up(controller, settings)
    client = Loopback(Service(controller, settings), hello_for(controller.robot, DT, kind="sim"))
    welcome = client.hello()
    assert welcome.contact_frames == list(controller.robot.spheres.keys)
    for tick in range(5):
        state = StateMessage(q=POSE.tobytes(), vel=np.zeros(3).tobytes(), t_robot=tick * 1_000_000)
        reply = client.exchange(state)
        assert isinstance(reply, TorqueMessage), client.error
        assert reply.status == "ok", reply.message
        assert len(np.frombuffer(reply.tau)) == controller.robot.na


@pytest.mark.parametrize("engine", first_is_fast(["lcp", "penalty", "mujoco"]))
def test_an_arm_without_contacts_follows_a_sinusoid_exactly(engine):
    """Its only error is the integration of the world."""
    c = build("free", reference={"kind": "sinusoid", "amplitude": 0.5, "frequency": 1.0})
    world = world_of(c, engine)
    worst = 0.0
    for k in range(1000):
        command = c.step(world.state, c.contacts(world.q), Inputs(dt=DT * (k > 0)))
        assert command.mode is Mode.OK, command.message
        worst = max(worst, float(np.abs(c.robot.joint_angles(world.q) - command.reference.q).max()))
        world.step(command.tau, DT)
    assert worst < 1e-3


@pytest.mark.parametrize("engine", first_is_fast(["lcp", "penalty", "mujoco"]))
def test_a_table_carries_a_passive_wrist(engine):
    c = build("passive and touching")
    world = world_of(c, engine)
    for k in range(500):
        command = c.step(world.state, c.contacts(world.q), Inputs(dt=DT * (k > 0)))
        assert command.mode is Mode.OK, command.message
        result = world.step(command.tau, DT)
    assert np.abs(world.q - POSE).max() < 0.02
    assert command.prediction.normal_force.sum() == pytest.approx(result.normal_force.sum(), rel=0.05)
    assert result.normal_force.sum() > 1.0


def world_of(c, engine):
    if engine == "mujoco":
        return build_world(MujocoSettings(), c.robot, c.terrain, c.stance)
    return build_world(ENGINES[engine](), c.robot, c.terrain, c.stance)


# -- continuous joints: no jump of the feedback after a full turn, and references several turns away -------------------


INERTIA, KP, KD = 0.02, 400.0, 40.0
AXLE = urdf.joint("axle", "stand", "wheel", axis="0 0 1", kind="continuous")
WHEEL = urdf.robot("wheel", urdf.link("stand"), urdf.link("wheel", 1.0, (0.02, 0.02, INERTIA)), AXLE)


@pytest.fixture
def wheel():
    robot = Robot(Description(urdf=WHEEL, base="fixed"))
    settings = {"robot": "wheel", "feedback": {"kp": KP, "kd": KD}, "safety": {"torque_rate": np.inf, "max_joint_speed": 100.0}}
    return Controller(parse(settings, ControllerSettings, "test"), robot, robot.neutral())


def still(angle):
    return Reference(q=np.array([angle]), v=np.zeros(1), a=np.zeros(1))


@every("wanted", [0.0, 3.2, -3.2, 10 * np.pi, -1000.0])
@pytest.mark.parametrize("speed", first_is_fast([20.0, -20.0]))
def test_the_feedback_torque_uses_the_counted_angle(wheel, wanted, speed):
    """Past π and −π at 20 rad/s: I (kp (θ_ref − θ) − kd θ̇), to rounding, tick by tick."""
    for k in range(400):
        angle = speed * DT * k - np.sign(speed)
        state = State(q=np.array([angle]), v=np.array([speed]))
        command = wheel.step(state, wheel.contacts(state.q), Inputs(dt=DT * (k > 0), reference=still(wanted)))
        assert command.mode is Mode.OK
        assert command.tau[0] == pytest.approx(INERTIA * (KP * (wanted - angle) - KD * speed), rel=1e-9, abs=1e-9)
    assert abs(angle) > 2 * np.pi


def wrapped(wheel, turns, speed=0.3):
    """Commands while the measured angle, less so many turns in each tick, creeps over π."""
    angles = np.pi + speed * DT * np.arange(-2, len(turns) - 2) - 2 * np.pi * np.array(turns)
    states = [State(q=np.array([angle]), v=np.array([speed])) for angle in angles]
    return [wheel.step(s, wheel.contacts(s.q), Inputs(dt=DT * (k > 0))) for k, s in enumerate(states)]


@every("turn", [1, -1])
def test_an_encoder_that_wraps_stops_the_joint_until_a_reset(wheel, turn):
    """Instead of unwinding a whole turn: damping, also after the angle has come back."""
    commands = wrapped(wheel, [0, 0, turn, turn, turn, 0])
    assert [command.mode for command in commands] == [Mode.OK] * 2 + [Mode.FAULT] * 4
    assert "axle moved 6.28 rad further than its speed explains" in commands[2].message
    assert max(abs(command.tau).max() for command in commands[2:]) <= 0.1 * 0.3  # the largest damping torque of the settings
    wheel.reset()
    assert {command.mode for command in wrapped(wheel, [turn] * 5)} == {Mode.OK}


def test_one_wrong_turn_stops_the_joint_for_one_tick(wheel):
    assert [command.mode for command in wrapped(wheel, [0, 0, 1, 0, 0])] == [Mode.OK] * 2 + [Mode.FAULT] + [Mode.OK] * 2


def test_a_fast_wheel_turns_as_far_as_its_speed_explains(wheel):
    """Half a turn and more in one long tick at 90 rad/s."""
    for k in range(5):
        state = State(q=np.array([3.6 * k]), v=np.array([90.0]))
        assert wheel.step(state, wheel.contacts(state.q), Inputs(dt=0.04 * (k > 0))).mode is Mode.OK


# -- a platform on six motors and a slide on three ---------------------------------------------------------------------


PLATE = 2.0, (0.02, 0.03, 0.04, 0.001)
RAIL = urdf.joint("rail", "floor", "slide", axis="0 0 1", kind="planar")
HEXAPOD = urdf.joint("hexapod", "slide", "plate", kind="floating")
PLATES = urdf.link("floor") + urdf.link("slide", *PLATE) + urdf.link("plate", *PLATE)
PLATFORMS = urdf.robot("platforms", PLATES, RAIL, HEXAPOD)
MOTORS = (*(f"rail.{k}" for k in range(3)), *(f"hexapod.{k}" for k in range(6)))


def build_platform(**settings):
    robot = Robot(Description(urdf=PLATFORMS, base="fixed", actuated=("rail", "hexapod"), tau_max={"hexapod.2": 900.0}))
    table = {"robot": "platforms", "feedback": {"kp": 400.0, "kd": 40.0}, "safety": {"torque_rate": np.inf}}
    return Controller(parse(table | settings, ControllerSettings, "test"), robot, robot.neutral())


@pytest.mark.parametrize("seed", first_is_fast(range(3), 0))
def test_rotations_take_the_shortest_way(seed):
    """From turns of 2.8 rad to turns of −2.8 rad about one axis: 0.68 rad through π, not 5.6 rad back."""
    c, rng = build_platform(), np.random.default_rng(seed)
    robot, axis = c.robot, rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    start = np.r_[0.1, -0.2, 2.8, 0.1, 0.0, 0.2, 2.8 * axis]
    goal = np.r_[-0.1, 0.1, -2.8, 0.0, 0.1, -0.1, -2.8 * axis]
    there = robot.with_joint_angles(robot.neutral(), goal)
    world = build_world(ENGINES["lcp"](), robot, Flat(-5.0), robot.with_joint_angles(robot.neutral(), start))
    reference = Reference(q=goal, v=np.zeros(9), a=np.zeros(9))
    way = np.linalg.norm(robot.difference(world.q, there))
    begun, furthest = way, 0.0
    for k in range(1500):
        command = c.step(world.state, c.contacts(world.q), Inputs(dt=DT * (k > 0), reference=reference))
        assert command.mode is Mode.OK, command.message
        world.step(command.tau, DT)
        way = np.linalg.norm(robot.difference(world.q, there))
        furthest = max(furthest, way)
    assert furthest < 1.05 * begun < 2.0
    assert way < 1e-3


def test_motors_are_ordered_by_name_on_the_wire():
    """A client with another order of joints and motors gets the same torques, one by one."""
    c = build_platform()
    assert c.robot.joint_names == MOTORS
    rng = np.random.default_rng(0)
    q, v = c.robot.integrate(c.robot.neutral(), 0.1 * rng.normal(size=9)), 0.1 * rng.normal(size=9)
    hello = hello_for(c.robot, DT, kind="sim")
    assert (hello.joint_names, hello.actuated) == (["rail", "hexapod"], list(MOTORS))
    order = rng.permutation(9)
    other = msgspec.structs.replace(hello, joint_names=["hexapod", "rail"], actuated=[MOTORS[i] for i in order])
    torques = []
    for greeting, theirs, speeds in ((hello, q, v), (other, np.r_[q[4:], q[:4]], np.r_[v[3:], v[:3]])):
        client = Loopback(Service(build_platform(), ServerSettings(controller="platforms")), greeting)
        welcome = client.hello()
        reply = client.exchange(StateMessage(q=theirs.tobytes(), vel=speeds.tobytes(), t_robot=0))
        assert reply is not None, client.error
        torques.append(np.frombuffer(reply.tau))
    np.testing.assert_array_equal(torques[1], torques[0][order])
    assert np.frombuffer(welcome.limits.tau_max)[order.tolist().index(5)] == 900.0
    wrong = theirs.copy()
    wrong[7 + 2 :] *= 1.1
    assert client.exchange(StateMessage(q=wrong.tobytes(), vel=speeds.tobytes(), t_robot=1_000_000)) is None
    assert client.error.code is Code.QUATERNION_NOT_UNIT


def test_a_pose_that_jumps_is_ignored_and_joints_of_several_degrees_have_no_drive_stiffness():
    c = build_platform(drive={"kp": 30.0, "kd": 0.5})
    client = Loopback(Service(c, ServerSettings(controller="platforms")), hello_for(c.robot, DT, kind="sim"))
    client.hello()
    turned = c.robot.with_joint_angles(c.robot.neutral(), np.r_[np.zeros(6), 0.3, 0.0, 0.0])
    messages = []
    for k, q in enumerate((c.robot.neutral(), turned)):
        reply = client.exchange(StateMessage(q=q.tobytes(), vel=np.zeros(9).tobytes(), t_robot=k * 1_000_000))
        messages.append(reply.message)
    assert messages[0] == ""
    assert "hexapod.3 moved 0.3 rad" in messages[1]
    assert not np.frombuffer(reply.kp).any()
    assert (np.frombuffer(reply.kd) == 0.5).all()


def test_motions_of_single_axes_are_refused():
    with pytest.raises(ConfigError, match=r"reference.kind: 'sinusoid': .* joints with one degree of freedom, got 'rail.0'"):
        build_platform(reference={"kind": "sinusoid"})


# -- measured speeds that would open a closed chain --------------------------------------------------------------------


@pytest.fixture(scope="module")
def fivebar():
    return load_controller("fivebar")


@pytest.fixture
def measured(fivebar):
    robot, v = fivebar.robot, np.zeros(fivebar.robot.nv)
    v[robot.tree.a] = np.random.default_rng(5).normal(0.0, 0.05, robot.na)
    v[:6] = 0.01, -0.02, 0.03, 0.04, 0.05, -0.06
    return State(q=fivebar.stance, v=v)


def test_only_passive_joints_change_and_chains_stay_closed(fivebar, measured):
    robot = fivebar.robot
    v = closing(robot, measured.q, measured.v)
    moving = np.zeros(robot.nv, dtype=np.bool_)
    moving[robot.tree.u[6:]] = True
    np.testing.assert_array_equal(v[~moving], measured.v[~moving])
    e = 1e-6
    ahead, _ = robot.closure_gaps(robot.integrate(measured.q, e * v))
    behind, _ = robot.closure_gaps(robot.integrate(measured.q, -e * v))
    assert np.abs(ahead - behind).max() / (2 * e) < 1e-7
    np.testing.assert_allclose(closing(robot, measured.q, v), v, atol=1e-12)


def test_speeds_that_open_a_chain_do_not_change_the_torque(fivebar, measured):
    """The torque is that of the closed state, though the passive joints were measured at rest."""
    robot = fivebar.robot
    contacts = fivebar.contacts(measured, robot.contact_names)

    def torque(state):
        fivebar.reset()
        return fivebar.step(state, contacts, Inputs(dt=1e-3)).tau

    consistent = msgspec.structs.replace(measured, v=closing(robot, measured.q, measured.v))
    np.testing.assert_allclose(torque(measured), torque(consistent), atol=1e-9)
