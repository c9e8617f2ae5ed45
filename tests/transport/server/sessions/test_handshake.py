"""`hello` and `welcome`: agreement on joints, base, limits and roles."""

import hashlib

import msgpack
import numpy as np
import pytest
import urdf
from fast import every, every_row
from rig import Rig
from standin import MS, hello, standing
from wire import expect

from idyn import ContactPoint, Description, Robot
from transport.protocol.agreement import check_contact_frame
from transport.protocol.codec import encode
from transport.protocol.errors import ProtocolError
from transport.protocol.joint_map import build_joint_map, joint_slots, rotation
from transport.protocol.messages import requests
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.state import TorqueMessage

RNG = np.random.default_rng(3)
AXLE = urdf.joint("axle", "body", "wheel", axis="0 1 0", kind="continuous")
CART = urdf.robot("cart", urdf.link("body", 1.0, 1.0), urdf.link("wheel", 1.0, 1.0), AXLE)


def model(robot: Robot, **changes: object) -> requests.Model:
    fields: dict[str, object] = {"nq": robot.nq, "nv": robot.nv, "na": robot.na, "total_mass": robot.total_mass}
    return requests.Model(**(fields | changes))


def test_the_welcome_reports_the_limits_in_force(fresh, robot):
    welcome = fresh.greet()
    assert welcome.session > 0
    assert (welcome.urdf_sha256, welcome.joint_names) == (robot.urdf_sha256, list(robot.joint_names))
    assert (welcome.contact_frames, welcome.watchdog_ms, welcome.latch_ms) == (list(robot.spheres.keys), 20.0, 100.0)
    assert welcome.limits.tau_max == robot.limits.tau_max.tobytes()
    assert welcome.controller == {"law": "springs", "feedback": {"kp": 3.0}}


