"""Bytes, names and type hashes of messages, held against `rosbags`, which shares no code with them."""

import dataclasses
from contextlib import suppress

import numpy as np
import pytest
from fast import every
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore

from idyn.errors import InputError
from transport.bridges.ros2.cdr import decode, encode
from transport.bridges.ros2.messages import FIELDS, NUMBERS, STRING, dds_name, type_hash

STORES = HUMBLE, JAZZY = [get_typestore(store) for store in (Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY)]
PARTS = {field.kind for fields in FIELDS.values() for field in fields} - {"geometry_msgs/Twist"}
each_kind = every("kind", sorted(FIELDS))
each_whole = every("kind", sorted(FIELDS.keys() - PARTS))

VALUES = {
    "float64": st.floats(allow_nan=False),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "byte": st.integers(0, 127),  # rosbags knows no more
    STRING: st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9),
}


def full_name(kind):
    return kind.replace("/", "/msg/")


def contents(kind):
    """Random messages of a kind."""

    def values(field):
        one = VALUES[field.kind] if field.kind in VALUES else contents(field.kind)
        if field.size == 0:
            return one
        return st.lists(one, min_size=max(field.size, 0), max_size=field.size if field.size > 0 else 4)

    return st.fixed_dictionaries({field.name: values(field) for field in FIELDS[kind]})


def theirs(store, kind, message):
    """The same message as an object of rosbags."""

    def value(field, given):
        if field.kind in NUMBERS and field.size:
            return np.array(given, NUMBERS[field.kind].format)
        if field.kind in FIELDS:
            return [theirs(store, field.kind, one) for one in given] if field.size else theirs(store, field.kind, given)
        return given

    return store.types[full_name(kind)](**{field.name: value(field, message[field.name]) for field in FIELDS[kind]})


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
def test_bytes_are_those_of_ros(kind, data):
    message = data.draw(contents(kind))
    for store in STORES:
        wire = bytes(store.serialize_cdr(theirs(store, kind, message), full_name(kind)))
        assert encode(kind, message) == wire
        assert decode(kind, wire) == message
        assert plain(store.deserialize_cdr(encode(kind, message), full_name(kind))) == message


@each_kind
def test_type_hashes_are_those_of_ros(kind):
    assert type_hash(kind) == JAZZY.hash_rihs01(full_name(kind))


@each_kind
def test_names_are_those_of_ros(kind):
    """`rosbags` has names of ROS, whose parts are those in DDS; its own field names are those of the table."""
    package, _, name = full_name(kind).split("/")
    assert dds_name(kind) == f"{package}::msg::dds_::{name}_"
    assert [name for name, _ in JAZZY.fielddefs[full_name(kind)][1]] == [field.name for field in FIELDS[kind]]


@each_kind
def test_absent_fields_are_zero_or_empty(kind):
    message = decode(kind, encode(kind, {}))
    assert encode(kind, message) == encode(kind, {})


@each_whole
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
def test_spoilt_bytes_give_a_message_or_an_error(kind, data):
    wire = bytearray(encode(kind, data.draw(contents(kind))))
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(wire) - 1))
        wire[where] = data.draw(st.sampled_from([0, 1, 0x7F, 0xFF]))
    cut = data.draw(st.integers(0, len(wire)))
    for spoilt in (bytes(wire), bytes(wire[:cut]), bytes(wire) + bytes(4)):
        with suppress(InputError):
            decode(kind, spoilt)


@every(
    ("kind", "payload", "field"),
    [
        ("std_msgs/String", b"\xff\xff\xff\xffabc\0", "std_msgs/String.data"),
        ("std_msgs/String", b"\x00\x00\x00\x00", "std_msgs/String.data"),
        ("std_msgs/String", b"\x03\x00\x00\x00abc", "std_msgs/String.data"),
        ("std_msgs/String", b"\x02\x00\x00\x00\xff\x00", "std_msgs/String.data"),
        ("tf2_msgs/TFMessage", b"\xff\xff\xff\x7f" + bytes(64), "tf2_msgs/TFMessage.transforms"),
        ("sensor_msgs/JointState", bytes(8) + b"\x01\x00\x00\x00\0" + b"\0\0\0\xff\xff\xff\xff", "sensor_msgs/JointState.name"),
        ("geometry_msgs/Twist", bytes(47), "geometry_msgs/Twist.angular"),
        ("geometry_msgs/Twist", bytes(52), "geometry_msgs/Twist"),
    ],
)
def test_lengths_that_lie_are_named(kind, payload, field):
    with pytest.raises(InputError) as caught:
        decode(kind, b"\x00\x01\x00\x00" + payload)
    assert caught.value.field == field


@every("data", [b"", b"\x00\x01", b"\x00\x00\x00\x00" + bytes(48), b"\x00\x07\x00\x00" + bytes(48)])
def test_another_encoding_is_refused(data):
    with pytest.raises(InputError, match="expected little-endian CDR"):
        decode("geometry_msgs/Twist", data)


def test_wrong_contents_are_refused_when_written():
    with pytest.raises(InputError, match="no field 'speed'"):
        encode("geometry_msgs/Twist", {"speed": 1.0})
    with pytest.raises(InputError, match="expected 36 elements, got 3"):
        encode("geometry_msgs/PoseWithCovariance", {"covariance": [0.0] * 3})
