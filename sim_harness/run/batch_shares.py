"""Copies of a world in shares, each in a process: what they are, and how they hear of torques and tell of states."""

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from idyn.contact.terrain import Terrain
from idyn.errors import IdynError
from idyn.model.robot import Robot
from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.worlds import Scene, build_scene
from sim_harness.world.joint_friction import JointFriction
from sim_harness.world.world import World
from sim_harness.world.worlds import AnyEngine, build_world


class Kind(Protocol):
    """What the copies are; goes to other processes."""

    def build(self) -> Any:
        """One of them."""
        ...

    def sizes(self) -> tuple[int, int, int]:
        """nq, nv, and the number of torques."""
        ...

    def move(self, world: Any, tau: Array, dt: float) -> Status:
        """One step."""
        ...


class RobotWorlds(Record, frozen=True):
    """Worlds of a robot, see `build_world`; q: where they are built."""

    engine: AnyEngine
    robot: Robot
    terrain: Terrain
    q: Array
    mu: Array | None
    friction: JointFriction | None

    def build(self) -> World:
        return build_world(self.engine, self.robot.twin(), self.terrain, self.q, mu=self.mu, friction=self.friction)

    def sizes(self) -> tuple[int, int, int]:
        return self.robot.nq, self.robot.nv, self.robot.na

    def move(self, world: World, tau: Array, dt: float) -> Status:
        return world.step(tau, dt).status


class SceneWorlds(Record, frozen=True):
    """Copies of a scene."""

    settings: SceneSettings
    engine: AnyEngine

    def build(self) -> Scene:
        return build_scene(self.settings, self.engine)

    def sizes(self) -> tuple[int, int, int]:
        robot = self.build().model.robot
        return robot.nq, robot.nv, 0

    def move(self, world: Scene, tau: Array, dt: float) -> Status:
        return world.step().solution.status


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

    def __init__(self, kind: Kind, board: Board, rows: range) -> None:
        self._kind, self._board, self._rows = kind, board, rows
        self._worlds = [kind.build() for _ in rows]

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
                status = self._kind.move(world, tau, dt)
                worst = status if worst.ok else worst
            board.q[i], board.v[i], board.status[i] = world.state.q, world.state.v, worst


class Other:
    """A process that has a share, on a core of its own where shares take the whole machine: they are woken at the same time
    and by the same process, which looks to schedulers as if they worked in turns."""

    def __init__(self, kind: Kind, board: Board, rows: range, core: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(kind, board, rows, theirs, core), daemon=True)
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


def _serve(kind: Kind, board: Board, rows: range, pipe: Connection, core: int | None) -> None:
    """Does what it is told until nobody tells it anything more."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        share = Share(kind, board, rows)
        pipe.send("")
        while True:
            order, arguments = pipe.recv()
            getattr(share, order)(*arguments)
            pipe.send("")
    except EOFError:
        return
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
