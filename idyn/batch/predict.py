"""Many predictions at once: states, contacts and demands as arrays, answers as arrays, all to the last bit those of `predict`.

Where the first rung answers, be it the last basis or none, a chunk of members is one compiled call (`idyn.batch.members`), and
chunks are shared out among threads (`idyn.batch.workers`). All other members, degenerate ones and those of laws without
compiled rungs, are predicted one by one.
"""

from typing import Any

import msgspec
import numpy as np

from idyn.batch.arrays import TOUCH, Batch, BatchGuess, Spread, spread, spread_guess
from idyn.batch.members import FINISHED, NULL_DIM, PIVOTS, RUNG, Members
from idyn.batch.workers import cores, crew_for
from idyn.errors import InputError
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.finish import BEYOND_FORCE, BEYOND_TORQUE, CHANGE, UNSELECTED
from idyn.prediction.method import Method, workspace_for
from idyn.prediction.predict import DEFAULT, predict
from idyn.prediction.request import Request
from idyn.prediction.solve import NONE
from idyn.status import SOLVED, STATUSES
from idyn.types import Array, ContactSet, Guess, Prediction, Record, Residuals, State


class BatchPrediction(Record, frozen=True):
    """What `predict_batch` answers, one row for each member; see `idyn.Prediction`.

    tau [N·m] (B, na); force: in the world [N] (B, n, 3); p: rows S, T, N [N·s] (B, 3n); dt [s]; v_plus (B, nv)
    status: values of `Status` (B)
    way: by which law and rung, an index of `ways` (B)
    residuals: the certificates, in the order of `Residuals` (B, 6)
    demand_change [rad/s], torque_excess [N·m], force_excess [N] (B)
    iterations, null_dim (B); closing [N·s] (B, 3m)
    guess: pass to the next call
    singles: those that `predict` answered, by their rows
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
        """One of them, as `predict` answers it."""
        i = range(len(self))[i]
        if i in self.singles:
            return self.singles[i]
        law, rung = self.ways[self.way[i]]
        return Prediction(
            tau=self.tau[i],
            force=self.force[i],
            p=self.p[i],
            dt=self.dt,
            v_plus=self.v_plus[i],
            status=STATUSES[self.status[i]],
            law=law,
            rung=rung,
            iterations=int(self.iterations[i]),
            residuals=Residuals(*self.residuals[i].tolist()),
            demand_change=float(self.demand_change[i]),
            torque_excess=float(self.torque_excess[i]),
            force_excess=float(self.force_excess[i]),
            null_dim=int(self.null_dim[i]),
            closing=self.closing[i],
            guess=self.guess.member(i),
        )


def predict_batch(
    robot: Robot,
    batch: Batch,
    *,
    law: Law,
    dt: float,
    options: Options = DEFAULT,
    guess: BatchGuess | Guess | None = None,
    threads: int | None = None,
) -> BatchPrediction:
    """What `predict` says to each member of the batch, over the next `dt` [s], to the last bit.

    guess: `BatchPrediction.guess` of the last call, or one for all members
    threads: how many share the work, no more than there are cores; None: one for each core that this process may use. The
        answer does not depend on it. Above three they wait for one another: Pinocchio's share is one state after the other

    Members that follow one another share Pinocchio's terms when their states are the same, and Jacobians when their contacts
    are: let demands vary the quickest. Raises InputError naming the field of what is malformed, and the member.
    """
    if not 0.0 < dt < np.inf:
        raise InputError("dt", f"expected a finite number > 0, got {dt}")
    if threads is not None and threads < 1:
        raise InputError("threads", f"expected at least 1, got {threads}")
    asked = spread(robot, batch)
    before = None if guess is None else spread_guess(robot, asked, guess)
    resumed = np.zeros(asked.size, dtype=np.bool_)
    if before is not None and options.warm_start:
        resumed = before.resumes(law)
    request = _request(robot, asked, law, dt, options, before)
    method = workspace_for(robot, len(asked.keys)).method(request)
    members = _members(asked, law, method, before, resumed)
    if len(method.kernels) and asked.size:
        crew_for(robot, len(asked.keys)).answer(members, asked.repeats, request, threads or cores())
    singles: dict[int, Prediction] = {}
    for i in np.flatnonzero(members.marks[:, RUNG] == NONE).tolist():
        singles[i] = _single(robot, asked, i, None if before is None else before.member(i), law=law, dt=dt, options=options)
    return _gathered(members, asked.keys, law, dt, method, resumed, singles)


def _request(robot: Robot, asked: Spread, law: Law, dt: float, options: Options, before: BatchGuess | None) -> Request:
    """What all members have in common; of the rest it says only whether there is a last tick."""
    n, still = len(asked.keys), np.zeros(0)
    none = ContactSet(**{name: np.zeros((n, 0)) for name in TOUCH}, keys=asked.keys)
    guess = None if before is None else Guess(law=law.name, keys=asked.keys, basis=still, tau=still, force=still)
    return Request(robot, State(q=still, v=still), none, still, law, dt, options, guess, None, None)


def _members(asked: Spread, law: Law, method: Method, before: BatchGuess | None, resumed: Array) -> Members:
    """The batch as compiled code takes it, and where each member begins."""
    count, kernels, no_forces = asked.size, len(method.kernels), np.empty((asked.size, 0, 3))
    basis = np.zeros((count, *method.empty.shape), dtype=np.bool_)
    first = np.full(count, method.cold if method.cold < kernels else NONE)
    force, tau = no_forces, np.empty((count, 0))
    if before is not None:
        force, tau = before.force, before.tau
        if kernels and resumed.any():
            basis[resumed], first[resumed] = before.basis[resumed], 0
        first[[i for i, one in before.others.items() if one.law == law.name]] = NONE  # they have a basis, but not here
    preferred = no_forces if asked.preferred is None else asked.preferred
    return Members(asked.motion, asked.touch, (force, tau, preferred, basis, first), len(method.closing))


def _single(robot: Robot, asked: Spread, i: int, guess: Guess | None, **settings: Any) -> Prediction:
    """The member by itself. Raises InputError naming field and member."""
    applied, preferred = asked.motion[2], asked.preferred
    try:
        return predict(
            robot,
            asked.state(i),
            asked.contacts(i),
            asked.motion[3][i],
            guess=guess,
            applied=applied[i] if applied.shape[1] else None,
            preferred=None if preferred is None else preferred[i],
            **settings,
        )
    except InputError as error:
        raise InputError(f"{error.field} of member {i}", error.message) from error


def _gathered(
    members: Members, keys: tuple[str, ...], law: Law, dt: float, method: Method, resumed: Array, singles: dict[int, Prediction]
) -> BatchPrediction:
    """All answers in arrays, those of `predict` among those of compiled code."""
    m, kernels = members, len(method.kernels)
    names = [name + suffix for suffix in ("", ", unselected") for name in (*method.warm_names, *method.cold_names)]
    ways, others = [(law.name, name) for name in names], {}
    way = m.marks[:, RUNG] + kernels * (~resumed + 2 * (m.marks[:, FINISHED] == UNSELECTED))
    status = np.full(len(way), SOLVED)
    basis = m.basis if kernels else np.zeros((*m.basis.shape[:2], law.basis_width), law.basis_type)
    for i, one in singles.items():
        m.tau[i], m.force[i], m.p[i], m.v_plus[i], m.closing[i] = one.tau, one.force, one.p, one.v_plus, one.closing
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
        tau=m.tau,
        force=m.force,
        p=m.p,
        dt=dt,
        v_plus=m.v_plus,
        status=status,
        way=way,
        ways=tuple(ways),
        residuals=m.figures[:, :BEYOND_TORQUE],
        demand_change=m.figures[:, CHANGE],
        torque_excess=m.figures[:, BEYOND_TORQUE],
        force_excess=m.figures[:, BEYOND_FORCE],
        iterations=m.marks[:, PIVOTS],
        null_dim=m.marks[:, NULL_DIM],
        closing=m.closing,
        guess=BatchGuess(law=law.name, keys=keys, basis=basis, tau=m.tau, force=m.force, others=others),
        singles=singles,
    )
