"""Replayed ticks as columns: collected, written to a Parquet file for each log (extra `parquet`), read and hashed."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idyn.types import Array
from sim_harness.export.files import parquet
from sim_harness.export.quantities import STATUSES
from sim_harness.run.logs import REFUSED_STATE
from transport.log.replay import Replayed
from transport.protocol.codec import numbers


class Column(NamedTuple):
    """A column. type: of its values, as in NumPy, little-endian"""

    name: str
    type: str
    unit: str
    meaning: str


COLUMNS = (
    Column("session", "<i8", "1", "number of the session, as in the messages"),
    Column("seq", "<i8", "1", "number of the state in its session"),
    Column("t_robot", "<i8", "ns", "time of the state, robot's clock"),
    Column("status", "|i1", "1", f"of the replay's reply, 0 to {len(STATUSES) - 1}: {', '.join(STATUSES)}"),
    Column("identical", "|b1", "1", "the torques of replay and log have the same bits"),
    Column("tau", "<f8", "N·m", "torques of the replay, in the order of the client (na); NaN where it refused the state"),
    Column("change_mean", "<f8", "N·m", "mean |Δτ| over the joints, replay minus log"),
    Column("change_max", "<f8", "N·m", "max |Δτ| over the joints"),
    Column("normal_force", "<f8", "N", "sum of the normal forces that the replay predicted"),
    Column("normal_force_recorded", "<f8", "N", "sum of the normal forces in the log"),
)
"""Columns of a file, one row per tick."""

TAU = "tau"  # the column with na values per row; the others have one
Ticks = dict[str, Array]  # name of a column → its values (rows) or (rows, na)


GROUP = 20_000  # ticks of a row group: so many are in memory at a time


class TickFile:
    """Context manager of a file of replayed ticks. It appears in one step, complete: a killed process leaves no part of it.

    ticks: number of ticks so far
    """

    def __init__(self, path: Path) -> None:
        self.ticks = 0
        self._path, self._part = path, path.with_name(f".{path.name}.{os.getpid()}")
        self._rows: list[tuple[Any, ...]] = []
        self._torques: list[Array] = []  # recorded, replayed, recorded, …
        self._writer: Any = None

    def __enter__(self) -> "TickFile":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for old in self._path.parent.glob(f".{self._path.name}.*"):  # of a process that was killed
            old.unlink(missing_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None and self._rows:
            self._write()
        if self._writer is not None:
            self._writer.close()
        if kind is None:
            with self._part.open("rb") as file:
                os.fsync(file.fileno())
            self._part.replace(self._path)

    def add(self, exchange: Replayed) -> None:
        """Add a tick of the log."""
        recorded, answer = exchange.recorded, exchange.answer
        assert recorded is not None  # a tick has a torque
        same = answer is not None and answer.tau == recorded.tau
        tau = numbers(recorded.tau)
        status, force, replayed_force = REFUSED_STATE, recorded.normal_force, np.nan
        self._torques.append(tau)
        if answer is None:
            self._torques.append(np.full(len(tau), np.nan))
        else:
            status = answer.status
            replayed_force = answer.normal_force
            self._torques.append(tau if same else numbers(answer.tau))
        key = recorded.session, recorded.seq, recorded.t_robot
        self._rows.append((*key, STATUSES.index(status), same, replayed_force, force))
        self.ticks += 1
        if len(self._rows) == GROUP:
            self._write()

    def _write(self) -> None:
        """Write the ticks since the last call as a row group."""
        pa, pq = parquet("--out")
        rows, torques = self._rows, np.array(self._torques)
        self._rows, self._torques = [], []
        recorded, replayed = torques[0::2], torques[1::2]
        change = np.abs(replayed - recorded)
        session, seq, t_robot, status, same, force, recorded_force = zip(*rows, strict=True)
        values = (session, seq, t_robot, status, same, replayed, change.mean(axis=1), change.max(axis=1), force, recorded_force)
        fields, arrays = [], []
        for column, value in zip(COLUMNS, values, strict=True):
            array = pa.array(np.ascontiguousarray(value, dtype=column.type).ravel())
            if column.name == TAU:
                array = pa.FixedSizeListArray.from_arrays(array, replayed.shape[1])
            arrays.append(array)
            fields.append(pa.field(column.name, array.type, metadata={"unit": column.unit, "meaning": column.meaning}))
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._part, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=GROUP)


def groups(path: Path) -> Iterator[Ticks]:
    """Yield the row groups of a file that `TickFile` has written."""
    _, pq = parquet("--out")
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            table, ticks = file.read_row_group(number), {}
            for column in COLUMNS:
                values = table.column(column.name).combine_chunks()
                flat = values.flatten() if column.name == TAU else values
                array = np.ascontiguousarray(flat.to_numpy(zero_copy_only=False), dtype=column.type)
                ticks[column.name] = array.reshape(len(table), -1) if column.name == TAU else array
            yield ticks


def add_to_digest(sha256: "hashlib._Hash", ticks: Ticks) -> None:
    """Add all columns to a digest: their names, types, shapes and values."""
    for column in COLUMNS:
        values = ticks[column.name]
        sha256.update(f"{column.name} {column.type} {values.shape}\n".encode())
        sha256.update(values.tobytes())


def rows_of(path: Path) -> int | None:
    """Return the number of ticks in a file; None if there is none, or it is damaged."""
    pa, pq = parquet("--out")
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowInvalid):
        return None
