"""A proxy in front of a server that alters its answers: a server with one planted fault."""

import threading
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import zmq

Fields = dict[str, Any]

Alter = Callable[[Fields, dict[str, Any]], Fields | None]
"""(answer, memory of the proxy) → altered answer, None: withheld"""


class AlteredServer:
    """Forwards every message, and every answer as altered. Each client has a connection of its own to the server."""

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
    """A change of the answers of one type."""
    return lambda answer, memory: change(answer) if answer["t"] == kind else answer


def vector(answer: Fields, name: str, change: Callable[[Any], Any]) -> Fields:
    """Change one vector of an answer."""
    return answer | {name: change(np.frombuffer(answer[name], "<f8").copy()).tobytes()}


def repeated_differently(answer: Fields, memory: dict[str, Any]) -> Fields:
    """A repeated state is computed again, so that its times differ."""
    if answer["t"] == "torque":
        memory["count"] = memory.get("count", 0) + 1
        return answer | {"t_send": answer["t_send"] + memory["count"]}
    return answer


def with_nan(answer: Fields) -> Fields:
    return vector(answer, "tau", lambda tau: np.where(np.arange(len(tau)) == 3, np.nan, tau))


FAULTS: dict[str, tuple[Alter, str, str]] = {
    "seq of the next state": (
        on("torque", lambda a: a | {"seq": a["seq"] + 1}),
        "echoes session, seq and t_robot",
        "torque.seq",
    ),
    "t_robot in µs": (
        on("torque", lambda a: a | {"t_robot": a["t_robot"] // 1000}),
        "echoes session, seq and t_robot",
        "torque.t_robot",
    ),
    "a torque too short": (
        on("torque", lambda a: vector(a, "tau", lambda tau: tau[:-1])),
        "torques are finite",
        "torque.tau, length",
    ),
    "NaN in a torque": (on("torque", with_nan), "torques are finite", "torque.tau"),
    "torques above the limit": (
        on("torque", lambda a: vector(vector(a, "tau", lambda tau: 100 * tau), "tau_ff", lambda ff: 100 * ff)),
        "torques are finite, within the limits",
        "torque.tau",
    ),
    "torques in the server's order": (
        on("torque", lambda a: vector(a, "tau", np.sort)),
        "the client's order of joints",
        "torque.tau",
    ),
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
