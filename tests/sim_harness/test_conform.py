"""`idyn conform`: the real server and the example client keep every rule, and each planted fault is found and named."""

import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
import zmq
from documents import ROOT, anchors
from fast import every, full
from faulty_client import FAULTS as FAULTY_CLIENTS

from controllers.build import load_controller
from controllers.config.loading import load
from sim_harness.commands.main import main
from sim_harness.conform.client import RULES, try_client
from sim_harness.conform.probe import Outcome
from sim_harness.conform.server import RULES as SERVER_RULES
from sim_harness.conform.server import try_server
from sim_harness.run.server_process import ServerProcess
from transport.server.settings import ServerSettings

Fields = dict[str, Any]

Alter = Callable[[Fields, dict[str, Any]], Fields | None]  # (answer, memory of the proxy) → altered answer, None: withheld
EXAMPLE = ROOT / "docs" / "examples" / "clients" / "python" / "stand.py"
SETTINGS = load("server", "quadruped", ServerSettings)


class AlteredServer:
    """A proxy in front of a server, which alters its answers. Each client has a connection of its own to the server."""

    def __init__(self, server: str, endpoint: str, alter: Alter) -> None:
        self.endpoint = endpoint
        self._server, self._alter = server, alter
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy")

    def __enter__(self) -> "AlteredServer":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        context = zmq.Context.instance()
        front = context.socket(zmq.ROUTER)
        front.bind(self.endpoint)
        backs: dict[bytes, zmq.Socket[bytes]] = {}
        poller = zmq.Poller()
        poller.register(front, zmq.POLLIN)
        memory: dict[str, Any] = {}
        while not self._stop.is_set():
            ready = dict(poller.poll(20))
            if front in ready:
                identity, *frames = front.recv_multipart()
                if identity not in backs:
                    backs[identity] = context.socket(zmq.DEALER)
                    if not identity.startswith(b"\0"):
                        backs[identity].setsockopt(zmq.IDENTITY, identity)
                    backs[identity].connect(self._server)
                    poller.register(backs[identity], zmq.POLLIN)
                backs[identity].send_multipart(frames)
            for identity, back in list(backs.items()):
                if back in ready:
                    answer = self._alter(msgpack.unpackb(back.recv()), memory)
                    if answer is not None:
                        front.send_multipart([identity, msgpack.packb(answer)])
        for socket in (front, *backs.values()):
            socket.close(linger=0)


def on(kind: str, change: Callable[[Fields], Fields | None]) -> Alter:
    return lambda answer, memory: change(answer) if answer["t"] == kind else answer


def vector(answer: Fields, name: str, change: Callable[[Any], Any]) -> Fields:
    """Change one vector of an answer."""
    return answer | {name: np.asarray(change(np.frombuffer(answer[name], "<f8"))).tobytes()}


def torques(change: Callable[[Any], Any]) -> Alter:
    return on("torque", lambda answer: vector(answer, "tau", change))


def repeated_differently(answer: Fields, memory: dict[str, Any]) -> Fields:
    """A repeated state is computed again, so that its times differ."""
    if answer["t"] == "torque":
        memory["count"] = memory.get("count", 0) + 1
        return answer | {"t_send": answer["t_send"] + memory["count"]}
    return answer


