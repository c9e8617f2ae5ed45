"""The first rungs of laws that can begin at the last basis, in compiled code, by the law's conditions.

A law that is not in `RUNGS` has only its `attempts`; nothing but speed depends on it.
"""

import numpy as np

from idyn.jit.compiled import inlined
from idyn.laws.contact_free import ContactFree
from idyn.laws.convex.basis import solve_basis
from idyn.laws.convex.law import Convex
from idyn.laws.convex.pivoting import pivot_to_basis
from idyn.laws.convex.rays import Program
from idyn.laws.coulomb import Coulomb, solve_coulomb
from idyn.laws.exact_cone import ExactCone, solve_exact_cone
from idyn.laws.law import Face, Law, unlimited_somewhere
from idyn.laws.no_slip import PRINCIPAL, NoSlip, solve_no_slip
from idyn.solvers.linalg import copy_rows
from idyn.status import NOT_CERTIFIED, SOLVED, Conditions

RUNGS: dict[type, tuple[str, ...]] = {
    NoSlip: ("warm",),
    Coulomb: ("warm", "cold"),
    Convex: ("warm", "lemke"),
    ExactCone: ("warm",),
    ContactFree: ("contact-free",),
}
"""By the law's own class: one that is derived from it may do otherwise."""

COLD: dict[type, tuple[int, str]] = {
    NoSlip: (0, "cold"),  # from an open basis
    Coulomb: (1, "cold"),
    ContactFree: (0, "contact-free"),
}
"""Which of these is the first where there is no basis to begin at, with one of zeros, and its name then; of others none is."""


def compiled_rungs(law: Law) -> tuple[str, ...]:
    """Names of the first of the law's rungs, as many as `compiled_rung` takes."""
    if isinstance(law, Convex) and law.one_stage:
        return ()  # without a basis
    if isinstance(law, Convex) and law.conditions is Conditions.CONE:
        return ("warm",)
    return RUNGS.get(type(law), ())


def cold_rung(law: Law) -> tuple[int, str] | None:
    """Number and name of the first of the law's rungs without a basis, None where it is not compiled."""
    return COLD.get(type(law)) if compiled_rungs(law) else None


@inlined
def compiled_rung(d, law, basis, rung):
    """The law's rung of that number. law: an `idyn.prediction.steady.Steady`

    Returns impulses p (3n), face, multipliers (n) or none (0), status and pivots; `basis` (n, ·), the last one, is
    overwritten with the next.
    """
    conditions, multipliers, friction = law.conditions, d.mu[:0], law.directions[:0]
    if conditions == Conditions.NO_SLIP:
        p, flags, status, pivots, after = solve_no_slip(d.Y, d.b, d.mu, basis, PRINCIPAL, d.independent, law.max_pivots)
        copy_rows(after, basis)
    elif conditions == Conditions.COULOMB and not unlimited_somewhere(d.mu, False)[0]:
        p, flags, status, pivots, after = solve_coulomb(d.Y, d.b, d.mu, law.directions, basis, rung == 0, 0.0, law.max_pivots)
        copy_rows(after, basis)
    elif conditions in (Conditions.CONVEX, Conditions.CONE):
        gradient = d.energy if conditions == Conditions.CONVEX else d.b
        program = Program(d.Y, d.b, gradient, d.mu, law.unlimited, law.directions)
        if rung == 0:
            p, multipliers, flags, solved = solve_basis(program, basis, conditions == Conditions.CONE)
            status, pivots = SOLVED if solved else NOT_CERTIFIED, 0
        else:
            p, multipliers, flags, status, pivots = pivot_to_basis(program, basis)
    elif conditions == Conditions.EXACT_CONE and not unlimited_somewhere(d.mu, False)[1]:
        p, flags, friction, status, pivots = solve_exact_cone(d.Y, d.b, d.mu, d.last)
    else:  # contact-free; the laws of limited friction have rungs that come before where it is unlimited
        p, flags, pivots = np.zeros(len(d.b)), basis, 0  # there is nothing to select among
        status = SOLVED if conditions == Conditions.FREE else NOT_CERTIFIED
    return p, Face(flags, law.directions, d.mu, law.unlimited, friction), multipliers, status, pivots
