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
        packb = idyn_client.msgpack.packb
        idyn_client.msgpack = type("", (), {"packb": packb, "unpackb": lambda data: change(self, unpackb(data))})

    Client.__init__ = remembered  # type: ignore[method-assign]


def sends(kind: str, change: Callable[[Fields], Fields | None]) -> Callable[[], None]:
    """As `sent`, for messages of one type."""
    return lambda: sent(lambda message: change(message) if message["t"] == kind else message)


def hears(kind: str, change: Callable[[Client], Fields]) -> Callable[[], None]:
    """Replace fields of every message of one type that the client hears."""
    return lambda: heard(lambda client, message: message | change(client) if message["t"] == kind else message)


def holds_the_torque() -> None:
    Failsafe._without_answer = lambda self, now, q, v: self.last.tau if self.last else [0.0] * 12  # type: ignore[method-assign]
    idyn_client.STOP_NS = 10**12


def resets_once() -> None:
    done: list[int] = []
    sends("reset", lambda m: None if done.append(1) or len(done) > 1 else m)()


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


SHORT = idyn_client.pack([0.0] * 7 + stand.STANCE[7:])
FAULTS: dict[str, tuple[Callable[[], None], str, str]] = {
    "another mass": (lambda: stand.HELLO["model"].update(total_mass=5.2), "it begins with hello", "hello.model.total_mass"),
    "an identity of its own": (own_identity, "it begins with hello", "ZMQ identity"),
    "every second seq": (sends("state", lambda m: m | {"seq": 2 * m["seq"]}), "seq 1, 2, 3", "state.seq"),
    "t_robot in µs": (sends("state", lambda m: m | {"t_robot": m["t_robot"] // 1000}), "t_robot is in ns", "state.t_robot"),
    "no contacts": (sends("state", lambda m: {k: m[k] for k in m if k != "contacts"}), "which feet touch", "state.contacts"),
    "an unknown field": (sends("state", lambda m: m | {"torques": [0.0]}), "none was refused", "state.torques"),
    "a quaternion of wrong length": (sends("state", lambda m: m | {"q": SHORT}), "none was refused", "state.q[3:7]"),
    "other torques than the answers'": (
        sends("state", lambda m: m | {"tau_applied": idyn_client.pack([0.0] * 12)} if "tau_applied" in m else m),
        "it applies the torques",
        "state.tau_applied",
    ),
    "any answer is taken": (hears("torque", lambda client: {"seq": client.seq}), "an answer to an earlier state", "state."),
    "dry_run is applied": (hears("torque", lambda client: {"dry_run": False}), "dry_run is not applied", "state."),
    "no torque gate": (lambda: setattr(Failsafe, "_gate", lambda _, now, tau: tau), "its own torque gate", "state.tau_applied"),
    "it waits for every answer": (waits_for_every_answer, "without an answer", "state"),
    "a refused state again": (repeats_refused_states, "refused and recoverable", "state.seq"),
    "the last torque is held": (holds_the_torque, "the torque fades", "state.tau_applied"),
    "no reset": (sends("reset", lambda m: None), "sends reset again", "t: "),
    "one reset only": (resets_once, "sends reset again", "t: "),
    "no hello after a crash": (hears("error", lambda client: {"code": "stale_state"}), "after a crash of the server", "t: "),
    "goodbyes are ignored": (hears("stop_ack", lambda client: {"reason": ""}), "after the server's goodbye", "t: "),
    "no stop": (sends("stop", lambda m: None), "it sends stop", "t: "),
}
"""Planted fault → how the client is altered, the rule that finds it, what its line names."""

if __name__ == "__main__":
    FAULTS[sys.argv[1]][0]()
    del sys.argv[1]
    stand.main()
