"""`predict_batch`: many predictions in one call, with inputs and results as arrays. Results equal those of `predict` bit by
bit. Members that a kernel solves are solved in chunks, one compiled call for each chunk, on several threads
(`idyn.batch.members`); all others one by one with `predict`."""

from typing import Any

import msgspec
import numpy as np

from idyn.batch.arrays import TOUCH, Batch, BatchGuess, ExpandedBatch, expand, expand_guess
from idyn.batch.members import FINISHED, NULL_DIM, PIVOTS, RUNG, Members, cores, pool_for
from idyn.errors import InputError
from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.finish import BEYOND_FORCE, BEYOND_TORQUE, CHANGE, UNSELECTED
from idyn.prediction.predict import DEFAULT, predict
from idyn.prediction.request import Request
from idyn.prediction.solve import NONE, Method, workspace_for
from idyn.status import SOLVED, STATUSES
from idyn.types import Array, ContactSet, Guess, Prediction, Record, Residuals, State

ROWS = ("tau", "force", "p", "v_plus", "closing", "moment")
NUMBERS = ("iterations", "demand_change", "torque_excess", "force_excess", "null_dim")
"""Fields of a `Prediction` that are a row, or an entry, of an array of a `BatchPrediction`."""


class BatchPrediction(Record, frozen=True):
    """Results of `predict_batch`, one row for each member; see `idyn.Prediction`.

    tau [N·m] (B, na); force: in the world [N] (B, n, 3); p: rows S, T, N [N·s] (B, 3n); dt [s]; v_plus (B, nv)
    status: values of `Status` (B)
    ways: the different pairs (law, rung) that gave solutions; way: index into `ways` (B)
    residuals: in the order of `Residuals` (B, 6)
    demand_change [rad/s], torque_excess [N·m], force_excess [N] (B)
    iterations, null_dim (B); closing [N·s] (B, 3m); moment [N·m] (B, n or 0, 3)
    guess: warm start for the next call
    singles: predictions of the members that were solved by `predict`: row → prediction
    """

    tau: Array
    force: Array
    p: Array
    dt: float
    v_plus: Array
    status: Array
    way: Array
    ways: tuple[tuple[str, str], ...]
    residuals: Array
    demand_change: Array
    torque_excess: Array
    force_excess: Array
    iterations: Array
    null_dim: Array
    closing: Array
    moment: Array
    guess: BatchGuess
    singles: dict[int, Prediction]

    def __len__(self) -> int:
        return len(self.tau)

    def __repr__(self) -> str:
        counts = ((status, int(np.sum(self.status == status))) for status in STATUSES)
        statuses = ", ".join(f"{status}: {count}" for status, count in counts if count)
        worst = np.max(self.residuals, initial=0.0)
        law, n = self.guess.law, len(self.guess.keys)
        return f"BatchPrediction(B={len(self)}, {statuses}, law={law!r}, n={n}, residual={worst:.1e})"

    def member(self, i: int) -> Prediction:
        """Return the prediction of member i."""
        i = range(len(self))[i]
        if i in self.singles:
            return self.singles[i]
        law, rung = self.ways[self.way[i]]
        rows: dict[str, Any] = {name: getattr(self, name)[i] for name in ROWS}
        rows |= {name: getattr(self, name)[i].item() for name in NUMBERS}
        residuals, status = Residuals(*self.residuals[i].tolist()), STATUSES[self.status[i]]
        guess = self.guess.member(i)
        return Prediction(**rows, dt=self.dt, status=status, law=law, rung=rung, residuals=residuals, guess=guess)


def predict_batch(
    robot: Robot,
    batch: Batch,
    *,
    law: Law | str,
    dt: float,
    options: Options = DEFAULT,
    guess: BatchGuess | Guess | None = None,
    threads: int | None = None,
) -> BatchPrediction:
    """Predict each member of the batch over `dt` [s]. Results equal those of `predict` bit by bit.

    guess: `BatchPrediction.guess` of the last call, or one guess for all members
    threads: number of threads, limited to the number of cores; None: one for each core that this process may use. Results do
        not depend on it. More than three gain little: Pinocchio's terms are computed for one state after the other.

    Consecutive members with equal states share Pinocchio's terms; if their contacts are equal too, they share the Jacobians.
    Order the members such that demands vary fastest. Raises InputError, naming field and member, for malformed data.
    """
    law = law_of(law)
    if not 0.0 < dt < np.inf:
        raise InputError("dt", f"expected a finite number > 0, got {dt}")
    if threads is not None and threads < 1:
        raise InputError("threads", f"expected at least 1, got {threads}")
    if options.outcomes:
        raise InputError("options.outcomes", f"expected 0: batches look for no other motions, got {options.outcomes}")
    expanded = expand(robot, batch)
    before = None if guess is None else expand_guess(robot, expanded, guess)
    resumed = np.zeros(expanded.size, dtype=np.bool_)
    if before is not None and options.warm_start:
        resumed = before.resumes(law)
    request = _request(robot, expanded, law, dt, options, before)
    method = workspace_for(robot, len(expanded.keys)).method(request)
    members = _members(expanded, law, method, before, resumed)
    if len(method.kernels) and expanded.size:
        pool_for(robot, len(expanded.keys)).solve(members, expanded.repeats, request, threads or cores())
    singles: dict[int, Prediction] = {}
    for i in np.flatnonzero(members.marks[:, RUNG] == NONE).tolist():
        singles[i] = _single(robot, expanded, i, None if before is None else before.member(i), law=law, dt=dt, options=options)
    return _collect(members, expanded.keys, law, dt, method, resumed, singles)


