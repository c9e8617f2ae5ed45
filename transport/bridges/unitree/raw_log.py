"""A log of the messages between a bridge and its robot, byte for byte as on the wire: MCAP, encoding `cdr`.

Foxglove and other readers of MCAP decode it by the OMG IDL of the messages, which is in the log.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import time_ns

from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from transport.bridges.unitree.messages import Family, Layout, Message, Structure

STATE, COMMAND = "rt/lowstate", "rt/lowcmd"
"""Topics of states and of commands."""

KINDS = {"u1": "uint8", "i2": "int16", "u2": "uint16", "i4": "int32", "u4": "uint32", "f4": "float"}
"""Format of NumPy → type of OMG IDL."""


class RawLog:
    """Writes a log. Close it, so that it is complete."""

    def __init__(self, path: Path, family: Family) -> None:
        """Overwrites an existing file."""
        self._writer = Writer(str(path), compression=CompressionType.NONE)
        self._writer.start(library="idyn")
        self._channels = {topic: self._channel(topic, layout) for topic, layout in topics(family).items()}

    def _channel(self, topic: str, layout: Layout) -> int:
        name = layout.structure.name.replace(".", "::")
        schema = self._writer.register_schema(name, "omgidl", idl_of(layout.structure).encode())
        return self._writer.register_channel(topic, "cdr", schema)

    def states(self, messages: Sequence[Message]) -> None:
        """Write received states. Their time of publication is that of the sender's clock."""
        for message in messages:
            self._writer.add_message(self._channels[STATE], time_ns(), bytes(message.data), message.sent_ns)

    def command(self, data: bytes) -> None:
        """Write a command that was sent."""
        now = time_ns()
        self._writer.add_message(self._channels[COMMAND], now, data, now)

    def close(self) -> None:
        """Complete the log."""
        self._writer.finish()


def topics(family: Family) -> dict[str, Layout]:
    """Return the layout of the messages of each topic."""
    return {STATE: family.state, COMMAND: family.command}


def read_raw_log(path: Path, family: Family) -> Iterator[tuple[str, Message]]:
    """Yield topic and message of a log, in the order in which they were written. Raises ValueError for other messages."""
    layouts = topics(family)
    with path.open("rb") as file:
        for _, channel, message in make_reader(file).iter_messages(log_time_order=False):
            yield channel.topic, Message(layouts[channel.topic], message.data, message.publish_time)


def idl_of(structure: Structure) -> str:
    """Return the definition of a structure, and of those in its fields, in OMG IDL."""
    made: dict[str, str] = {}
    _define(structure, made)
    return "\n".join(made.values())


def _define(structure: Structure, made: dict[str, str]) -> None:
    """Add the definitions of a structure, those of its fields first. made: name → definition"""
    lines = []
    for name, kind, count in structure.fields:
        if isinstance(kind, Structure):
            _define(kind, made)
        of = kind.name.replace(".", "::") if isinstance(kind, Structure) else KINDS[kind]
        lines.append(f"{of} {name}{f'[{count}]' if count > 1 else ''};")
    *modules, last = structure.name.split(".")
    opening, closing = "".join(f"module {each} {{ " for each in modules), "};" * len(modules)
    made[structure.name] = f"{opening}struct {last} {{ {' '.join(lines)} }};{closing}"
