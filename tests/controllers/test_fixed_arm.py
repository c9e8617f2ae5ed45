"""Arms on a fixed base: without contact, touching a table, with passive joints."""

import numpy as np
import pytest
from fast import every, first_is_fast

from controllers.command import Inputs, Mode
from controllers.config.loading import parse
from controllers.controller import Controller
from controllers.settings import ControllerSettings
from idyn.certificate.certify import CERTIFIED
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.laws import LAWS, make_law
from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Selection, State
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.worlds import ENGINES, build_world
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback
from transport.startup.warm_up import warm_up

DT, REACH = 1e-3, 0.4
INERTIAL = (
    '<inertial><origin xyz="0.2 0 0"/><mass value="1"/>'
    '<inertia ixx="0.002" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial>'
)
NAMES = ("shoulder", "elbow", "wrist")


def urdf():
    parts = ['<robot name="arm"><link name="stand"/>']
    for parent, name, x in zip(("stand", *NAMES), NAMES, (0.0, REACH, REACH), strict=False):
        parts.append(f'<link name="{name}_link">{INERTIAL}</link>')
        above = parent if parent == "stand" else f"{parent}_link"
        parts.append(
            f'<joint name="{name}" type="revolute"><parent link="{above}"/><child link="{name}_link"/>'
            f'<origin xyz="{x} 0 0"/><axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="60" velocity="20"/></joint>'
        )
    return "".join([*parts, "</robot>"])


KINDS = {
    "free": {},
    "touching": {"contact": (ContactPoint(frame="wrist_link", offset=(REACH, 0.0, 0.0), mu=0.6),)},
    "passive": {"unactuated": ("wrist",)},
    "passive and touching": {
        "unactuated": ("elbow",),
        "contact": (ContactPoint(frame="wrist_link", offset=(REACH, 0.0, 0.0), mu=0.6),),
    },
}
POSE = np.array([-0.6, 0.9, 0.4])


def arm(kind):
    return Robot(Description(urdf=urdf(), base="fixed", **KINDS[kind]))


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


@every("law", LAWS)
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
    """The motion is the demand in any case; the force is zero with the torque of the free arm, or that of the smallest
    torque."""
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
