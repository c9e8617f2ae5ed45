"""Raw messages over DDS, by Cyclone DDS: samples hold the bytes on the wire, so that nothing is converted number by number."""

from collections.abc import Callable, Mapping
from types import new_class
from typing import Any, NamedTuple

from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, types
from cyclonedds.idl.annotations import autoid, final
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from idyn.errors import ConfigError, IdynError

INTERFACE = """<CycloneDDS><Domain Id="any"><General><Interfaces>
<NetworkInterface name="{}" priority="default" multicast="default"/>
</Interfaces></General></Domain></CycloneDDS>"""
"""Configuration that restricts Cyclone DDS to one network interface."""

KINDS: dict[str, Any] = {
    "u1": types.uint8,
    "i2": types.int16,
    "u2": types.uint16,
    "i4": types.int32,
    "u4": types.uint32,
    "i8": types.int64,
    "f4": types.float32,
    "f8": types.float64,
    "str": str,
    "byte": types.byte,
}
"""Format of NumPy, `str` or `byte` → type of Cyclone DDS. Readers and writers match only if these agree: byte is not uint8."""

MOST = 16  # messages that are taken at once
BLOCKING_NS = 10_000_000  # most time that a reliable writer waits for slow readers [ns]


def quality(*, depth: int, reliable: bool = False, latched: bool = False, user_data: bytes = b"") -> Qos:
    """Return the quality of service of a reader or writer.

    depth: messages that are kept; latched: late readers get the last ones (transient local); user_data: announced with it
    """
    durability = Policy.Durability.TransientLocal if latched else Policy.Durability.Volatile
    reliability = Policy.Reliability.Reliable(BLOCKING_NS) if reliable else Policy.Reliability.BestEffort
    plain = Policy.DataRepresentation(use_cdrv0_representation=True)
    return Qos(Policy.History.KeepLast(depth), reliability, durability, plain, Policy.Userdata(user_data))


class Unsent(IdynError):
    """A message could not be sent: readers are slow, or the network is gone."""


class Participant:
    """A participant in one domain, on one network interface; one for each domain in a process."""

    def __init__(self, domain: int, interface: str = "lo") -> None:
        """Raises ConfigError for a domain or an interface that cannot be used."""
        try:
            self._domain = Domain(domain, INTERFACE.format(interface))
            self.participant = DomainParticipant(domain)
        except DDSException as error:
            raise ConfigError("interface", f"DDS domain {domain} on the network interface '{interface}': {error}") from None


class Sample(NamedTuple):
    """A received message: its bytes on the wire, and its time of sending by the sender's clock [ns]."""

    data: bytes
    sent_ns: int


def matched(handles: Callable[[], list[int]]) -> int:
    """Return the number of matched readers or writers. handles: of Cyclone DDS, which counts them and then reads their handles,
    and raises IndexError if one has come between: it is asked again."""
    while True:
        try:
            return len(handles())
        except IndexError:
            continue


class RawReader:
    """Receives messages of one topic."""

    def __init__(self, bus: Participant, topic: str, kind: type, qos: Qos) -> None:
        """kind: see `raw`"""
        self._bus = bus  # readers end with their participant
        self._reader: DataReader[Any] = DataReader(bus.participant, Topic(bus.participant, topic, kind), qos=qos)
        self._wait = WaitSet(bus.participant)
        self._any = ReadCondition(self._reader, ViewState.Any | SampleState.Any | InstanceState.Any)
        self._wait.attach(self._any)

    def samples(self, timeout: float = 0.0) -> list[Sample]:
        """Return the messages that have arrived, the oldest first; wait up to `timeout` [s] for one."""
        if timeout > 0.0:
            self._wait.wait(round(timeout * 1e9))
        found = [each for each in self._reader.take(MOST) if getattr(each, "data", None)]
        return [Sample(each.data, each.sample_info.source_timestamp) for each in found]

    @property
    def writers(self) -> int:
        """Number of writers to this topic now, in any process."""
        return matched(self._reader.get_matched_publications)


class RawWriter:
    """Sends messages of one topic."""

    def __init__(self, bus: Participant, topic: str, kind: Any, qos: Qos | None = None) -> None:
        """kind: see `raw`"""
        self._bus, self._kind = bus, kind  # writers end with their participant
        self._writer: DataWriter[Any] = DataWriter(bus.participant, Topic(bus.participant, topic, kind), qos=qos)

    def write(self, data: bytes) -> None:
        """Send bytes on the wire. Raises Unsent."""
        sample = self._kind.__new__(self._kind)
        sample.data = data
        try:
            self._writer.write(sample)
        except DDSException as error:
            raise Unsent(str(error)) from None

    @property
    def readers(self) -> int:
        """Number of readers of this topic now, in any process."""
        return matched(self._writer.get_matched_subscriptions)


def typed_writer(bus: Participant, topic: str, kind: Any, qos: Qos) -> Any:
    """Return a writer of Cyclone DDS, for messages as objects. kind: see `structure`"""
    return DataWriter(bus.participant, Topic(bus.participant, topic, kind), qos=qos)


def typed_reader(bus: Participant, topic: str, kind: Any) -> Any:
    """Return a reader of Cyclone DDS, for messages as objects. kind: see `structure`"""
    return DataReader(bus.participant, Topic(bus.participant, topic, kind))


def structure(name: str, fields: Mapping[str, Any]) -> Any:
    """Return a type of Cyclone DDS. name: in DDS, parts separated by dots; fields: name → type of Cyclone DDS"""

    def body(namespace: dict[str, Any]) -> None:
        namespace |= {"__annotations__": dict(fields), "__module__": __name__}

    made: Callable[[Any], Any] = autoid("sequential")
    return final(made(new_class(name.rsplit(".", 1)[-1], (IdlStruct,), {"typename": name}, body)))


def array(kind: Any, size: int) -> Any:
    """Return a type of Cyclone DDS for an array."""
    return types.array[kind, size]  # type: ignore[misc]


def sequence(kind: Any) -> Any:
    """Return a type of Cyclone DDS for a sequence."""
    return types.sequence[kind]  # type: ignore[misc]


def raw(kind: Any) -> Any:
    """Let samples of a type of Cyclone DDS hold their bytes on the wire as `data`. Return the type."""

    def serialize(self: Any, *_: Any, **__: Any) -> bytes:
        data: bytes = self.data
        return data

    def deserialize(cls: Any, data: bytes, *_: Any, **__: Any) -> Any:
        sample = cls.__new__(cls)
        sample.data = data
        return sample

    def deserialize_key(cls: Any, *_: Any, **__: Any) -> Any:
        return deserialize(cls, b"")  # a writer has ended

    kind.serialize, kind.deserialize, kind.deserialize_key = serialize, classmethod(deserialize), classmethod(deserialize_key)
    return kind
