"""Logs for other tools: read by MCAP's own reader, checked by a JSON schema's own validator."""

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import msgpack
import numpy as np
import pytest
from mcap.reader import make_reader
from test_log import TICKS, run

from idyn.model.robot import Robot
from transport.log.export import TYPES, Exported, export, plain, schema_of
from transport.log.part import LogError
from transport.log.reader import LogReader
from transport.protocol.codec import decode
from transport.protocol.messages.torque import TorqueMessage


def test_every_message_is_exported_and_matches_its_schema(tmp_path: Path, robot: Robot) -> None:
    log, out = tmp_path / "run.mcap", tmp_path / "run.json.mcap"
    pairs = run(log, robot)
    sent = [data for pair in pairs for data in pair]
    assert export(log, out) == Exported(messages=len(sent), complete=True)
    with out.open("rb") as file:
        found = list(make_reader(file).iter_messages(log_time_order=False))
    assert len(found) == len(sent)
    assert {channel.topic for _, channel, _ in found} == {"/unreadable", "/error", "/hello", "/welcome", "/state", "/torque"}
    validators: dict[int, Any] = {}
    for data, (schema, channel, message) in zip(sent, found, strict=True):
        assert schema is not None
        assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
        fields = json.loads(message.data)
        if schema.id not in validators:
            validators[schema.id] = jsonschema.Draft202012Validator(json.loads(schema.data))
        validators[schema.id].validate(without_nulls(fields))
        if channel.topic == "/torque":
            reply = decode(data)
            assert isinstance(reply, TorqueMessage)
            np.testing.assert_array_equal(fields["tau"], np.frombuffer(reply.tau))  # type: ignore[arg-type]
            assert fields["seq"] == reply.seq
    with LogReader(log) as reader:
        assert abs(found[-1][2].log_time - reader.wall_offset_ns - TICKS * 1_000_000) < 10_000_000
    assert abs(found[0][2].log_time - (time.time_ns() - time.monotonic_ns())) < 3600e9


def test_joints_have_names_and_sessions_small_numbers(tmp_path: Path, robot: Robot) -> None:
    """In the log a session is a number of 64 bits, which JavaScript rounds."""
    log, out = tmp_path / "run.mcap", tmp_path / "run.json.mcap"
    run(log, robot)
    export(log, out)
    with out.open("rb") as file:
        found = [
            (channel.topic, json.loads(message.data))
            for _, channel, message in make_reader(file).iter_messages(log_time_order=False)
        ]
    hello = next(fields for topic, fields in found if topic == "/hello")
    states, torques = ([fields for topic, fields in found if topic == f"/{kind}"] for kind in ("state", "torque"))
    assert len(torques) > TICKS / 2
    assert all(fields["actuated"] == hello["actuated"] and len(fields["tau"]) == len(fields["actuated"]) for fields in torques)
    assert all(fields["joint_names"] == hello["joint_names"] for fields in states if "joint_names" in fields)
    assert sum("joint_names" in fields for fields in states) >= len(torques)
    assert {fields["session"] for fields in torques} == {1}
    assert all(0 <= fields["session"] < 2**53 for _, fields in found if isinstance(fields.get("session"), int))


def without_nulls(fields: Any) -> Any:
    """The same without fields that are null."""
    if isinstance(fields, dict):
        return {key: without_nulls(value) for key, value in fields.items() if value is not None}
    return [without_nulls(value) for value in fields if value is not None] if isinstance(fields, list) else fields


@pytest.mark.parametrize("kind", TYPES)
def test_schemas_are_self_contained(kind: str) -> None:
    schema = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "$ref" not in json.dumps(schema)
    assert schema["type"] == "object"


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91" * 5000, b"\xa5state", b"\x80", b"\x81\xa1t\xa3tea", b"\x81\xa1t\x90"])
def test_undecodable_messages_are_exported_by_length(data: bytes) -> None:
    assert plain(data) == ("unreadable", {"length": len(data)})


def test_nothing_is_overwritten(tmp_path: Path, robot: Robot) -> None:
    log = tmp_path / "run.mcap"
    run(log, robot)
    with pytest.raises(LogError, match="file exists"):
        export(log, log)
    with pytest.raises(LogError, match="cannot be read"):
        export(tmp_path / "none.mcap", tmp_path / "out.mcap")
    assert not (tmp_path / "out.mcap").exists()


def test_lost_parts_of_a_log_are_reported(tmp_path: Path, robot: Robot) -> None:
    """A flipped bit in the middle: the part before it is exported, and the loss is reported."""
    log = tmp_path / "run.mcap"
    run(log, robot)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    flipped = export(log, tmp_path / "flipped.mcap")
    assert not flipped.complete
    assert flipped.messages > 10


def test_a_missing_part_ends_the_export(tmp_path: Path, robot: Robot) -> None:
    log = tmp_path / "run.mcap"
    pairs = run(log, robot)
    with log.open("rb") as file:
        chunks = make_reader(file).get_summary().chunk_indexes  # type: ignore[union-attr]
    data = log.read_bytes()
    second = chunks[1]
    log.write_bytes(data[: second.chunk_start_offset] + data[second.chunk_start_offset + second.chunk_length :])
    with LogReader(log) as reader:
        rest = [(entry.request, entry.reply) for entry in reader.exchanges()]
        assert not reader.complete
    assert 0 < len(rest) < len(pairs)
    assert rest[:-1] == pairs[: len(rest) - 1]


def test_special_values_are_exported_as_text() -> None:
    state = msgpack.packb({"t": "state", "v": "1.0", "x": msgpack.ExtType(5, b"1"), "y": [msgpack.Timestamp(0)]})
    kind, fields = plain(state)
    assert kind == "state"
    assert isinstance(fields["x"], str)
    json.dumps(fields)
