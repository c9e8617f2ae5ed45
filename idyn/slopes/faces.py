"""The basis of a solution, read from its velocities and impulses: which impulses may change, and which velocities stay zero."""

from typing import NamedTuple

import numpy as np

from idyn.laws.law import Law, has_round_cones
from idyn.types import Array, ContactSet

SLIPS = 1e-7
"""Tangential speed û of a contact that slides [m/s]."""

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


def basis_of(law: Law, contacts: ContactSet, p: Array, u_hat: Array) -> Basis:
    """Return the basis at impulses p (3n) and velocities û with the allowance (3n)."""
    n = len(contacts)
    columns, face, held, switches = [], [], [], []
    tight, reaches = [np.zeros((0, 3 * n))], [np.zeros((0, 3 * n))]
    turning, slope, selectable = np.zeros((3 * n, 3 * n)), np.zeros((3 * n, n)), True
    largest, round_cones = max(float(np.abs(p).max(initial=0.0)), 1e-12), has_round_cones(law)
    in_cones = _all_in_cones(law, contacts, p)
    for i, key in enumerate(contacts.keys):
        at, mu = slice(3 * i, 3 * i + 3), float(contacts.mu[i])
        impulse, velocity, unit = p[at], u_hat[at], np.eye(3 * n)[:, at]
        free = bool(np.isinf(mu)) or (law.unlimited_friction and mu > 0.0)
        if impulse[2] <= TIGHT * largest:
            if velocity[2] < NEAR:
                switches.append(f"contact {key} may close")
            continue
        if impulse[2] < NEAR * largest:
            switches.append(f"contact {key} may open")
        speed = float(np.hypot(velocity[0], velocity[1]))
        if free or (mu > 0.0 and speed <= SLIPS):
            columns.append(unit)
            held.append(unit.T)
            if free and not in_cones:
                face.append(unit)
                continue
            if round_cones:
                if not _inside_every_polygon(law, mu, impulse):
                    switches.append(f"friction of contact {key}: the selection's polygon turns with it")
                face.append(unit)
                continue
            cone = _cone(law, mu, impulse, largest)
            face.append(unit @ cone.directions)
            slope[at, i] = cone.by_mu
            tight.append(cone.rows @ unit.T)
            reaches.append(np.outer(cone.reach, unit[:, 2]))
            if len(cone.rows) > 1:
                switches.append(f"friction of contact {key}")
        elif mu == 0.0:
            columns.append(unit[:, 2:])
            face.append(unit[:, 2:])
            held.append(unit[:, 2:].T)
        else:
            if speed < NEAR:
                switches.append(f"contact {key} may stick")
            slope[at, i] = [*(impulse[:2] / mu), 0.0]
            sliding = _sliding(law, mu, velocity[:2], impulse)
            switches += [f"direction of friction of contact {key}"] if sliding.tie else []
            columns.append(unit @ sliding.directions)
            face.append(unit @ sliding.directions)
            held.append(sliding.held @ unit.T)
            if round_cones:
                e = velocity[:2] / speed
                turning[3 * i : 3 * i + 2, 3 * i : 3 * i + 2] = mu * impulse[2] / speed * (np.eye(2) - np.outer(e, e))
                selectable = False
    return Basis(
        columns=_joined(columns, n),
        held=_joined([rows.T for rows in held], n).T,
        turning=turning,
        face=_joined(face, n),
        friction_slope=slope,
        tight=np.vstack(tight),
        reaches=np.vstack(reaches),
        selectable=selectable,
        unlimited=law.unlimited_friction or bool(np.isinf(contacts.mu).any()),
        switches=tuple(switches),
    )


def _joined(parts: list[Array], n: int) -> Array:
    return np.hstack(parts) if parts else np.zeros((3 * n, 0))


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
