"""The process that compiles kernels into the cache for another one: `python -m idyn.jit.helper`.

It reads requests from stdin, one after the other, and answers each with a line on stdout: `done`, or `failed` and why. Lines
`told` in between report progress. It ends with its input, also when the other process has ended.
"""

import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from idyn.jit.compiled import compiling
from idyn.jit.mode import cache_root

PIPE_BYTES = 1 << 20
"""Size of the pipe to the process [bytes]: its last requests fit in while it compiles."""


class Failure(Exception):
    """The process did not compile a kernel."""


def request(kernel: Any, types: tuple[Any, ...]) -> bytes:
    """Return the request to compile a kernel for arguments of these types."""
    return pickle.dumps((kernel.py_func.__module__, kernel.py_func.__name__, types))


class Helper:
    """The process, seen from the one that started it. lock: file descriptor that it keeps open until it ends

    Raises OSError if no process can be started.
    """

    def __init__(self, lock: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a pipe of the starting process would stay open after its end
            bufsize=0,
            pipesize=PIPE_BYTES,
            cwd=Path(__file__).parents[2],
            env=os.environ | {"NUMBA_CACHE_DIR": str(cache_root().resolve())},
            pass_fds=[lock],
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output, self.pid = self._process.stdin, self._process.stdout, self._process.pid

    def ask(self, kernel: Any, types: tuple[Any, ...]) -> None:
        """Ask for a kernel."""
        with suppress(BrokenPipeError):  # `wait_for_answer` reports it
            self._input.write(request(kernel, types))

    def wait_for_answer(self, tell: Callable[[str], None]) -> None:
        """Wait until the kernel is compiled; `tell` receives the progress messages. Raises Failure if it was not compiled."""
        for line in self._output:
            word, _, rest = line.decode().strip().partition(" ")
            if word == "done":
                return
            if word == "failed":
                raise Failure(f"process {self.pid} could not compile kernels ({rest})")
            tell(rest)
        code = self._process.wait()
        raise Failure(f"process {self.pid}, which compiled kernels, ended with exit code {code}")

    def leave(self, requests: list[bytes]) -> None:
        """Send the last requests without waiting, and no more."""
        os.set_blocking(self._input.fileno(), False)
        with suppress(OSError):  # the process has ended, or the pipe is full
            self._input.write(b"".join(requests))
        self._input.close()

    def end(self) -> None:
        """End the process: it has no requests left, or failed at one."""
        self.close()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes."""
        self._input.close()
        self._output.close()


def _answer(line: str) -> None:
    with suppress(OSError):  # the other process has ended
        os.write(1, f"{line}\n".encode())


def main() -> None:
    """Compile the kernels of the requests."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C interrupts a calculation of the other process, not this one
    warnings.simplefilter("error", RuntimeWarning)  # kernels are not stored
    with compiling(lambda news: _answer(f"told {news}")), suppress(EOFError):
        while True:
            module, name, types = pickle.load(sys.stdin.buffer)
            try:
                getattr(import_module(module), name).compile(types)
            except Exception as error:
                _answer(f"failed {type(error).__name__}: {' '.join(str(error).split())[:200]}")
                return
            _answer("done")


if __name__ == "__main__":
    main()