def _request(
    robot: Robot, expanded: ExpandedBatch, law: Law, dt: float, options: Options, before: BatchGuess | None
) -> Request:
    """Return a request with the common settings of all members; its arrays are placeholders."""
    n, empty = len(expanded.keys), np.zeros(0)
    none = ContactSet(**{name: np.zeros((n, 0)) for name in TOUCH}, keys=expanded.keys)
    guess = None if before is None else Guess(law=law.name, keys=expanded.keys, basis=empty, tau=empty, force=empty)
    return Request(robot, State(q=empty, v=empty), none, empty, law, dt, options, guess, None, None)


def _members(expanded: ExpandedBatch, law: Law, method: Method, before: BatchGuess | None, resumed: Array) -> Members:
    count, kernels, no_forces = expanded.size, len(method.kernels), np.empty((expanded.size, 0, 3))
    basis = np.zeros((count, *method.empty.shape), dtype=np.bool_)
    first = np.full(count, method.cold if method.cold < kernels else NONE)
    force, tau = no_forces, np.empty((count, 0))
    if before is not None:
        force, tau = before.force, before.tau
        if kernels and resumed.any():
            basis[resumed], first[resumed] = before.basis[resumed], 0
        first[[i for i, one in before.others.items() if one.law == law.name]] = NONE  # bases: `before.others`
    preferred = no_forces if expanded.preferred is None else expanded.preferred
    return Members(expanded.motion, expanded.touch, (force, tau, preferred, basis, first), method)


def _single(robot: Robot, expanded: ExpandedBatch, i: int, guess: Guess | None, **settings: Any) -> Prediction:
    """Return the result of `predict` for member i. Raises InputError, naming field and member."""
    applied, preferred = expanded.motion[2], expanded.preferred
    try:
        return predict(
            robot,
            expanded.state(i),
            expanded.contacts(i),
            expanded.motion[3][i],
            guess=guess,
            applied=applied[i] if applied.shape[1] else None,
            preferred=None if preferred is None else preferred[i],
            **settings,
        )
    except InputError as error:
        raise InputError(f"{error.field} of member {i}", error.message) from error


def _collect(
    members: Members, keys: tuple[str, ...], law: Law, dt: float, method: Method, resumed: Array, singles: dict[int, Prediction]
) -> BatchPrediction:
    m, kernels = members, len(method.kernels)
    names = [name + suffix for suffix in ("", ", unselected") for name in (*method.warm_names, *method.cold_names)]
    ways, others = [(law.name, name) for name in names], {}
    way = m.marks[:, RUNG] + kernels * (~resumed + 2 * (m.marks[:, FINISHED] == UNSELECTED))
    status = np.full(len(way), SOLVED)
    basis = m.basis if kernels else np.zeros((*m.basis.shape[:2], law.basis_width), law.basis_type)
    for i, one in singles.items():
        m.tau[i], m.force[i], m.p[i], m.v_plus[i], m.closing[i] = one.tau, one.force, one.p, one.v_plus, one.closing
        m.moment[i] = one.moment if len(one.moment) else 0.0
        residuals = msgspec.structs.astuple(one.residuals)
        m.figures[i] = *residuals, one.torque_excess, one.force_excess, one.demand_change
        m.marks[i, PIVOTS], m.marks[i, NULL_DIM], status[i] = one.iterations, one.null_dim, one.status
        if (one.law, one.rung) not in ways:
            ways.append((one.law, one.rung))
        way[i] = ways.index((one.law, one.rung))
        if one.guess.law == law.name and one.guess.basis.shape == basis.shape[1:]:
            basis[i] = one.guess.basis
        else:
            others[i] = one.guess
    return BatchPrediction(
        **{name: getattr(m, name) for name in ROWS},
        dt=dt,
        status=status,
        way=way,
        ways=tuple(ways),
        residuals=m.figures[:, :BEYOND_TORQUE],
        demand_change=m.figures[:, CHANGE],
        torque_excess=m.figures[:, BEYOND_TORQUE],
        force_excess=m.figures[:, BEYOND_FORCE],
        iterations=m.marks[:, PIVOTS],
        null_dim=m.marks[:, NULL_DIM],
        guess=BatchGuess(law=law.name, keys=keys, basis=basis, tau=m.tau, force=m.force, others=others),
        singles=singles,
    )
