"""The basis of a solution, read from its velocities and impulses: which impulses may change, and which velocities stay zero."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from idyn.laws.law import SLIPS, Law, has_round_cones
from idyn.types import Array, ContactSet

TIGHT = 1e-9
"""Slack of a friction facet that counts as zero, as a share of the largest impulse."""

EQUAL = 1e-11
"""Difference of the speeds along two corners of a friction polygon between which the friction is [m/s]."""

NEAR = 1e-6
"""Speeds [m/s] and shares of the largest impulse below which a contact is at a switch."""


class Basis(NamedTuple):
    """columns: B, impulses that the law may change (3n, m); held: W (r, 3n); turning: H of sliding contacts (3n, 3n)
    face: columns of the selection: B without the tight facets of friction cones (3n, ·)
    friction_slope: change of p by μ at fixed coordinates (3n, n)
    tight: rows of the tight facets, tight · p = 0 (t, 3n); reaches: their slope by μ of their contact, in its normal (t, 3n)
    selectable: whether the selection's derivative is known; unlimited: whether friction is unlimited
    switches: what is at a switch, in words
    """

    columns: Array
    held: Array
    turning: Array
    face: Array
    friction_slope: Array
    tight: Array
    reaches: Array
    selectable: bool
    unlimited: bool
    switches: tuple[str, ...]


class _ContactBasis(NamedTuple):
    """The basis of one contact in its rows S, T, N, see `Basis`; it has no rows and columns if it is open."""

    columns: Array = np.zeros((3, 0))
    held: Array = np.zeros((0, 3))
    face: Array = np.zeros((3, 0))
    by_mu: Array = np.zeros(3)
    tight: Array = np.zeros((0, 3))
    reach: Array = np.zeros(0)
    turning: Array = np.zeros((3, 3))
    switches: tuple[str, ...] = ()


def basis_of(law: Law, contacts: ContactSet, p: Array, u_hat: Array) -> Basis:
    """Return the basis at impulses p (3n) and velocities û with the allowance (3n)."""
    n, in_cones = len(contacts), _all_in_cones(law, contacts, p)
    largest = max(float(np.abs(p).max(initial=0.0)), 1e-12)
    each = [
        _contact_basis(law, float(contacts.mu[i]), p[3 * i : 3 * i + 3], u_hat[3 * i : 3 * i + 3], (largest, in_cones))
        for i in range(n)
    ]
    reaches = [np.outer(one.reach, np.eye(3 * n)[3 * i + 2]) for i, one in enumerate(each)]
    turning, nothing = _diagonal([one.turning for one in each]), np.zeros((0, 3 * n))
    return Basis(
        columns=_diagonal([one.columns for one in each]),
        held=_diagonal([one.held for one in each]),
        turning=turning,
        face=_diagonal([one.face for one in each]),
        friction_slope=_diagonal([one.by_mu[:, None] for one in each]),
        tight=_diagonal([one.tight for one in each]),
        reaches=np.vstack([nothing, *reaches]),
        selectable=not turning.any(),
        unlimited=law.unlimited_friction or bool(np.isinf(contacts.mu).any()),
        switches=tuple(
            f"contact {key} {switch}" for key, one in zip(contacts.keys, each, strict=True) for switch in one.switches
        ),
    )


def _contact_basis(law: Law, mu: float, impulse: Array, velocity: Array, rest: tuple[float, bool]) -> _ContactBasis:
    """Return the basis of one contact. rest: (largest impulse of all contacts, `_all_in_cones`)"""
    largest, in_cones = rest
    free = bool(np.isinf(mu)) or (law.unlimited_friction and mu > 0.0)
    if impulse[2] <= TIGHT * largest:
        return _ContactBasis(switches=("may close",) if velocity[2] < NEAR else ())
    switches: tuple[str, ...] = ("may open",) if impulse[2] < NEAR * largest else ()
    speed, all_rows = float(np.hypot(velocity[0], velocity[1])), np.eye(3)
    if mu == 0.0:
        return _ContactBasis(columns=all_rows[:, 2:], held=all_rows[2:], face=all_rows[:, 2:], switches=switches)
    if free or speed <= SLIPS:
        sticks = _ContactBasis(columns=all_rows, held=all_rows, face=all_rows, switches=switches)
        if free and not in_cones:
            return sticks
        if has_round_cones(law):
            inside = _inside_every_polygon(law, mu, impulse)
            return sticks if inside else sticks._replace(switches=(*switches, "turns the selection's polygon"))
        cone = _cone(law, mu, impulse, largest)
        several = ("is at a corner of its friction polygon",) if len(cone.rows) > 1 else ()
        return sticks._replace(
            face=cone.directions, by_mu=cone.by_mu, tight=cone.rows, reach=cone.reach, switches=(*switches, *several)
        )
    sliding = _sliding(law, mu, velocity[:2], impulse)
    switches += ("may stick",) if speed < NEAR else ()
    switches += ("may change the direction of its friction",) if sliding.tie else ()
    turning = np.zeros((3, 3))
    if has_round_cones(law):
        e = velocity[:2] / speed
        turning[:2, :2] = mu * impulse[2] / speed * (np.eye(2) - np.outer(e, e))
    by_mu = np.array([*(impulse[:2] / mu), 0.0])
    return _ContactBasis(sliding.directions, sliding.held, sliding.directions, by_mu, turning=turning, switches=switches)


def _diagonal(blocks: list[Array]) -> Array:
    """Return the block-diagonal matrix; a block may have no rows or columns."""
    joined: Array = block_diag(*blocks) if blocks else np.zeros((0, 0))
    return joined


class Sliding(NamedTuple):
    """A sliding contact. directions: of its impulse (3, ·); held: rows of its velocity that stay zero (·, 3); tie: whether the
    direction of its friction is at a switch"""

    directions: Array
    held: Array
    tie: bool


def _sliding(law: Law, mu: float, velocity: Array, impulse: Array) -> Sliding:
    """Return how the impulse of a contact that slides with this velocity (2) may change."""
    normal = np.array([[0.0, 0.0, 1.0]])
    if has_round_cones(law):
        e = velocity / np.hypot(*velocity)
        return Sliding(np.array([[-mu * e[0]], [-mu * e[1]], [1.0]]), normal, False)
    against = law.directions @ velocity
    loaded = np.flatnonzero(against <= against.min() + EQUAL)
    corners = law.directions[loaded]
    columns = np.vstack([mu * corners.T, np.ones(len(corners))])
    if len(corners) < 2:
        return Sliding(columns, normal, bool(np.partition(against, 1)[1] - against.min() < NEAR))
    shares = np.linalg.lstsq(columns, impulse, rcond=None)[0]
    return Sliding(columns, np.vstack([normal, [*(corners[0] - corners[1]), 0.0]]), bool(shares.min() < NEAR * impulse[2]))


class Cone(NamedTuple):
    """Tight facets of a friction polygon.

    directions: in which the impulse may move without them (3, ·); by_mu: change of the impulse by μ, which moves them (3)
    rows: of the facets (t, 3); reach: slope of their normal entry by μ (t)
    """

    directions: Array
    by_mu: Array
    rows: Array
    reach: Array


def _cone(law: Law, mu: float, impulse: Array, largest: float) -> Cone:
    """Return the tight facets of the friction polygon at an impulse."""
    corners = law.directions
    edges = corners + np.roll(corners, -1, axis=0)
    reach = (edges * corners).sum(axis=1)
    rows = np.column_stack([-edges, mu * reach])
    tight = rows @ impulse <= max(TIGHT * largest, 1e-11)
    if not tight.any():
        return Cone(np.eye(3), np.zeros(3), rows[tight], reach[tight])
    _, s, Vt = np.linalg.svd(rows[tight])
    by_mu = -np.linalg.pinv(rows[tight], rcond=1e-9) @ (reach[tight] * impulse[2])
    return Cone(Vt[int((s > 1e-9).sum()) :].T, by_mu, rows[tight], reach[tight])


def _inside_every_polygon(law: Law, mu: float, impulse: Array) -> bool:
    """Return whether an impulse is inside the friction polygon of the selection however that is turned."""
    reach = mu * impulse[2] * float(np.cos(np.pi / max(len(law.directions), 4)))
    return float(np.hypot(impulse[0], impulse[1])) < reach * (1.0 - NEAR)


def _all_in_cones(law: Law, contacts: ContactSet, p: Array) -> bool:
    """Return whether all impulses are inside the friction polygons of μ: the selection of a law of unlimited friction then
    keeps them there."""
    edges = law.directions + np.roll(law.directions, -1, axis=0)
    reach = (edges * law.directions).sum(axis=1)
    room = 1e-9 * max(float(np.abs(p).max(initial=0.0)), 1e-12)
    return all(
        bool((edges @ p[3 * i : 3 * i + 2] <= contacts.mu[i] * reach * p[3 * i + 2] + room).all())
        for i in range(len(contacts))
        if np.isfinite(contacts.mu[i])
    ) and bool(np.isfinite(contacts.mu).all())
