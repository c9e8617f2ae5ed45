"""Unitree's low-level messages: the families `unitree_go` (Go2, B2, H1) and `unitree_hg` (G1).

Units: rad, rad/s, N·m, m/s², N·m/rad, N·m·s/rad; quaternions w, x, y, z; temperatures °C; V and A.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from time import time_ns
from typing import NamedTuple, Self

import numpy as np
from mcap.writer import CompressionType, Writer

from idyn.types import Array

HEADER = b"\x00\x01\x00\x00"  # first bytes of a message on the wire: CDR, little-endian
MIRROR = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))  # each byte with its bits in reverse order


class Structure(NamedTuple):
    """A structure: its name in DDS, and its fields: (name, format of NumPy or structure, number of elements)."""

    name: str
    fields: tuple[tuple[str, "str | Structure", int], ...]


class Place(NamedTuple):
    """Where a field lies: the elements `where` of the message as an array of this format."""

    format: str
    where: Array


class Layout:
    """The layout of one kind of message.

    structure: its fields; places: of each number or array by its path, such as `motor_cmd.q`, elements of arrays of structures
    one after the other; size: length on the wire without the header [bytes]
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        wire, self.size = _offsets(structure, of_c=False)
        c, length = _offsets(structure, of_c=True)
        self.places = {path: Place(kind, np.array(found) // np.dtype(kind).itemsize) for path, (kind, found) in wire.items()}
        # byte of the wire for each byte of the C structure; padding reads the byte after the last one, which is 0
        self._gather = np.full(length, self.size)
        for path, (kind, found) in c.items():
            for there, here in zip(found, wire[path][1], strict=True):
                size = np.dtype(kind).itemsize
                self._gather[there : there + size] = np.arange(here, here + size)
        # without the checksum itself; most significant byte first
        words = np.arange(length - 4).reshape(-1, 4)[:, ::-1].ravel()
        self._gather = self._gather[words]

    def checksum(self, payload: Array) -> int:
        """Return the CRC-32 of a message without its header (size): polynomial 04C11DB7, most significant bit first."""
        words = np.append(payload, np.uint8(0))[self._gather].tobytes()
        mirrored = zlib.crc32(words.translate(MIRROR)) ^ 0xFFFFFFFF
        return int.from_bytes(mirrored.to_bytes(4, "little").translate(MIRROR), "big")


class Message:
    """One message: numbers by path.

    message["motor_cmd.q"] is a copy of the numbers; assignment writes them into `data`, the bytes on the wire.

    sent_ns: time of sending by the sender's clock [ns]; 0: not received
    """

    def __init__(self, layout: Layout, data: bytes | None = None, sent_ns: int = 0) -> None:
        """data: bytes on the wire; None: zeros. Raises ValueError for another length or header."""
        self.sent_ns = sent_ns
        size = len(HEADER) + layout.size
        self.layout, self.data = layout, bytearray(HEADER + bytes(layout.size) if data is None else data)
        if len(self.data) < size or self.data[:2] != HEADER[:2]:
            raise ValueError(f"{layout.structure.name}: expected {size} bytes of little-endian CDR, got {len(self.data)}")
        self._payload = np.frombuffer(self.data, np.uint8, layout.size, len(HEADER))
        self._views: dict[str, Array] = {}

    def _view(self, kind: str) -> Array:
        if kind not in self._views:
            itemsize = np.dtype(kind).itemsize
            self._views[kind] = np.frombuffer(self.data, f"<{kind}", self.layout.size // itemsize, len(HEADER))
        return self._views[kind]

    def __getitem__(self, path: str) -> Array:
        place = self.layout.places[path]
        found: Array = self._view(place.format)[place.where]
        return found

    def __setitem__(self, path: str, value: float | Array) -> None:
        place = self.layout.places[path]
        self._view(place.format)[place.where] = value

    @property
    def is_sound(self) -> bool:
        """Whether the checksum is right."""
        return int(self["crc"][0]) == self.layout.checksum(self._payload)

    def sealed(self) -> bytes:
        """Write the checksum, and return the bytes on the wire."""
        self["crc"] = self.layout.checksum(self._payload)
        return bytes(self.data)

    def copy(self) -> Self:
        """Return a copy with bytes of its own."""
        return type(self)(self.layout, bytes(self.data), self.sent_ns)


def _offsets(structure: Structure, *, of_c: bool) -> tuple[dict[str, tuple[str, list[int]]], int]:
    found: dict[str, tuple[str, list[int]]] = {}
    return found, _place(structure, 0, "", found, of_c)


def _place(structure: Structure, at: int, prefix: str, found: dict[str, tuple[str, list[int]]], of_c: bool) -> int:
    """Place the fields from offset `at` on; return the end."""
    step = _alignment(structure) if of_c else 1
    at = _next(at, step)
    for name, kind, count in structure.fields:
        for _ in range(count):
            if isinstance(kind, Structure):
                at = _place(kind, at, f"{prefix}{name}.", found, of_c)
                continue
            size = np.dtype(kind).itemsize
            at = _next(at, size)
            found.setdefault(prefix + name, (kind, []))[1].append(at)
            at += size
    return _next(at, step)


def _alignment(structure: Structure) -> int:
    kinds = [kind for _, kind, _ in structure.fields]
    return max(_alignment(kind) if isinstance(kind, Structure) else np.dtype(kind).itemsize for kind in kinds)


def _next(at: int, step: int) -> int:
    return -(-at // step) * step


class Family(NamedTuple):
    """A family of messages. state, command: layouts; motors: their number in a message"""

    name: str
    state: Layout
    command: Layout
    motors: int


def _structure(family: str, name: str, declarations: str, **parts: Structure) -> Structure:
    """Return a structure. declarations: as in C, with formats of NumPy or names of `parts` as types"""
    fields: list[tuple[str, str | Structure, int]] = []
    for declaration in declarations.split(";"):
        kind, *names = declaration.split()
        for field, _, count in (each.rstrip("]").partition("[") for each in names):
            fields.append((field, parts.get(kind, kind), int(count or 1)))
    return Structure(f"unitree_{family}.msg.dds_.{name}_", tuple(fields))


IMU = "f4 quaternion[4] gyroscope[3] accelerometer[3] rpy[3]; "
MOTOR_COMMAND = "u1 mode; f4 q dq tau kp kd; "


def _go() -> Family:
    imu = _structure("go", "IMUState", f"{IMU} u1 temperature")
    numbers = "q dq ddq tau_est q_raw dq_raw ddq_raw"
    motor = _structure("go", "MotorState", f"u1 mode; f4 {numbers}; u1 temperature; u4 lost reserve[2]")
    cells = "u2 cycle; u1 bq_ntc[2] mcu_ntc[2]; u2 cell_vol[15]"
    battery = _structure("go", "BmsState", f"u1 version_high version_low status soc; i4 current; {cells}")
    head = "u1 head[2] level_flag frame_reserve; u4 sn[2] version[2]; u2 bandwidth; "
    sensors = "imu imu_state; motor motor_state[20]; battery bms_state; i2 foot_force[4] foot_force_est[4]; u4 tick; "
    others = "u1 wireless_remote[40] bit_flag; f4 adc_reel; u1 temperature_ntc1 temperature_ntc2; f4 power_v power_a; "
    end = "u2 fan_frequency[4]; u4 reserve crc"
    state = _structure("go", "LowState", head + sensors + others + end, imu=imu, motor=motor, battery=battery)
    motor, battery = (
        _structure("go", "MotorCmd", f"{MOTOR_COMMAND} u4 reserve[3]"),
        _structure("go", "BmsCmd", "u1 off reserve[3]"),
    )
    others = "u1 wireless_remote[40] led[12] fan[2] gpio; u4 reserve crc"
    command = f"{head} motor motor_cmd[20]; battery bms_cmd; {others}"
    return Family("go", Layout(state), Layout(_structure("go", "LowCmd", command, motor=motor, battery=battery)), 20)


def _hg() -> Family:
    imu = _structure("hg", "IMUState", f"{IMU} i2 temperature")
    numbers = "f4 q dq ddq tau_est; i2 temperature[2]; f4 vol; u4 sensor[2] motorstate reserve[4]"
    motor = _structure("hg", "MotorState", f"u1 mode; {numbers}")
    modes, end = "u1 mode_pr mode_machine; ", "u4 reserve[4] crc"
    fields = "u4 tick; imu imu_state; motor motor_state[35]; u1 wireless_remote[40]; "
    state = _structure("hg", "LowState", "u4 version[2]; " + modes + fields + end, imu=imu, motor=motor)
    motor = _structure("hg", "MotorCmd", f"{MOTOR_COMMAND} u4 reserve")
    command = _structure("hg", "LowCmd", f"{modes} motor motor_cmd[35]; {end}", motor=motor)
    return Family("hg", Layout(state), Layout(command), 35)


REMOTE = Layout(_structure("go", "WirelessController", "f4 lx ly rx ry; u2 keys"))
"""Sticks and buttons of a remote control, the same for both families."""

FAMILIES = {"go": _go(), "hg": _hg()}

STATE, COMMAND = "rt/lowstate", "rt/lowcmd"  # topics of states and of commands

KINDS = {"u1": "uint8", "i2": "int16", "u2": "uint16", "i4": "int32", "u4": "uint32", "f4": "float"}
"""Format of NumPy → type of OMG IDL."""


class RawLog:
    """Writes a log. Close it, so that it is complete."""

    def __init__(self, path: Path, family: Family) -> None:
        """Overwrites an existing file."""
        self._writer = Writer(str(path), compression=CompressionType.NONE)
        self._writer.start(library="idyn")
        layouts = {STATE: family.state, COMMAND: family.command}
        self._channels = {topic: self._channel(topic, layout) for topic, layout in layouts.items()}

    def _channel(self, topic: str, layout: Layout) -> int:
        name = layout.structure.name.replace(".", "::")
        made: dict[str, str] = {}  # definitions in OMG IDL
        _define(layout.structure, made)
        schema = self._writer.register_schema(name, "omgidl", "\n".join(made.values()).encode())
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
