"""Faults of other clients and of the server, its disk and its log."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgpack
import msgspec
import numpy as np
import pytest
import zmq
from disk import fill_disk
from fast import full
from faults import loaded, told
from log_tools import opened_by_every_tool
from trial import AFTER, LONG, Trial, serving, standing
from wire import dealer, expect

from controllers.command import LimitedBy
from idyn.errors import ConfigError
from transport.log.reader import LogReader
from transport.protocol.codec import encode
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import ClientLimits, Config, ConfigSet, Stats, StatsGet, Stop
from transport.robot.client import ConnectionFailed, RobotClient, hello_for

T = TypeVar("T")


def beside(trial: Trial, talk: Callable[[zmq.Socket[bytes]], T], **options: object) -> T:
    """The reply to a stranger's message while the robot goes on, which is checked."""
    found: list[T] = []

    def work() -> None:
        with dealer(trial.server.address, **options) as socket:
            found.append(talk(socket))

    trial.stands()
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        trial.stands(10)
    trial.stands()
    return found[0]


NOT_READABLE = (b"\xc1", msgpack.packb({"t": "stats_get", "v": "2.0"}), msgpack.packb({"t": "stats_get", "v": "1.0", "no": 1}))
"""No MessagePack, another schema, an unknown field."""


@told(
    "another client sends one byte, another schema or an unknown field, and the robot a state that is cut by a byte",
    "`bad_schema`, `version_mismatch`; every tool reads the log",
    "goes on",
)
def test_every_tool_reads_a_log_with_refused_messages(tmp_path, capsys, caplog):
    log = tmp_path / "log.mcap"
    with serving(tmp_path, log=log) as server:
        trial = Trial(server, kind="sim")

        def talk(socket: zmq.Socket[bytes]) -> list[str]:
            codes = []
            for data in NOT_READABLE:
                socket.send(data)
                codes.append(msgpack.unpackb(socket.recv())["code"])
            return codes

        assert beside(trial, talk) == ["bad_schema", "version_mismatch", "bad_schema"]
        trial.client.wire.change = lambda data: data[:-1]
        trial.run(1)
        trial.client.heal()
        for force in (10.0, 10.0, float("nan")):  # also of a state that is refused for what it senses
            feet = loaded(force, active=True)
            trial.client.change_state = lambda message, feet=feet: msgspec.structs.replace(message, contacts=feet)
            trial.run(1)
        trial.client.heal()
        trial.stands()
        trial.close()
    server.recorder.close()
    ticks = sum(reply.solver is not None for reply in trial.client.received)
    for said in opened_by_every_tool(log, caplog):
        (line,) = [each for each in said if "the server refused 4 messages besides states" in each]
        assert re.search(r"the first at \d+\.\d{3} s from client \w+, of length 1: bad_schema: messagePack data is ", line)
    assert f"{ticks} ticks, {ticks} with the same torques bit for bit" in capsys.readouterr().out


@full
@told("another client sends 3000 malformed messages", "`bad_schema`, or drops what its queue does not hold", "goes on")
def test_a_flood_of_malformed_messages(trial):
    def talk(socket: zmq.Socket[bytes]) -> None:
        for i in range(3000):
            socket.send(b"\xc1" * (i % 500))
        replies = 0
        with dealer(trial.server.address) as other:
            while replies + dropped(other) < 3000:  # the flood's connection stays open until all of it was read
                while socket.poll(100):
                    assert b"bad_schema" in socket.recv()
                    replies += 1
        assert replies > 0

    def dropped(socket: zmq.Socket[bytes]) -> int:
        socket.send(encode(StatsGet()))
        return msgspec.msgpack.decode(socket.recv(), type=Stats).dropped

    beside(trial, talk)
    stats = expect(Stats, trial.client.ask(StatsGet()))
    assert stats.refused[Code.BAD_SCHEMA] + stats.dropped == 3000


@told("another client sets a ZMQ identity of its own", "`not_controlling`", "goes on")
@told("another client sends a message of 5000 parts", "`bad_schema`", "goes on")
@told("another client sends 300 kB in one message", "cuts the connection", "goes on")
def test_strange_messages(trial):
    def oversize(socket: zmq.Socket[bytes]) -> int:
        news = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        socket.send(bytes(300_000))
        ended = news.poll(20_000)
        socket.disable_monitor()
        news.close()
        return ended

    def answered(*parts: bytes) -> Callable[[zmq.Socket[bytes]], bytes]:
        def talk(socket: zmq.Socket[bytes]) -> bytes:
            socket.send_multipart(parts)
            return socket.recv()

        return talk

    assert beside(trial, oversize)
    assert b"bad_schema" in beside(trial, answered(*[b"x"] * 5000))
    stop = encode(Stop(session=trial.client.session))
    assert b"not_controlling" in beside(trial, answered(stop), identity=b"robot")


