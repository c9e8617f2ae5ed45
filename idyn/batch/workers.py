"""Who works on a batch: workers, each with a thread, a scratch of Pinocchio's and a record of its own.

Pinocchio's terms are written down one state after the other, under the interpreter's lock; the rest is one compiled call for
a chunk of members, without it. So one worker's terms are computed while another one's members are solved.
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
"""Members of one call at the most: their terms are still in the cache then."""


class Worker:
    """A twin of the robot, its record for n contacts, and room for the terms of a chunk."""

    def __init__(self, robot: Robot, n: int) -> None:
        self._robot = robot.twin()
        self._workspace = Workspace(self._robot, n)
        nv, m = robot.nv, len(robot.closures.keys)
        self._terms = tuple(np.empty((CHUNK, *shape)) for shape in ((nv, nv), (nv, 6), (1, nv), (2 * m, 3)))

    def ready(self, request: Request) -> Method:
        """The method of a request."""
        return self._workspace.method(msgspec.structs.replace(request, robot=self._robot))

    def work(self, method: Method, members: Members, repeats: Array, chunks: Iterator[slice]) -> None:
        """Answer members chunk by chunk, for as long as there are chunks that no other worker took. repeats: see `Crew`"""
        for chunk in chunks:
            fresh = ~repeats[chunk]
            fresh[0] = True
            states = zip(members.q[chunk][fresh], members.v[chunk][fresh], strict=True)
            self._robot.terms_of(states, *self._terms)
            solve_members(method.fields, members.fields, self._terms, np.cumsum(fresh) - 1, chunk.start)


class Crew:
    """As many workers as were asked for so far, for one robot and n contacts."""

    def __init__(self, robot: Robot, n: int) -> None:
        self.limits, self._robot, self._n = robot.limits, robot, n
        self._workers: list[Worker] = []

    def answer(self, members: Members, repeats: Array, request: Request, threads: int) -> None:
        """Answer all members that compiled code can answer. repeats: whether a member's state is that of the one before (B)

        threads: for more than the machine has cores those are taken
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
            self._workers = []  # whoever is still at work keeps its record to itself
            for _ in chunks:
                """Nobody takes any more."""
            wait(at_work)
            raise


def crew_for(robot: Robot, n: int) -> Crew:
    """The robot's own crew for n contacts."""
    known = robot.scratch.get(("crew", n))
    if not isinstance(known, Crew) or known.limits is not robot.limits:
        robot.scratch["crew", n] = known = Crew(robot, n)
    return known


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Of this process, for all crews: what it was forked from has others."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="idyn-batch")


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
