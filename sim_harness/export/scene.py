"""What a viewer shows of a logged run, block by block: links, contact forces and events, with wall-clock times."""

from typing import Literal, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.errors import InputError
from idyn.model.mjcf import is_mjcf
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.verdict import Verdict
from sim_harness.run.logs import Block
from sim_harness.view.film import displayed, film_at
from sim_harness.view.page import newtons_per_metre, size_of
from transport.protocol.messages.base import ErrorMessage

RATE = 100.0  # poses and arrows per second; numbers are exported for every tick
WORLD = "world"  # frame of the environment, the parent of the robot's root link
COLOURS = {"predicted": (0.15, 0.45, 0.9, 1.0), "sensed": (0.95, 0.55, 0.1, 1.0)}  # colours of the arrows, as in `idyn view`


class Transform(NamedTuple):
    """Poses of a link in the frame of its parent link."""

    parent: str
    child: str
    translation: Array  # [m] (f, 3)
    quaternion: Array  # xyzw (f, 4)
    moves: bool  # whether a joint is between them


class Scene(NamedTuple):
    """Poses and forces in f frames, with c contacts."""

    times_ns: Array  # wall-clock time of each frame [ns] (f)
    transforms: list[Transform]  # of all links, parents first
    points: Array  # of the contacts in the world [m] (f, c, 3)
    arrows: dict[str, Array]  # 'predicted' and 'sensed' → arrows in the world, as long as in `idyn view` [m] (f, c, 3)


class Event(NamedTuple):
    """A change of the status or of its message. t_ns: wall-clock time [ns]"""

    t_ns: int
    level: Literal["info", "warning", "error"]
    text: str


def times_of(block: Block) -> Array:
    """Return the wall-clock time of arrival of each state [ns] (n)."""
    return np.array([each.t_recv_ns for each in block.exchanges], dtype=np.int64) + block.wall_offset_ns


def urdf_of(robot: Robot) -> str | None:
    """Return the text of the URDF; None for a robot from an MJCF, which other viewers cannot show."""
    text = robot.description.urdf
    return None if is_mjcf(text) else text


class Shown:
    """What a viewer shows of one session, from its blocks in order."""

    def __init__(self) -> None:
        self._begin, self._frames, self._scale = 0.0, 0, 0.0
        self._diverged = False
        self._status, self._t_ns = ("", ""), 0

    def scene(self, block: Block) -> Scene | None:
        """Return poses and forces `RATE` times per second, and at the end; None without a frame in this block.

        Nothing is shown after the simulation diverged. Raises InputError if the first configuration cannot be shown.
        """
        robot, rows = block.controller.robot, self._rows(block)
        if not len(rows):
            return None
        film = film_at(robot, block.controller.terrain, block.trace, rows)
        self._scale = self._scale or newtons_per_metre(robot.weight, size_of(film, 1 if robot.floating else 0))
        return Scene(
            times_ns=times_of(block)[rows],
            transforms=_transforms(robot, film.poses),
            points=film.points,
            arrows={"predicted": film.predicted / self._scale, "sensed": film.world / self._scale},
        )

    def _rows(self, block: Block) -> Array:
        """Return the rows that are frames: the first at or after each multiple of 1/`RATE`, and the last that is shown."""
        count = 0 if self._diverged else displayed(block.trace.q)
        self._diverged = count < len(block.trace)
        if not count:
            if not self._scale:
                raise InputError("q", "expected a first configuration of finite numbers that are not huge")
            return np.zeros(0, dtype=np.int64)
        t = block.trace.t[:count]
        if not self._scale:
            self._begin = t[0]
        until = int((t[-1] + 1e-9 - self._begin) * RATE) + 1
        due = self._begin + np.arange(self._frames, max(self._frames, until)) / RATE
        rows = np.searchsorted(t, due - 1e-9)
        rows = rows[rows < count]
        self._frames += len(rows)
        return np.unique(np.append(rows, count - 1)) if block.last or self._diverged else rows

    def events(self, block: Block) -> list[Event]:
        """Return the first status, and each change of the status or its message."""
        times, found = times_of(block).tolist(), []
        for t_ns, status, message in zip(times, *texts_of(block), strict=True):
            if (status, message) != self._status:
                level: Literal["info", "warning", "error"] = {"ok": "info", "degraded": "warning"}.get(status, "error")  # type: ignore[assignment]
                found.append(Event(t_ns, level, f"{status}: {message}" if message else status))
                self._status = status, message
        self._t_ns = times[-1]
        return found

    def ending(self, verdict: Verdict) -> Event:
        """Return how the run ended, after its last block."""
        return Event(self._t_ns, "info" if verdict.good else "warning", f"end of the run: {verdict.whole}")


def _transforms(robot: Robot, poses: Array) -> list[Transform]:
    """Return the poses of all links. poses: of the joints in the world, as in `Film` (f, njoints, 7)"""
    frames = robot.frames
    placed = {WORLD: (np.broadcast_to(np.eye(3), (len(poses), 3, 3)), np.zeros((len(poses), 3)))}
    turns = Rotation.from_quat(poses[:, :, 3:].reshape(-1, 4)).as_matrix().reshape(*poses.shape[:2], 3, 3)
    found = []
    for link, above in frames.links.items():
        joint, offset = frames.attached(link)
        turn, origin = turns[:, joint], poses[:, joint, :3]
        placed[link] = turn @ offset[:9].reshape(3, 3), origin + turn @ offset[9:]
        parent = above or WORLD
        if link == WORLD:
            continue  # a root link of this name is fixed to the world
        to_parent = placed[parent][0].transpose(0, 2, 1)
        turned = to_parent @ placed[link][0]
        moved = np.einsum("fij,fj->fi", to_parent, placed[link][1] - placed[parent][1])
        moves = frames.attached(above).joint != joint if above else robot.floating
        found.append(Transform(parent, link, moved, Rotation.from_matrix(turned).as_quat(), moves))
    return found


def texts_of(block: Block) -> tuple[list[str], list[str]]:
    """Return status and message of each tick; the message of a refused state has code and reason."""
    statuses = [block.trace.modes[mode] for mode in block.trace.mode]
    messages = [
        f"{each.reply.code}: {each.reply.message}" if isinstance(each.reply, ErrorMessage) else each.reply.message
        for each in block.exchanges
    ]
    return statuses, messages
