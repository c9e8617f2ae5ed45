"""Precompilation for a server: kernels that a tick needs before clients connect, the deferred ones while the server runs.

With an empty kernel cache, compilation takes most of a minute. A second process shares the work: it compiles the kernels of the
service, the needed ones from the end of their list, and then the deferred ones. Both processes exchange kernels through the
cache. When the second process ends, a thread of the server loads the deferred kernels. Until then predictions do without them
(`idyn.prediction.loaded`), so no tick waits for a compilation. With a warm cache everything is loaded before clients connect.

`main`: the second process; it reads a controller's snapshot from stdin, as MessagePack
"""

import logging
import os
import subprocess
import sys
import threading
import time
from functools import partial

import msgspec

from controllers.build import controller_from_snapshot
from controllers.controller import Controller
from idyn.jit.compiled import CompileTask, compiling
from idyn.prediction.loaded import defer, loaded
from idyn.prediction.precompile import CompileTasks
from transport.server.settings import ServerSettings
from transport.warm_up import connected, warm_up

log = logging.getLogger(__name__)


class NotCached(Exception):
    """A kernel is not in the cache."""


class Precompilation:
    """Precompilation of one controller. Use: `run`, then `start_rest` when clients can connect, and `close`.

    When the second process fails, needed kernels are compiled here and predictions do without the deferred ones.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        tasks = controller.compile_tasks()
        self._done, self._total = 0, len(tasks.needed)
        self._tasks: CompileTasks = tasks._replace(needed=[partial(self._run_task, task) for task in tasks.needed])
        self._loader: threading.Thread | None = None
        self._closed = False
        self.helper: subprocess.Popen[bytes] | None = None

    @property
    def complete(self) -> bool:
        """Whether everything is loaded."""
        return self._loader is None or not self._loader.is_alive()

    def run(self, settings: ServerSettings) -> None:
        """Compile or load the needed kernels and log progress; load the deferred ones if they are cached."""
        defer(self._tasks.parts)
        with compiling(self._tell):
            warm_up(self._controller, settings, self._tasks)
        if self.helper is None:
            self._load_cached()

    def finish(self) -> None:
        """Compile or load the deferred kernels now."""
        if self.helper is not None:
            log.info("compiling the kernels of the fallback cascade")
            self.helper.wait()
        with compiling(log.debug):
            for task in self._tasks.deferred:
                task()
        loaded(self._tasks.parts)

    def start_rest(self) -> None:
        """Load the deferred kernels in a thread, unless they are loaded."""
        if self._tasks.deferred:
            self._loader = threading.Thread(target=self._load_rest, name="kernels", daemon=True)
            self._loader.start()

    def close(self) -> None:
        """End the second process. What it has not compiled is compiled by the next server."""
        self._closed = True
        if self.helper is not None and self.helper.poll() is None:
            self.helper.kill()
            self.helper.wait()

    def start_helper(self) -> None:
        """Start the second process."""
        try:
            program = f"import idyn; import {__name__} as kernels; kernels.main()"  # idyn first: see `idyn.siblings`
            self.helper = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
            assert self.helper.stdin is not None
            with self.helper.stdin as pipe:
                pipe.write(msgspec.msgpack.encode(self._controller.snapshot()))
        except OSError as error:  # out of processes or memory, or the process has ended already
            log.warning("no second process to compile kernels: %s", error)

    def _run_task(self, task: CompileTask) -> None:
        task()
        self._done += 1

    def _tell(self, news: str) -> None:
        part = f"task {self._done + 1} of {self._total}" if self._done < self._total else "first ticks"
        log.info("%s; %s", news, part)
        if self.helper is None:
            self.start_helper()

    def _load_cached(self) -> bool:
        """Load the deferred kernels if all of them are in the cache."""

        def refuse(_: str) -> None:
            raise NotCached

        try:
            with compiling(refuse):
                for task in self._tasks.deferred:
                    task()
        except NotCached:
            return False
        loaded(self._tasks.parts)
        self._tasks = self._tasks._replace(deferred=[])
        return True

    def _load_rest(self) -> None:
        if self.helper is None:
            self.start_helper()
        ended = self.helper.wait() if self.helper is not None else 1
        if self._closed:
            return
        if self._load_cached():
            log.info("all kernels are loaded")
        else:
            missing = ", ".join(sorted(self._tasks.parts))
            log.warning("predictions do without %s: the process that compiles them ended with exit code %d", missing, ended)


def main() -> None:
    """Second process: compile the service's kernels, the needed ones from the end of their list, then the deferred ones."""
    controller = controller_from_snapshot(msgspec.msgpack.decode(sys.stdin.buffer.read()))
    tasks = controller.compile_tasks()
    with compiling(log.debug):
        connected(controller, ServerSettings(controller=""), time.monotonic_ns)
        for task in reversed(tasks.needed):
            task()
        os.nice(10)  # the server is running or about to
        for task in tasks.deferred:
            task()
