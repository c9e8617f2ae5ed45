"""Many predictions in one compiled call: for each member of a batch what `idyn.prediction.steady` does in a tick, by its
functions."""

from typing import Any, ClassVar

import numpy as np

from idyn.jit.compiled import (
    BASES,
    CUBE,
    FLAGS,
    INDICES,
    MATRIX,
    SPANS,
    WHOLE,
    compiled,
    only,
    several,
)
from idyn.jit.records import ArrayRecord
from idyn.prediction.recovery import FIGURES
from idyn.prediction.steady import LADDER, Steady, answer
from idyn.selection.aim import aim_at_forces
from idyn.solvers.linalg import copy
from idyn.terms.filling import fill, recall
from idyn.types import Array

RUNG, PIVOTS, NULL_DIM = range(3)
"""Columns of `Members.marks`; the rung is LADDER where the ladder has to answer."""

MOTION, BEFORE = ("q", "v", "applied", "q_ddot", "again"), ("last", "wanted", "target", "basis", "first")
TOUCH = ("bodies", "others", "points", "normals", "tangents", "mu", "gaps")
"""What a batch is given, in its order."""


class Members(ArrayRecord):
    """B members with n contacts each, one row for each; what is not given has no columns, or no contacts.

    Asked    q, v, applied, q_ddot (B, ·); bodies, others (B, n); points, normals, tangents (B, n, 3); mu, gaps (B, n)
        again: whether state and contacts are those of the member before (B)
    Before   last: forces [N] (B, n, 3); wanted: those that are aimed at (B, n, 3); target: of the selection (B, ·), filled
        where it is of forces; basis (B, n, ·), overwritten by the next; first: number of the first rung, or LADDER (B)
    Answers  p (B, 3n), v_plus (B, nv), tau (B, na), force (B, n, 3), closing (B, 3m), figures (B, FIGURES + 1), marks (B, 3)
    """

    field_types: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("q", "v", "applied", "q_ddot", "mu", "gaps", "target"), MATRIX),
        **dict.fromkeys(("p", "v_plus", "tau", "closing", "figures"), MATRIX),
        **dict.fromkeys(("points", "normals", "tangents", "last", "wanted", "force"), CUBE),
        **dict.fromkeys(("bodies", "others", "marks"), SPANS),
        "basis": BASES,
        "first": INDICES,
        "again": FLAGS,
    }
    q: Array
    v: Array
    again: Array
    basis: Array
    p: Array
    v_plus: Array
    tau: Array
    force: Array
    closing: Array
    figures: Array
    marks: Array

    def __init__(self, motion: tuple[Array, ...], touch: tuple[Array, ...], before: tuple[Array, ...], closing: int) -> None:
        """motion: q, v, applied, q_ddot, again; touch: bodies … gaps; before: last … first; closing: 3m"""
        (count, nv), n = motion[1].shape, touch[5].shape[1]
        only(solve_members, Steady.TYPE, TYPE, TERMS, INDICES, WHOLE)
        self.put(**dict(zip(MOTION + TOUCH + BEFORE, (*motion, *touch, *before), strict=True)))
        self.put(p=np.empty((count, 3 * n)), v_plus=np.empty((count, nv)), tau=np.empty(motion[3].shape))
        self.put(force=np.empty((count, n, 3)), closing=np.zeros((count, closing)))
        self.put(figures=np.zeros((count, FIGURES + 1)), marks=np.full((count, 3), LADDER))


TYPE = Members.TYPE
TERMS = several(CUBE, 4)


@compiled
def solve_members(s, m, terms, which, begin):
    """Answers the members from `begin` on, one for each of `which` (k): the row of `terms` that is of its state. s: an
    `idyn.prediction.steady.Steady`; m: `Members`; terms: M, axes, h and ends, as `Robot.terms_of` fills them."""
    d, filled, sound = s.d, False, False
    for k in range(len(which)):
        i = begin + k
        m.marks[i, RUNG] = LADDER
        if m.first[i] == LADDER:
            filled = False
            continue
        if filled and m.again[i]:
            recall(d, m.last[i])
        else:
            sound, filled = _filled(d, m, terms, which[k], i), True
        if not sound:
            continue
        if s.of_forces:
            aim_at_forces(m.wanted[i], d, m.target[i])
        out = m.p[i], m.v_plus[i], m.tau[i]
        m.marks[i, RUNG], m.marks[i, PIVOTS], m.marks[i, NULL_DIM] = answer(
            s, m.q_ddot[i], m.target[i], m.basis[i], m.force[i], out, m.first[i]
        )
        copy(s.figures, m.figures[i])
        copy(d.closing, m.closing[i])


@compiled
def _filled(d, m, terms, t, i):
    """Whether the state and the contacts of member i are sound, with its terms in row t."""
    d.own_M, d.own_axes, d.own_h = terms[0][t], terms[1][t], terms[2][t, 0]
    for k in range(len(d.ends)):
        copy(terms[3][t, 2 * k], d.ends[k, 0])
        copy(terms[3][t, 2 * k + 1], d.ends[k, 1])
    frames = m.points[i], m.normals[i], m.tangents[i]
    return fill(d, (m.q[i], m.v[i], m.applied[i]), (m.bodies[i], m.others[i]), frames, (m.mu[i], m.gaps[i]), m.last[i])
