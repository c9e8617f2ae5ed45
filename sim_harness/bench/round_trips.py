"""Benchmark of the server's round trip, compared with an echo of the same messages.

Both are measured in turns, block by block, so that other load on the machine affects both alike.
"""

import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import numpy as np
import zmq

from controllers.config.loading import load
from controllers.robot.load import load_robot
from idyn.types import Array
from sim_harness.bench.laws import workload
from sim_harness.measure.run_time import DT
from sim_harness.report.tables import Table
from sim_harness.robot.robot_side import Pacer
from sim_harness.run.experiment import Progress
from sim_harness.run.server_process import ServerProcess
from transport.protocol.codec import HIGH_WATER, encode
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.conversation import Conversation, hello_for
from transport.server.realtime import off_core, on_core, spare_core, steady
from transport.server.settings import ServerSettings

BLOCK_TICKS = 500
"""Paced ticks in a block; blocks of the server and of the echo alternate."""


def bench_server(ticks: int, progress: Progress) -> dict[str, Any]:
    """Measure round trips of the quadruped's server at 1 kHz over ipc, and of an echo of the same bytes, in turns.

    A round trip lasts from passing a state's bytes to the socket to receiving the bytes of the reply. Server and echo use
    sockets of the same kind. With at least two cores, the loops of server and echo run on one core, and this process on others.
    """
    core = spare_core()
    with tempfile.TemporaryDirectory(prefix="idyn-") as folder:
        settings = load("server", "quadruped", ServerSettings)
        settings = msgspec.structs.replace(settings, endpoint=f"ipc://{folder}/server", core=core, start="motion")
        robot, stance = load_robot("quadruped")
        samples = workload(robot, stance, len(robot.spheres.keys))
        states = [StateMessage(q=s.state.q.tobytes(), vel=s.state.v.tobytes(), t_robot=0) for s in samples]
        with (
            ServerProcess(settings) as server,
            Echo(f"ipc://{folder}/echo", core) as echo,
            Wire(server.endpoint) as to_server,
            Wire(echo.address) as to_echo,
            off_core(core),
            steady(),
        ):
            conversation = Conversation()
            conversation.begin(to_server.exchange(encode(hello_for(robot, DT, kind="sim"))))
            to_echo.exchange(b"warm")  # first exchange: connects
            served, echoed = _in_turns((conversation, to_server, to_echo), states, ticks, progress)
    answered = served[np.isfinite(served)]
    return {
        "echo_p50_us": float(np.median(echoed)),
        "p50_us": float(np.median(answered)),
        "p99_us": float(np.percentile(answered, 99)),
        "misses": int(np.sum(~(served <= DT * 1e6))),
        "ticks": len(served),
        "echo_p99_us": float(np.percentile(echoed, 99)),
    }


def _in_turns(
    ends: tuple[Conversation, "Wire", "Wire"], states: list[StateMessage], ticks: int, progress: Progress
) -> tuple[Array, Array]:
    """Return the round trips of server and echo [µs] (ticks rounded up to blocks); NaN where the reply was not a torque.

    ends: conversation with the server, connections to server and echo
    """
    conversation, to_server, to_echo = ends
    ticks = -(-ticks // BLOCK_TICKS) * BLOCK_TICKS
    served, echoed = np.full(ticks, np.nan), np.full(ticks, np.nan)
    pacer = Pacer(DT)
    pacer.wait()
    for first in range(0, ticks, BLOCK_TICKS):
        for tick in range(first, first + BLOCK_TICKS):
            state = msgspec.structs.replace(states[(tick // 16) % len(states)], t_robot=(tick + 1) * 1_000_000)
            reply, spent = to_server.timed(conversation.ask(state, time.monotonic_ns()))
            if isinstance(conversation.hear(reply, time.monotonic_ns()), TorqueMessage):
                served[tick] = spent
            pacer.wait()
        for tick in range(first, first + BLOCK_TICKS):
            state = msgspec.structs.replace(states[(tick // 16) % len(states)], t_robot=(tick + 1) * 1_000_000)
            _, echoed[tick] = to_echo.timed(encode(state))
            pacer.wait()
        progress("server and echo", 2 * BLOCK_TICKS)
    return served, echoed


class Wire:
    """A connection by a DEALER socket."""

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
        self._socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
        self._socket.connect(address)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def exchange(self, data: bytes) -> bytes:
        """Send a message and wait for the reply."""
        self._socket.send(data)
        return self._socket.recv()

    def timed(self, data: bytes) -> tuple[bytes, float]:
        """Send a message; return the reply and the round trip [µs]."""
        begin = time.perf_counter_ns()
        reply = self.exchange(data)
        return reply, (time.perf_counter_ns() - begin) * 1e-3


class Echo:
    """A process that sends every message back."""

    def __init__(self, address: str, core: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.address = address
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_echo, args=(address, core, sender), daemon=True)

    def __enter__(self) -> "Echo":
        self._process.start()
        self._receiver.recv()
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.join()


def _echo(address: str, core: int | None, sender: Connection) -> None:
    """Send every message back. sender: receives "ready" once the socket is bound"""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(address)
    sender.send("ready")
    with on_core(core), steady():
        while True:
            identity, data = socket.recv_multipart()
            socket.send_multipart([identity, data])


def server_table(result: dict[str, Any]) -> Table:
    """Return a table of the round trips of server and echo."""
    ratio = result["p50_us"] / result["echo_p50_us"]
    return [
        ["1 kHz over ipc", "p50 µs", "p99 µs", "over 1 ms"],
        ["bare echo", f"{result['echo_p50_us']:.0f}", f"{result['echo_p99_us']:.0f}", ""],
        ["torque server", f"{result['p50_us']:.0f}", f"{result['p99_us']:.0f}", f"{result['misses']} of {result['ticks']}"],
        ["ratio", f"{ratio:.2f}", "", ""],
    ]
