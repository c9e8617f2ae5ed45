"""Process settings for a loop that must not pause."""

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
"""A thread of Python gives way to the loop after so long [s]; the default of 5 ms makes every fourth tick late."""

_PR_SET_TIMERSLACK = 29


@contextmanager
def steady() -> Iterator[None]:
    """No garbage collection, quick thread switches, exact timers; undone afterwards."""
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
    """Timer slack of 1 ns for this thread, where the system has such a thing (Linux)."""
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is None or prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0:
        log.warning("timer slack stays as it is; wake-ups may be 50 µs late")


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """The calling thread alone on one core, every other thread of this process on the others; undone afterwards.

    core: as the system counts them; None: all run where they like. A socket's thread that shares the loop's core, or a loop
    that changes cores, costs a tick a third of its time. Raises ConfigError for a core that this process may not use.
    """
    if core is None:
        yield
        return
    allowed = os.sched_getaffinity(0)
    if core not in allowed or len(allowed) < 2:
        usable = ", ".join(map(str, sorted(allowed)))
        raise ConfigError("server.core", f"expected one of at least two cores that may be used ({usable}), got {core}")
    with off_core(core):
        os.sched_setaffinity(0, {core})
        yield


@contextmanager
def off_core(core: int | None) -> Iterator[None]:
    """No thread of this process on that core: for a robot's process beside a server that has the core to itself."""
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
    """The last core this process may use, when there is another one; None otherwise."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[-1] if len(allowed) > 1 else None


def _place(cores: set[int]) -> None:
    """Assign cores to all threads of this process."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread), cores)
