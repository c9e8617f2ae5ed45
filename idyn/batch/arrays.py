"""Inputs of a batch: arrays with one row for each member or one value for all, checked (shapes and types) and expanded to
one row for each member. Values are checked when a member is solved, as in a single prediction."""

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from idyn.errors import InputError
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.terms.inputs import numbers
from idyn.types import Array, ContactSet, Guess, Record, State


class Batch(Record, frozen=True):
    """Inputs of B predictions (members) for one robot. An array without the members' axis (B) is the same for all members; at
    least one array must have this axis.

    state: q (B, nq), v (B, nv)
    contacts: n contacts with the same keys for all members, bodies (B, n), points (B, n, 3), …
    q_ddot: demanded joint accelerations [rad/s²] (B, na)
    applied [N, N·m] (B, nv), preferred [N] (B, n, 3): see `idyn.predict`
    """

    state: State
    contacts: ContactSet
    q_ddot: Array
    applied: Array | None = None
    preferred: Array | None = None


class BatchGuess(Record, frozen=True):
    """Warm start for the next batch, see `idyn.Guess`.

    law: name of the law that computed the bases; keys: contact keys (n)
    basis (B, n, ·), tau [N·m] (B, na), force [N] (B, n, 3)
    others: guesses of the members that were solved by another law: row → guess; their rows of `basis` are not used
    """

    law: str
    keys: tuple[str, ...]
    basis: Array
    tau: Array
    force: Array
    others: Mapping[int, Guess] = MappingProxyType({})

    def member(self, i: int) -> Guess:
        """Return the guess of member i."""
        i = range(len(self.tau))[i]
        if i in self.others:
            return self.others[i]
        return Guess(law=self.law, keys=self.keys, basis=self.basis[i], tau=self.tau[i], force=self.force[i])

    def resumes(self, law: Law) -> Array:
        """Return for which members the law can start from the basis (B, bool)."""
        fits = self.law == law.name and self.basis.shape[2] == law.basis_width and self.basis.dtype == law.basis_type
        resumes = np.full(len(self.basis), fits)
        resumes[list(self.others)] = False
        return resumes


class ExpandedBatch(NamedTuple):
    """A batch with contiguous arrays that have one row for each of `size` members."""

    size: int
    # (q, v, applied, q_ddot, again); again: whether state, contacts and applied force equal those of the previous member (B)
    motion: tuple[Array, ...]
    touch: tuple[Array, ...]  # see `TOUCH`
    keys: tuple[str, ...]  # contact keys (n)
    preferred: Array | None  # preferred forces or None
    repeats: Array  # whether the state equals that of the previous member (B)

    def state(self, i: int) -> State:
        return State(q=self.motion[0][i], v=self.motion[1][i])

    def contacts(self, i: int) -> ContactSet:
        rows = zip(TOUCH, self.touch, strict=True)
        return ContactSet(**{name: array[i] for name, array in rows}, keys=self.keys)


TOUCH = ("bodies", "others", "points", "normals", "tangents", "mu", "gaps", "radii")  # arrays of a contact set, in order

_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)


class _Field(NamedTuple):
    """An input array, with the expected shape and type of a row."""

    name: str
    value: Array
    shape: tuple[int, ...]
    dtype: np.dtype = _FLOAT64


def expand(robot: Robot, batch: Batch) -> ExpandedBatch:
    """Return the batch with one row for each member. Raises InputError for the first field of wrong type or shape."""
    c, state, n = batch.contacts, batch.state, len(batch.contacts.keys)
    fields = [
        _Field("q", state.q, (robot.nq,)),
        _Field("v", state.v, (robot.nv,)),
        _Field("q_ddot", batch.q_ddot, (robot.na,)),
        *(_Field(f"contacts.{name}", getattr(c, name), (n,), _INT64) for name in TOUCH[:2]),
        *(_Field(f"contacts.{name}", getattr(c, name), (n, 3)) for name in TOUCH[2:5]),
        *(_Field(f"contacts.{name}", getattr(c, name), (n,)) for name in TOUCH[5:]),
    ]
    fields += [] if batch.applied is None else [_Field("applied", batch.applied, (robot.nv,))]
    fields += [] if batch.preferred is None else [_Field("preferred", batch.preferred, (n, 3))]
    for k, field in enumerate(fields):
        if not isinstance(field.value, np.ndarray) or field.value.dtype != field.dtype:
            fields[k] = field._replace(value=numbers(field.name, field.value, field.dtype))
    count = _count(fields)
    rows = {field.name: _rows(field, count) for field in fields}
    q, v = rows["q"], rows["v"]
    touch, applied = tuple(rows[f"contacts.{name}"] for name in TOUCH), rows.get("applied", np.empty((count, 0)))
    repeats = _repeats((q, v), np.arange(count) > 0)
    again = _repeats((applied, *touch), repeats)
    return ExpandedBatch(count, (q, v, applied, rows["q_ddot"], again), touch, c.keys, rows.get("preferred"), repeats)


