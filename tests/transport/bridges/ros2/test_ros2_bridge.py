"""The bridge between a server and a participant that speaks only ROS 2; bytes of messages as dicts, malformed bytes."""

import dataclasses
import threading
import time
from contextlib import closing, contextmanager, suppress
from math import inf

import numpy as np
import pinocchio as pin
import pytest
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy
from cyclonedds.topic import Topic
from fast import every, every_row, full
from hypothesis import given, settings
from hypothesis import strategies as st
from ros import ARRAY, BASE, DOMAIN, JAZZY, LATCHED, NAME, RELIABLE, SENSOR, Ros, joint_command, matched, message_type, twist
from rosbags.typesys import Stores, get_typestore
from standin import FEET, SpringDamper, solo, standing
from wire import PATIENCE_MS, routed, running, sending, until

from idyn import CommandRefused, ConfigError, ConnectionFailed, InputError
from transport.bridges.ros2 import bridge
from transport.bridges.ros2.bridge import Bridge, Bus, ServerLink, decode, encode
from transport.protocol.messages.state import Imu, StateMessage
from transport.server.service import Service
from transport.server.settings import PlausibilitySettings, ServerSettings
from transport.startup.warm_up import warm_up

MS = 1_000_000


class Rig:
    """A robot that stands and is served at about 200 Hz, a bridge, and a participant of ROS. q, v: what the robot reports"""

    def __init__(self, robot, folder):
        self.robot, self.endpoint = robot, f"ipc://{folder}/s"
        self.q, self.v, self.imu = standing(robot), np.zeros(robot.nv), None
        self.ros, self.messages, self.controller = Ros(own=False), [], SpringDamper(robot)

    @contextmanager
    def served(self):
        """A server and the robot's client."""
        jumps = PlausibilitySettings(joint_position=inf, joint_speed=inf, base_position=inf, base_attitude=inf, base_rate=inf)
        settings = ServerSettings(controller="standin", planners=("ros2",), max_state_age_ms=1e4, plausibility=jumps)
        warm_up(self.controller, settings)

        def state(tick):
            return StateMessage(q=self.q.tobytes(), vel=self.v.tobytes(), t_robot=5 * tick * MS, imu=self.imu)

        def heard(reply):
            self.messages.append("" if reply is None else reply.message)

        service = Service(self.controller, settings)
        with routed(service, self.endpoint, lead_us=0.0), sending(self.endpoint, self.robot, state, heard):
            yield

    @contextmanager
    def bridged(self, planner="ros2", timeout_ms=PATIENCE_MS):
        with closing(ServerLink(self.endpoint, planner, timeout_ms=timeout_ms)) as link:
            bridge = Bridge(self.robot, bus(), link, commands=planner is not None)
            with running(lambda stop: bridge.run(0.01, stop)):
                yield bridge

    def report(self, q, imu=None):
        """Report another state from now on. It returns when the server has answered it."""
        self.q, self.imu, before = q, imu, len(self.messages)
        until(lambda: len(self.messages) > before + 1)


_BUS = []


def bus():
    """One for each process."""
    _BUS[:] = _BUS or [Bus(DOMAIN)]
    return _BUS[0]


def unit(x, y, z):
    """The unit quaternion x, y, z, w with this vector part."""
    return np.array([x, y, z, np.sqrt(1.0 - x * x - y * y - z * z)])


@pytest.fixture(scope="module")
def robot():
    bus()  # before any other participant
    return solo()


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(bridge, "TELL_S", 0.1)
    monkeypatch.setattr("transport.robot.client.PROBE_MS", 5)


@pytest.fixture
def rig(robot, tmp_path):
    made = Rig(robot, tmp_path)
    with made.served():
        yield made


