"""Bytes of messages as dicts, and malformed bytes."""

import dataclasses
from contextlib import suppress

import numpy as np
import pytest
from fast import every
from hypothesis import given, settings
from hypothesis import strategies as st
from ros import ARRAY, BASE, JAZZY, NAME
from rosbags.typesys import Stores, get_typestore

from idyn.errors import InputError
from transport.bridges.ros2 import bridge
from transport.bridges.ros2.bridge import decode, encode

HUMBLE = get_typestore(Stores.ROS2_HUMBLE)
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


KNOWN = {
    "std_msgs/String": ("df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18", None, ""),
    "geometry_msgs/Twist": (
        "9c45bf16fe0983d80e3cfe750d6835843d265a9a6c46bd2e609fcddde6fb8d2a",
        {"linear": {"x": 0.5, "y": -0.25}, "angular": {"z": 1.5}},
        "000000000000e03f 000000000000d0bf 0000000000000000 0000000000000000 0000000000000000 000000000000f83f",
    ),
    "sensor_msgs/JointState": (
        "a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
        {
            "header": {"stamp": {"sec": 3, "nanosec": 7}, "frame_id": "odom"},
            "name": ["a", "hip"],
            "position": [0.5, -1.0],
            "velocity": [2.0],
        },
        "03000000 07000000 05000000 6f646f6d00 000000 02000000 02000000 6100 0000 04000000 68697000"
        " 02000000 00000000 000000000000e03f 000000000000f0bf 01000000 00000000 0000000000000040 00000000",
    ),
}
"""Kind → (type hash, message, its bytes behind the header), which two implementations found independently."""


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


@every(
    ("kind", "payload"),
    [
        ("std_msgs/String", b"\xff\xff\xff\xffabc\0"),
        ("std_msgs/String", b"\x00\x00\x00\x00"),
        ("std_msgs/String", b"\x03\x00\x00\x00abc"),
        ("std_msgs/String", b"\x02\x00\x00\x00\xff\x00"),
        ("tf2_msgs/TFMessage", b"\xff\xff\xff\x7f" + bytes(64)),
        ("sensor_msgs/JointState", bytes(8) + b"\x01\x00\x00\x00\0" + b"\0\0\0\xff\xff\xff\xff"),
        ("geometry_msgs/Twist", bytes(47)),
        ("geometry_msgs/Twist", bytes(52)),
    ],
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
