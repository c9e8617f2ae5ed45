"""Topics of ROS 2 over DDS (extra `ros2`): names, types, type hashes, bytes and qualities of service as ROS 2 has them.

Bytes and type hashes are those of `rosbags`. A message to be sent is a dict by the names of its fields; a received one as
attributes.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from idyn.errors import InputError, missing_extra

try:
    from rosbags.interfaces import Nodetype
    from rosbags.serde import SerdeError
    from rosbags.typesys import Stores, get_typestore

    from transport.bridges.dds import KINDS, Participant, RawReader, RawWriter, Unsent, array, quality, raw, sequence, structure
except ImportError as error:
    raise missing_extra("bridge", "a bridge to ROS 2", error.name or "cyclonedds", "ros2") from error

STORE = get_typestore(Stores.ROS2_JAZZY)
"""Definitions of all messages. Those of the bridge are the same from Humble on."""

FORMS = {"string": "str", "byte": "byte", "int32": "i4", "uint32": "u4", "float64": "f8"}
"""Type in ROS → that of `transport.bridges.dds`."""

LITTLE_ENDIAN, HEADER = b"\x00\x01", 4
"""First bytes of a message on the wire, plain CDR; length of what is before its fields."""


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
    """Return a message as an object of `rosbags`. Raises InputError for an unknown field."""
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
    """A topic.

    name: in ROS, without the first slash; kind: message, as `sensor_msgs/JointState`
    depth: messages that are kept; reliable: repeated until they arrive; latched: late readers get the last ones
    """

    name: str
    kind: str
    depth: int = 10
    reliable: bool = True
    latched: bool = False


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
    """Return name, type and quality of service of a topic in DDS."""
    announced = f"typehash={STORE.hash_rihs01(_full(topic.kind))};".encode()  # REP 2016, from Iron on
    service = quality(depth=topic.depth, reliable=topic.reliable, latched=topic.latched, user_data=announced)
    return f"rt/{topic.name}", raw(_type_of(_full(topic.kind))), service


def _type_of(name: str) -> Any:
    """Return the type of a message."""
    package, _, own = name.split("/")
    return structure(f"{package}.msg.dds_.{own}_", {field: _form(form) for field, form in STORE.fielddefs[name][1]})


def _form(form: Any) -> Any:
    """Return the type of a field. form: its definition"""
    node, detail = form
    if node == Nodetype.NAME:
        return _type_of(detail)
    if node == Nodetype.BASE:
        return KINDS[FORMS[detail[0]]]
    one, size = detail
    return array(_form(one), size) if node == Nodetype.ARRAY else sequence(_form(one))
