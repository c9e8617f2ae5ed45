"""The Python example client with one planted fault: `python faulty_client.py FAULT ENDPOINT`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "clients" / "python"))

import idyn_client
import stand
import zmq
from idyn_client import Client, Failsafe

Fields = dict[str, Any]


def sent(change: Callable[[Fields], Fields | None]) -> None:
    """Change every message that the client sends; None: not sent."""
    send = Client._send

    def altered(self: Client, message: Fields) -> None:
        if (changed := change(message)) is not None:
            send(self, changed)

    Client._send = altered  # type: ignore[method-assign]


def heard(change: Callable[[Client, Fields], Fields]) -> None:
    """Change every message that the client hears, before it reads it."""
    unpackb = idyn_client.msgpack.unpackb
    init = Client.__init__

    def remembered(self: Client, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        idyn_client.msgpack = type(
            "", (), {"packb": idyn_client.msgpack.packb, "unpackb": lambda data: change(self, unpackb(data))}
        )

    Client.__init__ = remembered  # type: ignore[method-assign]


def in_states(**changes: Any) -> Callable[[], None]:
    return lambda: sent(lambda message: message | changes if message["t"] == "state" else message)


def skip_numbers() -> None:
    sent(lambda message: message | {"seq": 2 * message["seq"]} if message["t"] == "state" else message)


def microseconds() -> None:
    sent(lambda message: message | {"t_robot": message["t_robot"] // 1000} if message["t"] == "state" else message)


def without_contacts() -> None:
    sent(lambda message: {key: value for key, value in message.items() if key != "contacts"})


def heavy() -> None:
    stand.HELLO["model"]["total_mass"] = 5.2


def other_torques() -> None:
    zeros = idyn_client.pack([0.0] * 12)
    sent(lambda message: message | {"tau_applied": zeros} if "tau_applied" in message else message)


def any_answer() -> None:
    heard(lambda client, message: message | {"seq": client.seq} if message["t"] == "torque" else message)


def applies_dry_run() -> None:
    heard(lambda client, message: message | {"dry_run": False} if message["t"] == "torque" else message)


def without_gate() -> None:
    Failsafe._gate = lambda self, now, tau: tau  # type: ignore[method-assign]


def holds_the_torque() -> None:
    Failsafe._without_answer = lambda self, now, q, v: self.last.tau if self.last else [0.0] * 12  # type: ignore[method-assign]
    idyn_client.STOP_NS = 10**12


def never_resets() -> None:
    sent(lambda message: None if message["t"] == "reset" else message)


def resets_once() -> None:
    done: list[int] = []
    sent(lambda message: None if message["t"] == "reset" and (done.append(1) or len(done) > 1) else message)


def stays_with_its_session() -> None:
    heard(lambda client, message: message | {"code": "stale_state"} if message["t"] == "error" else message)


def ignores_goodbyes() -> None:
    heard(lambda client, message: message | {"reason": ""} if message["t"] == "stop_ack" else message)


def without_stop() -> None:
    sent(lambda message: None if message["t"] == "stop" else message)


def repeats_refused_states() -> None:
    listen = Client._listen

    def back(self: Client) -> Any:
        self.refusal = ""
        answer = listen(self)
        if self.refusal.startswith("stale_state"):
            self.seq -= 1
        return answer

    Client._listen = back  # type: ignore[method-assign]


def own_identity() -> None:
    connect = zmq.Socket.connect

    def named(self: Any, address: str) -> Any:
        self.setsockopt(zmq.IDENTITY, b"my robot")
        return connect(self, address)

    zmq.Socket.connect = named  # type: ignore[method-assign,assignment]


def waits_for_every_answer() -> None:
    init = Client.__init__

    def patient(self: Client, *arguments: Any) -> None:
        init(self, *arguments, deadline_ms=2000)

    Client.__init__ = patient  # type: ignore[method-assign]
    stand.Client = Client  # type: ignore[assignment,misc]


FAULTS: dict[str, tuple[Callable[[], None], str, str]] = {
    "another mass": (heavy, "it begins with hello", "hello.model.total_mass"),
    "an identity of its own": (own_identity, "it begins with hello", "ZMQ identity"),
    "every second seq": (skip_numbers, "seq 1, 2, 3", "state.seq"),
    "t_robot in µs": (microseconds, "t_robot is in ns", "state.t_robot"),
    "no contacts": (without_contacts, "which feet touch", "state.contacts"),
    "an unknown field": (in_states(torques=[0.0]), "none was refused", "state.torques"),
    "a quaternion of wrong length": (
        in_states(q=idyn_client.pack([0.0] * 7 + stand.STANCE[7:])),
        "none was refused",
        "state.q[3:7]",
    ),
    "other torques than the answers'": (other_torques, "it applies the torques", "state.tau_applied"),
    "any answer is taken": (any_answer, "an answer to an earlier state", "state."),
    "dry_run is applied": (applies_dry_run, "dry_run is not applied", "state."),
    "no torque gate": (without_gate, "its own torque gate", "state.tau_applied"),
    "it waits for every answer": (waits_for_every_answer, "without an answer", "state"),
    "a refused state again": (repeats_refused_states, "refused and recoverable", "state.seq"),
    "the last torque is held": (holds_the_torque, "the torque fades", "state.tau_applied"),
    "no reset": (never_resets, "sends reset again", "t: "),
    "one reset only": (resets_once, "sends reset again", "t: "),
    "no hello after a crash": (stays_with_its_session, "after a crash of the server", "t: "),
    "goodbyes are ignored": (ignores_goodbyes, "after the server's goodbye", "t: "),
    "no stop": (without_stop, "it sends stop", "t: "),
}
"""Planted fault → how the client is altered, the rule that finds it, what its line names."""

if __name__ == "__main__":
    FAULTS[sys.argv[1]][0]()
    del sys.argv[1]
    stand.main()
