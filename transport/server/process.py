"""Process settings for a real-time loop."""

import ctypes
import gc
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic_ns
from typing import Literal

from idyn.errors import ConfigError

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 2e-4
"""Time after which another Python thread must yield to the loop [s]; with the default of 5 ms every fourth tick is late."""

RealTime = Literal["auto", "off", "required"]
"""Whether the server asks for real-time rights: what is permitted, none, or all of them."""

PRIORITY = 50  # priority of the loop (SCHED_FIFO, 1 to 99), as that of interrupt threads of a real-time kernel
SOCKET_THREADS = "ZMQbg/IO/"  # beginning of the names of ZeroMQ's threads that move messages between sockets and the loop

_PR_SET_TIMERSLACK = 29

_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
"""Flags of mlockall: pages that are mapped, pages mapped later, and only when they are first used [mlockall(2)]."""

_CAP_IPC_LOCK = 14  # number of the capability to lock memory beyond RLIMIT_MEMLOCK [capabilities(7)]


@contextmanager
def steady() -> Iterator[None]:
    """Context without garbage collection, with a short thread switch interval and exact timers; restores all on exit."""
    interval, collecting = sys.getswitchinterval(), gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL)
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is None or prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0:  # 1 ns, on Linux
        log.warning("timer slack cannot be set; wake-ups may be 50 µs late")
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        if collecting:
            gc.enable()


class Denied(Exception):
    """A real-time right was not granted. Its text: reason and remedy"""


@contextmanager
def real_time(wanted: RealTime) -> Iterator[None]:
    """Context in which the calling thread has SCHED_FIFO and the memory of the process is locked; undone on exit.

    wanted: 'auto': what is permitted; the log says what was granted and what was not; 'off': nothing; 'required': both
    ZeroMQ's threads get a priority above the calling thread, which waits for their messages. Threads and processes that the
    calling thread starts are scheduled as usual. All memory of the process is locked and released, whoever else locked it.
    Raises ConfigError if a right is required and not granted.
    """
    with ExitStack() as undo:
        for grant in () if wanted == "off" else (_schedule, _lock_memory):
            try:
                log.info("real time: %s", grant(undo.callback))
            except Denied as denied:
                if wanted == "required":
                    raise ConfigError("server.realtime", f"'required', but {denied}") from None
                log.warning("real time: %s", denied)
        yield


Undo = Callable[..., object]  # registers a function, with its arguments, that undoes a change


def _schedule(undo: Undo) -> str:
    """Schedule the calling thread and ZeroMQ's threads with SCHED_FIFO. Return what was granted. Raises Denied."""
    if not hasattr(os, "sched_setscheduler"):
        raise Denied(f"no SCHED_FIFO ({sys.platform} does not have it); needs Linux")
    import resource  # noqa: PLC0415 - not on every platform

    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    above = min(PRIORITY + 1, limit) if limit > 0 else PRIORITY + 1  # without a limit a capability may permit it
    own, sockets = max(1, above - 1), _socket_threads()
    try:
        for thread, priority in ((0, own), *((thread, above) for thread in sockets)):
            before = os.sched_getscheduler(thread), os.sched_getparam(thread)
            os.sched_setscheduler(thread, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
            undo(_reschedule, thread, *before)
    except OSError as error:
        needed = f"LimitRTPRIO={PRIORITY + 1} in the unit, or `rtprio {PRIORITY + 1}` in limits.conf"
        raise Denied(f"no SCHED_FIFO ({error.strerror}, RLIMIT_RTPRIO is {limit}); needs {needed}") from None
    return f"the loop has SCHED_FIFO, priority {own}; threads of ZeroMQ with {above}: {len(sockets)}"


def _reschedule(thread: int, policy: int, parameters: "os.sched_param") -> None:
    """Restore the scheduling of a thread; no effect on one that has ended."""
    with suppress(ProcessLookupError):
        os.sched_setscheduler(thread, policy, parameters)


def _socket_threads() -> list[int]:
    found = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError, FileNotFoundError):  # the thread has ended
            name = Path(f"/proc/self/task/{thread}/comm").read_text(encoding="utf-8")
            found += [int(thread)] if name.startswith(SOCKET_THREADS) else []
    return found


