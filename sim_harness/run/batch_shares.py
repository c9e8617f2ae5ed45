"""Shares of the copies of a world, each in a process: shared memory, and commands over pipes."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from idyn.errors import IdynError
from idyn.status import Status
from sim_harness.world.world import World

Build = Callable[[], World]
"""Function that makes one copy. It is pickled for other processes."""


class SharedArrays:
    """Arrays in memory that all processes share: q (B, nq), v (B, nv), tau (B, na), status (B, 1)."""

    def __init__(self, count: int, sizes: Sequence[int]) -> None:
        self._count, self._sizes = count, (*sizes, 1)
        context = multiprocessing.get_context("spawn")
        self._memory = [context.RawArray("d", max(count * size, 1)) for size in self._sizes]
        self._open()

    def __getstate__(self) -> tuple[Any, ...]:
        return self._count, self._sizes, self._memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._count, self._sizes, self._memory = state
        self._open()

    def _open(self) -> None:
        views = zip(self._memory, self._sizes, strict=True)
        arrays = (np.frombuffer(raw)[: self._count * size].reshape(self._count, size) for raw, size in views)
        self.q, self.v, self.tau, self.status = arrays


class Share:
    """The copies of one process."""

    def __init__(self, build: Build, arrays: SharedArrays, rows: range) -> None:
        """rows: indices of the copies"""
        self._arrays, self._rows = arrays, rows
        self._worlds = [build() for _ in rows]

    def reset(self) -> None:
        """Set every copy to its state in the shared arrays, and its time to 0."""
        for i, world in zip(self._rows, self._worlds, strict=True):
            world.reset(self._arrays.q[i].copy(), self._arrays.v[i].copy())

    def step(self, dt: float, steps: int) -> None:
        """Simulate `steps` steps of dt [s] with the torques in the shared arrays; write states and statuses there."""
        arrays = self._arrays
        for i, world in zip(self._rows, self._worlds, strict=True):
            tau, worst = arrays.tau[i].copy(), Status.SOLVED
            for _ in range(steps):
                status = world.step(tau, dt).status
                worst = status if worst.ok else worst
            arrays.q[i], arrays.v[i], arrays.status[i] = world.state.q, world.state.v, worst


class ShareProcess:
    """A process with a share. core: the core it is pinned to, if any.

    Processes are pinned when there is one for each core. The caller wakes all of them at the same time; to a scheduler this
    looks as if they worked in turns, and it would put several on one core.
    """

    def __init__(self, build: Build, arrays: SharedArrays, rows: range, core: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(build, arrays, rows, child, core), daemon=True)
        self._process.start()
        child.close()

    def send(self, method: str, *arguments: Any) -> None:
        """Start a method of the share. Raises IdynError if the process has ended."""
        try:
            self._pipe.send((method, arguments))
        except OSError as error:
            raise IdynError("a process of the batch failed: it has ended") from error

    def wait(self) -> None:
        """Wait until the method has returned, the first time until the share is built. Raises IdynError for an error in it."""
        try:
            failure = self._pipe.recv()
        except EOFError:
            self._process.join()
            failure = f"it ended with exit code {self._process.exitcode}"
        if failure:
            raise IdynError(f"a process of the batch failed: {failure}")

    def end(self) -> None:
        self._pipe.close()
        self._process.join()


def _serve(build: Build, arrays: SharedArrays, rows: range, pipe: Connection, core: int | None) -> None:
    """Call methods of a share on request until the pipe is closed. Answers are '', or the text of an error."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        share = Share(build, arrays, rows)
        pipe.send("")
        while True:
            method, arguments = pipe.recv()
            getattr(share, method)(*arguments)
            pipe.send("")
    except EOFError:
        return
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
