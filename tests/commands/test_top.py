"""`idyn top` shows what a running server does, and disturbs nothing."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack
import msgspec
import numpy as np
import pytest
import zmq
from fast import every, full
from wire import expect, routed, running, sending

from controllers.build import load_controller
from sim_harness.commands.clients import Sample, rows
from sim_harness.commands.main import main
from transport.protocol.messages.requests import Estop, Stats, StatsGet
from transport.protocol.messages.state import StateMessage
from transport.robot.planner import Observer
from transport.server.service import Service
from transport.server.settings import ServerSettings, WatchdogSettings
from transport.startup.warm_up import warm_up


@contextmanager
def robot_and_server(folder: Path) -> Iterator[str]:
    """A standing quadruped that is served at about 200 Hz; gives the server's endpoint."""
    settings = ServerSettings(
        controller="quadruped", max_state_age_ms=1e4, watchdog=WatchdogSettings(silence_ms=1e4), estops=("button",)
    )
    controller = load_controller("quadruped")
    warm_up(controller, settings)
    q, vel = controller.stance.tobytes(), np.zeros(controller.robot.nv).tobytes()
    with (
        routed(Service(controller, settings), f"ipc://{folder}/s", lead_us=0.0) as (router, _),
        sending(router.endpoint, controller.robot, lambda tick: StateMessage(q=q, vel=vel, t_robot=tick * 5_000_000)),
    ):
        yield router.endpoint


def stats(**changes: object) -> Stats:
    fields = {"received": 0, "torques": 0, "refused": {}, "deadline_misses": 0, "step_us_mean": 0.0, "step_us_max": 0.0}
    return Stats(**(fields | {"comm": None, "fault": None} | changes))  # type: ignore[arg-type]


def test_rates_and_means_are_of_the_time_between_two_samples() -> None:
    before = Sample(10.0, stats(states=1000, torques=1000, step_us_mean=100.0, others_us_mean=10.0))
    now = Sample(12.0, stats(states=2500, torques=2000, step_us_mean=150.0, others_us_mean=10.0, refused={"b": 2, "a": 1}))
    shown = rows(before, now)
    assert shown["states"] == "750 /s"
    assert shown["torques"] == "500 /s"
    assert shown["step"].startswith("200 µs")
    assert shown["others"] == "10 µs per torque"
    assert shown["refused"] == "a 1, b 2"
    assert rows(now, now._replace(time=13.0))["step"].startswith("–")


@full
def test_top_shows_a_served_robot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once, as lines for a file until it is interrupted, and as a screen of a terminal."""
    with robot_and_server(tmp_path) as endpoint:
        assert main(["top", endpoint, "--once"]) == 0
        shown = dict(re.findall(r"^  (\w[\w ]*\w)  +(.*)$", capsys.readouterr().out, re.MULTILINE))
        assert 20 < int(shown["states"].split()[0]) <= 220
        assert abs(int(shown["torques"].split()[0]) - int(shown["states"].split()[0])) <= 2
        assert shown["fault"] == "none"
        command = ["env", "--default-signal=INT", sys.executable, "-m", "sim_harness", "top", endpoint]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
            assert top.stdout is not None
            first, second = top.stdout.readline(), top.stdout.readline()
            assert first.startswith("states: ")
            assert second.startswith("states: ")
            top.send_signal(signal.SIGINT)
            assert top.wait(10) == 0
            assert top.stderr is not None
            assert top.stderr.read() == ""
        terminal, own = pty.openpty()
        with Observer(endpoint) as observer, subprocess.Popen(command, stdout=own, env=os.environ | {"TERM": "xterm"}) as top:
            observer.ask(Estop(name="button"))
            seen, until = b"", time.monotonic() + 30
            while b"fault              emergency" not in seen and time.monotonic() < until:
                assert select.select([terminal], [], [], 20.0)[0], seen
                seen += os.read(terminal, 4096)
            assert b"\x1b[H\x1b[J" in seen
            assert b"emergency" in seen
            top.send_signal(signal.SIGINT)
            assert top.wait(10) == 0
            reply = expect(Stats, observer.ask(StatsGet()))
            assert reply.dropped == 0
        os.close(terminal)
        os.close(own)


@contextmanager
def liar(folder: Path, answers: dict[str, dict[str, object]]) -> Iterator[str]:
    """A server that gives these answers to requests of these types; gives its address."""
    address = f"ipc://{folder}/liar"

    def work(stop: threading.Event) -> None:
        with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
            socket.linger = 0
            socket.bind(address)
            while not stop.is_set():
                if socket.poll(20):
                    identity, request = socket.recv_multipart()
                    socket.send_multipart([identity, msgpack.packb({"v": "1.0"} | answers[msgpack.unpackb(request)["t"]])])

    with running(work):
        yield address


ESCAPES = "\x1b]0;title\x07\x1b[2J\n\rroot#\x9b31m\u202e"
ESCAPED = r"\x1b]0;title\x07\x1b[2J\n\rroot#\x9b31m\u202e"
REFUSAL = {"t": "error", "code": "internal", "message": ESCAPES, "recoverable": True}
TOLD = {"t": "stats", **msgspec.to_builtins(stats(refused={ESCAPES: 3}, fault=ESCAPES))}


def test_a_server_cannot_write_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"t": "config", "settings": {"law": ESCAPES}}
    with liar(tmp_path, {"stats_get": TOLD, "config_get": config}) as address:
        assert main(["top", address, "--once"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 11
    assert said.splitlines()[0].endswith(f"law {ESCAPED}")
    assert f"  fault              {ESCAPED}\n" in said
    assert f"  refused            {ESCAPED} 3\n" in said


NO_STATS = {"config_get": {"t": "config", "settings": {"law": {}}}, "stats_get": {"t": "config", "settings": {}}}


@every(
    ("answers", "says"),
    [
        ({"config_get": {"t": "stop_ack", "session": 1}}, "expected 'config' as the server's answer, got 'stop_ack'"),
        (NO_STATS, "expected 'stats' as the server's answer, got 'config'"),
        ({"config_get": {"t": "tea"}}, "unknown message type 'tea'"),
        ({"config_get": {"t": "config", "settings": 3}}, "settings: expected `object`, got `int`"),
        ({"config_get": REFUSAL}, r"\x1b]0;title\x07\x1b[2J"),
    ],
)
def test_an_answer_of_the_wrong_type_is_named_and_cannot_write_to_the_terminal(tmp_path, capsys, answers, says) -> None:
    with liar(tmp_path, answers) as address:
        assert main(["top", address, "--once"]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert all(c.isprintable() or c == "\n" for c in said)
    assert main(["top", f"{address}-nobody", "--once"]) == 2
    assert "no answer" in capsys.readouterr().err