ECHOES = "echoes session, seq and t_robot"
FAULTS: dict[str, tuple[Alter, str, str]] = {
    "seq of the next state": (on("torque", lambda a: a | {"seq": a["seq"] + 1}), ECHOES, "torque.seq"),
    "t_robot in µs": (on("torque", lambda a: a | {"t_robot": a["t_robot"] // 1000}), ECHOES, "torque.t_robot"),
    "a torque too short": (torques(lambda tau: tau[:-1]), "torques are finite", "torque.tau, length"),
    "NaN in a torque": (torques(lambda tau: [*tau[:3], np.nan, *tau[4:]]), "torques are finite", "torque.tau"),
    "torques above the limit": (
        on("torque", lambda a: vector(vector(a, "tau", lambda tau: 100 * tau), "tau_ff", lambda ff: 100 * ff)),
        "torques are finite, within the limits",
        "torque.tau",
    ),
    "torques in the server's order": (torques(np.sort), "the client's order of joints", "torque.tau"),
    "valid_until in the past": (on("torque", lambda a: a | {"valid_until": a["t_robot"]}), "valid_until after", "valid_until"),
    "dry_run is never marked": (on("torque", lambda a: a | {"dry_run": False}), "flags.dry_run", "torque.dry_run"),
    "another status": (on("torque", lambda a: a | {"status": "good"}), "status ok", "status"),
    "forces that pull": (
        on("torque", lambda a: a | {"contact_force": [f | {"fn": -f["fn"]} for f in a["contact_force"]]}),
        "no force that pulls",
        "torque.contact_force[0].fn",
    ),
    "repeated states are computed again": (repeated_differently, "the same state again", "torque"),
    "stop is not acknowledged": (on("stop_ack", lambda a: None), "stop is acknowledged", "answer"),
    "a latched robot is said to be ok": (on("welcome", lambda a: a | {"mode": "ok"}), "a fault outlasts", "welcome.mode"),
    "an unknown code": (on("error", lambda a: a | {"code": "bad"}), "malformed states are refused", "code"),
    "refusals without a field": (on("error", lambda a: a | {"field": None}), "malformed states are refused", "error.field"),
    "all errors are recoverable": (on("error", lambda a: a | {"recoverable": True}), "without a session", "error.recoverable"),
    "no limits": (on("welcome", lambda a: {k: v for k, v in a.items() if k != "limits"}), "hello is answered", "limits"),
}
"""Planted fault → how the answers are altered, the rule that finds it, the field that it names."""


pytestmark = full

CONTROLLER = load_controller("quadruped")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = load("server", "quadruped", ServerSettings)
    settings = msgspec.structs.replace(settings, endpoint=f"ipc://{tmp_path_factory.mktemp('server')}/s")
    with ServerProcess(settings) as process:
        yield process.endpoint


def outcomes(endpoint: str, only: str = "") -> list[Outcome]:
    return list(try_server(endpoint, CONTROLLER.robot, CONTROLLER.stance, only))


def test_the_real_server_keeps_every_rule(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", server]) == 0
    *lines, summary = capsys.readouterr().out.splitlines()
    assert len(lines) > 25
    assert {line.split()[0] for line in lines} == {"passed"}
    assert summary == f"{len(lines)} passed, 0 wrong, 0 not seen"


def test_a_proxy_that_alters_nothing_changes_nothing(server: str, tmp_path: Path) -> None:
    with AlteredServer(server, f"ipc://{tmp_path}/p", lambda answer, memory: answer) as proxy:
        assert [outcome for outcome in outcomes(proxy.endpoint) if outcome.state != "passed"] == []


@every("name", FAULTS)
def test_a_planted_fault_of_a_server_is_found(name: str, server: str, tmp_path: Path) -> None:
    alter, rule, field = FAULTS[name]
    with AlteredServer(server, f"ipc://{tmp_path}/p", alter) as proxy:
        naming = [outcome for outcome in outcomes(proxy.endpoint, rule) if outcome.state == "wrong"]
    assert naming
    assert field in naming[0].problem
    assert "expected" in naming[0].problem


def test_the_example_client_keeps_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    good = main(["conform", "--robot", f"{sys.executable} {EXAMPLE} {{}}"]) == 0
    assert f"{len(RULES)} passed, 0 wrong, 0 not seen" in (said := capsys.readouterr().out), said
    assert good


@every("name", FAULTY_CLIENTS)
def test_a_planted_fault_of_a_client_is_found(name: str, tmp_path: Path) -> None:
    _, rule, problem = FAULTY_CLIENTS[name]
    command = shlex.join([sys.executable, str(Path(__file__).parent / "faulty_client.py"), name, "{}"])
    outcomes = list(try_client(command, f"ipc://{tmp_path}/s", CONTROLLER, SETTINGS, only=rule))
    found = [outcome for outcome in outcomes if outcome.state == "wrong"]
    naming = [outcome for outcome in found if rule in outcome.rule]
    assert naming, outcomes
    assert problem in naming[0].problem


def test_a_client_that_cannot_be_started_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--robot", "no-such-program {}"]) == 2
    assert main(["conform"]) == 2
    assert "no-such-program" in capsys.readouterr().err


def test_rules_name_anchors_that_exist() -> None:
    for rule in (*RULES, *SERVER_RULES):
        page, _, anchor = rule.page.partition("#")
        assert anchor in anchors(ROOT / "docs" / page), rule.page
