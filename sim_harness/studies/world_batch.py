"""Batches of simulated worlds: B copies of a robot's world, simulated together with one engine on all cores.

Copies share immutable data only, so each gives bit-identical results to a world that is simulated alone. A step is mostly
Python code, which threads of one process would execute in turns. The copies are therefore divided into shares, each in a
process and on a core of its own ; torques and states are in shared memory. A single share runs
in the caller's process. As with every program that starts processes, the caller's main module must be importable without side
effects: `if __name__ == "__main__":`.
"""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np

from idyn.batch.members import cores
from idyn.contact.terrain import Terrain
from idyn.errors import IdynError, InputError
from idyn.model.robot import Robot
from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.world.bodies import JointFriction
from sim_harness.world.world import World
from sim_harness.world.worlds import AnyEngine, build_world

Build = Callable[[], World]  # function that makes one copy. It is pickled for other processes


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


class BatchStep(Record, frozen=True):
    """State of the copies after a call of `step`."""

    q: Array  # configuration of each copy (B, nq)
    v: Array  # velocity of each copy (B, nv)
    t: float  # time since the last reset [s]
    status: Array  # for each copy the first `Status` of its steps that is not `ok`, or `ok` (B)


class WorldBatch:
    """B worlds of one robot on one terrain, divided into shares. It starts processes: close it, or use it in `with`."""

    def __init__(
        self,
        engine: AnyEngine,
        robot: Robot,
        terrain: Terrain,
        q: Array,
        *,
        mu: Array | None = None,
        friction: JointFriction | None = None,
        processes: int | None = None,
    ) -> None:
        """q: initial configurations (B, nq), at rest; mu, friction: as in `build_world`
        processes: number of processes; 1: the caller's; None: one for each core that the caller may use

        Raises InputError.
        """
        if np.ndim(q) != 2:
            raise InputError("q", f"expected an array (B, {robot.nq}), got {np.shape(q)}")
        count = len(q)
        check_rows("q", q, (count, robot.nq))
        build = partial(_twin, engine, robot, terrain, q[0] if count else robot.neutral(), mu=mu, friction=friction)
        for field, value in (("count", count), ("processes", 1 if processes is None else processes)):
            if value < 1:
                raise InputError(field, f"expected at least 1, got {value}")
        self._arrays, self._count, self.t, self._closed = SharedArrays(count, (robot.nq, robot.nv, robot.na)), count, 0.0, False
        shares = min(processes or cores(), count)
        bounds = [count * k // shares for k in range(shares + 1)]
        rows = [range(a, b) for a, b in pairwise(bounds)]
        self._own = Share(build, self._arrays, rows[0]) if shares == 1 else None
        pinned = _allowed_cores() if shares == cores() else [None] * shares
        self._processes = (
            [ShareProcess(build, self._arrays, *each) for each in zip(rows, pinned, strict=True)] if shares > 1 else []
        )
        try:
            self._wait_all()
        except BaseException:
            self.close()
            raise
        self.reset(q)

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes. The batch cannot step any more."""
        self._closed = True
        for process in self._processes:
            process.end()
        self._processes = []

    def reset(self, q: Array, v: Array | None = None) -> None:
        """Set the state of the copies and the time to 0. Raises InputError.

        q, v: of each copy (B, ·), or of all copies (·); v = None: at rest
        """
        if self._closed:
            raise IdynError("the batch is closed")
        self._write("q", self._arrays.q, q)
        self._write("v", self._arrays.v, np.zeros(self._arrays.v.shape[1]) if v is None else v)
        self._run_all("reset")
        self.t = 0.0

    def step(self, tau: Array, dt: float, steps: int = 1) -> BatchStep:
        """Simulate `steps` steps of dt [s] with constant torques.

        tau: [N·m] (B, na), or (na) for all. Raises InputError for malformed values, IdynError when the batch is closed.
        """
        self._write("tau", self._arrays.tau, tau)
        if self._closed:
            raise IdynError("the batch is closed")
        if not 0.0 < dt < np.inf:
            raise InputError("dt", f"expected a finite number > 0, got {dt}")
        if not isinstance(steps, int) or steps < 1:
            raise InputError("steps", f"expected a whole number ≥ 1, got {steps}")
        self._run_all("step", dt, steps)
        self.t += steps * dt
        arrays = self._arrays
        return BatchStep(q=arrays.q.copy(), v=arrays.v.copy(), t=self.t, status=arrays.status[:, 0].astype(np.int64))

    def _write(self, field: str, target: Array, values: Array) -> None:
        """Check values with `check_rows` and write them to a shared array. Raises InputError."""
        check_rows(field, values, target.shape)
        target[:] = values

    def _run_all(self, method: str, *arguments: Any) -> None:
        """Call a method of all shares, in parallel. An error in any share closes the batch."""
        try:
            for process in self._processes:
                process.send(method, *arguments)
            if self._own is not None:
                getattr(self._own, method)(*arguments)
            self._wait_all()
        except BaseException:
            self.close()
            raise

    def _wait_all(self) -> None:
        for process in self._processes:
            process.wait()


def _allowed_cores() -> Sequence[int | None]:
    """Return the cores that this process may use; None for each core on systems without this information."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None] * cores()


def _twin(engine: AnyEngine, robot: Robot, *arguments: Any, **more: Any) -> World:
    return build_world(engine, robot.twin(), *arguments, **more)


def check_rows(field: str, values: Array, shape: tuple[int, ...]) -> None:
    """Check that values are finite float64 of a shape, or of the shape of one row. Raises InputError with field and index."""
    if not isinstance(values, np.ndarray) or values.shape not in (shape, shape[1:]) or values.dtype != np.float64:
        got = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise InputError(field, f"expected an array float64 {shape} or {shape[1:]}, got {got}")
    for index in np.argwhere(~np.isfinite(values)).tolist():
        raise InputError(f"{field}{index}", f"expected a finite number, got {values[tuple(index)]}")
