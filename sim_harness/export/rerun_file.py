"""A log as a recording of rerun (extra `rerun`): robot, contact forces, all quantities, events."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from idyn.extras import missing_extra
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.export.quantities import quantities_of
from sim_harness.export.scene import COLOURS, WORLD, Event, Scene, Shown, times_of, urdf_of
from sim_harness.run.logs import Block, Runs

TIMELINE = "time"
"""Name of the timeline: time of arrival."""

FORCES = "contact_forces"
"""Entity above the arrows of both kinds."""


def write_rerun(runs: Runs, out: Path, progress: Callable[[int], None]) -> int:
    """Write the sessions of a log, of one robot, to a new file, block by block. Return the number of ticks.

    progress: called with the number of ticks of each block. Raises ConfigError without rerun's SDK.
    """
    try:
        import rerun as rr  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra("export", "writing a recording of rerun", "rerun-sdk", "rerun") from error
    recording = rr.RecordingStream("idyn")
    recording.save(out)
    shown: dict[int, Shown] = {}
    count = 0
    try:
        _describe(rr, recording, runs.log.controller.robot)
        for block in runs.blocks(progress):
            seen = shown.setdefault(block.session, Shown())
            _numbers(rr, recording, block)
            if (scene := seen.scene(block)) is not None:
                _show(rr, recording, scene)
            _tell(rr, recording, seen.events(block))
            count += len(block.trace)
        for seen, run in zip(shown.values(), runs.finished(), strict=True):
            _tell(rr, recording, [seen.ending(run.verdict)])
    finally:
        recording.disconnect()
    return count


def _describe(rr: Any, recording: Any, robot: Robot) -> None:
    """Log the colours of the forces, and the shapes of the robot, which rerun reads from a file."""
    recording.log("/", rr.CoordinateFrame(WORLD), static=True)
    for source, parts in COLOURS.items():
        colour = [round(255 * part) for part in parts]
        recording.log(f"{FORCES}/{source}", rr.CoordinateFrame(WORLD), rr.Arrows3D.from_fields(colors=[colour]), static=True)
    urdf = urdf_of(robot)
    if urdf is None:
        return
    with TemporaryDirectory(prefix="idyn-") as folder:
        path = Path(folder) / "robot.urdf"
        path.write_text(urdf, encoding="utf-8")
        rr.urdf.UrdfTree.from_file_path(path).log_urdf_to_recording(recording)


def _tell(rr: Any, recording: Any, events: list[Event]) -> None:
    """Log events as text."""
    for event in events:
        recording.set_time(TIMELINE, timestamp=np.datetime64(event.t_ns, "ns"))
        recording.log("log", rr.TextLog(event.text, level={"warning": "WARN"}.get(event.level, event.level.upper())))


def _numbers(rr: Any, recording: Any, block: Block) -> None:
    """Log each field of each quantity as a series of scalars. Absent values are left out."""
    robot, times = block.controller.robot, times_of(block)
    for quantity in quantities_of(robot):
        for name, values in zip(quantity.names(robot), quantity.values(block).T, strict=True):
            there = np.isfinite(values)
            if there.any():
                path = rr.new_entity_path([quantity.topic[1:], name])
                columns = rr.Scalars.columns(scalars=values[there])
                rr.send_columns(path, [_when(rr, times[there])], columns, recording=recording)


def _show(rr: Any, recording: Any, scene: Scene) -> None:
    """Log poses of the links that move, and contact forces as arrows."""
    when = [_when(rr, scene.times_ns)]
    count = len(scene.times_ns)
    for each in scene.transforms:
        if each.moves or each.parent == WORLD:
            columns = rr.Transform3D.columns(
                translation=each.translation,
                quaternion=each.quaternion,
                parent_frame=[each.parent] * count,
                child_frame=[each.child] * count,
            )
            rr.send_columns(rr.new_entity_path(["tf", each.child]), when, columns, recording=recording)
    for source, arrows in scene.arrows.items():
        pushes = np.any(arrows != 0, axis=2)
        columns = rr.Arrows3D.columns(vectors=arrows[pushes], origins=scene.points[pushes])
        rr.send_columns(f"{FORCES}/{source}", when, columns.partition(pushes.sum(axis=1)), recording=recording)


def _when(rr: Any, times: Array) -> Any:
    return rr.TimeColumn(TIMELINE, timestamp=times.astype("datetime64[ns]"))
