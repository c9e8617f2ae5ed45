"""Raw messages over DDS, by Cyclone DDS (extra `unitree`).

The types of the topics are made from the layouts of `transport.unitree.messages`. Their samples hold the bytes on the wire, so
that nothing is converted number by number.
"""

from collections.abc import Callable
from types import new_class
from typing import Any

from idyn.errors import ConfigError
from idyn.extras import missing_extra
from transport.unitree.layout import Layout, Message, Structure

try:
    from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
    from cyclonedds.domain import Domain, DomainParticipant
    from cyclonedds.idl import IdlStruct, types
    from cyclonedds.idl.annotations import autoid, final
    from cyclonedds.pub import DataWriter
    from cyclonedds.qos import Policy, Qos
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic
except ImportError as error:
    raise missing_extra("bridge", "a bridge to Unitree's robots", "cyclonedds", "unitree") from error

INTERFACE = """<CycloneDDS><Domain Id="any"><General><Interfaces>
<NetworkInterface name="{}" priority="default" multicast="default"/>
</Interfaces></General></Domain></CycloneDDS>"""
"""Configuration that restricts Cyclone DDS to one network interface."""

KINDS = {
    "u1": types.uint8,
    "i2": types.int16,
    "u2": types.uint16,
    "i4": types.int32,
    "u4": types.uint32,
    "f4": types.float32,
}

DEPTH = 16
"""Messages that a reader keeps, so that none is lost during a pause of up to 32 ms at 500 Hz."""


class Bus:
    """A participant in one domain, on one network interface; one for each domain in a process."""

    def __init__(self, domain: int, interface: str = "lo") -> None:
        """Raises ConfigError for a domain or an interface that cannot be used."""
        try:
            self._domain = Domain(domain, INTERFACE.format(interface))
            self.participant = DomainParticipant(domain)
        except DDSException as error:
            raise ConfigError("interface", f"DDS domain {domain} on the network interface '{interface}': {error}") from None

    def reader(self, topic: str, layout: Layout) -> "Reader":
        """Return a reader of a topic."""
        return Reader(self.participant, topic, layout)

    def writer(self, topic: str, layout: Layout) -> "Writer":
        """Return a writer to a topic."""
        return Writer(self.participant, topic, layout)


class Reader:
    """Receives messages of one topic."""

    def __init__(self, participant: DomainParticipant, topic: str, layout: Layout) -> None:
        self._layout, kind = layout, _raw(layout.structure)
        self._reader = DataReader(
            participant, Topic(participant, topic, kind), qos=Qos(Policy.History.KeepLast(DEPTH), Policy.Reliability.BestEffort)
        )
        self._wait = WaitSet(participant)
        self._any = ReadCondition(self._reader, ViewState.Any | SampleState.Any | InstanceState.Any)
        self._wait.attach(self._any)

    def take(self, timeout: float = 0.0) -> list[Message]:
        """Return the messages that have arrived, the oldest first; wait up to `timeout` [s] for one."""
        if timeout > 0.0:
            self._wait.wait(round(timeout * 1e9))
        samples = [sample for sample in self._reader.take(DEPTH) if getattr(sample, "data", None)]
        return [Message(self._layout, sample.data, sample.sample_info.source_timestamp) for sample in samples]

    @property
    def writers(self) -> int:
        """Number of writers to this topic now, in any process."""
        return len(self._reader.get_matched_publications())


class Writer:
    """Sends messages of one topic."""

    def __init__(self, participant: DomainParticipant, topic: str, layout: Layout) -> None:
        self._kind = _raw(layout.structure)
        self._writer = DataWriter(participant, Topic(participant, topic, self._kind))

    def write(self, data: bytes) -> None:
        """Send bytes on the wire."""
        sample = self._kind.__new__(self._kind)
        sample.data = data
        self._writer.write(sample)

    @property
    def readers(self) -> int:
        """Number of readers of this topic now, in any process."""
        return len(self._writer.get_matched_subscriptions())


def _raw(structure: Structure) -> Any:
    """Return a type of Cyclone DDS whose samples hold their bytes on the wire as `data`."""

    def serialize(self: Any, *_: Any, **__: Any) -> bytes:
        data: bytes = self.data
        return data

    def deserialize(cls: Any, data: bytes, *_: Any, **__: Any) -> Any:
        sample = cls.__new__(cls)
        sample.data = data
        return sample

    def deserialize_key(cls: Any, *_: Any, **__: Any) -> Any:
        return deserialize(cls, b"")  # a writer has ended

    kind = _type_of(structure)
    kind.serialize, kind.deserialize, kind.deserialize_key = serialize, classmethod(deserialize), classmethod(deserialize_key)
    return kind


def _type_of(structure: Structure) -> Any:
    """Return the type of a structure with these fields."""
    fields: dict[str, Any] = {}
    for name, form, count in structure.fields:
        kind = _type_of(form) if isinstance(form, Structure) else KINDS[form]
        fields[name] = kind if count == 1 else types.array[kind, count]  # type: ignore[misc]

    def body(namespace: dict[str, Any]) -> None:
        namespace |= {"__annotations__": fields, "__module__": __name__}

    made: Callable[[Any], Any] = autoid("sequential")
    return final(made(new_class(structure.name.rsplit(".", 1)[-1], (IdlStruct,), {"typename": structure.name}, body)))
