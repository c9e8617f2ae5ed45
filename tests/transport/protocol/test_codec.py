"""Encoding and decoding of messages, refusals of invalid ones; the published JSON Schema and page agree with them."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgpack
import msgspec
import numpy as np
import pytest
from fast import every_row
from hypothesis import given
from hypothesis import strategies as st
from message_pages import page, schema
from rig import Rig
from standin import hello, in_full, solo, state

from transport.protocol.codec import MAX_BYTES, decode, encode, limits, message_type, vector, vectors
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import Message
from transport.protocol.messages.base import SCHEMA, Code
from transport.protocol.messages.requests import ConfigSet, Heartbeat, StatsGet, Stop, TickGet
from transport.protocol.messages.state import Contact, Flags, Imu, Reference, StateMessage

ROBOT = solo()
NAN, INF = float("nan"), float("inf")
REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def full_state() -> StateMessage:
    three, motors = np.arange(3.0).tobytes(), np.arange(12.0).tobytes()
    imu = Imu(quat=np.array([0.0, 0, 0, 1]).tobytes(), gyro=three, acc=[1, 2.5, -3])
    contact = Contact(frame="FL_FOOT", p=three, n=[0, 0, 1], mu=0.5)
    return state(ROBOT, 2**64 - 1, 7, imu=imu, contacts=[contact], ref=Reference(q=motors, v=motors, a=motors))


def test_messages_survive_encoding_and_decoding():
    for message in (hello(ROBOT), full_state(), Stop(), ConfigSet(settings={"a": {"b": 1}})):
        assert decode(encode(message)) == message


def test_default_values_are_omitted():
    minimal = StateMessage(q=b"", vel=b"", t_robot=0, contacts=[Contact(frame="FL_FOOT")])
    fields = {"t": "state", "v": SCHEMA, "q": b"", "vel": b"", "t_robot": 0, "contacts": [{"frame": "FL_FOOT"}]}
    assert msgpack.unpackb(encode(minimal)) == fields
    assert decode(encode(minimal)) == decode(in_full(minimal)) == minimal


def test_an_older_server_reads_messages_that_omit_new_fields():
    fields = [(name, object) for name in ("v", "session", "seq", "t_robot", "q", "vel")]
    older = msgspec.defstruct("Older", fields, tag_field="t", tag="state", forbid_unknown_fields=True)
    message = StateMessage(session=1, seq=1, t_robot=0, q=b"", vel=b"")
    assert msgspec.msgpack.decode(encode(message), type=older).seq == 1
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.msgpack.decode(in_full(message), type=older)


def test_lists_and_bytes_encode_the_same_vector():
    values = [0.1, -2.0, 1e300, 3]
    from_list = vector(values, 4, "q")
    from_bin = vector(np.array(values, dtype="<f8").tobytes(), 4, "q")
    assert from_list.tobytes() == from_bin.tobytes()
    assert from_list.flags.writeable
    assert from_bin.flags.writeable


@given(st.integers(0, len(encode(full_state())) - 1))
def test_a_truncated_message_is_refused(length):
    with pytest.raises(ProtocolError) as caught:
        decode(encode(full_state())[:length])
    assert caught.value.code is Code.BAD_SCHEMA


@every_row(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 60_000, b"\x81\xa1t" + b"\x91" * 60_000, b"", b"\xc1")
def test_hostile_lengths_and_depths_are_refused(data):
    with pytest.raises(ProtocolError):
        decode(data)
    with pytest.raises(ProtocolError, match=f"at most {MAX_BYTES} bytes") as caught:
        decode(data + b"\x00" * (MAX_BYTES + 1))  # before it is decoded
    assert caught.value.code is Code.BAD_SCHEMA


def changed(**fields: object) -> bytes:
    return msgpack.packb(msgpack.unpackb(encode(full_state())) | fields)


@every_row(
    (changed(v="2.0"), Code.VERSION_MISMATCH, "v"),
    (changed(v="2.0", q="another meaning"), Code.VERSION_MISMATCH, "v"),
    (changed(v=1), Code.BAD_SCHEMA, "v"),
    (changed(t="stat"), Code.BAD_SCHEMA, "t"),
    (changed(t=None), Code.BAD_SCHEMA, "t"),
    (changed(q="text"), Code.BAD_SCHEMA, "q"),
    (changed(q=[1, "x"]), Code.BAD_SCHEMA, "q[1]"),
    (changed(seq=-1), Code.BAD_SCHEMA, "seq"),
    (changed(tau_aplied=[]), Code.BAD_SCHEMA, "tau_aplied"),
    (changed(contacts=[{"n": [0, 0, 1]}]), Code.BAD_SCHEMA, "contacts[0].frame"),
    (changed(imu={"quat": [], "gyro": [], "acc": [], "x": 1}), Code.BAD_SCHEMA, "imu.x"),
)
def test_an_invalid_field_is_named(data, code, field):
    with pytest.raises(ProtocolError) as caught:
        decode(data)
    assert (caught.value.code, caught.value.field) == (code, field)
    assert field != "q" or code is Code.VERSION_MISMATCH or caught.value.seq == 7


def test_a_minor_version_of_the_same_major_is_read_and_an_unknown_type_refused_with_the_nearest_name():
    assert isinstance(decode(changed(v="1.7")), StateMessage)
    with pytest.raises(ProtocolError, match="nearest: state"):
        decode(changed(t="statte"))


def test_wrong_lengths_and_non_finite_numbers_are_named():
    for value in (np.zeros(18).tobytes(), [0.0] * 18):
        with pytest.raises(ProtocolError, match="q: expected 19 numbers, got 18") as caught:
            vector(value, 19, "q")
        assert caught.value.code is Code.WRONG_LENGTH
    with pytest.raises(ProtocolError, match="151 bytes"):
        vector(b"\x00" * 151, 19, "q")
    for bad in (NAN, INF, -INF):
        with pytest.raises(ProtocolError) as caught:
            vectors(([0.0, 1.0], 2, "q"), ([1.0, bad, 2.0], 3, "vel"))
        assert (caught.value.code, caught.value.field) == (Code.NON_FINITE, "vel[1]")


def test_large_numbers_are_finite_and_limits_may_be_infinite_but_not_nan():
    assert vector([1e200, -1e200], 2, "q").tolist() == [1e200, -1e200]
    assert limits([INF, 1.0], 2, "tau_max").tolist() == [INF, 1.0]
    with pytest.raises(ProtocolError, match=r"tau_max\[1\]"):
        limits([1.0, NAN], 2, "tau_max")


def test_the_type_is_read_without_decoding_the_rest():
    assert message_type(encode(full_state())) == "state"
    assert message_type(b"\xc1") is None
    assert message_type(msgspec.msgpack.encode({"t": 3})) is None
    assert message_type(msgspec.msgpack.encode({"t": "state", "x": bytes(MAX_BYTES)})) is None


def published() -> Any:
    return json.loads((REFERENCE / "messages.schema.json").read_text(encoding="utf-8"))


def on_the_wire(message: Message) -> Any:
    """The map that a program reads with an own MessagePack library, its vectors as lists."""

    def listed(value: Any) -> Any:
        if isinstance(value, bytes):
            return np.frombuffer(value, "<f8").tolist()
        if isinstance(value, dict):
            return {key: listed(each) for key, each in value.items()}
        return [listed(each) for each in value] if isinstance(value, list) else value

    return listed(msgpack.unpackb(encode(message)))


def test_the_files_are_those_that_the_command_writes():
    assert published() == json.loads(json.dumps(schema())), "run `python tests/message_pages.py docs/reference`"
    assert (REFERENCE / "messages.md").read_text(encoding="utf-8") == page(), "run the same command"


def test_messages_of_a_session_fit_the_schema():
    rig = Rig(ROBOT)
    welcome = rig.greet()
    contacts = [Contact(frame="FL_FOOT"), Contact(frame="FR_FOOT", active=False)]
    trying = rig.state(2, contacts=contacts, flags=Flags(dry_run=True))
    sent = [hello(ROBOT), rig.state(1), trying, StatsGet(), TickGet(), Stop()]
    received = [welcome, rig.tick(1), rig.tick(1), *map(rig.send, (StatsGet(), TickGet(), Heartbeat(session=1, t_send=0)))]
    received += [rig.raw(b"\xc1"), rig.send(Stop())]
    checker = jsonschema.Draft202012Validator(published())
    for message in sent + received:
        checker.validate(on_the_wire(message))


@every_row(
    ("q", None),  # missing
    ("surprise", 1),
    ("seq", -1),
    ("t_robot", 0.5),
    ("contacts", [{"frame": "FL_FOOT", "active": 1}]),
    ("contacts", [{"frame": "x" * 257}]),
    ("contacts", [{"p": [0.0, 0.0, 0.0]}]),
    ("flags", {"stop": True}),
)
def test_schema_and_server_refuse_the_same_states(field, value):
    fields = on_the_wire(state(ROBOT, 1, 1)) | {field: value}
    fields = {key: each for key, each in fields.items() if each is not None}
    with pytest.raises(ProtocolError):
        decode(msgpack.packb(fields))
    assert not jsonschema.Draft202012Validator(published()).is_valid(fields)
