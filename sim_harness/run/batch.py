"""Many small worlds at once: B copies of a robot's world or of a scene under one engine, moved on together, on all cores.

Copies share nothing but what never changes, so each is to the last bit what it is alone. A step of theirs is mostly Python,
which threads of one process would do in turns: shares of the copies are in processes of their own
(`sim_harness.run.batch_shares`), each on a core of its own, and torques and states in memory that all see; a single share is
with the caller. As every program that starts processes, the caller's must be one that can be imported without doing its work:
`if __name__ == "__main__":`.
"""

import os
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

from idyn.batch.workers import cores
from idyn.contact.terrain import Terrain
from idyn.errors import IdynError, InputError
from idyn.model.robot import Robot
from idyn.types import Array, Record
from sim_harness.run.batch_shares import Board, Build, Other, Share
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.world.joints import JointFriction
from sim_harness.world.world import World
from sim_harness.world.worlds import AnyEngine, build_scene, build_world


class BatchStep(Record, frozen=True):
    """Where steps have led: copies' states q (B, nq), v (B, nv), time t [s], and the worst status of each copy's steps (B), a
    value of `Status`: the first that is not `ok`."""

    q: Array
    v: Array
    t: float
    status: Array


class Batch:
    """Copies, in shares. Close it, or use it in `with`: it has processes."""

    def __init__(self, build: Build, sizes: tuple[int, int, int], count: int, processes: int | None) -> None:
        """sizes: nq, nv, and the number of torques; processes: how many; 1: the caller's own; None: one for each core that it
        may use. Raises InputError."""
        for field, value in (("count", count), ("processes", 1 if processes is None else processes)):
            if value < 1:
                raise InputError(field, f"expected at least 1, got {value}")
        self._sizes = sizes
        self._board, self._count, self.t, self._closed = Board(count, self._sizes), count, 0.0, False
        shares = min(processes or cores(), count)
        bounds = [count * k // shares for k in range(shares + 1)]
        rows = [range(a, b) for a, b in pairwise(bounds)]
        self._own = Share(build, self._board, rows[0]) if shares == 1 else None
        places = _a_core_each() if shares == cores() else [None] * shares
        self._others = [Other(build, self._board, *each) for each in zip(rows, places, strict=True)] if shares > 1 else []
        try:
            self._hear_all()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; nothing moves any more."""
        self._closed = True
        for other in self._others:
            other.end()
        self._others = []

    def reset(self, q: Array, v: Array | None = None) -> None:
        """Put the copies at (q, v), at rest without v, and the clock to 0; (B, ·), or (·) for all. Raises InputError."""
        if self._closed:
            raise IdynError("the batch is closed")
        self._write("q", self._board.q, q)
        self._write("v", self._board.v, np.zeros(self._sizes[1]) if v is None else v)
        self._all("reset")
        self.t = 0.0

    def _advance(self, dt: float, steps: int) -> BatchStep:
        """Step all copies. Raises InputError for a malformed dt or number of steps, IdynError when the batch is closed."""
        if self._closed:
            raise IdynError("the batch is closed")
        if not 0.0 < dt < np.inf:
            raise InputError("dt", f"expected a finite number > 0, got {dt}")
        if not isinstance(steps, int) or steps < 1:
            raise InputError("steps", f"expected a whole number from 1 on, got {steps}")
        self._all("step", dt, steps)
        self.t += steps * dt
        board = self._board
        return BatchStep(q=board.q.copy(), v=board.v.copy(), t=self.t, status=board.status[:, 0].astype(np.int64))

    def _write(self, field: str, target: Array, values: Array) -> None:
        """Onto the board. Raises InputError as `check_rows` does."""
        check_rows(field, values, target.shape)
        target[:] = values

    def _all(self, order: str, *arguments: Any) -> None:
        """The same order to all shares, done at the same time. What goes wrong in one ends the batch."""
        try:
            for other in self._others:
                other.tell(order, *arguments)
            if self._own is not None:
                getattr(self._own, order)(*arguments)
            self._hear_all()
        except BaseException:
            self.close()
            raise

    def _hear_all(self) -> None:
        for other in self._others:
            other.hear()


def _a_core_each() -> Sequence[int | None]:
    """The cores that this process may use; None for each where systems do not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None] * cores()


class WorldBatch(Batch):
    """B worlds of one robot on one terrain.

    q: where they begin (B, nq); at rest. mu, friction: as `build_world` has them
    """

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
        """Raises InputError for malformed states."""
        if np.ndim(q) != 2:
            raise InputError("q", f"expected an array (B, {robot.nq}), got {np.shape(q)}")
        check_rows("q", q, (len(q), robot.nq))
        build = partial(_twin, engine, robot, terrain, q[0] if len(q) else robot.neutral(), mu=mu, friction=friction)
        super().__init__(build, (robot.nq, robot.nv, robot.na), len(q), processes)
        self.reset(q)

    def step(self, tau: Array, dt: float, steps: int = 1) -> BatchStep:
        """So many steps of dt [s] each under the joint torques [N·m] (B, na), or (na) for all. Raises InputError."""
        self._write("tau", self._board.tau, tau)
        return self._advance(dt, steps)


def _twin(engine: AnyEngine, robot: Robot, *arguments: Any, **more: Any) -> World:
    """`build_world` with a robot of its own."""
    return build_world(engine, robot.twin(), *arguments, **more)


class SceneBatch(Batch):
    """B copies of a scene, at its start."""

    def __init__(self, settings: SceneSettings, engine: AnyEngine, count: int, processes: int | None = None) -> None:
        """settings: those of `load_scene`. Raises ConfigError for what the engine does not have."""
        robot = SceneModel(settings).robot
        super().__init__(partial(build_scene, settings, engine), (robot.nq, robot.nv, 0), count, processes)
        self._dt = settings.dt

    def step(self, steps: int = 1) -> BatchStep:
        """So many steps of the scene's own dt."""
        return self._advance(self._dt, steps)


def check_rows(field: str, values: Array, shape: tuple[int, ...]) -> None:
    """Raises InputError for what are not finite numbers of a shape, or of one of its rows, naming the field and the place."""
    if not isinstance(values, np.ndarray) or values.shape not in (shape, shape[1:]) or values.dtype != np.float64:
        got = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise InputError(field, f"expected an array float64 {shape} or {shape[1:]}, got {got}")
    for place in np.argwhere(~np.isfinite(values)).tolist():
        raise InputError(f"{field}{place}", "expected a finite number")
