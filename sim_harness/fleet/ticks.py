"""Replayed ticks as columns: collected, written to a Parquet file for each window (extra `parquet`), read and hashed."""

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idyn.types import Array
from sim_harness.export.files import parquet
from sim_harness.export.quantities import STATUSES
from sim_harness.run.logs import REFUSED_STATE
from transport.log.replay import Replayed, torque_of
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


class TickWriter:
    """Collects replayed ticks."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._torques: list[Array] = []  # recorded, replayed, recorded, …

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, exchange: Replayed) -> None:
        """Add a tick of the log."""
        recorded, answer = exchange.recorded, torque_of(exchange.reply)
        assert recorded is not None  # a tick has a torque
        same = answer is not None and answer.tau == recorded.tau
        force = recorded.normal_force
        tau = numbers(recorded.tau)
        status, replayed_force = REFUSED_STATE, np.nan
        self._torques.append(tau)
        if answer is None:
            self._torques.append(np.full(len(tau), np.nan))
        else:
            status = answer.status
            replayed_force = force if answer.contact_force == recorded.contact_force else answer.normal_force
            self._torques.append(tau if same else numbers(answer.tau))
        key = recorded.session, recorded.seq, recorded.t_robot
        self._rows.append((*key, STATUSES.index(status), same, replayed_force, force))

    def take(self) -> Ticks:
        """Return the ticks, and begin anew."""
        rows, torques = self._rows, np.array(self._torques)
        self._rows, self._torques = [], []
        recorded, replayed = torques[0::2], torques[1::2]
        change = np.abs(replayed - recorded)
        session, seq, t_robot, status, same, force, recorded_force = zip(*rows, strict=True)
        values = (session, seq, t_robot, status, same, replayed, change.mean(axis=1), change.max(axis=1), force, recorded_force)
        return {
            column.name: np.ascontiguousarray(value, dtype=column.type) for column, value in zip(COLUMNS, values, strict=True)
        }


def digest(ticks: Ticks) -> str:
    """Return the SHA-256 of all columns: their names, types, shapes and values."""
    found = hashlib.sha256()
    for column in COLUMNS:
        values = ticks[column.name]
        found.update(f"{column.name} {column.type} {values.shape}\n".encode())
        found.update(values.tobytes())
    return found.hexdigest()


def write(path: Path, ticks: Ticks) -> None:
    """Write ticks to a file. It appears in one step, complete: a process that is killed leaves no part of it."""
    pa, pq = parquet("--out")
    fields, arrays = [], []
    for column in COLUMNS:
        values = ticks[column.name]
        array = pa.array(values.ravel())
        if column.name == TAU:
            array = pa.FixedSizeListArray.from_arrays(array, values.shape[1])
        arrays.append(array)
        fields.append(pa.field(column.name, array.type, metadata={"unit": column.unit, "meaning": column.meaning}))
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob(f".{path.name}.*"):  # of a process that was killed
        old.unlink(missing_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), part, compression="zstd")
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def read(path: Path) -> Ticks:
    """Return the contents of a file that `write` has written."""
    _, pq = parquet("--out")
    table = pq.read_table(path, partitioning=None)
    ticks = {}
    for column in COLUMNS:
        values = table.column(column.name).combine_chunks()
        flat = values.flatten() if column.name == TAU else values
        array = np.ascontiguousarray(flat.to_numpy(zero_copy_only=False), dtype=column.type)
        ticks[column.name] = array.reshape(len(table), -1) if column.name == TAU else array
    return ticks


def rows_of(path: Path) -> int | None:
    """Return the number of ticks in a file; None if there is none, or it is damaged."""
    pa, pq = parquet("--out")
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowInvalid):
        return None
