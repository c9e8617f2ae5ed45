"""Trace of a run: one row per tick, written into preallocated arrays."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Record
from transport.protocol.codec import vectors
from transport.protocol.messages.state import TorqueMessage

REFUSED, LAW = "refused: ", "law "
"""First words of the origins of answers: a refusal with its reason; a torque with the name of the law that predicted it."""

TORQUE = "torque"  # origin of a torque without prediction


class Trace(Record, frozen=True):
    """A run of n ticks with c contacts. A contact is a contact point of the robot, or a pair of such a point and a robot's box.

    NaN marks missing values: no contact, no prediction, no reply.
    """

    t: Array  # time at the beginning of the tick [s] (n)
    # q, v: state at the beginning of the tick (n, nq), (n, nv)
    q: Array
    v: Array
    tau: Array  # torque applied during the tick [N·m] (n, na)
    predicted: Array  # force on the robot that the reply predicted, along n, t1, t2 of each contact [N] (n, c, 3)
    simulated: Array  # force on the robot in the simulated world, along n, t1, t2, mean over the tick [N] (n, c, 3)
    mode: Array  # origin of the torque (server or failsafe), as an index into `modes` (n)
    status: Array  # status of the engine, a value of `idyn.status.Status` (n)
    round_trip: Array  # time from sending the state to receiving the torque [s] (n)
    solve_time: Array  # run time of the controller's step, from the reply [s] (n)
    # q_ref, v_ref: references of the joints, from the reply [rad], [rad/s] (n, na)
    q_ref: Array
    v_ref: Array
    wall: Array  # wall-clock time at the beginning of the tick [s] (n)
    places: tuple[str, ...]  # names of the contacts (c)
    modes: tuple[str, ...]  # names of the modes: statuses of replies, modes of the failsafe
    # what the server answered, as an index into `answers` (n); empty: not recorded
    answer: Array = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    answers: tuple[str, ...] = ()  # '' for no answer, 'torque', 'law NAME' or 'refused: REASON'
    # model mismatch from the reply: motion [g], force [weight of the robot] (n, 2); empty: not recorded
    mismatch: Array = msgspec.field(default_factory=lambda: np.zeros((0, 2)))
    # part of the simulated normal force that acts beside the contact place, on other shapes of the robot, and counts for the
    # nearest place [N] (n, c); NaN: the forces are not those of a world, but sensed; empty: not recorded
    beside: Array = msgspec.field(default_factory=lambda: np.zeros((0, 0)))
    # friction coefficient of each contact (n, c); empty: not recorded
    mu: Array = msgspec.field(default_factory=lambda: np.zeros((0, 0)))
    # why the reply's status was not ok, as an index into `reasons` (n); empty: not recorded
    reason: Array = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    reasons: tuple[str, ...] = ()  # '' for none, or 'STATUS: MESSAGE'

    def __len__(self) -> int:
        return len(self.t)

    def time(self, row: int) -> float:
        """Return the time of a row since the beginning [s]."""
        return float(self.t[row] - self.t[0])

    def since(self, holds: Array) -> int:
        """Return the row from which on a condition (n) has held to the end; the number of rows if it does not hold then."""
        without = np.flatnonzero(~holds)
        return int(without[-1]) + 1 if len(without) else 0

    def refusal(self, row: int) -> str:
        """Return why the server refused the state of a row, '' if it did not."""
        answer = self.answers[self.answer[row]] if len(self.answer) else ""
        return answer.removeprefix(REFUSED) if answer.startswith(REFUSED) else ""

    def substituted(self, law: str) -> float:
        """Return the share of the ticks that a law other than `law` answered."""
        other = [name.startswith(LAW) and name != LAW + law for name in self.answers]
        return float(np.mean(np.array(other)[self.answer])) if len(self.answer) else 0.0

    def share(self, mode: str) -> float:
        """Return the share of the ticks in a mode; 0 for a mode that did not occur."""
        if mode not in self.modes or not len(self):
            return 0.0
        return float(np.mean(self.mode == self.modes.index(mode)))

    def save_npz(self, path: str | Path) -> None:
        """Write one array per field, readable with `numpy.load` without pickles."""
        arrays = {name: np.asarray(getattr(self, name)) for name in self.__struct_fields__}
        np.savez_compressed(path, **arrays)  # type: ignore[arg-type]

    @classmethod
    def joined(cls, parts: Sequence["Trace"]) -> "Trace":
        """Return one trace of consecutive parts, each of `TraceWriter.take` of one writer."""
        arrays = [name for name in cls.__struct_fields__ if name not in ("places", "modes", "answers", "reasons")]
        return msgspec.structs.replace(parts[-1], **{n: np.concatenate([getattr(each, n) for each in parts]) for n in arrays})

    @classmethod
    def load_npz(cls, path: str | Path) -> "Trace":
        """Read a file of `save_npz`."""
        with np.load(path) as arrays:
            fields: dict[str, Any] = dict(arrays)
        for name in {"places", "modes", "answers", "reasons"} & fields.keys():
            fields[name] = tuple(fields[name].tolist())
        return cls(**fields)


class Row(Record, frozen=True):
    """One tick of a run. Fields as in `Trace`, except that `mode` is the name of the mode."""

    t: float
    q: Array
    predicted: Array
    simulated: Array
    mode: str


class TraceWriter:
    """Writer of a trace of at most `ticks` rows, preallocated. `state` begins a row, `simulated` completes it."""

    def __init__(self, robot: Robot, ticks: int) -> None:
        self._places = robot.contact_names
        self._column = {key: i for i, key in enumerate(self._places)}
        self._modes: dict[str, int] = {}
        self._answers = {"": 0}
        self._refusals: dict[str, str] = {}
        self._reasons, self._kinds = [""], {"": 0}  # reasons; reasons without numbers and names
        names = sorted(map(re.escape, (*robot.joint_names, *self._places)), key=len, reverse=True)
        self._varying = re.compile("|".join((r"(?<![\w.])-?\d[\d.]*(?:e[-+]?\d+)?", *names)))
        self._robot, self._ticks = robot, ticks
        self._begin()

    def _begin(self) -> None:
        robot, places, self._row = self._robot, len(self._places), 0
        sizes: dict[str, tuple[int, ...]] = {"q": (robot.nq,), "v": (robot.nv,), "mismatch": (2,)}
        sizes |= dict.fromkeys(("t", "wall", "round_trip", "solve_time"), ())
        sizes |= dict.fromkeys(("tau", "q_ref", "v_ref"), (robot.na,)) | dict.fromkeys(("beside", "mu"), (places,))
        sizes |= dict.fromkeys(("predicted", "simulated"), (places, 3))
        self._columns = {name: np.full((self._ticks, *size), np.nan) for name, size in sizes.items()}
        self._columns |= {name: np.zeros(self._ticks, dtype=np.int64) for name in ("mode", "status", "answer", "reason")}

    def __len__(self) -> int:
        """Return the number of complete rows."""
        return self._row

    def state(self, t: float, q: Array, v: Array, wall: float) -> None:
        """Begin a row with the state at the beginning of the tick. wall: wall-clock time [s]"""
        row, c = self._row, self._columns
        c["t"][row], c["q"][row], c["v"][row], c["wall"][row] = t, q, v, wall

    def command(self, tau: Array, mode: str, round_trip: float) -> None:
        """Set the applied torque (na), its mode, and the round trip of the reply [s], NaN without a reply."""
        row, c = self._row, self._columns
        c["tau"][row], c["mode"][row], c["round_trip"][row] = tau, self._modes.setdefault(mode, len(self._modes)), round_trip

    def answer(self, origin: str) -> None:
        """Set what the server answered, see `Trace.answers`; without this call: nothing."""
        self._columns["answer"][self._row] = self._answers.setdefault(origin, len(self._answers))

    def refused(self, code: str, message: str) -> None:
        """Set that the server refused the state. Only the first message of each code is kept: they differ by numbers."""
        self.answer(REFUSED + self._refusals.setdefault(code, f"{code}: {message}"))

    def reply(self, reply: TorqueMessage, to_robot: Callable[[Array], Array] = np.asarray) -> None:
        """Set what a reply says beside its torque: of each kind only the first reason. to_robot: to the robot's order of joints

        Raises ProtocolError for a malformed reference.
        """
        na, row, c = self._robot.na, self._row, self._columns
        self.answer(TORQUE if reply.solver is None else LAW + reply.solver.path)
        if reply.ref is not None:
            q_ref, v_ref = vectors((reply.ref.q, na, "ref.q"), (reply.ref.v, na, "ref.v")).reshape(2, na)
            c["q_ref"][row], c["v_ref"][row] = to_robot(q_ref), to_robot(v_ref)
        if reply.solver is not None:
            c["solve_time"][row] = reply.solver.time_us * 1e-6
        if reply.reality is not None:
            parts = reply.reality.motion, reply.reality.force
            c["mismatch"][row] = [np.nan if part is None else part for part in parts]
        for force in reply.contact_force:
            self.predicted(force.frame, (force.fn, force.ft1, force.ft2))
        if reply.status != "ok":
            text = f"{reply.status}: {reply.message}"
            found = self._kinds.setdefault(self._varying.sub("", text), len(self._kinds))
            c["reason"][row] = found
            if found == len(self._reasons):
                self._reasons.append(text)

    def predicted(self, place: str, force: tuple[float, float, float]) -> None:
        """Set a predicted contact force along n, t1, t2 [N]. Names that are not contacts of the robot are ignored."""
        column = self._column.get(place)
        if column is not None:
            self._columns["predicted"][self._row, column] = force

    def world(self, contacts: ContactSet, beside: Array | float) -> None:
        """Set the friction of the world's contacts, and the normal forces that act beside them, see `Trace.beside` [N] (n)."""
        places, row, c = self._columns_of(contacts.keys), self._row, self._columns
        c["beside"][row] = 0.0
        c["beside"][row][places], c["mu"][row][places] = beside, contacts.mu

    def _columns_of(self, keys: tuple[str, ...]) -> Array:
        return np.array([self._column[key] for key in keys], dtype=np.int64)

    def simulated(self, keys: tuple[str, ...], forces: Array, status: int) -> None:
        """Set the simulated contact forces along n, t1, t2 [N] (len(keys), 3) and complete the row."""
        self._columns["simulated"][self._row][self._columns_of(keys)] = forces.reshape(len(keys), 3)
        self._columns["status"][self._row] = status
        self._row += 1

    def last(self) -> Row:
        """Return the last complete row."""
        last = {name: column[self._row - 1] for name, column in self._columns.items()}
        fields = {name: last[name] for name in ("q", "predicted", "simulated")}
        return Row(t=float(last["t"]), mode=list(self._modes)[last["mode"]], **fields)

    def take(self) -> Trace:
        """Return a trace of all complete rows, and begin anew. Numbers of modes and answers stay the same."""
        trace = self.trace()
        self._begin()
        return trace

    def trace(self) -> Trace:
        """Return a trace of all complete rows."""
        columns = {name: column[: self._row] for name, column in self._columns.items()}
        modes, answers, reasons = tuple(self._modes), tuple(self._answers), tuple(self._reasons)
        return Trace(places=self._places, modes=modes, answers=answers, reasons=reasons, **columns)
