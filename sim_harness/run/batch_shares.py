"""Copies of a world in shares, each in a process: what they are, and how they hear of torques and tell of states."""

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
"""Makes one of the copies; goes to other processes."""


class Board:
    """What all processes see: q (B, nq), v (B, nv), tau (B, na), status (B)."""

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
    """Some of the copies, in one process."""

    def __init__(self, build: Build, board: Board, rows: range) -> None:
        self._board, self._rows = board, rows
        self._worlds = [build() for _ in rows]

    def reset(self) -> None:
        """Every copy to its state on the board, and its clock to 0."""
        for i, world in zip(self._rows, self._worlds, strict=True):
            world.reset(self._board.q[i].copy(), self._board.v[i].copy())

    def step(self, dt: float, steps: int) -> None:
        """So many steps under the torques on the board; states and statuses go there."""
        board = self._board
        for i, world in zip(self._rows, self._worlds, strict=True):
            tau, worst = board.tau[i].copy(), Status.SOLVED
            for _ in range(steps):
                status = world.step(tau, dt).status
                worst = status if worst.ok else worst
            board.q[i], board.v[i], board.status[i] = world.state.q, world.state.v, worst


class Other:
    """A process that has a share, on a core of its own where shares take the whole machine: they are woken at the same time
    and by the same process, which looks to schedulers as if they worked in turns."""

    def __init__(self, build: Build, board: Board, rows: range, core: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(build, board, rows, theirs, core), daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, order: str, *arguments: Any) -> None:
        """What its share is to do. Raises IdynError for a process that is no more."""
        try:
            self._pipe.send((order, arguments))
        except OSError as error:
            raise IdynError("a process of the batch failed: it is no more") from error

    def hear(self) -> None:
        """Waits until it is done, at first until the share is built. Raises IdynError for what went wrong there."""
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


def _serve(build: Build, board: Board, rows: range, pipe: Connection, core: int | None) -> None:
    """Serve orders until the pipe is closed."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        share = Share(build, board, rows)
        pipe.send("")
        while True:
            order, arguments = pipe.recv()
            getattr(share, order)(*arguments)
            pipe.send("")
    except EOFError:
        return
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
