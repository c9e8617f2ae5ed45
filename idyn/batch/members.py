"""Many predictions in one compiled call, by the same functions as a single prediction."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, lru_cache
from typing import Any

import msgspec
import numpy as np

from idyn.batch.arrays import TOUCH
from idyn.laws.law import unlimited_somewhere
from idyn.library.kernels import compiled, entry_point
from idyn.library.records import ArrayRecord, Bases, Cube, Flags, Indices, Matrix, Spans
from idyn.model.robot import Robot
from idyn.prediction.finish import BEYOND_FORCE, BEYOND_TORQUE, FIGURES, UNSELECTED, aim, choose_kept
from idyn.prediction.request import Request
from idyn.prediction.solve import NONE, Method, Workspace, realise
from idyn.solvers.linalg import copy, copy_rows
from idyn.terms.dynamics import build_dynamics
from idyn.terms.inputs import acceptable, finite, read_given, recall
from idyn.terms.stages import Dynamics
from idyn.types import Array

RUNG, PIVOTS, NULL_DIM, FINISHED = range(4)
"""Columns of `Members.marks`: index of the solver attempt (rung) that gave the solution, pivots, dimension of the choice,
result of `finish`. The rung is NONE for members that `predict` must solve."""

MOTION, BEFORE = ("q", "v", "applied", "q_ddot", "again"), ("last", "last_tau", "preferred", "basis", "first")


class Members(ArrayRecord):
    """Inputs and results of B members with n contacts each, one row for each. Inputs that are not given have no columns."""

    q: Matrix  # (B, nq)
    v: Matrix  # (B, nv)
    applied: Matrix  # (B, nv)
    q_ddot: Matrix  # (B, na)
    mu: Matrix  # (B, n)
    gaps: Matrix  # (B, n)
    radii: Matrix  # (B, n)
    last_tau: Matrix  # torques of the last tick [N·m] (B, na)
    p: Matrix  # result (B, 3n)
    v_plus: Matrix  # result (B, nv)
    tau: Matrix  # result (B, na)
    closing: Matrix  # result (B, 3m)
    figures: Matrix  # (B, FIGURES)
    points: Cube  # (B, n, 3)
    normals: Cube  # (B, n, 3)
    tangents: Cube  # (B, n, 3)
    last: Cube  # forces of the last tick [N] (B, n, 3)
    preferred: Cube  # preferred forces [N] (B, n, 3)
    force: Cube  # result (B, n, 3)
    moment: Cube  # result (B, n or 0, 3)
    bodies: Spans  # (B, n)
    others: Spans  # (B, n)
    marks: Spans  # result (B, 4)
    basis: Bases  # starting basis, overwritten with the next basis (B, n, ·)
    first: Indices  # number of the first solver attempt (rung), or NONE (B)
    again: Flags  # whether state, contacts and applied force equal those of the previous member (B)

    def __init__(self, motion: tuple[Array, ...], touch: tuple[Array, ...], before: tuple[Array, ...], method: Method) -> None:
        """motion: (q, v, applied, q_ddot, again); touch: see `TOUCH`
        before: (last, last_tau, preferred, basis, first)"""
        (count, nv), n = motion[1].shape, touch[5].shape[1]
        self.put(**dict(zip(MOTION + TOUCH + BEFORE, (*motion, *touch, *before), strict=True)))
        self.put(p=np.empty((count, 3 * n)), v_plus=np.empty((count, nv)), tau=np.empty(motion[3].shape))
        self.put(force=np.empty((count, n, 3)), closing=np.zeros((count, len(method.closing))))
        self.put(moment=np.zeros((count, n if method.turns else 0, 3)))
        self.put(figures=np.zeros((count, FIGURES)), marks=np.full((count, 4), NONE))


@compiled
def solve_members(s: Method, m: Members, terms: tuple[Array, ...], which: Array, begin: int) -> None:
    """Solve k members, from number `begin` on.

    terms: (M, axes, h, place), one row for each different state, see `Robot.terms_of`
    which: for each of these members the row of its state in `terms` (k)
    """
    problem, given, filled, valid = s.problem, s.problem.dynamics.given, False, False
    for k in range(len(which)):
        i = begin + k
        m.marks[i, RUNG] = NONE
        if m.first[i] == NONE or s.law.soft.implicit:  # ∂h/∂v is not among the terms
            filled = False
            continue
        # validate, dynamics; not repeated if the inputs equal those of the previous member
        if filled and m.again[i]:
            recall(given, m.last[i])
        else:
            given.midway, given.contact_drift = s.law.midway, given.drift and s.law.drift
            valid, filled = _fill_dynamics(problem.dynamics, m, terms, which[k], i), True
        if not (valid and finite(m.q_ddot[i]) and acceptable(m.preferred[i])):
            continue
        # realise; `predict` must solve members that exceed a limit with unlimited friction or under the law `mujoco`
        aim(s.finish, (m.last[i], m.last_tau[i], m.preferred[i]))
        out = m.p[i], m.force[i], m.v_plus[i], m.tau[i]
        found = realise(s, m.q_ddot[i], m.basis[i], out, m.first[i])
        finished, null_dim = found.finished, found.null_dim
        if found.rung >= 0 and finished == UNSELECTED:
            finished, null_dim = choose_kept(s.finish, m.q_ddot[i], out)
        beyond = max(s.finish.figures[BEYOND_TORQUE], s.finish.figures[BEYOND_FORCE]) > 0.0
        again = unlimited_somewhere(given.mu, s.law.unlimited)[0] or s.law.takes_torques
        if found.rung >= 0 and not (beyond and again):
            m.marks[i, RUNG], m.marks[i, FINISHED] = found.rung, finished
        m.marks[i, PIVOTS], m.marks[i, NULL_DIM] = found.iterations, null_dim
        copy(s.finish.figures, m.figures[i])
        copy(s.finish.closing, m.closing[i])
        if m.moment.shape[1] > 0:
            copy_rows(s.finish.moment, m.moment[i])


@compiled
def _fill_dynamics(d: Dynamics, m: Members, terms: tuple[Array, ...], t: int, i: int) -> bool:
    """Run the stages validate and dynamics for member i, whose terms are in row t. Return whether its inputs are valid."""
    g = d.given
    g.own_M, g.own_axes, g.own_h, g.own_origin = terms[0][t], terms[1][t], terms[2][t, 0], terms[3][t, 0]
    for k in range(len(g.ends)):
        copy(terms[3][t, 2 * k + 1], g.own_ends[k, 0])
        copy(terms[3][t, 2 * k + 2], g.own_ends[k, 1])
    contacts = m.bodies[i], m.others[i], m.points[i], m.normals[i], m.tangents[i], m.mu[i], m.gaps[i], m.radii[i]
    if not read_given(g, (m.q[i], m.v[i], m.applied[i]), contacts, m.last[i]):
        return False
    build_dynamics(d)
    return True


@cache
def solve_members_for(kind: Any) -> Callable[..., None]:
    """Return `solve_members` for the methods of a law."""
    return entry_point(solve_members, kind, Members, (Cube, Cube, Cube, Cube), Indices, int)


CHUNK = 64  # maximum number of members of a chunk: the terms of so many fit into the cache of the processor


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
        kind: Any = type(method)
        for chunk in chunks:
            fresh = ~repeats[chunk]
            fresh[0] = True
            states = zip(members.q[chunk][fresh], members.v[chunk][fresh], strict=True)
            self._robot.terms_of(states, *self._terms)
            solve_members_for(kind)(method, members, self._terms, np.cumsum(fresh) - 1, chunk.start)


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
