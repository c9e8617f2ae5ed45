"""The basis of a solution, read from its velocities and impulses: which impulses may change, and which velocities stay zero."""

from typing import NamedTuple

import numpy as np

from idyn.laws.law import SLIPS, is_free
from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import magnitude
from idyn.solvers.rows import solve_and_span
from idyn.types import Array

TIGHT = 1e-9  # slack of a friction facet that counts as zero, as a share of the largest impulse
EQUAL = 1e-11  # difference of the speeds along two corners of a friction polygon between which the friction is [m/s]
NEAR = 1e-6  # speeds [m/s] and shares of the largest impulse below which a contact is at a switch
SMALLEST = 1e-12  # lower bound of the largest impulse [N·s]

SWITCHES = (
    "may close",
    "may open",
    "turns the selection's polygon",
    "is at a corner of its friction polygon",
    "may stick",
    "may change the direction of its friction",
    "is at the edge of its friction cone",
)
"""Switches of a contact, in words; bit k of its code stands for number k."""

CLOSES, OPENS, TURNS, CORNER, STICKS, TIE, EDGE = (1 << k for k in range(len(SWITCHES)))

STICKING, SLIDING, TURNING = range(3)  # whether no contact slides, some do, and some on round cones
COLUMNS, HELD, FACE, FACETS = range(4)  # places in `Basis.counts`


class Basis(NamedTuple):
    """Each row of the first four matrices is (contact, S, T, N): a direction of the impulse or velocity of one contact."""

    columns: Array  # B, in which impulses may change (m)
    held: Array  # W, in which velocities stay zero (r)
    face: Array  # columns of the selection: B without the tight facets of friction cones
    tight: Array  # tight facets, tight · p = 0 (t)
    reach: Array  # change of the normal entry of `tight` by μ (t)
    counts: Array  # (m, r, columns of the face, t)
    turning: Array  # H of sliding contacts with round cones, its block of S and T (n, 2, 2)
    by_mu: Array  # change of the impulse by μ at fixed coordinates (n, 3)
    codes: Array  # switches of each contact, see `SWITCHES` (n)


class Friction(NamedTuple):
    """Friction of a law: corners of its polygon (k, 2), whether its cones are round, and whether every μ > 0 counts as ∞."""

    directions: Array
    round: bool
    unlimited: bool


@compiled
def fill_basis(friction: Friction, mu: Array, p: Array, u_hat: Array, basis: Basis) -> int:
    """Fill the basis at impulses p (3n) and velocities û with the allowance (3n). Return whether contacts slide."""
    largest, free, kinds = max(SMALLEST, magnitude(p)), False, STICKING
    for i in range(len(mu)):
        free = free or is_free(mu[i], friction.unlimited)
    in_cones = free and _all_in_cones(friction, mu, p, 1e-9 * largest)
    for k in range(4):
        basis.counts[k] = 0
    for i in range(len(mu)):
        code, normal, slip = 0, p[3 * i + 2], np.hypot(u_hat[3 * i], u_hat[3 * i + 1])
        basis.turning[i, 0, 0] = basis.turning[i, 0, 1] = basis.turning[i, 1, 0] = basis.turning[i, 1, 1] = 0.0
        basis.by_mu[i, 0] = basis.by_mu[i, 1] = basis.by_mu[i, 2] = 0.0
        if normal <= TIGHT * largest:
            basis.codes[i] = CLOSES if u_hat[3 * i + 2] < NEAR else 0
            continue
        code = OPENS if normal < NEAR * largest else 0
        if mu[i] == 0.0:
            _add(basis, True, i, (0.0, 0.0, 1.0))
            _hold(basis, i, (0.0, 0.0, 1.0))
        elif slip <= SLIPS or is_free(mu[i], friction.unlimited):
            for r in range(3):
                axis = (1.0 if r == 0 else 0.0, 1.0 if r == 1 else 0.0, 1.0 if r == 2 else 0.0)
                _add(basis, False, i, axis)
                _hold(basis, i, axis)
            code |= _stick(friction, mu[i], i, p, (largest, in_cones), basis)
        else:
            code |= _slide(friction, mu[i], i, p, u_hat, basis)
            kinds = TURNING if friction.round else SLIDING
        basis.codes[i] = code
    return kinds


@compiled
def _put(lines: Array, place: int, i: int, axis: tuple[float, float, float]) -> None:
    lines[place, 0] = i
    for c in range(3):
        lines[place, 1 + c] = axis[c]


@compiled
def _add(basis: Basis, also_face: bool, i: int, axis: tuple[float, float, float]) -> None:
    """Append a column, to the face too."""
    _put(basis.columns, basis.counts[COLUMNS], i, axis)
    basis.counts[COLUMNS] += 1
    if also_face:
        _put(basis.face, basis.counts[FACE], i, axis)
        basis.counts[FACE] += 1


@compiled
def _hold(basis: Basis, i: int, axis: tuple[float, float, float]) -> None:
    _put(basis.held, basis.counts[HELD], i, axis)
    basis.counts[HELD] += 1


