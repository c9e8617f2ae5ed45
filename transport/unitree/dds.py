"""Unitree's messages over DDS (extra `unitree`).

The types of the topics are made from the layouts of `transport.unitree.messages`.
"""

from typing import Any

from idyn.extras import missing_extra
from transport.unitree.layout import Layout, Message, Structure

try:
    from transport.dds import KINDS, Participant, RawReader, RawWriter, array, quality, raw, structure
except ImportError as error:
    raise missing_extra("bridge", "a bridge to Unitree's robots", "cyclonedds", "unitree") from error

DEPTH = 16
"""Messages that a reader keeps, so that none is lost during a pause of up to 32 ms at 500 Hz."""


class Bus(Participant):
    """A participant in one domain, on one network interface; one for each domain in a process."""

    def reader(self, topic: str, layout: Layout) -> "Reader":
        """Return a reader of a topic."""
        return Reader(self, topic, layout)

    def writer(self, topic: str, layout: Layout) -> "Writer":
        """Return a writer to a topic."""
        return Writer(self, topic, layout)


class Reader(RawReader):
    """Receives messages of one topic."""

    def __init__(self, bus: Bus, topic: str, layout: Layout) -> None:
        super().__init__(bus, topic, raw(_type_of(layout.structure)), quality(depth=DEPTH))
        self._layout = layout

    def take(self, timeout: float = 0.0) -> list[Message]:
        """Return the messages that have arrived, the oldest first; wait up to `timeout` [s] for one."""
        return [Message(self._layout, sample.data, sample.sent_ns) for sample in self.samples(timeout)]


class Writer(RawWriter):
    """Sends messages of one topic."""

    def __init__(self, bus: Bus, topic: str, layout: Layout) -> None:
        super().__init__(bus, topic, raw(_type_of(layout.structure)))


def _type_of(layout: Structure) -> Any:
    """Return the type of a structure with these fields."""
    fields: dict[str, Any] = {}
    for name, form, count in layout.fields:
        kind = _type_of(form) if isinstance(form, Structure) else KINDS[form]
        fields[name] = kind if count == 1 else array(kind, count)
    return structure(layout.name, fields)
