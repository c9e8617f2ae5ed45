"""Facts about this machine and installation that decide whether a server holds 1 kHz, and the round trip of a server.

The round trip is compared with an echo of the same messages, in turns, so that other load affects both alike.
"""

import multiprocessing
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import zmq

from controllers.config.loading import load
from controllers.robot.kinematics import angles_for_base_shift
from controllers.robot.load import load_robot
from idyn.errors import install_command
from idyn.library.kernels import LIBRARY_FILE
from idyn.library.kernels import load as load_library
from idyn.library.mode import LIBRARY, MODE
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.robot.robot_side import Pacer
from sim_harness.run.experiment import Progress
from sim_harness.run.server_process import ServerProcess
from transport.protocol.codec import encode
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.robot.client import Conversation, connected, hello_for
from transport.server.process import PRIORITY, off_core, on_core, spare_core, steady
from transport.server.settings import ServerSettings

PACKAGES = ("idyn", "numpy", "scipy", "pin", "qpsolvers", "pyzmq", "msgspec", "msgpack")

REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[([\w, -]+)\])?.*;.*extra == ['\"]([\w-]+)['\"]")
"""A requirement of an extra: package, its own extras, name of the extra."""

LATE_US = 200.0  # wake-ups later than this take a fifth of a period of 1 ms [µs]
WAKE_UPS = 1000  # number of measured wake-ups, 1 ms apart


class Fact(NamedTuple):
    """One line of the report. advice: what limits 1 kHz or does not work, and what to do; '' if nothing"""

    name: str
    value: str
    advice: str = ""


def facts() -> Iterator[Fact]:
    """Yield the facts, without the round trip of a server. Takes a second."""
    yield Fact("Python", f"{platform.python_version()} {platform.python_implementation()}")
    advice = "" if sys.platform == "linux" else "core pinning and exact timers need Linux; elsewhere ticks are later"
    yield Fact("platform", f"{platform.system()} {platform.release()} {platform.machine()}", advice)
    for name in PACKAGES:
        found = _version(name)
        yield Fact(name, found or "not installed", "" if found else f"pip install {name}")
    yield from _extras()
    yield _cores()
    yield _governor()
    yield from _rights()
    yield _wake_ups()
    yield _kernels()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _extras() -> Iterator[Fact]:
    """Yield for each extra whether its packages are installed, or the command that installs them."""
    extras: dict[str, list[str]] = {}
    for requirement in requires("idyn") or ():
        if match := REQUIREMENT.match(requirement):
            extras.setdefault(match[3], []).append(match[1])
    for extra, packages in extras.items():
        missing = [name for name in packages if name != "idyn" and not _version(name)]
        advice = f"for what needs them: {install_command(extra)}" if missing else ""
        yield Fact(f"extra [{extra}]", f"not installed: {', '.join(missing)}" if missing else "installed", advice)


def _cores() -> Fact:
    usable, busy = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, os.getloadavg()[0]
    advice = ""
    if usable < 2:
        advice = "a server, its robot and its sockets share one core: use two or more"
    elif busy > usable - 1:
        advice = f"{busy:.1f} processes want to run now: stop other work, or reserve a core (`core` of the server)"
    return Fact("cores", f"{usable} usable, load {busy:.1f}", advice)


def _governor() -> Fact:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if not path.is_file():
        return Fact("CPU frequency", "not controlled here")
    governor = path.read_text(encoding="utf-8").strip()
    return Fact("CPU frequency", governor, "" if governor == "performance" else "set the governor 'performance'")


def _rights() -> Iterator[Fact]:
    scheduling, lock, root = "real-time scheduling", "locked memory", os.geteuid() == 0
    if sys.platform != "linux":
        yield from (Fact(name, "not available") for name in (scheduling, lock))
        return
    import resource  # noqa: PLC0415 - not on every platform

    most = 99 if root else resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    advice = f"allow priorities up to {PRIORITY + 1} (`rtprio` in limits.conf, LimitRTPRIO): the server uses them"
    yield Fact(scheduling, f"priorities up to {99 if most < 0 else most}" if most else "not permitted", "" if most else advice)
    most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    yield Fact(lock, "unlimited" if most < 0 or root else f"{most / 2**20:.0f} MB")


