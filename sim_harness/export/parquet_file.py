"""A log as a Parquet table (extra `parquet`): one row per tick, one column per field of a quantity."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from idyn.extras import missing_extra
from idyn.model.robot import Robot
from sim_harness.export.quantities import quantities_of
from sim_harness.export.scene import texts_of, times_of
from sim_harness.run.logs import Runs


def write_parquet(runs: Runs, out: Path, progress: Callable[[int], None]) -> int:
    """Write the sessions of a log, of one robot, to a new file, a row group per block. Return the number of rows.

    The columns are `time` (of arrival, UTC), `session` (1, 2, …), `status`, `message`, and `torque.JOINT` and so on, whose
    metadata have the unit. Absent values are null.
    progress: called with the number of ticks of each block. Raises ConfigError without pyarrow.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra("export", "writing Parquet", "pyarrow", "parquet") from error
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
