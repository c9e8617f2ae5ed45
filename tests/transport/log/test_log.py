"""Recorder, reader and replay; logs for other tools, read by MCAP's own reader; older and hostile logs."""

import hashlib
import json
import math
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import jsonschema
import lz4.frame
import msgpack
import msgspec
import numpy as np
import pytest
from disk import fill_disk
from fast import every, every_row, fast, first_is_fast
from hostile import GB, chunk, zstd_of_zeros
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from rig import Rig
from standin import MS, SpringDamper, from_snapshot, hello, resting, standing, state
from wire import expect, until

from controllers.config.loading import load, parse
from idyn import ConfigError, Robot, hello_for
from transport.log import recorder
from transport.log.export import TYPES, Exported, export, plain, schema_of
from transport.log.provenance import SETTINGS_VERSION, attachments, metadata, recorded_settings
from transport.log.reader import CHUNK_MAX_BYTES, LogReader
from transport.log.recorder import CHUNK_BYTES, CONTINUES, NEXT, PROFILE, WAITING_MAX, Entry, LogError, Recorder
from transport.log.replay import replay
from transport.protocol.codec import decode, encode
from transport.protocol.messages.requests import Welcome
from transport.protocol.messages.state import TorqueMessage
from transport.server.service import Service
from transport.server.settings import PlausibilitySettings, ServerSettings
from transport.startup.loopback import Loopback

SETTINGS = ServerSettings(controller="standin")
TICKS = 300
SHIPPED = msgspec.to_builtins(ServerSettings(controller="standin"))
MOST = 4 * CHUNK_MAX_BYTES  # memory for reading a log [bytes]
LZ4 = lz4.frame.compress(bytes(4 * CHUNK_MAX_BYTES))
OUTSIDE = ("", ".", "..", "/dev/zero", "../other.mcap", "a\0b.mcap", "log.mcap", "folder/log.mcap")


def head(controller: SpringDamper) -> tuple[list[recorder.Attachment], recorder.Metadata]:
    return attachments(controller.snapshot(), SETTINGS), metadata(controller.robot, seed=7)


def open_recorder(path: Path, robot: Robot, **limits: float) -> Recorder:
    return Recorder(path, *head(SpringDamper(robot)), **limits)


def run(path: Path, robot: Robot, recorder: Recorder | None = None) -> list[tuple[bytes, bytes]]:
    """A session with bad and repeated messages in it; all (request, reply) pairs."""
    recorder = recorder or open_recorder(path, robot)
    service = Service(SpringDamper(robot), SETTINGS, recorder=recorder)
    rng = np.random.default_rng(1)
    pairs = []

    def send(data: bytes, t_ns: int, identity: bytes = b"a") -> bytes:
        reply = service.handle(identity, data, t_ns).reply
        service.settle()
        pairs.append((data, reply))
        return reply

    send(b"rubbish", 1, b"other")
    welcome = expect(Welcome, decode(send(encode(hello(robot)), 2)))
    for seq in range(1, TICKS + 1):
        q = standing(robot)
        q[7:] += 0.01 * rng.normal(size=robot.na)
        data = encode(state(robot, welcome.session, seq, q=q.tobytes()))
        send(data, seq * MS)
        if seq % 50 == 0:
            send(data, seq * MS + 1)  # a duplicate
            send(encode(state(robot, welcome.session, seq + 1, q=b"")), seq * MS + 2)
    recorder.close()
    return pairs


@pytest.fixture
def recorded(tmp_path, robot):
    path = tmp_path / "run.mcap"
    return path, run(path, robot)


def test_a_log_holds_every_byte_in_order(recorded, robot):
    path, pairs = recorded
    with LogReader(path) as log:
        entries = list(log.exchanges())
        assert [(entry.request, entry.reply) for entry in entries] == pairs
        assert log.complete
        assert log.messages == 2 * len(pairs)
        assert (entries[0].identity, entries[1].identity) == (b"other", b"a")
        assert (entries[0].t_recv_ns, entries[2].t_recv_ns) == (1, MS)
        assert entries[2].answered
        assert not entries[0].answered
        assert [entry.refused for entry in entries] == [True] + [False] * (len(entries) - 1)
        assert log.attachments["robot.urdf"].decode() == robot.description.urdf
        assert log.metadata["run"] == {"seed": "7"}
        assert log.metadata["model"]["urdf_sha256"] == robot.urdf_sha256
        assert "pin" in log.metadata["versions"]


