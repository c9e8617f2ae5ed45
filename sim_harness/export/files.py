"""A log as a file for viewers or plotters: an MCAP with Foxglove's schemas, a recording of rerun, or a Parquet table.

Viewers get poses, joints, contact forces, URDF and events; all quantities are numbers that any plotter reads.
"""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from idyn.errors import missing_extra
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.export.quantities import quantities_of
from sim_harness.export.scene import COLOURS, WORLD, Event, Scene, Shown, texts_of, times_of, urdf_of
from sim_harness.run.logs import Block, Runs

SHAFT, HEAD, HEAD_SHARE = 0.008, 0.02, 0.25
"""Diameters of the shaft and of the head of an arrow [m]; length of the head as a share of the arrow."""

STRING = {"type": "object", "properties": {"data": {"type": "string"}}}
"""Schema of `std_msgs/String`, the type in which viewers expect a URDF."""


def write_foxglove(runs: Runs, out: Path, progress: Callable[[int], None]) -> int:
    """Write the sessions of a log, of one robot, to a new file, block by block. Return the number of messages.

    progress: called with the number of ticks of each block. Raises ConfigError without the SDK.
    """
    try:
        import foxglove  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra("export", "writing Foxglove's schemas", "foxglove-sdk", "foxglove") from error
    context = foxglove.Context()
    shown: dict[int, Shown] = {}
    with foxglove.open_mcap(out, context=context) as writer:
        channels = _Channels(context)
        for block in runs.blocks(progress):
            times = times_of(block).tolist()
            if block.session not in shown:
                shown[block.session] = Shown()
                channels.describe(block.controller.robot, times[0])
            channels.numbers(block, times)
            channels.joints(block, times)
            if (scene := shown[block.session].scene(block)) is not None:
                channels.scene(scene)
            channels.events(shown[block.session].events(block))
        for (number, seen), run in zip(shown.items(), runs.finished(), strict=True):
            verdict = run.verdict
            channels.events([seen.ending(verdict)])
            writer.write_metadata(f"session {number}", {"label": run.label, "verdict": verdict.whole})
    return channels.count


class _Channels:
    """The topics of one file. count: number of messages so far"""

    def __init__(self, context: Any) -> None:
        from foxglove import Channel, Schema, channels, messages  # noqa: PLC0415 - an extra

        self._context, self._channel, self._schema, self._m = context, Channel, Schema, messages
        self._tf = channels.FrameTransformsChannel("/tf", context=context)
        self._joints = channels.JointStatesChannel("/joint_states", context=context)
        self._forces = channels.SceneUpdateChannel("/contact_forces", context=context)
        self._log = channels.LogChannel("/log", context=context)
        self._json: dict[str, Any] = {}
        self.count = 0

    def describe(self, robot: Robot, t_ns: int) -> None:
        """Write the URDF."""
        if (urdf := urdf_of(robot)) is not None:
            self._to("/robot_description", "std_msgs/String", STRING).log({"data": urdf}, log_time=t_ns)
            self.count += 1

    def numbers(self, block: Block, times: list[int]) -> None:
        """Write all quantities. Fields without a value are left out."""
        robot = block.controller.robot
        for quantity in quantities_of(robot):
            names = quantity.names(robot)
            about = {"type": "number", "description": f"{quantity.meaning} [{quantity.unit}]"}
            schema = {"type": "object", "title": f"idyn{quantity.topic}", "properties": dict.fromkeys(names, about)}
            channel = self._to(quantity.topic, f"idyn.{quantity.topic[1:]}", schema)
            values = quantity.values(block)
            finite = np.isfinite(values)
            for t_ns, row, there in zip(times, values.tolist(), finite.tolist(), strict=True):
                if any(there):
                    message = {name: value for name, value, good in zip(names, row, there, strict=True) if good}
                    channel.log(message, log_time=t_ns)
                    self.count += 1

    def joints(self, block: Block, times: list[int]) -> None:
        """Write position, velocity and torque of the joints, with their names."""
        m, robot, trace = self._m, block.controller.robot, block.trace
        names = robot.joint_names
        for row, t_ns in enumerate(times):
            q, v = robot.joint_angles(trace.q[row]).tolist(), trace.v[row, robot.tree.a].tolist()
            tau = [None if np.isnan(each) else each for each in trace.tau[row].tolist()]
            states = [
                m.JointState(name=name, position=angle, velocity=speed, effort=effort)
                for name, angle, speed, effort in zip(names, q, v, tau, strict=True)
            ]
            self._joints.log(m.JointStates(timestamp=self._at(t_ns), joints=states), log_time=t_ns)
        self.count += len(times)

    def scene(self, scene: Scene) -> None:
        """Write the poses of the links, and contact forces as arrows."""
        m = self._m
        for frame, t_ns in enumerate(scene.times_ns.tolist()):
            at = self._at(t_ns)
            transforms = [
                m.FrameTransform(
                    timestamp=at,
                    parent_frame_id=each.parent,
                    child_frame_id=each.child,
                    translation=m.Vector3(**_xyz(each.translation[frame])),
                    rotation=_quaternion(m, each.quaternion[frame]),
                )
                for each in scene.transforms
            ]
            self._tf.log(m.FrameTransforms(transforms=transforms), log_time=t_ns)
            entities = [
                m.SceneEntity(
                    timestamp=at,
                    frame_id=WORLD,
                    id=f"{source} forces",
                    arrows=[
                        self._arrow(point, force, COLOURS[source])
                        for point, force in zip(scene.points[frame], arrows[frame], strict=True)
                        if np.any(force)
                    ],
                )
                for source, arrows in scene.arrows.items()
            ]
            self._forces.log(m.SceneUpdate(entities=entities), log_time=t_ns)
        self.count += 2 * len(scene.times_ns)

    def events(self, events: list[Event]) -> None:
        """Write changes of the status as log messages."""
        m = self._m
        for event in events:
            level = getattr(m.LogLevel, event.level.capitalize())
            message = m.Log(timestamp=self._at(event.t_ns), level=level, message=event.text, name="idyn")
            self._log.log(message, log_time=event.t_ns)
            self.count += 1

    def _arrow(self, point: Array, force: Array, colour: tuple[float, ...]) -> Any:
        m, length = self._m, float(np.linalg.norm(force))
        turn = _from_x(force / length)
        head = HEAD_SHARE * length
        return m.ArrowPrimitive(
            pose=m.Pose(position=m.Vector3(**_xyz(point)), orientation=_quaternion(m, turn)),
            shaft_length=length - head,
            shaft_diameter=SHAFT,
            head_length=head,
            head_diameter=HEAD,
            color=m.Color(r=colour[0], g=colour[1], b=colour[2], a=colour[3]),
        )

    def _to(self, topic: str, name: str, schema: dict[str, Any]) -> Any:
        if topic not in self._json:
            described = self._schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
            self._json[topic] = self._channel(topic, message_encoding="json", schema=described, context=self._context)
        return self._json[topic]

    def _at(self, t_ns: int) -> Any:
        return self._m.Timestamp(*divmod(t_ns, 1_000_000_000))