@compiled
def _stick(friction: Friction, mu: float, i: int, p: Array, rest: tuple[float, bool], basis: Basis) -> int:
    """Add the columns of the face of a contact that sticks, its tight facets and its change by μ. Return its code.

    rest: (largest impulse, whether all impulses are in cones)
    """
    largest, in_cones = rest
    polygonal, code, first, corners = True, 0, basis.counts[FACETS], friction.directions
    if is_free(mu, friction.unlimited) and not in_cones:
        polygonal = False
    elif friction.round:
        polygonal = False
        if not _inside_every_polygon(corners, mu, i, p):
            code = TURNS
    if polygonal:
        # rows (−edge, μ reach) of the facets
        for j in range(len(corners)):
            e0, e1, reach = _facet(corners, j)
            if -e0 * p[3 * i] - e1 * p[3 * i + 1] + mu * reach * p[3 * i + 2] <= max(TIGHT * largest, 1e-11):
                place = basis.counts[FACETS]
                _put(basis.tight, place, i, (-e0, -e1, mu * reach))
                basis.reach[place] = reach
                basis.counts[FACETS] += 1
    count = basis.counts[FACETS] - first
    if count == 0:
        for r in range(3):
            _put(basis.face, basis.counts[FACE], i, (1.0 if r == 0 else 0.0, 1.0 if r == 1 else 0.0, 1.0 if r == 2 else 0.0))
            basis.counts[FACE] += 1
        return code
    # the null space of the tight rows; p moves with μ by the smallest change that keeps them tight
    A, b = stack_array((3, count)), stack_array(count)
    z, span = stack_array(3), stack_array((3, 3))
    for k in range(count):
        b[k] = -basis.reach[first + k] * p[3 * i + 2]
        for c in range(3):
            A[c, k] = basis.tight[first + k, 1 + c]
    rank = solve_and_span((A, b), (z, span), 0.0)
    for k in range(3 - rank):
        _put(basis.face, basis.counts[FACE], i, (span[0, k], span[1, k], span[2, k]))
        basis.counts[FACE] += 1
    for c in range(3):
        basis.by_mu[i, c] = z[c]
    return code | (CORNER if count > 1 else 0)


@compiled
def _slide(friction: Friction, mu: float, i: int, p: Array, u_hat: Array, basis: Basis) -> int:
    """Add the columns and held rows of a contact that slides, and its changes by μ and by its velocity. Return its code."""
    u0, u1, normal = u_hat[3 * i], u_hat[3 * i + 1], p[3 * i + 2]
    speed = np.hypot(u0, u1)
    code = STICKS if speed < NEAR else 0
    basis.by_mu[i, 0], basis.by_mu[i, 1] = p[3 * i] / mu, p[3 * i + 1] / mu
    _hold(basis, i, (0.0, 0.0, 1.0))
    if friction.round:
        e0, e1 = u0 / speed, u1 / speed
        _add(basis, True, i, (-mu * e0, -mu * e1, 1.0))
        size = mu * normal / speed
        basis.turning[i, 0, 0], basis.turning[i, 1, 1] = size * e1 * e1, size * e0 * e0
        basis.turning[i, 0, 1] = basis.turning[i, 1, 0] = -size * e0 * e1
        return code
    # the corner against the velocity, or the two between which the friction is
    corners, best, second, least, next_least = friction.directions, 0, -1, np.inf, np.inf
    for j in range(len(corners)):
        against = corners[j, 0] * u0 + corners[j, 1] * u1
        if against < least:
            best, second, least, next_least = j, best, against, least
        elif against < next_least:
            second, next_least = j, against
    a0, a1 = corners[best]
    _add(basis, True, i, (mu * a0, mu * a1, 1.0))
    if next_least > least + EQUAL:
        return code | (TIE if next_least - least < NEAR else 0)
    d0, d1 = corners[second, 0] - a0, corners[second, 1] - a1
    _add(basis, True, i, (mu * (a0 + d0), mu * (a1 + d1), 1.0))
    _hold(basis, i, (d0, d1, 0.0))
    along = (p[3 * i] - normal * mu * a0) * d0 + (p[3 * i + 1] - normal * mu * a1) * d1
    share = along / (mu * (d0 * d0 + d1 * d1))
    return code | (TIE if min(share, normal - share) < NEAR * normal else 0)


@compiled
def _facet(corners: Array, j: int) -> tuple[float, float, float]:
    """Return the sum of corners j and j + 1 of a polygon, a normal of the edge between them, and its product with corner j."""
    a, b = corners[j], corners[j + 1 if j + 1 < len(corners) else 0]
    return a[0] + b[0], a[1] + b[1], (a[0] + b[0]) * a[0] + (a[1] + b[1]) * a[1]


@compiled
def _inside_every_polygon(corners: Array, mu: float, i: int, p: Array) -> bool:
    """Return whether an impulse is inside the friction polygon of the selection however that is turned."""
    reach = mu * p[3 * i + 2] * np.cos(np.pi / max(len(corners), 4))
    return np.hypot(p[3 * i], p[3 * i + 1]) < reach * (1.0 - NEAR)


@compiled
def _all_in_cones(friction: Friction, mu: Array, p: Array, room: float) -> bool:
    """Return whether all impulses are inside the friction polygons of μ: the selection of a law of unlimited friction then
    keeps them there."""
    for i in range(len(mu)):
        if mu[i] == np.inf:
            return False
        for j in range(len(friction.directions)):
            e0, e1, reach = _facet(friction.directions, j)
            if not e0 * p[3 * i] + e1 * p[3 * i + 1] <= mu[i] * reach * p[3 * i + 2] + room:
                return False
    return True