def test_other_tools_can_read_the_log(tmp_path, robot):
    """Its times are wall-clock times; the service's own start with the machine, or with the run."""
    path = tmp_path / "run.mcap"
    recorder = open_recorder(path, robot)
    began = time.time_ns() - time.monotonic_ns()
    run(path, robot, recorder=recorder)
    with path.open("rb") as file:
        reader = make_reader(file)
        counts: dict[str, int] = {}
        for schema, channel, message in reader.iter_messages():
            assert schema is not None
            assert channel.message_encoding == "msgpack"
            assert message.log_time == message.publish_time
            assert abs(message.log_time - began - TICKS * MS / 2) < TICKS * MS
            counts[channel.topic] = counts.get(channel.topic, 0) + 1
            if channel.topic == "/torque":
                assert msgpack.unpackb(message.data)["t"] == "torque"
    rejected, repeated = TICKS // 50, TICKS // 50
    states, torques = TICKS + repeated + rejected, TICKS + repeated
    assert counts == {"/state": states, "/torque": torques, "/session": 2 + rejected, "/refused": 2}


def test_a_replay_gives_identical_replies(recorded):
    path, seen = recorded[0], []
    report = replay(path, build=from_snapshot, progress=seen.append)
    assert report.exact
    assert report.complete
    assert report.ticks == TICKS + TICKS // 50
    assert report.differences is None
    assert report.first_difference is None
    assert report.recorded_s == pytest.approx((TICKS - 1) * 1e-3)
    assert sum(seen) == report.ticks
    assert "bit for bit" in report.table()


def test_pauses_are_replayed_as_recorded(tmp_path, robot):
    """A first answer takes 207 ms, then the server pauses for 300 ms: neither was an outage, nor is it in the replay."""
    path = tmp_path / "paused.mcap"
    now = [0]
    recorder = open_recorder(path, robot)
    service = Service(SpringDamper(robot), SETTINGS, clock=lambda: now[0], recorder=recorder)
    welcome = expect(Welcome, decode(service.handle(b"a", encode(hello(robot)), 0).reply))

    def tick(seq: int, t_recv_ms: int, takes_ms: int = 0) -> None:
        now[0] = (t_recv_ms + takes_ms) * MS
        data = encode(state(robot, welcome.session, seq, t_send=None))
        assert isinstance(decode(service.handle(b"a", data, t_recv_ms * MS).reply), TorqueMessage)
        service.settle()

    tick(1, 1, takes_ms=207)
    tick(209, 209)
    waiting = [encode(state(robot, welcome.session, seq)) for seq in range(210, 509)]
    for data in waiting:
        service.overtaken(b"a", data, 509 * MS)
    tick(509, 509)
    recorder.close()
    with LogReader(path) as log:
        unanswered = [entry for entry in log.exchanges() if not entry.reply]
    assert [entry.request for entry in unanswered] == waiting
    assert {(entry.t_recv_ns, entry.about_state, entry.answered) for entry in unanswered} == {(509 * MS, True, False)}
    report = replay(path, build=from_snapshot)
    assert report.exact
    assert report.ticks == 3


def test_a_replay_with_another_controller_reports_differences(recorded, robot):
    def stiffer(snapshot: dict) -> SpringDamper:
        assert snapshot["settings"]["law"] == "stiff"
        return SpringDamper(robot, kp=6.0)

    report = replay(recorded[0], law="stiff", build=stiffer)
    assert not report.exact
    assert report.first_difference == 1
    assert 0 < report.differences.tau_mean < report.differences.tau_max
    assert report.differences.replayed_rate == pytest.approx(2 * report.differences.recorded_rate, rel=1e-2)
    assert report.differences.normal_force == 0.0
    assert "first difference at seq 1" in report.table()


