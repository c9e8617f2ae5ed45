"""The bridge: ticks of a server become topics of ROS 2, and topics of ROS 2 become commands.

Names, types, type hashes, bytes and qualities of service are those of ROS 2. A message to be sent is a dict by field names.
"""

from collections.abc import Mapping
from contextlib import suppress
from threading import Event
from time import monotonic, time_ns
from typing import Any, NamedTuple

import numpy as np

from idyn.errors import ConfigError, IdynError, InputError, missing_extra
from idyn.model.robot import Robot
from transport.bridges.ros2.conversions import JOINTS, TWIST, Converter, command_of, diagnostics, motion_of
from transport.keys import Keys
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.base import Code
from transport.protocol.messages.requests import Config, ConfigGet, Stats, StatsGet, Tick, TickGet
from transport.robot.client import ConnectionFailed, expected
from transport.robot.planner import CommandRefused, Observer, PlannerClient

try:
    from rosbags.interfaces import Nodetype
    from rosbags.serde import SerdeError
    from rosbags.typesys import Stores, get_typestore

    from transport.bridges.dds import KINDS, Participant, RawReader, RawWriter, Unsent, array, quality, raw, sequence, structure
except ImportError as error:
    raise missing_extra("bridge", "a bridge to ROS 2", (error.name or "cyclonedds").partition(".")[0], "ros2") from error

STORE = get_typestore(Stores.ROS2_JAZZY)  # definitions of all messages. Those of the bridge are the same from Humble on

FORMS = {"string": "str", "byte": "byte", "int32": "i4", "uint32": "u4", "float64": "f8"}
"""Type in ROS → that of `transport.bridges.dds`."""

LITTLE_ENDIAN, HEADER = b"\x00\x01", 4  # first bytes of a message on the wire, plain CDR; length of what is before its fields


def encode(kind: str, message: Mapping[str, Any]) -> bytes:
    """Return the bytes of a message. Fields that are absent are 0 or empty.

    kind: as `sensor_msgs/JointState`
    Raises InputError for an unknown field, and for an array of a wrong length.
    """
    return bytes(STORE.serialize_cdr(_made(_full(kind), message), _full(kind)))


def decode(kind: str, data: bytes) -> Any:
    """Return a message with its fields as attributes, numbers as arrays. Raises InputError for malformed bytes."""
    if data[:2] != LITTLE_ENDIAN or len(data) < HEADER:
        raise InputError(kind, f"expected little-endian CDR, got {len(data)} bytes that begin with '{data[:2].hex()}'")
    try:
        return STORE.deserialize_cdr(data, _full(kind))
    except SerdeError as error:
        raise InputError(kind, str(error)) from None


def _full(kind: str) -> str:
    return kind.replace("/", "/msg/")


def _made(name: str, given: Mapping[str, Any]) -> Any:
    fields = dict(STORE.fielddefs[name][1])
    if unknown := given.keys() - fields.keys():
        raise InputError(name.replace("/msg/", "/"), f"no field '{min(unknown)}'")
    return STORE.types[name](**{field: _value(form, given.get(field), field) for field, form in fields.items()})


def _value(form: Any, given: Any, field: str) -> Any:
    """Return the value of a field, 0 or empty if None is given. form: its definition"""
    node, detail = form
    if node == Nodetype.NAME:
        return _made(detail, given or {})
    if node == Nodetype.BASE:
        return given if given is not None else "" if detail[0] == "string" else 0
    (node, one), size = detail
    if node == Nodetype.NAME:
        return [_made(one, each) for each in given or ()]
    if one[0] == "string":
        return list(given or ())
    numbers = np.zeros(size, one[0]) if given is None else np.ascontiguousarray(given, one[0])
    if size and len(numbers) != size:
        raise InputError(field, f"expected {size} elements, got {len(numbers)}")
    return numbers


class Bus(Participant):
    """A participant in one domain, on one network interface; one for each domain in a process."""


class Topic(NamedTuple):
    """A topic."""

    name: str  # in ROS, without the first slash
    kind: str  # message, as `sensor_msgs/JointState`
    depth: int = 10  # messages that are kept
    reliable: bool = True  # repeated until they arrive
    latched: bool = False  # late readers get the last ones