def _wake_ups() -> Fact:
    pacer, late = Pacer(1e-3), np.empty(WAKE_UPS)
    with steady():
        pacer.wait()
        for k in range(WAKE_UPS):
            late[k] = pacer.wait() * 1e-3
    middle, worst = np.median(late), np.percentile(late, 99.5)
    advice = "" if worst < LATE_US else "other processes or power saving delay wake-ups"
    return Fact("wake-ups at 1 kHz", f"{middle:.0f} µs late, 99.5 %: {worst:.0f} µs, largest {late.max():.0f} µs", advice)


def _kernels() -> Fact:
    if MODE != LIBRARY:
        return Fact("kernels", MODE, "IDYN_KERNELS is set: ticks take longer than with the library")
    if flaw := load_library()[-1]:
        return Fact("kernels", MODE, flaw)
    return Fact("kernels", f"library, {LIBRARY_FILE.stat().st_size / 2**20:.1f} MB")


DT = 1e-3  # period of the states [s]
STATES, AMPLITUDE = 64, 0.01  # states of a period of the sway, and its amplitude [m]


def sway(robot: Robot, stance: Array, t: float) -> Array:
    """Return the configuration at a time [s] of a sway of the base to both sides, with 1 Hz, above feet at rest."""
    shift = np.array([0.0, AMPLITUDE * np.sin(2 * np.pi * t), 0.0])
    q = robot.with_joint_angles(stance, angles_for_base_shift(robot, stance, shift))
    q[:3] += shift
    return q


def _states(robot: Robot, stance: Array) -> list[StateMessage]:
    states = []
    for t in np.arange(STATES) / STATES:
        before, q, after = (sway(robot, stance, t + step) for step in (-DT, 0.0, DT))
        v = (robot.difference(before, q) + robot.difference(q, after)) / (2 * DT)
        states.append(StateMessage(q=q.tobytes(), vel=v.tobytes(), t_robot=0))
    return states


BLOCK_TICKS = 500  # paced ticks in a block; blocks of the server and of the echo alternate


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
        states = _states(robot, stance)
        with (
            ServerProcess(settings) as server,
            Echo(f"ipc://{folder}/echo", core) as echo,
            connected(server.endpoint, None) as to_server,
            connected(echo.address, None) as to_echo,
            off_core(core),
            steady(),
        ):
            conversation = Conversation()
            conversation.begin(_timed(to_server, encode(hello_for(robot, DT, kind="sim")))[0])
            _timed(to_echo, b"warm")  # first exchange: connects
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
    ends: tuple[Conversation, "zmq.Socket[bytes]", "zmq.Socket[bytes]"],
    states: list[StateMessage],
    ticks: int,
    progress: Progress,
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
            reply, spent = _timed(to_server, conversation.ask(state, time.monotonic_ns()))
            if isinstance(conversation.hear(reply, time.monotonic_ns()), TorqueMessage):
                served[tick] = spent
            pacer.wait()
        for tick in range(first, first + BLOCK_TICKS):
            state = msgspec.structs.replace(states[(tick // 16) % len(states)], t_robot=(tick + 1) * 1_000_000)
            _, echoed[tick] = _timed(to_echo, encode(state))
            pacer.wait()
        progress("server and echo", 2 * BLOCK_TICKS)
    return served, echoed


def _timed(socket: "zmq.Socket[bytes]", data: bytes) -> tuple[bytes, float]:
    """Send a message; return the reply and the round trip [µs]."""
    begin = time.perf_counter_ns()
    socket.send(data)
    reply = socket.recv()
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