def test_what_ros_reads_is_the_state(rig):
    rng = np.random.default_rng(0)
    turn = rng.normal(size=4)
    angles, rig.v = 0.05 * rng.normal(size=rig.robot.na), 0.05 * rng.normal(size=rig.robot.nv)
    imu = Imu(quat=(turn / np.linalg.norm(turn)).tolist(), gyro=[0.1, 0.2, 0.3], acc=[0.4, 0.5, 9.8])
    rig.report(np.r_[[0.1, -0.2, 0.3], unit(0.1, -0.05, 0.3), angles], imu)
    states = rig.ros.reader("joint_states", "sensor_msgs/msg/JointState", SENSOR)
    odometry = rig.ros.reader("odom", "nav_msgs/msg/Odometry")
    transforms = rig.ros.reader("tf", "tf2_msgs/msg/TFMessage")
    imus = rig.ros.reader("imu", "sensor_msgs/msg/Imu", SENSOR)
    with rig.bridged():
        joints, base, moved, imu = states.next(), odometry.next(), transforms.next(), imus.next()
        until(lambda: abs((stamp := states.next().header.stamp).sec + 1e-9 * stamp.nanosec - time.time()) < 1.0)
        late = rig.ros.reader("robot_description", "std_msgs/msg/String", LATCHED)
        assert late.next().data == rig.robot.description.urdf
    assert sorted(joints.name) == sorted(rig.robot.joint_names)
    for k, name in enumerate(rig.robot.joint_names):
        i = joints.name.index(name)
        assert (joints.position[i], joints.velocity[i]) == (rig.q[7 + k], rig.v[6 + k])
    assert np.abs(joints.effort).max() > 0.0
    pose, twist = base.pose.pose, base.twist.twist
    seen = [pose.position, pose.orientation, twist.linear, twist.angular]
    numbers = [getattr(part, axis) for part in seen for axis in "xyzw" if hasattr(part, axis)]
    np.testing.assert_allclose(numbers, [*rig.q[:7], *rig.v[:6]], atol=1e-15)  # twist in the child frame, quaternion xyzw
    assert (base.header.frame_id, base.child_frame_id) == ("odom", "base_link")
    (frame,) = moved.transforms
    assert (frame.header.frame_id, frame.child_frame_id) == ("odom", "base_link")
    assert (frame.transform.translation.x, frame.transform.rotation.w) == (rig.q[0], pytest.approx(rig.q[6], abs=1e-15))
    assert [imu.orientation.x, imu.orientation.w] == [rig.imu.quat[0], rig.imu.quat[3]]
    assert [imu.angular_velocity.y, imu.linear_acceleration.z] == [0.2, 9.8]


def test_wrenches_are_those_of_the_feet(rig):
    """The stand-in lets each foot carry a quarter of the weight, along the vertical, at the lowest point of its sphere."""
    rig.report(np.r_[rig.q[:3], unit(0.1, 0.0, 0.3), rig.q[7:]])
    readers = {foot: rig.ros.reader(f"contacts/{foot}", "geometry_msgs/msg/WrenchStamped", SENSOR) for foot in FEET}
    model = pin.buildModelFromXML(rig.robot.description.urdf, pin.JointModelFreeFlyer())
    data = model.createData()
    pin.framesForwardKinematics(model, data, rig.q)
    push = pin.Force(np.array([0.0, 0.0, rig.robot.total_mass * 9.81 / 4]), np.zeros(3))
    with rig.bridged():
        for foot, reader in readers.items():
            found = reader.next()
            assert found.header.frame_id == foot
            place = data.oMf[model.getFrameId(foot)]
            lowest = pin.SE3(np.eye(3), place.translation * [1, 1, 0])
            wanted = place.actInv(lowest.act(push))
            force, torque = ([getattr(part, axis) for axis in "xyz"] for part in (found.wrench.force, found.wrench.torque))
            np.testing.assert_allclose(force, wanted.linear, atol=1e-9)
            np.testing.assert_allclose(torque, wanted.angular, atol=1e-9)


def test_a_twist_is_a_velocity_until_it_stops_coming(rig):
    with rig.bridged() as bridge:
        velocities = matched(rig.ros.writer("cmd_vel", "geometry_msgs/msg/Twist"))

        def steered():
            velocities.write(twist(0.3, -0.1, 0.5))
            last = rig.controller.last.steering
            return last is not None and last.velocity is not None and last.velocity.tolist() == [0.3, -0.1, 0.5]

        until(steered)
        assert "expired" not in rig.messages[-1]
        until(lambda: "expired" in rig.messages[-1])
        assert bridge.counts["refused"] == 0
        assert bridge.counts["accepted"] > 0


