"""Process settings for a loop that must not pause."""

import ctypes
import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
