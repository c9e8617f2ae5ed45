"""`derivatives_batch`: the derivatives of each member of a batch. They equal those of `derivatives` bit by bit."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from idyn.batch.arrays import Batch, BatchGuess, expand, expand_guess
from idyn.batch.predict import BatchPrediction
from idyn.differentiation.derivatives import Derivatives, Slope, check_supported, derivatives
from idyn.errors import InputError
from idyn.laws import law_of
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import DEFAULT
from idyn.types import Guess


class BatchDerivatives:
    """Result of `derivatives_batch`, see `Derivatives`. Slopes have an axis of members in front: tau (B, na, k), p (B, 3n, k),
    v_plus (B, nv, k). Each except that by the demand is computed when it is first read.

    switches: of each member. A member without a certified answer of the law has the reason here, and slopes of NaN
    classical: whether each member is differentiable there (B)
    """

    def __init__(self, members: Sequence[Derivatives | str], sizes: tuple[int, int, int]) -> None:
        """members: the derivatives, or why there are none; sizes: (na, 3n, nv)"""
        self._members, self._sizes = members, sizes
        self.switches = tuple((each,) if isinstance(each, str) else each.switches for each in members)
        self.classical = np.array([not found for found in self.switches], np.bool_)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"BatchDerivatives(B={len(self)}, classical={int(self.classical.sum())})"

    @cached_property
    def q_ddot(self) -> Slope:
        return self._stacked("q_ddot", self._sizes[0])

    @cached_property
    def q(self) -> Slope:
        return self._stacked("q", self._sizes[2])

    @cached_property
    def v(self) -> Slope:
        return self._stacked("v", self._sizes[2])

    @cached_property
    def mu(self) -> Slope:
        return self._stacked("mu", self._sizes[1] // 3)

    @cached_property
    def preferred(self) -> Slope:
        return self._stacked("preferred", self._sizes[1])

    def member(self, i: int) -> Derivatives:
        """Return the derivatives of member i. Raises InputError if it has none."""
        found = self._members[i]
        if isinstance(found, str):
            raise InputError("answer", f"no derivatives of member {range(len(self))[i]}: {found}")
        return found

    def _stacked(self, name: str, k: int) -> Slope:
        tau, p, v_plus = (np.full((len(self), rows, k), np.nan) for rows in self._sizes)
        for i, each in enumerate(self._members):
            if not isinstance(each, str):
                slope: Slope = getattr(each, name)
                tau[i], p[i], v_plus[i] = slope.tau, slope.p, slope.v_plus
        return Slope(tau, p, v_plus)


def derivatives_batch(
    robot: Robot,
    batch: Batch,
    answer: BatchPrediction,
    *,
    law: Law | str,
    options: Options = DEFAULT,
    guess: BatchGuess | Guess | None = None,
) -> BatchDerivatives:
    """Return the derivatives of each member of `answer = predict_batch(robot, batch, …)`. The other arguments are those of that
    call. Members are differentiated one after the other, on one thread.

    Raises InputError for laws without a basis (`sap`, convex programs), closed chains, and malformed data.
    """
    law = law_of(law)
    check_supported(robot, law)
    expanded = expand(robot, batch)
    before = None if guess is None else expand_guess(robot, expanded, guess)
    if len(answer) != expanded.size:
        raise InputError("answer", f"expected the answer of {expanded.size} members, got {len(answer)}")
    found: list[Derivatives | str] = []
    for i in range(expanded.size):
        one = answer.member(i)
        if one.law != law.name or not one.status.ok:
            found.append(f"no certified answer of the law '{law.name}' ({one.status})")
            continue
        found.append(
            derivatives(
                robot,
                expanded.state(i),
                expanded.contacts(i),
                expanded.motion[3][i],
                one,
                law=law,
                options=options,
                guess=None if before is None else before.member(i),
                preferred=None if expanded.preferred is None else expanded.preferred[i],
            )
        )
    return BatchDerivatives(found, (robot.na, 3 * len(expanded.keys), robot.nv))