@pytest.mark.parametrize("payload", [bytes(200), b"\xff" * 48])
def test_malformed_bytes_on_a_topic_are_refused(rig, payload):
    """Too few bytes never arrive: Cyclone DDS neither sends nor delivers them."""
    kind = message_type.__wrapped__("geometry_msgs/msg/Twist")  # a type of its own
    kind.serialize = lambda self, **_: b"\x00\x01\x00\x00" + payload
    with rig.bridged() as bridge:
        writer = matched(DataWriter(rig.ros.participant, Topic(rig.ros.participant, "rt/cmd_vel", kind), qos=RELIABLE))
        writer.write(object.__new__(kind))
        until(lambda: bridge.counts["refused"] == 1)
        matched(rig.ros.writer("cmd_vel", "geometry_msgs/msg/Twist")).write(twist(0.1, 0.0, 0.0))
        until(lambda: bridge.counts["accepted"] == 1)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (twist(np.nan, 0.0, 0.0), "geometry_msgs/Twist: expected finite numbers, got [nan, 0.0, 0.0]"),
        (([], []), "name: expected at least one joint"),
        ((["HL_HFE"], [0.1], [], [3.0]), "effort: expected none"),
        ((["HL_HFE"], []), "position: expected 1 finite numbers, got []"),
        ((["HL_HFE"], [0.1, 0.2]), "position: expected 1 finite numbers, got [0.1, 0.2]"),
        ((["HL_HFE"], [0.1], [1.0, 2.0]), "velocity: expected 1 finite numbers"),
        ((["HL_HFE"], [np.inf]), "position: expected 1 finite numbers, got [inf]"),
        ((["KNEE"], [0.1]), "KNEE"),
    ],
)
def test_malformed_commands_are_refused_and_told(rig, message, problem):
    told = rig.ros.reader("diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    with rig.bridged() as bridge:
        statuses = {status.name: status for status in told.next().status}
        levels = {name: status.level for name, status in statuses.items()}
        assert levels == dict.fromkeys(("idyn: controller", "idyn: server", "idyn: commands"), 0)
        assert int({pair.key: pair.value for pair in statuses["idyn: server"].values}["states"]) > 0
        if isinstance(message, tuple):
            matched(rig.ros.writer("joint_commands", "sensor_msgs/msg/JointState")).write(joint_command(*message))
        else:
            matched(rig.ros.writer("cmd_vel", "geometry_msgs/msg/Twist")).write(message)
        until(lambda: bridge.counts["refused"] == 1)
        commands = until(lambda: (found := {each.name: each for each in told.next().status}["idyn: commands"]).level and found)
        assert commands.level == 1
        assert problem in commands.message
        assert rig.controller.last.tasks is rig.controller.last.steering is None


def test_qualities_of_service_and_type_hashes_are_those_of_ros(rig):
    wanted = {
        "rt/joint_states": ("sensor_msgs/msg/JointState", True, False),
        "rt/odom": ("nav_msgs/msg/Odometry", True, False),
        "rt/tf": ("tf2_msgs/msg/TFMessage", True, False),
        "rt/imu": ("sensor_msgs/msg/Imu", False, False),
        "rt/contacts/FL_FOOT": ("geometry_msgs/msg/WrenchStamped", False, False),
        "rt/diagnostics": ("diagnostic_msgs/msg/DiagnosticArray", True, False),
        "rt/robot_description": ("std_msgs/msg/String", True, True),
        "rt/cmd_vel": ("geometry_msgs/msg/Twist", True, False),
        "rt/joint_commands": ("sensor_msgs/msg/JointState", True, False),
    }
    found = {}
    kinds = [BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription]
    builtin = [BuiltinDataReader(rig.ros.participant, kind) for kind in kinds]
    with rig.bridged():

        def all_seen():
            for reader in builtin:
                ends = [each for each in reader.take(100) if getattr(each, "topic_name", "") in wanted]
                # readers and writers of this test's own participant have no user data
                found.update((each.topic_name, each) for each in ends if each.qos[Policy.Userdata] is not None)
            return found.keys() == wanted.keys()

        until(all_seen)
    for topic, (name, reliable, latched) in wanted.items():
        qos, (package, _, own) = found[topic].qos, name.split("/")
        assert found[topic].type_name == f"{package}::msg::dds_::{own}_"
        assert isinstance(qos[Policy.Reliability], type(RELIABLE[Policy.Reliability])) == reliable
        assert (qos[Policy.Durability] == Policy.Durability.TransientLocal) == latched
        assert qos[Policy.Userdata].data == f"typehash={JAZZY.hash_rihs01(name)};".encode()


@full
def test_a_server_that_ends_is_waited_for(robot, tmp_path):
    rig = Rig(robot, tmp_path)
    told = rig.ros.reader("diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    states = rig.ros.reader("joint_states", "sensor_msgs/msg/JointState")
    with rig.served():
        bridge = rig.bridged(timeout_ms=500)
        bridge.__enter__()
        states.next()
    until(lambda: {status.name: status.level for status in told.next().status}["idyn: server"] == 2)
    states.take()
    with rig.served():
        states.next()
        velocities = matched(rig.ros.writer("cmd_vel", "geometry_msgs/msg/Twist"))

        def steered():
            velocities.write(twist(0.2, 0.0, 0.0))
            return rig.controller.last.steering is not None

        until(steered)
        bridge.__exit__(None, None, None)


def test_another_robot_is_refused_and_a_server_that_allows_no_planner_only_read(rig):
    other = rig.robot.variant(urdf=rig.robot.description.urdf + "<!-- changed -->")
    with (
        closing(ServerLink(rig.endpoint, None, timeout_ms=PATIENCE_MS)) as link,
        pytest.raises(ConfigError, match="the model of the server's robot"),
    ):
        Bridge(other, bus(), link, commands=False).run(0.01, threading.Event())
    with pytest.raises(CommandRefused, match="'stranger' is not in the server's setting `planners`"):
        ServerLink(rig.endpoint, "stranger", timeout_ms=PATIENCE_MS)
    with pytest.raises(ConnectionFailed, match="no answer"):
        ServerLink(f"{rig.endpoint}-nobody", None)
    states = rig.ros.reader("joint_states", "sensor_msgs/msg/JointState")
    with rig.bridged(planner=None) as bridge:
        states.next()
        velocities = rig.ros.writer("cmd_vel", "geometry_msgs/msg/Twist")
        velocities.write(twist(0.2, 0.0, 0.0))
        states.next()
        assert rig.controller.last.steering is None
    assert bridge.counts["accepted"] == bridge.counts["refused"] == 0


TOPICS = [bridge.DESCRIPTION, bridge.DIAGNOSTICS, bridge.IMU, bridge.JOINT_STATES, bridge.ODOMETRY]
TOPICS += [bridge.TRANSFORM, bridge.VELOCITY, bridge.wrench_topic("foot")]
each_whole = every("kind", sorted(topic.kind for topic in TOPICS))

VALUES = {
    "float64": st.floats(allow_nan=False),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "byte": st.integers(0, 127),  # rosbags knows no more
    "string": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9),
}


def full_name(kind):
    return kind.replace("/", "/msg/")


def contents(name):
    """Random messages of a type."""

    def values(form):
        node, detail = form
        if node in (BASE, NAME):
            return VALUES[detail[0]] if node == BASE else contents(detail)
        one, size = detail
        return st.lists(values(one), min_size=size, max_size=size if node == ARRAY else 4)

    return st.fixed_dictionaries({field: values(form) for field, form in JAZZY.fielddefs[name][1]})


def plain(value):
    """An object of rosbags as dicts and lists."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not field.name.startswith("_") and not field.name.isupper()  # constants
        }
    return [plain(each) for each in value] if isinstance(value, list | np.ndarray) else value


@each_whole
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
def test_messages_are_the_same_after_the_wire_and_in_older_releases(kind, data):
    message = data.draw(contents(full_name(kind)))
    assert plain(decode(kind, encode(kind, message))) == message
    assert HUMBLE.fielddefs[full_name(kind)][1] == JAZZY.fielddefs[full_name(kind)][1]


HUMBLE = get_typestore(Stores.ROS2_HUMBLE)
HEADER = {"stamp": {"sec": 3, "nanosec": 7}, "frame_id": "odom"}
KNOWN = {  # kind → (type hash, message, its bytes behind the header), which two implementations found independently
    "std_msgs/String": ("df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18", None, ""),
    "geometry_msgs/Twist": (
        "9c45bf16fe0983d80e3cfe750d6835843d265a9a6c46bd2e609fcddde6fb8d2a",
        {"linear": {"x": 0.5, "y": -0.25}, "angular": {"z": 1.5}},
        "000000000000e03f 000000000000d0bf 0000000000000000 0000000000000000 0000000000000000 000000000000f83f",
    ),
    "sensor_msgs/JointState": (
        "a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
        {"header": HEADER, "name": ["a", "hip"], "position": [0.5, -1.0], "velocity": [2.0]},
        "03000000 07000000 05000000 6f646f6d00 000000 02000000 02000000 6100 0000 04000000 68697000"
        " 02000000 00000000 000000000000e03f 000000000000f0bf 01000000 00000000 0000000000000040 00000000",
    ),
}


@every("kind", sorted(KNOWN))
def test_type_hashes_and_bytes_are_known(kind):
    type_hash, message, fields = KNOWN[kind]
    assert bridge.STORE.hash_rihs01(full_name(kind)) == f"RIHS01_{type_hash}"
    if message is not None:
        assert encode(kind, message) == b"\0\1\0\0" + bytes.fromhex(fields)


@each_whole
def test_absent_fields_are_zero_or_empty(kind):
    message = plain(decode(kind, encode(kind, {})))
    assert encode(kind, message) == encode(kind, {})


@full
@each_whole
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
def test_spoilt_bytes_give_a_message_or_an_error(kind, data):
    wire = bytearray(encode(kind, data.draw(contents(full_name(kind)))))
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(wire) - 1))
        wire[where] = data.draw(st.sampled_from([0, 1, 0x7F, 0xFF]))
    cut = data.draw(st.integers(0, len(wire)))
    for spoilt in (bytes(wire), bytes(wire[:cut]), bytes(wire) + bytes(4)):
        with suppress(InputError):
            decode(kind, spoilt)


@every_row(
    ("std_msgs/String", b"\xff\xff\xff\xffabc\0"),
    ("std_msgs/String", b"\x00\x00\x00\x00"),
    ("std_msgs/String", b"\x03\x00\x00\x00abc"),
    ("std_msgs/String", b"\x02\x00\x00\x00\xff\x00"),
    ("tf2_msgs/TFMessage", b"\xff\xff\xff\x7f" + bytes(64)),
    ("sensor_msgs/JointState", bytes(8) + b"\x01\x00\x00\x00\0" + b"\0\0\0\xff\xff\xff\xff"),
    ("geometry_msgs/Twist", bytes(47)),
    ("geometry_msgs/Twist", bytes(52)),
)
def test_lengths_that_lie_are_refused(kind, payload):
    with pytest.raises(InputError) as caught:
        decode(kind, b"\x00\x01\x00\x00" + payload)
    assert caught.value.field == kind


def test_other_encodings_and_wrong_contents_are_refused():
    for data in (b"", b"\x00\x01", b"\x00\x00\x00\x00" + bytes(48), b"\x00\x07\x00\x00" + bytes(48)):
        with pytest.raises(InputError, match="expected little-endian CDR"):
            decode("geometry_msgs/Twist", data)
    with pytest.raises(InputError, match="no field 'speed'"):
        encode("geometry_msgs/Twist", {"speed": 1.0})
    with pytest.raises(InputError, match="expected 36 elements, got 3"):
        encode("nav_msgs/Odometry", {"pose": {"covariance": [0.0] * 3}})