def expand_guess(robot: Robot, expanded: ExpandedBatch, guess: BatchGuess | Guess) -> BatchGuess:
    """Return a guess with one row for each member and each present contact. Raises InputError for the first field of wrong type
    or shape."""
    if not isinstance(guess, (BatchGuess, Guess)):
        raise InputError("guess", f"expected a BatchGuess or a Guess, got {type(guess).__name__}")
    n, basis = len(guess.keys), guess.basis
    if not (isinstance(basis, np.ndarray) and basis.shape[basis.ndim - 2 : -1] == (n,) and basis.ndim in (2, 3)):
        basis = np.zeros((n, 0), dtype=np.int8)  # a type that no law starts from
    fields = [
        _Field("guess.basis", basis, (n, basis.shape[-1]), basis.dtype),
        _Field("guess.tau", guess.tau, (robot.na,)),
        _Field("guess.force", guess.force, (n, 3)),
    ]
    for field in fields:
        _check(field)
        if field.value.ndim > len(field.shape) and len(field.value) != expanded.size:
            raise InputError(field.name, f"expected {expanded.size} rows, one for each member, got {len(field.value)}")
    basis, tau, force = (_rows(field, expanded.size) for field in fields)
    basis, force = (_carried_over(rows, guess.keys, expanded.keys) for rows in (basis, force))
    others = {} if isinstance(guess, Guess) else guess.others
    if not all(0 <= i < expanded.size for i in others):
        raise InputError("guess.others", f"expected members from 0 to {expanded.size - 1}, got {sorted(others)}")
    return BatchGuess(law=guess.law, keys=expanded.keys, basis=basis, tau=tau, force=force, others=others)


def _carried_over(rows: Array, before: tuple[str, ...], keys: tuple[str, ...]) -> Array:
    if before == keys:
        return rows
    carried, places = np.zeros((len(rows), len(keys), rows.shape[2]), rows.dtype), {key: i for i, key in enumerate(before)}
    for i, key in enumerate(keys):
        if key in places:
            carried[:, i] = rows[:, places[key]]
    return carried


def _count(fields: list[_Field]) -> int:
    """Return the number of members. Raises InputError for different numbers of rows."""
    first = None
    for field in fields:
        _check(field)
        if field.value.ndim == len(field.shape):
            continue
        first = first or field
        if len(field.value) != len(first.value):
            wanted = f"expected {len(first.value)} rows, as in `{first.name}`"
            raise InputError(field.name, f"{wanted}, got {len(field.value)}")
    if first is None:
        raise InputError("batch", "expected at least one array with a row for each member, got only common ones")
    return len(first.value)


def _check(field: _Field) -> None:
    value, shape = field.value, field.shape
    if isinstance(value, np.ndarray) and value.dtype == field.dtype and shape in (value.shape, value.shape[1:]):
        return
    got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
    sizes = "".join(f", {size}" for size in shape)
    raise InputError(field.name, f"expected an array {field.dtype} (B{sizes}) or {shape}, got {got}")


def _rows(field: _Field, count: int) -> Array:
    return np.require(np.broadcast_to(field.value, (count, *field.shape)), requirements=("C", "W"))


def _repeats(arrays: tuple[Array, ...], candidates: Array) -> Array:
    """Return which of the candidates have rows equal to those of the previous member, bit by bit (B, bool)."""
    same = candidates.copy()
    for array in arrays:
        if not same.any():
            break
        flat = array.reshape(len(array), prod(array.shape[1:])).view(np.int64)
        same[1:] &= (flat[1:] == flat[:-1]).all(axis=1)
    return same
