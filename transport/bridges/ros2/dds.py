"""Topics of ROS 2 over DDS (extra `ros2`): names, types, type hashes and qualities of service as ROS 2 has them."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from idyn.errors import InputError
from idyn.extras import missing_extra
from transport.bridges.ros2.cdr import decode, encode
from transport.bridges.ros2.messages import FIELDS, dds_name, type_hash

try:
    from transport.bridges.dds import KINDS, Participant, RawReader, RawWriter, Unsent, array, quality, raw, sequence, structure
except ImportError as error:
    raise missing_extra("bridge", "a bridge to ROS 2", "cyclonedds", "ros2") from error


FORMS = {"string": "str", "byte": "byte", "int32": "i4", "uint32": "u4", "float64": "f8"}
"""Type in ROS → that of `transport.bridges.dds`."""


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

    def take(self) -> list[dict[str, Any] | InputError]:
        """Return the messages that have arrived, the oldest first; in place of malformed bytes their error."""
        return [self._decoded(sample.data) for sample in self._reader.samples()]

    def _decoded(self, data: bytes) -> dict[str, Any] | InputError:
        try:
            return decode(self._kind, data)
        except InputError as error:
            return error


def _endpoint(topic: Topic) -> tuple[str, Any, Any]:
    """Return name, type and quality of service of a topic in DDS."""
    announced = f"typehash={type_hash(topic.kind)};".encode()
    service = quality(depth=topic.depth, reliable=topic.reliable, latched=topic.latched, user_data=announced)
    return f"rt/{topic.name}", raw(_type_of(topic.kind)), service


def _type_of(kind: str) -> Any:
    """Return the type of a message."""
    fields: dict[str, Any] = {}
    for name, each, size in FIELDS[kind]:
        one = _type_of(each) if each in FIELDS else KINDS[FORMS[each]]
        fields[name] = array(one, size) if size > 0 else sequence(one) if size < 0 else one
    return structure(dds_name(kind).replace("::", "."), fields)
