"""Logs whose compression or references are hostile: a clear error, in little memory."""

import hashlib
import json
import struct
import tracemalloc
from pathlib import Path

import lz4.frame
import pytest
from fast import every
from hostile import GB, chunk, zstd_of_zeros
from mcap.writer import CompressionType, Writer
from standin import SpringDamper
from test_log import SETTINGS, head, run

from idyn.model.robot import Robot
from transport.log.export import export
from transport.log.reader import CHUNK_MAX_BYTES, LogReader
from transport.log.recorder import CLOCKS, CONTINUES, NEXT, PROFILE, LogError, LogPart
from transport.log.replay import replay

assert SETTINGS.controller == "standin"
MOST = 4 * CHUNK_MAX_BYTES  # memory for reading a log [bytes]


def with_chunk(path: Path, robot: Robot, record: bytes) -> Path:
    """A log whose head is followed by a record."""
    part = LogPart(path, *head(SpringDamper(robot)))
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


LZ4 = lz4.frame.compress(bytes(4 * CHUNK_MAX_BYTES))


@every(
    ("record", "message"),
    [
        (lambda: chunk(zstd_of_zeros(GB // 2, GB // 2), 1000, "zstd"), "got a longer one"),
        (lambda: chunk(zstd_of_zeros(GB // 2, -1), 1000, "zstd"), "got a longer one"),
        (lambda: chunk(LZ4, 1000, "lz4"), "got a longer one"),
        (lambda: chunk(b"", 1000, "brotli"), "compressed by zstd, lz4 or not at all, got 'brotli'"),
    ],
)
def test_a_chunk_that_is_too_long_is_refused(tmp_path, robot, record, message):
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


@every(
    "fields",
    [
        *({NEXT: name} for name in ("", ".", "..", "/dev/zero", "../other.mcap", "a\0b.mcap", "log.mcap", "folder/log.mcap")),
        {"nxt": "a.mcap"},
    ],
)
def test_a_continuation_outside_of_the_folder_is_refused(tmp_path, robot, fields):
    """Also in the log itself, `log.mcap`, and without a name."""
    path = with_metadata(tmp_path / "log.mcap", robot, CONTINUES, fields)
    with LogReader(path) as log, pytest.raises(LogError, match="continues: expected another file in the same folder, got"):
        list(log.exchanges())


@every("clocks", [{}, {"wall_ns": "soon", "monotonic_ns": "1"}, {"wall_ns": "1" * 30, "monotonic_ns": "1"}])
def test_malformed_clocks_are_refused(tmp_path, robot, clocks):
    path = with_metadata(tmp_path / "log.mcap", robot, CLOCKS, clocks)
    with pytest.raises(LogError, match="clocks: expected"):
        LogReader(path)


def test_a_message_of_an_undefined_channel_is_refused(tmp_path, robot):
    message = struct.pack("<HIQQ", 77, 0, 0, 0) + b"data"
    record = struct.pack("<BQ", 5, len(message)) + message
    path = with_chunk(tmp_path / "log.mcap", robot, record)
    with LogReader(path) as log, pytest.raises(LogError, match="the channel 77, which the log does not define"):
        list(log.exchanges())
