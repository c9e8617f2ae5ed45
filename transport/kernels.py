"""Kernels that are not on the disk yet, compiled by two processes: each begins at another end of the same list, and reads from
the disk what the other has done.

python -m transport.kernels: the other one; it takes a controller's snapshot from stdin, as JSON
"""

import logging
import subprocess
import sys
from time import monotonic
from typing import Any

import msgspec

from controllers.build import controller_from_snapshot
from idyn.compiled import compiling

log = logging.getLogger(__name__)

TELL_S = 5.0
"""How often there is news of the kernels [s]."""


class SideBySide:
    """Around a warm-up of the controller of a snapshot: help is called when the first kernel has to be compiled, and it is said
    now and then how far things are.

    Help that fails or comes late costs time, nothing else: what it did not do is done here.
    """

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self._snapshot, self._due = snapshot, 0.0
        self._helper: subprocess.Popen[bytes] | None = None
        self._compiling = compiling(self._tell)

    def __enter__(self) -> None:
        self._compiling.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._compiling.__exit__(*exception)
        if self._helper is not None:
            if self._helper.poll():
                log.warning("the process that helps to compile kernels ended with %d", self._helper.returncode)
            self._helper.kill()
            self._helper.wait()

    def _tell(self, ready: int, known: int) -> None:
        if self._helper is None:
            self._helper = _helper(self._snapshot)
        if monotonic() >= self._due:
            self._due = monotonic() + TELL_S
            log.info("compiling kernels, once on this machine: %d of at most %d are ready", ready, known)


def _helper(snapshot: dict[str, Any]) -> subprocess.Popen[bytes]:
    helper = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE)
    assert helper.stdin is not None
    with helper.stdin as pipe:
        pipe.write(msgspec.json.encode(snapshot))
    return helper


def main() -> None:
    """Compile from the far end."""
    controller = controller_from_snapshot(msgspec.json.decode(sys.stdin.buffer.read()))
    *ways, _ = controller.ways()  # the last needs what the other process compiles meanwhile
    for way in reversed(ways):
        way()


if __name__ == "__main__":
    main()
