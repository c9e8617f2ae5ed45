"""Process settings for a real-time loop."""

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from idyn.errors import ConfigError

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 2e-4
"""Time after which another Python thread must yield to the loop [s]; with the default of 5 ms every fourth tick is late."""

_PR_SET_TIMERSLACK = 29


@contextmanager
def steady() -> Iterator[None]:
    """Context without garbage collection, with a short thread switch interval and exact timers; restores all on exit."""
    interval, collecting = sys.getswitchinterval(), gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL)
    _exact_timers()
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        if collecting:
            gc.enable()


def _exact_timers() -> None:
    """Set the timer slack of this thread to 1 ns (Linux)."""
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is None or prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0:
        log.warning("timer slack cannot be set; wake-ups may be 50 µs late")


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
    """Set the allowed cores of all threads of this process."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # the thread has ended
            os.sched_setaffinity(int(thread), cores)