def _lock_memory(undo: Undo) -> str:
    """Keep every page of the process in memory from its first use on. Return what was granted. Raises Denied.

    The warm-up has used the pages of a tick. To load all mapped pages would take 1.8 GB instead of a fifth of that. A finite
    limit is not enough, even where today's memory is within it: beyond it, allocations would fail.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mlockall") or sys.platform != "linux":
        raise Denied(f"memory is not locked ({sys.platform} does not permit it); needs Linux")
    import resource  # noqa: PLC0415 - not on every platform

    remedy = "needs LimitMEMLOCK=infinity in the unit, or `memlock unlimited` in limits.conf"
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY and not int(_status("CapEff"), 16) >> _CAP_IPC_LOCK & 1:
        raise Denied(f"memory is not locked (RLIMIT_MEMLOCK is {limit / 2**20:.0f} MB); {remedy}")
    undo(libc.munlockall)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) != 0:
        raise Denied(f"memory is not locked ({os.strerror(ctypes.get_errno())}); {remedy}")
    return f"memory is locked, {int(_status('VmRSS').split()[0]) / 1024:.0f} MB now"


def _status(name: str) -> str:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{name}:")).split(":")[1].strip()


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Context that pins the calling thread to one core and all other threads of this process to the others.

    core: number of the core; None: no pinning
    Without pinning a tick takes a third longer, when a socket thread shares the loop's core or the loop changes cores.
    Raises ConfigError for a core that this process may not use.
    """
    if core is None:
        yield
        return
    allowed = os.sched_getaffinity(0)
    if core not in allowed or len(allowed) < 2:
        usable = ", ".join(map(str, sorted(allowed)))
        raise ConfigError("server.core", f"expected one of at least two usable cores ({usable}), got {core}")
    with off_core(core):
        os.sched_setaffinity(0, {core})
        yield


@contextmanager
def off_core(core: int | None) -> Iterator[None]:
    """Context that keeps all threads of this process off a core, for a process beside a server that is pinned there."""
    if core is None:
        yield
        return
    allowed = os.sched_getaffinity(0)
    _place(allowed - {core})
    try:
        yield
    finally:
        _place(allowed)


def spare_core() -> int | None:
    """Return the last core that this process may use; None when it may use only one."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[-1] if len(allowed) > 1 else None


def _place(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # the thread has ended
            os.sched_setaffinity(int(thread), cores)


NEVER_NS = 2**63 - 1  # a time that is never reached [ns]
AGAIN_NS = 10_000_000  # time after which a notification is repeated that systemd had no room for [ns]


class Systemd:
    """The service manager that started this process. Without one, nothing is sent.

    due_ns: when the next `beat` is due, on the server's clock [ns]; never without a watchdog
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """environment: NOTIFY_SOCKET: path or @abstract name of a datagram socket; WATCHDOG_USEC: time without `beat` after
            which the process is ended [µs]; WATCHDOG_PID: the process that this is meant for
        Raises ConfigError for malformed variables.
        """
        self.due_ns = NEVER_NS
        self._address, self._works = "", True
        self._interval_ns = _watchdog_ns(environment) // 2
        address = environment.get("NOTIFY_SOCKET", "")
        if not address:
            return
        if address[0] not in "/@":
            raise ConfigError("NOTIFY_SOCKET", f"expected a path, or an abstract name after '@', got '{address}'")
        self._address = "\0" + address[1:] if address[0] == "@" else address

    def status(self, text: str) -> None:
        """Show a line in `systemctl status`."""
        self._send(f"STATUS={text}")

    def ready(self, text: str) -> None:
        """Tell that clients can connect, with a line of status. From now on the watchdog expects `beat`."""
        self._send(f"READY=1\nSTATUS={text}")
        if self._address and self._interval_ns:
            self.due_ns = monotonic_ns()

    def beat(self, now_ns: int, text: str) -> None:
        """Tell the watchdog that the loop runs, with a line of status. now_ns: server's clock [ns]"""
        sent = self._send(f"WATCHDOG=1\nSTATUS={text}")
        self.due_ns = now_ns + (self._interval_ns if sent else min(AGAIN_NS, self._interval_ns))

    def stopping(self) -> None:
        """Tell that the process ends."""
        self.due_ns = NEVER_NS
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, text: str) -> bool:
        """Send a notification. Return whether it was sent; the first failure of several in a row is logged."""
        if not self._address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
                own.setblocking(False)  # the loop must not wait
                own.sendto(text.encode(), self._address)
        except OSError as error:
            if self._works:
                log.warning("systemd cannot be notified (%s); the robot is served all the same", error.strerror or error)
            self._works = False
        else:
            self._works = True
        return self._works


def _watchdog_ns(environment: Mapping[str, str]) -> int:
    """Return the time without `beat` after which this process is ended [ns]; 0 without a watchdog."""
    text = environment.get("WATCHDOG_USEC", "0")
    if not (text.isascii() and text.isdigit()):
        raise ConfigError("WATCHDOG_USEC", f"expected a time in µs, got '{text}'")
    meant = environment.get("WATCHDOG_PID", str(os.getpid()))
    return int(text) * 1000 if meant == str(os.getpid()) else 0


NOBODY = Systemd({})  # no service manager