@pytest.mark.parametrize("share", fast([0.3, 0.55, 0.9, 0.999], 0.55))
def test_a_truncated_log_is_recovered_up_to_the_cut(recorded, tmp_path, share):
    (path, pairs), cut = recorded, tmp_path / "cut.mcap"
    whole = path.read_bytes()
    cut.write_bytes(whole[: int(share * len(whole))])
    with LogReader(cut) as log:
        entries = list(log.exchanges())
        assert not log.complete
        assert [(entry.request, entry.reply) for entry in entries] == pairs[: len(entries)]
        recorded = sum(len(entry.request) + len(entry.reply) for entry in entries)
        total = sum(len(request) + len(reply) for request, reply in pairs)
        assert recorded >= share * total - 2 * CHUNK_BYTES
    report = replay(cut, build=from_snapshot)
    assert report.exact
    assert not report.complete
    assert "messages recovered" in report.table()


def test_an_invalid_log_file_is_refused_by_name(tmp_path, robot):
    path = tmp_path / "x.mcap"
    with pytest.raises(LogError, match=r"x\.mcap: cannot be read"):
        replay(path, build=from_snapshot)
    for content in (b"", b"not a log", b"\x89MCAP0\r\n", b"\x89MCAP0\r\n" + b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(LogError, match=r"x\.mcap: not a log"):
            replay(path, build=from_snapshot)
    path.unlink()
    Recorder(path, attachments(SpringDamper(robot).snapshot(), SETTINGS)[2:], {}).close()
    with pytest.raises(LogError, match=r"controller\.json"):
        replay(path, build=from_snapshot)


def test_a_failed_write_is_reported_in_the_next_reply(tmp_path, robot):
    recorder = open_recorder(tmp_path / "run.mcap", robot)
    rig = Rig(robot)
    rig.service = Service(SpringDamper(robot), SETTINGS, clock=lambda: rig.now, recorder=recorder)
    rig.greet()
    reply = expect(TorqueMessage, rig.tick(1))
    assert reply.message == ""
    fill_disk(tmp_path / "run.mcap")
    for seq in range(2, 200):  # more than a chunk
        rig.tick(seq)
    until(lambda: recorder.problem)
    reply = expect(TorqueMessage, rig.tick(200))
    assert reply.message.startswith("not logged: ")
    with pytest.raises(LogError, match="cannot be written"):
        recorder.close()


def test_a_slow_disk_ends_the_log(tmp_path, robot):
    """Exchanges are put faster than any writes them."""
    entry = Entry(b"a", 1, bytes(CHUNK_BYTES), b"y", about_state=True, answered=True)
    recorder = open_recorder(tmp_path / "run.mcap", robot)
    for _ in range(3 * WAITING_MAX):
        recorder.put(entry)
    assert recorder.problem == f"{WAITING_MAX} exchanges wait for the disk"
    with pytest.raises(LogError, match="wait for the disk"):
        recorder.close()


def test_a_long_log_continues_in_further_files(tmp_path, robot):
    path = tmp_path / "run.mcap"
    recorder = open_recorder(path, robot, part_bytes=150_000)
    pairs = run(path, robot, recorder=recorder)
    files = sorted(tmp_path.glob("run*.mcap"))
    assert len(files) > 3
    assert files[-1].name == "run.mcap"
    with LogReader(path) as log:
        assert [(entry.request, entry.reply) for entry in log.exchanges()] == pairs
        assert log.complete
    assert replay(path, build=from_snapshot).exact
    (tmp_path / "run.002.mcap").unlink()
    with LogReader(path) as log:
        rest = [(entry.request, entry.reply) for entry in log.exchanges()]
        assert rest == pairs[: len(rest)]
        assert not log.complete


def test_a_log_continues_in_another_file_after_a_time(tmp_path, robot):
    path = tmp_path / "run.mcap"
    recorder = open_recorder(path, robot, part_s=0.5)
    entry = Entry(b"a", 1, b"x", b"y", about_state=True, answered=True)
    recorder.put(entry)
    time.sleep(0.55)
    for _ in range(20):  # the first one ends the first file, the others are in one file
        recorder.put(entry)
    recorder.close()
    assert 1 < len(list(tmp_path.glob("run*.mcap"))) <= 3
    with LogReader(path) as log:
        assert [e.t_recv_ns for e in log.exchanges()] == [1] * 21
        assert log.complete


def test_a_changed_bit_in_the_header_is_detected(recorded):
    """In the controller, the settings, the robot or the metadata."""
    path, _ = recorded
    data = path.read_bytes()
    with LogReader(path) as log:
        inside = [data.index(part) for part in log.attachments.values()]
        lengths = [len(part) for part in log.attachments.values()]
    places = [start + k for start, n in zip(inside, lengths, strict=True) for k in range(0, n, max(1, n // 10))]
    places.append(data.index(b"urdf_sha256") + 20)
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(LogError, match=r"damaged|not a log"):
            LogReader(path)


def test_the_pause_between_two_sessions_is_not_recorded_time(tmp_path, robot):
    path, now = tmp_path / "run.mcap", iter(range(0, 10**12, 100_000))
    recorder = open_recorder(path, robot)
    service = Service(SpringDamper(robot), SETTINGS, recorder=recorder)
    client = Loopback(service, hello_for(robot, 1e-3, kind="sim"), clock=now.__next__)
    for begin in (0, 10_000):
        client.hello()
        for tick in range(11):
            assert client.exchange(resting(robot, begin + tick)) is not None
    recorder.close()
    report = replay(path, build=from_snapshot)
    assert report.exact
    assert report.recorded_s == pytest.approx(0.02)


def test_every_message_is_exported_and_matches_its_schema(recorded, tmp_path):
    (log, pairs), out = recorded, tmp_path / "run.json.mcap"
    sent = [data for pair in pairs for data in pair]
    assert export(log, out) == Exported(messages=len(sent), complete=True)
    with out.open("rb") as file:
        found = list(make_reader(file).iter_messages(log_time_order=False))
    assert len(found) == len(sent)
    assert {channel.topic for _, channel, _ in found} == {"/unreadable", "/error", "/hello", "/welcome", "/state", "/torque"}
    validators: dict[int, Any] = {}
    named, joints = 0, None
    for data, (schema, channel, message) in zip(sent, found, strict=True):
        assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
        fields = json.loads(message.data)
        if schema.id not in validators:
            validators[schema.id] = jsonschema.Draft202012Validator(json.loads(schema.data))
        validators[schema.id].validate(without_nulls(fields))
        joints = fields["joint_names"] if channel.topic == "/hello" else joints
        if channel.topic == "/torque":
            reply = expect(TorqueMessage, decode(data))
            np.testing.assert_array_equal(fields["tau"], np.frombuffer(reply.tau))
            assert fields["actuated"] == joints
            assert (fields["seq"], fields["session"]) == (reply.seq, 1)  # a number of 64 bits, which JavaScript would round
        if channel.topic == "/state" and "joint_names" in fields:
            assert fields["joint_names"] == joints
            named += 1
    assert named >= TICKS
    with LogReader(log) as reader:
        assert abs(found[-1][2].log_time - reader.wall_offset_ns - TICKS * 1_000_000) < 10_000_000
    assert abs(found[0][2].log_time - (time.time_ns() - time.monotonic_ns())) < 3600e9


def without_nulls(fields: Any) -> Any:
    if isinstance(fields, dict):
        return {key: without_nulls(value) for key, value in fields.items() if value is not None}
    return [without_nulls(value) for value in fields if value is not None] if isinstance(fields, list) else fields


@pytest.mark.parametrize("damage", ["a flipped bit", "a chunk is missing"])
def test_a_damaged_log_ends_at_the_damage(recorded, tmp_path, damage):
    """The part before it is exported, and the loss is reported."""
    path, pairs = recorded
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        second = make_reader(file).get_summary().chunk_indexes[1]
    if damage == "a flipped bit":
        data[second.chunk_start_offset + second.chunk_length // 2] ^= 1
    else:
        del data[second.chunk_start_offset : second.chunk_start_offset + second.chunk_length]
    path.write_bytes(data)
    with LogReader(path) as log:
        rest = [(entry.request, entry.reply) for entry in log.exchanges()]
        assert not log.complete
    assert 0 < len(rest) < len(pairs)
    assert rest[:-1] == pairs[: len(rest) - 1]
    found = export(path, tmp_path / "out.mcap")
    assert not found.complete
    assert found.messages > len(rest)


@every("kind", TYPES)
def test_schemas_are_self_contained(kind):
    schema = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "$ref" not in json.dumps(schema)
    assert schema["type"] == "object"


@every("data", [b"", b"\xc1", b"\x91" * 5000, b"\xa5state", b"\x80", b"\x81\xa1t\xa3tea", b"\x81\xa1t\x90"])
def test_undecodable_messages_are_exported_by_length_and_special_values_as_text(data):
    assert plain(data) == ("unreadable", {"length": len(data)})
    special = {"t": "state", "v": "1.0", "x": msgpack.ExtType(5, b"1"), "y": [msgpack.Timestamp(0)]}
    kind, fields = plain(msgpack.packb(special))
    assert (kind, type(fields["x"])) == ("state", str)
    json.dumps(fields)


def test_nothing_is_overwritten(recorded, robot, tmp_path):
    log, _ = recorded
    with pytest.raises(LogError, match="cannot be created"):
        open_recorder(log, robot)
    with pytest.raises(LogError, match="file exists"):
        export(log, log)
    with pytest.raises(LogError, match="cannot be read"):
        export(tmp_path / "none.mcap", tmp_path / "out.mcap")
    assert not (tmp_path / "out.mcap").exists()


def write(path: Path, robot: Robot, server: dict[str, Any], version: str) -> None:
    (snapshot, own, urdf), facts = attachments(SpringDamper(robot).snapshot(), SETTINGS), metadata(robot, seed=None)
    facts["settings"] = {"settings_version": version}
    Recorder(path, [snapshot, msgspec.structs.replace(own, data=json.dumps(server).encode()), urdf], facts).close()


def test_a_new_log_has_the_current_version(tmp_path, robot):
    path = tmp_path / "new.mcap"
    settings = ServerSettings(controller="standin", plausibility=PlausibilitySettings(joint_speed=math.inf))
    Recorder(path, attachments(SpringDamper(robot).snapshot(), settings), metadata(robot, seed=None)).close()
    with LogReader(path) as log:
        assert parse(recorded_settings(log)[1], ServerSettings, "server") == settings


@every_row(
    *first_is_fast([(SHIPPED, each, f"settings_version: expected .*got '{each}") for each in ("7", "5", "one", "")]),
    ({"controller": "standin", "foresight": 1.0}, SETTINGS_VERSION, r"server\.foresight: no such setting"),
)
def test_an_unknown_version_or_setting_of_a_log_is_refused(server, version, says, tmp_path, robot):
    path = tmp_path / "run.mcap"
    write(path, robot, server, version)
    with pytest.raises(LogError, match=rf"run\.mcap: {says}"):
        replay(path, build=from_snapshot)


def test_a_toml_file_is_not_migrated(tmp_path):
    path = tmp_path / "old.toml"
    path.write_text('controller = "quadruped"\n[anticipation]\nlead_us = 400.0\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"server\.old\.anticipation: no such setting .*anticipation_us"):
        load("server", str(path), ServerSettings)


def with_chunk(path: Path, robot: Robot, record: bytes) -> Path:
    part = recorder.LogPart(path, *head(SpringDamper(robot)))
    part.close()
    path.write_bytes(path.read_bytes() + record)
    return path


def refused(path: Path) -> str:
    """The message with which `export` and a replay refuse a log, without much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(LogError) as caught:
            export(path, path.with_suffix(".out"))
        with pytest.raises(LogError, match=r".") as again:
            replay(path, build=lambda _: pytest.fail("the chunk is read first"))
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
    assert str(caught.value) == str(again.value)
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


@every_row(
    (lambda: chunk(zstd_of_zeros(GB // 2, GB // 2), 1000, "zstd"), "got a longer one"),
    (lambda: chunk(zstd_of_zeros(GB // 2, -1), 1000, "zstd"), "got a longer one"),
    (lambda: chunk(LZ4, 1000, "lz4"), "got a longer one"),
    (lambda: chunk(b"", 1000, "brotli"), "compressed by zstd, lz4 or not at all, got 'brotli'"),
)
def test_a_chunk_that_is_too_long_is_refused(record, message, tmp_path, robot):
    assert message in refused(with_chunk(tmp_path / "bomb.mcap", robot, record()))


@every("compression", ["zstd", "lz4"])
def test_a_damaged_chunk_ends_the_log(tmp_path, robot, compression):
    path = with_chunk(tmp_path / "damaged.mcap", robot, chunk(b"no frame" * 9, 1000, compression))
    with LogReader(path) as log:
        assert list(log.exchanges()) == []
        assert not log.complete


@every("compression", [CompressionType.ZSTD, CompressionType.LZ4])
def test_a_log_that_another_tool_has_compressed_is_read(tmp_path, robot, compression):
    plain, packed = tmp_path / "plain.mcap", tmp_path / "packed.mcap"
    pairs = run(plain, robot)
    with LogReader(plain) as log, packed.open("wb") as file:
        writer = Writer(file, compression=compression)
        writer.start(profile=PROFILE)
        for name, data in log.attachments.items():
            writer.add_attachment(0, 0, name, "", data)
        for name, fields in log.metadata.items():
            writer.add_metadata(name, fields)
        schema, channels, sequence = writer.register_schema("idyn.message", "text", b""), {}, 0
        for entry in log.exchanges():
            for direction, data in (("request", entry.request), ("reply", entry.reply)):
                topic = "/state" if entry.about_state else "/session"
                topic = "/torque" if entry.answered and direction == "reply" else topic
                key = entry.identity.hex(), topic, direction
                if key not in channels:
                    fields = {"identity": key[0], "direction": direction}
                    channels[key] = writer.register_channel(topic, "msgpack", schema, fields)
                writer.add_message(channels[key], entry.t_recv_ns, data, entry.t_recv_ns, sequence)
                sequence += 1
        writer.finish()
    assert packed.stat().st_size < plain.stat().st_size
    with LogReader(packed) as log:
        entries = list(log.exchanges())
        assert [(entry.request, entry.reply) for entry in entries] == pairs
        assert log.complete
        assert [entry.request for entry in entries if entry.refused] == [b"rubbish"]  # in `/session`, as in older logs


def with_metadata(path: Path, robot: Robot, name: str, fields: dict[str, str]) -> Path:
    """A log without messages, whose metadata has a record replaced, with the right checksums."""
    attached, records = head(SpringDamper(robot))
    records = {**records, **({name: fields} if name != CONTINUES else {})}
    digests = {each.name: hashlib.sha256(each.data).hexdigest() for each in attached}
    digests["metadata"] = hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile=PROFILE)
        for each in attached:
            writer.add_attachment(0, 0, each.name, each.media_type, each.data)
        for key, record in {**records, "sha256": digests, **({name: fields} if name == CONTINUES else {})}.items():
            writer.add_metadata(key, dict(record))
        writer.finish()
    return path


@every("fields", [*({NEXT: name} for name in OUTSIDE), {"nxt": "a.mcap"}])
def test_a_continuation_outside_of_the_folder_is_refused(tmp_path, robot, fields):
    """Also in the log itself, `log.mcap`, and without a name."""
    path = with_metadata(tmp_path / "log.mcap", robot, CONTINUES, fields)
    with LogReader(path) as log, pytest.raises(LogError, match="continues: expected another file in the same folder, got"):
        list(log.exchanges())


@every("clocks", [{}, {"wall_ns": "soon", "monotonic_ns": "1"}, {"wall_ns": "1" * 30, "monotonic_ns": "1"}])
def test_malformed_clocks_are_refused(tmp_path, robot, clocks):
    path = with_metadata(tmp_path / "log.mcap", robot, recorder.CLOCKS, clocks)
    with pytest.raises(LogError, match="clocks: expected"):
        LogReader(path)


def test_a_message_of_an_undefined_channel_is_refused(tmp_path, robot):
    message = struct.pack("<HIQQ", 77, 0, 0, 0) + b"data"
    record = struct.pack("<BQ", 5, len(message)) + message
    path = with_chunk(tmp_path / "log.mcap", robot, record)
    with LogReader(path) as log, pytest.raises(LogError, match="the channel 77, which the log does not define"):
        list(log.exchanges())