def test_session_numbers_are_exact_in_float64(fresh):
    """A client in C++ may keep them in int64, one in JavaScript in a number."""
    numbers = {fresh.greet_as(bytes([fresh.now // 10**9])).session for fresh.now in range(10**9, 41 * 10**9, 10**9)}
    assert len(numbers) == 40
    assert all(0 < number == int(float(number)) < 2**53 for number in numbers)


def test_only_a_hello_that_is_repeated_before_its_session_is_used_gets_the_same_welcome(fresh):
    """The client repeats it because the answer is late; then both answers come."""
    first = fresh.greet()
    fresh.now = 100 * MS
    assert fresh.greet() == first
    expect(requests.HeartbeatAck, fresh.send(requests.Heartbeat(session=first.session)))
    second = fresh.greet()
    fresh.torque(101)
    third = fresh.greet()  # the client has been started anew
    assert len({first.session, second.session, third.session, fresh.greet(dt_nominal=0.002).session}) == 4


def test_a_log_with_longer_session_numbers_gets_them_again(robot):
    rig, data = Rig(robot, session_bits=64), encode(hello(robot))
    rig.now = 5
    welcome = expect(requests.Welcome, rig.raw(data))
    assert welcome.session == int.from_bytes(hashlib.blake2b(data + b"5", digest_size=8).digest(), "little")


@every_row(
    (lambda r: {"model": model(r, urdf_sha256="0" * 64)}, Code.MODEL_MISMATCH, "model.urdf_sha256"),
    (lambda r: {"model": model(r, nq=18)}, Code.MODEL_MISMATCH, "model.nq"),
    (lambda r: {"model": model(r, nv=19)}, Code.MODEL_MISMATCH, "model.nv"),
    (lambda r: {"model": model(r, na=11)}, Code.MODEL_MISMATCH, "model.na"),
    (lambda r: {"model": model(r, name="go2")}, Code.MODEL_MISMATCH, "model.name"),
    (lambda r: {"model": model(r, total_mass=2 * r.total_mass)}, Code.MODEL_MISMATCH, "model.total_mass"),
    (lambda r: {"model": model(r, total_mass=float("nan"))}, Code.MODEL_MISMATCH, "model.total_mass"),
    (lambda r: {"joint_names": ["FL_HAAA", *r.joint_names[1:]]}, Code.JOINT_MAP, "joint_names"),
    (lambda r: {"joint_names": list(r.joint_names[1:])}, Code.JOINT_MAP, "joint_names"),
    (lambda r: {"joint_names": [r.joint_names[1], *r.joint_names[1:]]}, Code.JOINT_MAP, "joint_names"),
    (lambda r: {"actuated": list(r.joint_names[:-1])}, Code.JOINT_MAP, "actuated"),
    (lambda r: {"base": requests.Base(type="fixed", quat_order="xyzw", vel_frame="local")}, Code.JOINT_MAP, "base.type"),
    (lambda r: {"dt_nominal": 1.0}, Code.BAD_SCHEMA, "dt_nominal"),
    (lambda r: {"dt_nominal": float("nan")}, Code.BAD_SCHEMA, "dt_nominal"),
    (lambda r: {"mu": -0.5}, Code.BAD_SCHEMA, "mu"),
    (lambda r: {"contact_frames": ["FL_FOOT", "FX_FOOT"]}, Code.CONTACT_UNKNOWN, "contact_frames[1]"),
    (lambda r: {"limits": requests.ClientLimits(tau_max=[1.0])}, Code.WRONG_LENGTH, "limits.tau_max"),
    (lambda r: {"limits": requests.ClientLimits(tau_max=[-1.0] * 12)}, Code.BAD_SCHEMA, "limits.tau_max"),
    (lambda r: {"limits": requests.ClientLimits(v_max=[float("nan")] * 12)}, Code.NON_FINITE, "limits.v_max[0]"),
)
def test_a_hello_that_contradicts_the_robot_is_refused(change, code, field, robot):
    rig = Rig(robot)
    reply = expect(ErrorMessage, rig.send(hello(robot, **change(robot))))
    assert (reply.code, reply.field) == (code, field)
    assert isinstance(rig.tick(1), ErrorMessage)  # no session came of it
    rig.greet()
    rig.torque(1)


@every("part", ["type", "quat_order", "vel_frame"])
def test_the_base_must_be_given(robot, part):
    rig = Rig(robot)
    data = msgpack.unpackb(encode(hello(robot)))
    del data["base"][part]
    reply = expect(ErrorMessage, rig.raw(msgpack.packb(data)))
    assert (reply.code, reply.field) == (Code.BAD_SCHEMA, f"base.{part}")


def test_a_client_with_its_own_joint_order_gets_the_same_torques(moving, robot):
    order = RNG.permutation(robot.na)
    q, v = standing(robot), RNG.normal(size=robot.nv)
    q[7:] = RNG.normal(size=robot.na)
    moving.greet()
    expected = moving.torque(1, q=q.tobytes(), vel=v.tobytes())
    moving.send(hello(robot))
    names = [robot.joint_names[i] for i in order]
    moving.greet(joint_names=names, actuated=names)
    theirs_q, theirs_v = np.r_[q[:7], q[7:][order]], np.r_[v[:6], v[6:][order]]
    tau = np.arange(float(robot.na))
    reply = moving.torque(1, q=theirs_q.tobytes(), vel=theirs_v.tobytes(), tau_applied=tau[order].tobytes())
    np.testing.assert_array_equal(np.frombuffer(reply.tau), np.frombuffer(expected.tau)[order])
    np.testing.assert_array_equal(moving.controller.seen.q, q)
    np.testing.assert_array_equal(moving.controller.last.tau_applied, tau)


def test_a_base_velocity_in_world_axes_is_turned_into_the_body(moving, robot):
    q = standing(robot)
    q[3:7] = RNG.normal(size=4)
    q[3:7] /= np.linalg.norm(q[3:7])
    v = RNG.normal(size=robot.nv)
    moving.greet(base=requests.Base(type="free_flyer", quat_order="xyzw", vel_frame="local_world_aligned"))
    moving.torque(1, q=q.tobytes(), vel=v.tobytes())
    body = moving.controller.seen.v
    step = 1e-7
    moved = robot.integrate(q, body * step)
    np.testing.assert_allclose((moved[:3] - q[:3]) / step, v[:3], atol=1e-5)
    turn = rotation(moved[3:7]) @ rotation(q[3:7]).T
    spin = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / (2 * step)
    np.testing.assert_allclose(spin, v[3:6], atol=1e-5)


def test_the_layout_covers_continuous_and_passive_joints():
    spring = urdf.link("tip", 1.0, 1.0) + urdf.joint("spring", "wheel", "tip", axis="0 1 0", limits=(-1, 1, 1, 1)) + "</robot>"
    robot = Robot(Description(urdf=CART.replace("</robot>", spring), base="fixed", unactuated=("spring",)))
    assert [(slot.name, slot.q, slot.v) for slot in joint_slots(robot)] == [("axle", (0,), (0,)), ("spring", (1,), (1,))]
    base = requests.Base(type="fixed", quat_order="xyzw", vel_frame="local")
    joints = build_joint_map(robot, ["spring", "axle"], ["axle"], base)
    assert np.array([0.5, 100.0, 2.0, 3.0, 9.0])[joints.state].tolist() == [100.0, 0.5, 3.0, 2.0, 9.0]


def test_the_stricter_limits_apply(moving, robot):
    """Torque, speed–torque line and position of the first three motors; the rate counts from the applied torque."""
    q, v = standing(robot), np.zeros(robot.nv)
    q[7:], v[7] = 1.0, 5.0
    q[9:11] = -0.38, -0.45
    line = requests.SpeedTorque(tau0=[9.0, 2.0] + [9.0] * 10, v0=[10.0] * 12)
    limits = requests.ClientLimits(tau_max=[0.5] + [np.inf] * 11, q_max=[9.0, 9.0, -0.4, -0.4] + [9.0] * 8, speed_torque=line)
    welcome = moving.greet(limits=limits)
    assert np.frombuffer(welcome.limits.tau_max)[:2].tolist() == [0.5, robot.limits.tau_max[1]]
    reply = moving.torque(1, q=q.tobytes(), vel=v.tobytes())
    tau = np.frombuffer(reply.tau)
    np.testing.assert_allclose(tau[:3], [-0.5, -1.0, 0.0])
    assert tau[3] > 0.1
    assert tau[4] < -2
    assert reply.limited_by == [1, 4, 8] + [0] * 9
    moving.greet(limits=requests.ClientLimits(dtau_max=[100.0] * 12))
    moving.torque(1)
    reply = moving.torque(2, tau_applied=[1.0] * 12)
    np.testing.assert_allclose(np.frombuffer(reply.tau), 0.9)
    assert reply.limited_by == [2] * 12


def test_one_client_controls_until_it_stops_or_times_out(rig, robot):
    rival = expect(ErrorMessage, rig.send(hello(robot), identity=b"b"))
    assert rival.code is Code.NOT_CONTROLLING
    rig.torque(1)
    rig.now += 1_001_000_000
    assert isinstance(rig.send(hello(robot), identity=b"b"), requests.Welcome)
    lost = rig.refused(2)
    assert (lost.code, lost.recoverable) == (Code.NOT_CONTROLLING, False)


def test_a_shadow_does_not_affect_control(rig, robot):
    rig.torque(1)
    before = rig.controller.integral.copy()
    shadow = expect(requests.Welcome, rig.send(hello(robot, client=requests.Client(name="s", kind="shadow")), identity=b"s"))
    assert shadow.dry_run
    mine, rig.session = rig.session, shadow.session
    reply = expect(TorqueMessage, rig.send(rig.state(1), identity=b"s"))
    assert reply.dry_run
    np.testing.assert_array_equal(rig.controller.integral, before)
    expect(ErrorMessage, rig.send(hello(robot, client=requests.Client(name="s", kind="shadow")), identity=b"t"))
    rig.session = mine
    rig.torque(2)


def test_the_stricter_position_limits_apply(fresh, robot):
    own, na = robot.limits, robot.na
    inside = np.arange(na) % 2 == 0
    low, high = np.where(inside, own.q_min + 0.1, own.q_min - 0.1), np.where(inside, own.q_max - 0.2, own.q_max + 0.2)
    limits = fresh.greet(limits=requests.ClientLimits(q_min=low.tolist(), q_max=high.tolist())).limits
    np.testing.assert_array_equal(np.frombuffer(limits.q_min), np.where(inside, low, own.q_min))
    np.testing.assert_array_equal(np.frombuffer(limits.q_max), np.where(inside, high, own.q_max))


def test_a_wheel_is_announced_as_a_place_with_a_radius_only():
    """Told as a frame it would be a point that does not roll, and its load would be wrong by its weight."""
    with pytest.raises(ProtocolError) as refused:
        check_contact_frame(Robot(Description(urdf=CART)), "wheel", "contact_frames[0]")
    assert refused.value.code is Code.CONTACT_UNKNOWN
    assert "expected a contact place of the robot, which has a radius: 'wheel'" in str(refused.value)
    placed = Robot(Description(urdf=CART, contact=(ContactPoint(frame="wheel", radius=0.1),)))
    check_contact_frame(placed, "wheel", "contact_frames[0]")
    check_contact_frame(placed, "body", "contact_frames[1]")
