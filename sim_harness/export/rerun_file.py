"""A log as a recording of rerun (extra `rerun`): robot, contact forces, all quantities, events."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from idyn.extras import missing_extra
from idyn.types import Array
from sim_harness.export.quantities import quantities_of
from sim_harness.export.scene import COLOURS, WORLD, Scene, events_of, scene_of, times_of, urdf_of
from sim_harness.run.logs import LoggedRun

TIMELINE = "time"
"""Name of the timeline: time of arrival."""


def write_rerun(runs: Sequence[LoggedRun], out: Path) -> int:
    """Write the sessions of a log, of one robot, to a new file. Return the number of ticks.

    Raises ConfigError without rerun's SDK.
    """
    try:
        import rerun as rr  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra("export", "writing a recording of rerun", "rerun-sdk", "rerun") from error
    recording = rr.RecordingStream("idyn")
    recording.save(out)
    try:
        _describe(rr, recording, runs[0])
        for run in runs:
            times = times_of(run)
            _numbers(rr, recording, run, times)
            _show(rr, recording, scene_of(run))
            for event in events_of(run):
                recording.set_time(TIMELINE, timestamp=np.datetime64(int(times[event.row]), "ns"))
                recording.log("log", rr.TextLog(event.text, level={"warning": "WARN"}.get(event.level, event.level.upper())))
    finally:
        recording.disconnect()
    return sum(len(run.trace) for run in runs)


def _describe(rr: Any, recording: Any, run: LoggedRun) -> None:
    """Log the shapes of the robot, which rerun reads from a file."""
    recording.log("/", rr.CoordinateFrame(WORLD), static=True)
    urdf = urdf_of(run)
    if urdf is None:
        return
    with TemporaryDirectory(prefix="idyn-") as folder:
        path = Path(folder) / "robot.urdf"
        path.write_text(urdf, encoding="utf-8")
        rr.urdf.UrdfTree.from_file_path(path).log_urdf_to_recording(recording)


def _numbers(rr: Any, recording: Any, run: LoggedRun, times: Array) -> None:
    """Log each field of each quantity as a series of scalars. Absent values are left out."""
    robot = run.controller.robot
    for quantity in quantities_of(robot):
        for name, values in zip(quantity.names(robot), quantity.values(run).T, strict=True):
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
        path, lengths = f"contact_forces/{source}", pushes.sum(axis=1)
        rr.send_columns(path, when, columns.partition(lengths), recording=recording)
        colour = [round(255 * part) for part in COLOURS[source]]
        recording.log(path, rr.CoordinateFrame(WORLD), rr.Arrows3D.from_fields(colors=[colour]), static=True)


def _when(rr: Any, times: Array) -> Any:
    return rr.TimeColumn(TIMELINE, timestamp=times.astype("datetime64[ns]"))
