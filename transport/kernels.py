"""Precompilation by two processes, from both ends of the list of kernels; each reads from the disk what the other has compiled.

python -m transport.kernels: the second process; it reads a controller's snapshot from stdin, as MessagePack
"""

import logging
import subprocess
import sys
from typing import Any, Self

import msgspec

from controllers.build import controller_from_snapshot
from idyn.jit.compiled import compiling

log = logging.getLogger(__name__)


class SideBySide:
    """Context of a warm-up of a snapshot's controller: starts the second process when the first kernel has to be compiled, and
    logs progress. A second process that fails costs time only: what it did not compile is compiled here."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self._snapshot = snapshot
        self.helper: subprocess.Popen[bytes] | None = None
        self._called = False
        self._compiling = compiling(self._tell)

    def __enter__(self) -> Self:
        self._compiling.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._compiling.__exit__(*exception)
        if self.helper is not None:
            if self.helper.poll():
                log.warning("the process that helps to compile kernels ended with %d", self.helper.returncode)
            self.helper.kill()
            self.helper.wait()

    def _tell(self, news: str) -> None:
        log.info(news)
        if not self._called:
            self._called = True
            self.call()

    def call(self) -> None:
        """Start the second process."""
        try:
            self.helper = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE)
            assert self.helper.stdin is not None
            with self.helper.stdin as pipe:
                pipe.write(msgspec.msgpack.encode(self._snapshot))
        except OSError as error:  # no room for a process, or one that ended at once
            log.warning("no help to compile kernels: %s", error)


def main() -> None:
    """Compile from the far end."""
    controller = controller_from_snapshot(msgspec.msgpack.decode(sys.stdin.buffer.read()))
    with compiling(log.debug):
        for task in reversed(controller.compile_tasks()):
            task()


if __name__ == "__main__":
    main()