@told("a second controller says hello", "`not_controlling`", "goes on")
def test_a_second_controller(trial):
    with RobotClient(trial.server.address, hello_for(trial.robot, 1e-3, kind="sim")) as second:
        with pytest.raises(ConnectionFailed, match="another client controls"):
            second.hello()
        trial.stands()


@told("settings are changed while a client controls", "`not_controlling`", "goes on")
def test_settings_during_control(trial):
    assert expect(ErrorMessage, trial.client.ask(ConfigSet(settings={"law": "no-slip"}))).code is Code.NOT_CONTROLLING
    trial.stands()


@told("invalid settings are sent, while no client controls", "`bad_schema`", "–")
def test_invalid_settings(trial):
    trial.client.close()
    with RobotClient(trial.server.address, hello_for(trial.robot, 1e-3, kind="sim"), connect_ms=20_000) as client:
        bad = ConfigSet(settings={"contact": {"terrain": {"kind": "heightmap", "side": float("inf")}}})
        refused = expect(ErrorMessage, client.ask(bad))
        assert refused.code is Code.BAD_SCHEMA
        refused = expect(ErrorMessage, client.ask(ConfigSet(settings={"contact": {7: False}})))
        assert (refused.code, refused.field) == (Code.BAD_SCHEMA, "settings.contact")
        assert isinstance(client.ask(ConfigSet(settings={"safety": {"max_tilt": 0.9}})), Config)
        client.hello()
    trial.server.end()


@told("a second server binds the same address", "refuses to start", "goes on")
def test_a_second_server(trial):
    with pytest.raises(ConfigError, match="another server"):
        trial.server.begin()
    trial.stands()


@told("the server ends", "no answer", "holds its posture until `reset`")
def test_the_server_ends(trial):
    trial.server.end()
    trial.stops_without_answers()


@told("the controller raises an exception", "`internal`, then `latched_fault`", "damps until `reset`")
def test_the_controller_raises_an_exception(trial, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(trial.server.controller, "answer", lambda *_: 1 / 0)
        trial.run(1)
    after = trial.run(AFTER)
    assert after["failsafe:damping"] > AFTER - 5
    trial.recovers()


@full
@told("the log is removed", "`not logged: …` in every `message`", "goes on")
@told("the disk of the log fails", "`not logged: …` in every `message`", "goes on")
@pytest.mark.parametrize(("spoil", "says"), [(fill_disk, ""), (Path.unlink, "the file was removed")])
def test_the_log_fails(tmp_path, monkeypatch, spoil, says):
    monkeypatch.setattr("transport.log.recorder.CHECK_S", 0.0)
    log = tmp_path / "log.mcap"
    with standing(tmp_path, log=log) as trial:
        spoil(log)
        trial.stands(500)
        assert trial.client.received[-1].message.startswith(f"not logged: {says}")


@told("the folder of the log is replaced by a link", "a warning; the log goes on in the folder that it began in", "goes on")
def test_the_folder_of_the_log_is_replaced(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("transport.log.recorder.CHECK_S", 0.0)
    folder, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with serving(tmp_path, log=folder / "log.mcap", part_bytes=300_000) as server:
        trial = Trial(server)
        trial.stands(AFTER)
        folder.rename(tmp_path / "old")
        folder.symlink_to(elsewhere)
        trial.stands(2 * AFTER)
        assert "not logged" not in trial.client.received[-1].message
        trial.close()
    server.recorder.close()
    assert list(elsewhere.iterdir()) == []
    said = [record.getMessage() for record in caplog.records if "the folder was moved or replaced" in record.getMessage()]
    assert len(said) == 1
    with LogReader(tmp_path / "old" / "log.mcap") as log:
        answered = sum(entry.answered for entry in log.exchanges())
        assert log.complete
    assert answered == len(trial.client.received) >= 3 * AFTER
    assert len(list((tmp_path / "old").iterdir())) > 2


@told("`hello` limits the motors to 0.3 N·m", "`limited_by` 1", "sinks, with torques within that limit")
def test_weak_motors(tmp_path):
    with serving(tmp_path) as server:
        weak = np.full(server.controller.robot.na, 0.3)
        trial = Trial(server, limits=ClientLimits(tau_max=weak.tobytes()))
        trial.run(LONG)
        assert len(trial.client.received) >= LONG - 1
        for reply in trial.client.received:
            assert (np.abs(np.frombuffer(reply.tau)) <= 0.3).all()
        assert any(bit & LimitedBy.TORQUE for reply in trial.client.received for bit in reply.limited_by)
        trial.close()
