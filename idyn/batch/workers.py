"""Worker threads of a batch, each with its own `pin.Data` and its own workspace (preallocated solver buffers).

A worker computes Pinocchio's terms for a chunk of members, state by state, while it has Python's global lock. Then it releases
the lock and solves the chunk in one compiled call. So one worker computes terms while another one solves.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache

import msgspec
import numpy as np

from idyn.batch.members import Members, solve_members
from idyn.model.robot import Robot
from idyn.prediction.method import Method, Workspace
from idyn.prediction.request import Request
from idyn.types import Array

CHUNK = 64
"""Maximum number of members of a chunk: the terms of so many fit into the processor's cache."""


class Worker:
    """Data of one thread: a `Robot.twin` with its own `pin.Data`, a workspace for n contacts, and buffers for the terms of a
    chunk."""

    def __init__(self, robot: Robot, n: int) -> None:
        self._robot = robot.twin()
        self._workspace = Workspace(self._robot, n)
        nv, m = robot.nv, len(robot.closures.keys)
        self._terms = tuple(np.empty((CHUNK, *shape)) for shape in ((nv, nv), (nv, 6), (1, nv), (1 + 2 * m, 3)))

    def ready(self, request: Request) -> Method:
        """Return the worker's `Method` (prepared law and options) for a request."""
        return self._workspace.method(msgspec.structs.replace(request, robot=self._robot))

    def work(self, method: Method, members: Members, repeats: Array, chunks: Iterator[slice]) -> None:
        """Solve chunks of members until the shared iterator is empty. repeats: see `WorkerPool.solve`"""
        for chunk in chunks:
            fresh = ~repeats[chunk]
            fresh[0] = True
            states = zip(members.q[chunk][fresh], members.v[chunk][fresh], strict=True)
            self._robot.terms_of(states, *self._terms)
            solve_members(method.fields, members.fields, self._terms, np.cumsum(fresh) - 1, chunk.start)


class WorkerPool:
    """Workers for one robot and n contacts, created at first use."""

    def __init__(self, robot: Robot, n: int) -> None:
        self.limits, self._robot, self._n = robot.limits, robot, n
        self._workers: list[Worker] = []

    def solve(self, members: Members, repeats: Array, request: Request, threads: int) -> None:
        """Solve all members that compiled code can solve.

        repeats: whether the state equals that of the previous member (B)
        threads: number of threads, limited to the number of cores
        """
        count, threads = len(repeats), min(threads, len(repeats), os.cpu_count() or 1)
        size = min(CHUNK, -(-count // (2 * threads)))
        chunks = iter([slice(begin, min(begin + size, count)) for begin in range(0, count, size)])
        while len(self._workers) < threads:
            self._workers.append(Worker(self._robot, self._n))
        first, *others = ((worker, worker.ready(request)) for worker in self._workers[:threads])
        pool, at_work = _threads(os.getpid()), []
        try:
            for worker, kept in others:
                at_work.append(pool.submit(worker.work, kept, members, repeats, chunks))
            first[0].work(first[1], members, repeats, chunks)
            for each in at_work:
                each.result()
        except BaseException:
            self._workers = []  # workers that still run must not be used again
            for _ in chunks:
                """Take the remaining chunks, so that running workers end."""
            wait(at_work)
            raise


def pool_for(robot: Robot, n: int) -> WorkerPool:
    """Return the robot's worker pool for n contacts."""
    known = robot.scratch.get(("workers", n))
    if not isinstance(known, WorkerPool) or known.limits is not robot.limits:
        robot.scratch["workers", n] = known = WorkerPool(robot, n)
    return known


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of this process, shared by all pools. A forked process creates its own: threads of its
    parent do not exist in it."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="idyn-batch")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
