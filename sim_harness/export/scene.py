"""What a viewer shows of a logged run: links, contact forces and events, with wall-clock times."""

from typing import Literal, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.model.mjcf import is_mjcf
from idyn.types import Array
from sim_harness.run.logs import LoggedRun
from sim_harness.view.film import film_of
from sim_harness.view.page import newtons_per_metre, size_of
from transport.protocol.messages.error import ErrorMessage

RATE = 100.0
"""Poses and arrows per second; numbers are exported for every tick."""

WORLD = "world"
"""Frame of the environment, the parent of the robot's root link."""

COLOURS = {"predicted": (0.15, 0.45, 0.9, 1.0), "sensed": (0.95, 0.55, 0.1, 1.0)}
"""Colours of the arrows, as in `idyn view`."""


class Transform(NamedTuple):
    """Poses of a link in the frame of its parent link.

    translation: [m] (f, 3); quaternion: xyzw (f, 4); moves: whether a joint is between them
    """

    parent: str
    child: str
    translation: Array
    quaternion: Array
    moves: bool


class Scene(NamedTuple):
    """Poses and forces in f frames, with c contacts.

    times_ns: wall-clock time of each frame [ns] (f); transforms: of all links, parents first
    points: of the contacts in the world [m] (f, c, 3)
    arrows: 'predicted' and 'sensed' → arrows in the world, as long as in `idyn view` [m] (f, c, 3)
    """

    times_ns: Array
    transforms: list[Transform]
    points: Array
    arrows: dict[str, Array]


class Event(NamedTuple):
    """A change of the status or of its message. row: of the trace"""

    row: int
    level: Literal["info", "warning", "error"]
    text: str


def times_of(run: LoggedRun) -> Array:
    """Return the wall-clock time of arrival of each state [ns] (n)."""
    return np.array([each.t_recv_ns for each in run.exchanges], dtype=np.int64) + run.wall_offset_ns


def urdf_of(run: LoggedRun) -> str | None:
    """Return the text of the URDF; None for a robot from an MJCF, which other viewers cannot show."""
    text = run.controller.robot.description.urdf
    return None if is_mjcf(text) else text


def scene_of(run: LoggedRun) -> Scene:
    """Return poses and forces of a run. Raises InputError if the first configuration cannot be shown."""
    robot = run.controller.robot
    film = film_of(robot, run.controller.terrain, run.trace, RATE)
    rows = np.searchsorted(run.trace.t, film.t)
    scale = newtons_per_metre(robot.weight, size_of(film, 1 if robot.floating else 0))
    return Scene(
        times_ns=times_of(run)[rows],
        transforms=_transforms(run, film.poses),
        points=film.points,
        arrows={"predicted": film.predicted / scale, "sensed": film.world / scale},
    )


def _transforms(run: LoggedRun, poses: Array) -> list[Transform]:
    """Return the poses of all links. poses: of the joints in the world, as in `Film` (f, njoints, 7)"""
    frames = run.controller.robot.frames
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
        moves = frames.attached(above).joint != joint if above else run.controller.robot.floating
        found.append(Transform(parent, link, moved, Rotation.from_matrix(turned).as_quat(), moves))
    return found


def texts_of(run: LoggedRun) -> tuple[list[str], list[str]]:
    """Return status and message of each tick; the message of a refused state has code and reason."""
    statuses = [run.trace.modes[mode] for mode in run.trace.mode]
    messages = [
        f"{each.reply.code}: {each.reply.message}" if isinstance(each.reply, ErrorMessage) else each.reply.message
        for each in run.exchanges
    ]
    return statuses, messages


def events_of(run: LoggedRun) -> list[Event]:
    """Return the first status, each change of the status or its message, and how the run ended."""
    found: list[Event] = []
    last = "", ""
    for row, (status, message) in enumerate(zip(*texts_of(run), strict=True)):
        if (status, message) != last:
            level: Literal["info", "warning", "error"] = {"ok": "info", "degraded": "warning"}.get(status, "error")  # type: ignore[assignment]
            found.append(Event(row, level, f"{status}: {message}" if message else status))
            last = status, message
    verdict = run.verdict
    return [*found, Event(len(run.trace) - 1, "info" if verdict.good else "warning", f"end of the run: {verdict.text}")]