class Publisher:
    """Sends messages of one topic."""

    def __init__(self, bus: Bus, topic: Topic) -> None:
        self._kind, self._writer = topic.kind, RawWriter(bus, *_endpoint(topic))

    def publish(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises InputError for fields that it does not have."""
        data = encode(self._kind, message)
        with suppress(Unsent):  # a slow reader of a reliable topic: it misses this message
            self._writer.write(data)


class Subscription:
    """Receives messages of one topic."""

    def __init__(self, bus: Bus, topic: Topic) -> None:
        self._kind, self._reader = topic.kind, RawReader(bus, *_endpoint(topic))

    def take(self) -> list[Any]:
        """Return the messages that have arrived, the oldest first; in place of malformed bytes their InputError."""
        return [self._decoded(sample.data) for sample in self._reader.samples()]

    def _decoded(self, data: bytes) -> Any:
        try:
            return decode(self._kind, data)
        except InputError as error:
            return error


def _endpoint(topic: Topic) -> tuple[str, Any, Any]:
    announced = f"typehash={STORE.hash_rihs01(_full(topic.kind))};".encode()  # REP 2016, from Iron on
    service = quality(depth=topic.depth, reliable=topic.reliable, latched=topic.latched, user_data=announced)
    return f"rt/{topic.name}", raw(_type_of(_full(topic.kind))), service


def _type_of(name: str) -> Any:
    package, _, own = name.split("/")
    return structure(f"{package}.msg.dds_.{own}_", {field: _form(form) for field, form in STORE.fielddefs[name][1]})


def _form(form: Any) -> Any:
    node, detail = form
    if node == Nodetype.NAME:
        return _type_of(detail)
    if node == Nodetype.BASE:
        return KINDS[FORMS[detail[0]]]
    one, size = detail
    return array(_form(one), size) if node == Nodetype.ARRAY else sequence(_form(one))


TIMEOUT_MS = 500  # default time to wait for an answer [ms]


class ServerLink:
    """Reads the ticks of a server, and commands its robot.

    settings: of the controller, as the server has them
    """

    def __init__(self, endpoint: str, planner: str | None, keys: Keys | None = None, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """planner: name in the server's setting `planners`; None: send no commands
        keys: for a server with `[curve]`, of the role 'plan' or, without commands, 'watch'
        timeout_ms: time to wait for an answer [ms]
        Raises ConnectionFailed without a server, CommandRefused for a planner that it does not allow.
        """
        self._endpoint, self._name, self._keys, self._timeout_ms = endpoint, planner, keys, timeout_ms
        self._planner: PlannerClient | None = None
        self._observer = self._observe()
        try:
            config = expected(self._observer.ask(ConfigGet()), Config)
            self._plan()
        except IdynError:
            self._observer.close()
            raise
        self.settings: dict[str, Any] = config.settings

    def close(self) -> None:
        """Disconnect. The last command stands until it expires."""
        self._observer.close()
        if self._planner is not None:
            self._planner.close()

    def ask(self, request: FromClient) -> FromServer | None:
        """Return the answer to a request; None without one."""
        try:
            return self._observer.ask(request)
        except ConnectionFailed:
            self._observer.close()
            self._observer = self._observe()
            return None

    def command(self, **command: Any) -> str:
        """Command the robot, see `PlannerClient.command`. Return why it was refused, ''."""
        try:
            self._plan()
            assert self._planner is not None
            self._planner.command(**command)
        except (CommandRefused, ConnectionFailed) as error:
            lost = isinstance(error, ConnectionFailed) or error.error.code is Code.NOT_CONTROLLING
            if lost and self._planner is not None:  # the server may be another one by now
                self._planner.close()
                self._planner = None
            return str(error)
        return ""

    def _plan(self) -> None:
        if self._name is not None and self._planner is None:
            self._planner = PlannerClient(self._endpoint, self._name, timeout_ms=self._timeout_ms, keys=self._keys)

    def _observe(self) -> Observer:
        return Observer(self._endpoint, timeout_ms=self._timeout_ms, keys=self._keys)


VALID_S = 0.5  # validity of a command [s]: the robot stops when its messages stop
TELL_S = 1.0  # period of the diagnostics [s]

STEP_NS, SMOOTHING = 50_000_000, 0.01
"""A difference of clocks that changes by more than this is taken over at once [ns]; otherwise by this share per tick."""

SENSOR_DEPTH = 5

JOINT_STATES = Topic("joint_states", JOINTS)
ODOMETRY = Topic("odom", "nav_msgs/Odometry")
TRANSFORM = Topic("tf", "tf2_msgs/TFMessage", depth=100)
DIAGNOSTICS = Topic("diagnostics", "diagnostic_msgs/DiagnosticArray")
DESCRIPTION = Topic("robot_description", "std_msgs/String", depth=1, latched=True)
IMU = Topic("imu", "sensor_msgs/Imu", depth=SENSOR_DEPTH, reliable=False)
VELOCITY = Topic("cmd_vel", TWIST)
POSTURE = Topic("joint_commands", JOINTS)


def wrench_topic(name: str) -> Topic:
    """Return the topic of a contact wrench."""
    return Topic(name, "geometry_msgs/WrenchStamped", depth=SENSOR_DEPTH, reliable=False)


class Stamps:
    """The robot's clock as time since 1970: intervals are the robot's, the difference of the clocks is smoothed."""

    def __init__(self) -> None:
        self._ahead_ns: float | None = None

    def stamp(self, t_ns: int, now_ns: int) -> int:
        """Return the time of a state [ns]. t_ns: by the robot's clock; now_ns: when it was read"""
        ahead = now_ns - t_ns
        if self._ahead_ns is None or abs(ahead - self._ahead_ns) > STEP_NS:
            self._ahead_ns = ahead
        self._ahead_ns += SMOOTHING * (ahead - self._ahead_ns)
        return t_ns + round(self._ahead_ns)


class Bridge:
    """Publishes the ticks of a server and passes commands on. counts: of states, and of commands by their outcome"""

    def __init__(self, robot: Robot, bus: Bus, link: ServerLink, *, commands: bool) -> None:
        """robot: the server's; commands: whether it listens to commands"""
        self._robot, self._link = robot, link
        self._converter = Converter(robot)
        topics = [JOINT_STATES, DIAGNOSTICS, IMU, *map(wrench_topic, self._converter.feet.values())]
        topics += [ODOMETRY, TRANSFORM] if robot.floating else []
        self._publishers = {topic.name: Publisher(bus, topic) for topic in topics}
        self._subscriptions = {topic: Subscription(bus, topic) for topic in ((VELOCITY, POSTURE) if commands else ())}
        self._description = Publisher(bus, DESCRIPTION)  # keeps its message for late readers
        self._description.publish({"data": robot.description.urdf})
        self._stamps, self._last_ns, self._refusal = Stamps(), -1, ""
        self._heard = self._told = monotonic()
        self.counts = {"states": 0, "accepted": 0, "refused": 0}

    def run(self, period: float, end: Event) -> None:
        """Work until the end. period: of the ticks [s]. Raises ConfigError if the server's robot is another one."""
        due = monotonic()
        while not end.wait(max(0.0, due - monotonic())):
            due = max(due + period, monotonic())
            answer = self._link.ask(TickGet())
            tick = answer if isinstance(answer, Tick) else None
            if tick is not None:
                self._publish(tick)
            self._listen()
            if monotonic() - self._told >= TELL_S:
                self._tell(tick)

    def _publish(self, tick: Tick) -> None:
        if tick.urdf_sha256 != self._robot.urdf_sha256:
            raise ConfigError("robot", f"expected the model of the server's robot, got another one ('{self._robot.name}')")
        motion = motion_of(tick)
        if motion is None or motion.t_ns == self._last_ns:
            return
        self._last_ns, convert = motion.t_ns, self._converter
        stamp = self._stamps.stamp(motion.t_ns, time_ns())
        self._send(JOINT_STATES, convert.joint_state(motion, stamp))
        if self._robot.floating:
            self._send(ODOMETRY, convert.odometry(motion, stamp))
            self._send(TRANSFORM, convert.transform(motion, stamp))
        if tick.imu is not None:
            self._send(IMU, convert.imu(tick.imu, stamp))
        for link, wrench in convert.wrenches(tick, motion, stamp).items():
            self._publishers[convert.feet[link]].publish(wrench)
        self.counts["states"] += 1

    def _send(self, topic: Topic, message: dict[str, Any]) -> None:
        self._publishers[topic.name].publish(message)

    def _listen(self) -> None:
        """Pass on the newest command of each topic, unless it may have waited for longer than it is valid."""
        now, waited = monotonic(), monotonic() - self._heard
        self._heard = now
        for topic, subscription in self._subscriptions.items():
            messages = subscription.take()
            if not messages or waited > VALID_S:
                continue
            self._refusal = self._pass_on(topic, messages[-1])
            self.counts["refused" if self._refusal else "accepted"] += 1

    def _pass_on(self, topic: Topic, message: Any) -> str:
        """Command what a message asks for. Return why it was refused, ''."""
        if isinstance(message, InputError):
            return str(message)
        try:
            return self._link.command(**command_of(topic.kind, message), valid_for=VALID_S)
        except InputError as error:
            return str(error)

    def _tell(self, tick: Tick | None) -> None:
        self._told = monotonic()
        answer = None if tick is None else self._link.ask(StatsGet())
        stats = answer if isinstance(answer, Stats) else None
        self._send(DIAGNOSTICS, diagnostics(self._robot.name, time_ns(), tick, stats, self._refusal))
