"""What a run leaves behind: one row per tick, written into arrays that exist before the run begins."""

from pathlib import Path
from typing import Any

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array, Record


class Trace(Record, frozen=True):
    """A run of n ticks; c contact places of the robot and pairs of a place and a box. NaN marks what was not there: a contact,
    a prediction, a reply.

    t: time at the beginning of the tick [s] (n)
    q, v: state then (n, nq), (n, nv)
    tau: torque applied during the tick [N·m] (n, na)
    predicted: force on the robot that the reply predicted, along n, t1, t2 of each contact [N] (n, c, 3)
    simulated: the same as the world had it, mean over the tick [N] (n, c, 3)
    mode: what kind of torque it was, an index into `modes` (n)
    status: how the engine ended, `idyn.status.Status` (n)
    round_trip: from sending the state to having its torque [s] (n)
    solve_time: of the controller's step, as the reply says [s] (n)
    q_ref, v_ref: what the reply says the joints should do [rad], [rad/s] (n, na)
    wall: this machine's clock at the beginning of the tick [s] (n)
    places: names of the contact places and pairs (c)
    modes: names of the modes
    """

    t: Array
    q: Array
    v: Array
    tau: Array
    predicted: Array
    simulated: Array
    mode: Array
    status: Array
    round_trip: Array
    solve_time: Array
    q_ref: Array
    v_ref: Array
    wall: Array
    places: tuple[str, ...]
    modes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.t)

    def share(self, mode: str) -> float:
        """Share of the ticks in a mode; 0 for one that never occurred."""
        if mode not in self.modes or not len(self):
            return 0.0
        return float(np.mean(self.mode == self.modes.index(mode)))

    def save_npz(self, path: str | Path) -> None:
        """One array per field, to be read with `numpy.load` (no pickles)."""
        arrays = {name: np.asarray(getattr(self, name)) for name in self.__struct_fields__}
        np.savez_compressed(path, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load_npz(cls, path: str | Path) -> "Trace":
        """What `save_npz` wrote."""
        with np.load(path) as arrays:
            fields: dict[str, Any] = dict(arrays)
        for name in ("places", "modes"):
            fields[name] = tuple(fields[name].tolist())
        return cls(**fields)


class Row(Record, frozen=True):
    """One tick of a run, as in `Trace`; mode by its name."""

    t: float
    q: Array
    predicted: Array
    simulated: Array
    mode: str


class TraceWriter:
    """Room for a run of known length; `trace` hands out what was filled."""

    def __init__(self, robot: Robot, ticks: int) -> None:
        self._places = robot.contact_names
        self._column = {key: i for i, key in enumerate(self._places)}
        self._modes: dict[str, int] = {}
        self._row = 0
        self._t, self._wall = np.full((2, ticks), np.nan)
        self._q, self._v = np.full((ticks, robot.nq), np.nan), np.full((ticks, robot.nv), np.nan)
        self._tau = np.full((ticks, robot.na), np.nan)
        self._predicted, self._simulated = np.full((2, ticks, len(self._places), 3), np.nan)
        self._mode, self._status = np.zeros(ticks, dtype=np.int64), np.zeros(ticks, dtype=np.int64)
        self._round_trip, self._solve_time = np.full((2, ticks), np.nan)
        self._q_ref, self._v_ref = np.full((2, ticks, robot.na), np.nan)

    def __len__(self) -> int:
        """Rows that were ended."""
        return self._row

    def state(self, t: float, q: Array, v: Array, wall: float) -> None:
        """Begin a row with the state the tick starts from, at `wall` on this machine's clock [s]."""
        self._t[self._row], self._q[self._row], self._v[self._row], self._wall[self._row] = t, q, v, wall

    def command(self, tau: Array, mode: str, round_trip: float) -> None:
        """The torque that is applied, what it is, and how long its reply took [s], NaN without one."""
        self._tau[self._row] = tau
        self._mode[self._row] = self._modes.setdefault(mode, len(self._modes))
        self._round_trip[self._row] = round_trip

    def reference(self, q: Array, v: Array) -> None:
        """Where the joints should be (na)."""
        self._q_ref[self._row], self._v_ref[self._row] = q, v

    def solved(self, seconds: float) -> None:
        """How long the controller took."""
        self._solve_time[self._row] = seconds

    def predicted(self, place: str, force: tuple[float, float, float]) -> None:
        """A predicted contact force along n, t1, t2 [N]; a frame that is no contact place has no column."""
        column = self._column.get(place)
        if column is not None:
            self._predicted[self._row, column] = force

    def simulated(self, keys: tuple[str, ...], forces: Array, status: int) -> None:
        """The world's contact forces along n, t1, t2 [N] (len(keys), 3); ends the row."""
        for key, force in zip(keys, forces, strict=True):
            self._simulated[self._row, self._column[key]] = force
        self._status[self._row] = status
        self._row += 1

    def last(self) -> Row:
        """The row that was ended last."""
        i = self._row - 1
        return Row(
            t=float(self._t[i]),
            q=self._q[i],
            predicted=self._predicted[i],
            simulated=self._simulated[i],
            mode=list(self._modes)[self._mode[i]],
        )

    def trace(self) -> Trace:
        """The rows that were ended."""
        n = self._row
        return Trace(
            t=self._t[:n],
            q=self._q[:n],
            v=self._v[:n],
            tau=self._tau[:n],
            predicted=self._predicted[:n],
            simulated=self._simulated[:n],
            mode=self._mode[:n],
            status=self._status[:n],
            round_trip=self._round_trip[:n],
            solve_time=self._solve_time[:n],
            q_ref=self._q_ref[:n],
            v_ref=self._v_ref[:n],
            wall=self._wall[:n],
            places=self._places,
            modes=tuple(self._modes),
        )