def _xyz(values: Array) -> dict[str, float]:
    return dict(zip("xyz", values.tolist(), strict=True))


def _quaternion(m: Any, xyzw: Array) -> Any:
    return m.Quaternion(**dict(zip("xyzw", xyzw.tolist(), strict=True)))


def _from_x(direction: Array) -> Array:
    """Return a rotation that turns the x axis into a direction, as a quaternion xyzw (4)."""
    x, y, z = direction.tolist()
    if x < -1 + 1e-9:
        return np.array([0.0, 0.0, 1.0, 0.0])  # half a turn about z
    quaternion = np.array([0.0, -z, y, 1.0 + x])
    return quaternion / np.linalg.norm(quaternion)


TIMELINE = "time"  # name of the timeline: time of arrival
FORCES = "contact_forces"  # entity above the arrows of both kinds


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
    for event in events:
        recording.set_time(TIMELINE, timestamp=np.datetime64(event.t_ns, "ns"))
        recording.log("log", rr.TextLog(event.text, level={"warning": "WARN"}.get(event.level, event.level.upper())))


def _numbers(rr: Any, recording: Any, block: Block) -> None:
    robot, times = block.controller.robot, times_of(block)
    for quantity in quantities_of(robot):
        for name, values in zip(quantity.names(robot), quantity.values(block).T, strict=True):
            there = np.isfinite(values)
            if there.any():
                path = rr.new_entity_path([quantity.topic[1:], name])
                columns = rr.Scalars.columns(scalars=values[there])
                rr.send_columns(path, [_when(rr, times[there])], columns, recording=recording)


def _show(rr: Any, recording: Any, scene: Scene) -> None:
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


def write_parquet(runs: Runs, out: Path, progress: Callable[[int], None]) -> int:
    """Write the sessions of a log, of one robot, to a new file, a row group per block. Return the number of rows.

    The columns are `time` (of arrival, UTC), `session` (1, 2, …), `status`, `message`, and `torque.JOINT` and so on, whose
    metadata have the unit. Absent values are null.
    progress: called with the number of ticks of each block. Raises ConfigError without pyarrow.
    """
    pa, pq = parquet("export")
    robot, count = runs.log.controller.robot, 0
    schema, quantities = _schema(pa, robot), quantities_of(robot)
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for block in runs.blocks(progress):
            statuses, messages = texts_of(block)
            columns: list[Any] = [times_of(block), np.full(len(block.trace), block.session, dtype=np.int32), statuses, messages]
            for quantity in quantities:
                columns += [np.ascontiguousarray(column) for column in quantity.values(block).T]
            arrays = [
                pa.array(column, type=field.type, from_pandas=True) for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(block.trace)
    return count


def parquet(where: str) -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`. where: that needs them, in the ConfigError without them"""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra(where, "writing Parquet", "pyarrow", "parquet") from error
    return pa, pq


def _schema(pa: Any, robot: Robot) -> Any:
    fields = [
        pa.field("time", pa.timestamp("ns", tz="UTC")),
        pa.field("session", pa.int32()),
        pa.field("status", pa.string()),
        pa.field("message", pa.string()),
    ]
    for quantity in quantities_of(robot):
        about = {"unit": quantity.unit, "meaning": quantity.meaning}
        fields += [pa.field(f"{quantity.topic[1:]}.{name}", pa.float64(), metadata=about) for name in quantity.names(robot)]
    return pa.schema(fields, metadata={"robot": robot.name, "urdf": robot.description.urdf})
