"""Bytes and checksums of Unitree's messages, against their own SDK."""

import dataclasses
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sdk import needs_unitree

from transport.bridges.unitree.messages import FAMILIES, REMOTE, Message

KINDS = [(family, kind) for family in ("go", "hg") for kind in ("LowState", "LowCmd")]


def layout_of(family, kind):
    return getattr(FAMILIES[family], "state" if kind == "LowState" else "command")


@pytest.mark.parametrize(
    ("family", "kind", "size", "places"),
    [
        ("go", "LowState", 1180, {"motor_state.mode": 81, "motor_state.q": 84, "imu_state.quaternion": 28, "tick": 1100}),
        ("go", "LowCmd", 812, {"motor_cmd.mode": 26, "motor_cmd.q": 28, "level_flag": 6, "crc": 808}),
        ("hg", "LowState", 2092, {"motor_state.mode": 74, "motor_state.q": 76, "mode_machine": 13, "wireless_remote": 2032}),
        ("hg", "LowCmd", 1004, {"motor_cmd.mode": 6, "motor_cmd.q": 8, "mode_machine": 5, "crc": 1000}),
    ],
)
def test_fields_lie_where_a_recorded_message_has_them(family, kind, size, places):
    layout = layout_of(family, kind)
    assert layout.size + 4 == size
    for path, at in places.items():
        message = Message(layout)
        message[path] = 1
        changed = np.flatnonzero(np.frombuffer(bytes(message.data), np.uint8)[4:])
        width = np.dtype(layout.places[path].format).itemsize
        assert (changed[0] + 4) // width == at // width, path


@needs_unitree
@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_bytes_and_checksums_are_those_of_the_sdk(family, kind):
    crc, layout, rng = (
        importlib.import_module("unitree_sdk2py.utils.crc").CRC(),
        layout_of(family, kind),
        np.random.default_rng(0),
    )
    make = getattr(importlib.import_module("unitree_sdk2py.idl.default"), f"unitree_{family}_msg_dds__{kind}_")
    for _ in range(20):
        theirs, ours = make(), Message(layout)
        for path, values in filled(theirs, rng).items():
            ours[path] = np.array(values)
        assert bytes(ours.data) == theirs.serialize()
        theirs.crc = crc.Crc(theirs)
        assert ours.sealed() == theirs.serialize()
        assert ours.is_sound
        received = Message(layout, theirs.serialize())
        assert received["crc"][0] == theirs.crc
        assert received.is_sound


@needs_unitree
def test_a_remote_controls_message_has_the_bytes_of_the_sdk():
    theirs = importlib.import_module("unitree_sdk2py.idl.default").unitree_go_msg_dds__WirelessController_()
    theirs.lx, theirs.ly, theirs.rx, theirs.ry, theirs.keys = 0.25, -0.5, 1.0, 0.125, 0x0220
    received = Message(REMOTE, theirs.serialize())
    assert [float(received[name][0]) for name in ("lx", "ly", "rx", "ry")] == [0.25, -0.5, 1.0, 0.125]
    assert received["keys"][0] == 0x0220
    ours = Message(REMOTE)
    for name in REMOTE.places:
        ours[name] = getattr(theirs, name)
    assert theirs.serialize()[2:] == bytes(ours.data)[2:]


def filled(message, rng, prefix=""):
    """Fill a message of the SDK with random numbers; return them by path. Their checksum takes no large unsigned bytes."""
    found = {}
    for field in dataclasses.fields(message):
        old, path = getattr(message, field.name), prefix + field.name
        several = isinstance(old, (list, tuple))
        parts = list(old) if several else [old]
        if dataclasses.is_dataclass(parts[0]):
            for part in parts:
                for name, values in filled(part, rng, f"{path}.").items():
                    found.setdefault(name, []).extend(values)
            continue
        values = [number(str(field.type), rng) for _ in parts]
        setattr(message, field.name, values if several else values[0])
        found[path] = values
    return found


def number(kind, rng):
    if "float" in kind:
        return float(np.float32(rng.normal()))
    bits = next(bits for bits in (32, 16, 8) if f"int{bits}" in kind)
    return int(rng.integers(0, 2**32 if bits == 32 and "uint" in kind else 2 ** (bits - 1)))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 2**31), st.integers(0, 7))
def test_a_changed_bit_breaks_the_checksum(which, place, bit):
    layout = layout_of(*which)
    message = Message(layout, Message(layout).sealed())
    assert message.is_sound
    path = sorted(set(layout.places) - {"crc"})[place % (len(layout.places) - 1)]
    start = int(layout.places[path].where[0]) * np.dtype(layout.places[path].format).itemsize
    message.data[4 + start] ^= 1 << bit
    assert not message.is_sound


def test_messages_of_another_length_or_byte_order_are_refused():
    layout = FAMILIES["go"].command
    whole = bytes(Message(layout).data)
    for wrong in (b"", whole[:-1], b"\x00\x00" + whole[2:]):
        with pytest.raises(ValueError, match="LowCmd_: expected 812 bytes"):
            Message(layout, wrong)
