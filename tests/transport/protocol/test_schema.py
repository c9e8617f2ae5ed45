"""The published JSON Schema and page agree with the messages that the server reads and writes."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgpack
import numpy as np
import pytest
from fast import every
from message_pages import page, schema
from rig import Rig
from standin import hello, solo, state

from transport.protocol.codec import decode, encode
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import Message
from transport.protocol.messages.requests import Heartbeat, StatsGet, Stop, TickGet
from transport.protocol.messages.state import Contact, Flags

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
ROBOT = solo()


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
    sent = [
        hello(ROBOT),
        rig.state(1),
        rig.state(2, contacts=contacts, flags=Flags(dry_run=True)),
        StatsGet(),
        TickGet(),
        Stop(),
    ]
    received = [
        welcome,
        rig.tick(1),
        rig.tick(1),
        rig.send(StatsGet()),
        rig.send(TickGet()),
        rig.send(Heartbeat(session=1, t_send=0)),
    ]
    received += [rig.raw(b"\xc1"), rig.send(Stop())]
    checker = jsonschema.Draft202012Validator(published())
    for message in sent + received:
        checker.validate(on_the_wire(message))


@every(
    ("field", "value"),
    [
        ("q", None),  # missing
        ("surprise", 1),
        ("seq", -1),
        ("t_robot", 0.5),
        ("contacts", [{"frame": "FL_FOOT", "active": 1}]),
        ("contacts", [{"frame": "x" * 257}]),
        ("contacts", [{"p": [0.0, 0.0, 0.0]}]),
        ("flags", {"stop": True}),
    ],
)
def test_schema_and_server_refuse_the_same_states(field, value):
    fields = on_the_wire(state(ROBOT, 1, 1)) | {field: value}
    fields = {key: each for key, each in fields.items() if each is not None}
    with pytest.raises(ProtocolError):
        decode(msgpack.packb(fields))
    assert not jsonschema.Draft202012Validator(published()).is_valid(fields)
