"""The basis of a solution, read from its velocities and impulses: which impulses may change, and which velocities stay zero."""

from typing import NamedTuple

import numpy as np

from idyn.laws.law import SLIPS
from idyn.types import Array

TIGHT = 1e-9  # slack of a friction facet that counts as zero, as a share of the largest impulse
EQUAL = 1e-11  # difference of the speeds along two corners of a friction polygon between which the friction is [m/s]
NEAR = 1e-6  # speeds [m/s] and shares of the largest impulse below which a contact is at a switch
SMALLEST = 1e-12  # lower bound of the largest impulse [N·s]
NEGLIGIBLE = 1e-9  # share of the largest singular value below which one counts as zero

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


class Friction(NamedTuple):
    """Friction of a law."""

    directions: Array  # corners of its polygon (k, 2)
    round: bool  # whether its cones are round
    unlimited: bool  # whether every μ > 0 counts as ∞

    def frees(self, mu: Array) -> Array:
        """Return which contacts have unlimited friction (n)."""
        return (mu == np.inf) | (self.unlimited & (mu > 0.0))

    @property
    def edges(self) -> tuple[Array, Array]:
        """Normals of the polygon's edges (k, 2), and their products with a corner (k)."""
        normals = self.directions + np.roll(self.directions, -1, axis=0)
        return normals, (normals * self.directions).sum(axis=1)


class Basis:
    """A basis at impulses p (3n) and velocities û with the allowance (3n). Rows of the matrices are in rows S, T, N of all
    contacts (·, 3n).

    columns: Bᵀ, in which impulses may change; held: W, in which velocities stay zero
    face: columns of the selection: B without the tight facets of friction cones
    tight: facets, tight · p = 0; reach: change of their normal entries by μ; owners: their contacts (t)
    kinds: STICKING, SLIDING or TURNING; turning: H of sliding contacts with round cones (3n, 3n)
    by_mu: change of the impulse by μ at fixed coordinates (n, 3); codes: switches of each contact, see `SWITCHES` (n)
    """

    def __init__(self, friction: Friction, mu: Array, p: Array, u_hat: Array) -> None:
        n = len(mu)
        self._friction, self._mu, self._p, self._u = friction, mu, p.reshape(n, 3), u_hat.reshape(n, 3)
        self._largest = max(SMALLEST, float(np.abs(p).max(initial=0.0)))
        self._free = friction.frees(mu)
        self._in_cones = bool(self._free.any()) and self._all_in_cones()
        self._lines = {name: [np.zeros((0, 3 * n))] for name in ("columns", "held", "face", "tight")}
        self.kinds, self.codes = STICKING, np.zeros(n, np.int64)
        self.by_mu, self.turning, (reach, owners) = (np.zeros((n, 3)), np.zeros((3 * n, 3 * n)), (list[float](), list[int]()))
        for i in range(n):
            normal, slip = self._p[i, 2], float(np.hypot(*self._u[i, :2]))
            if normal <= TIGHT * self._largest:
                self.codes[i] = CLOSES if self._u[i, 2] < NEAR else 0
                continue
            self.codes[i] = OPENS if normal < NEAR * self._largest else 0
            if mu[i] == 0.0:
                self._add(i, [[0.0, 0.0, 1.0]], "columns", "face", "held")
            elif slip <= SLIPS or self._free[i]:
                self._add(i, np.eye(3), "columns", "held")
                reach += self._stick(i)
                owners += [i] * (len(reach) - len(owners))
            else:
                self._slide(i, slip)
                self.kinds = TURNING if friction.round else SLIDING
        self.columns, self.held, self.face, self.tight = (np.concatenate(lines) for lines in self._lines.values())
        self.reach, self.owners = np.array(reach), np.array(owners, dtype=np.int64)

    def _add(self, i: int, axes: Array | list[list[float]], *names: str) -> None:
        """Append directions of contact i (·, 3)."""
        lines = np.zeros((len(axes), *self._p.shape))
        lines[:, i] = axes
        for name in names:
            self._lines[name].append(lines.reshape(len(lines), -1))

    def _stick(self, i: int) -> list[float]:
        """Add the face of a contact that sticks, its tight facets and its change by μ. Return `reach` of these facets."""
        mu, p, largest, round_cone = float(self._mu[i]), self._p[i], self._largest, self._friction.round
        (normals, reach), facets = self._friction.edges, np.zeros((0, 3))
        if not (self._free[i] and not self._in_cones) and round_cone:
            # inside the friction polygon of the selection however that is turned?
            inside = mu * p[2] * np.cos(np.pi / max(len(reach), 4))
            self.codes[i] |= 0 if np.hypot(*p[:2]) < inside * (1.0 - NEAR) else TURNS
        elif not (self._free[i] and not self._in_cones):
            facets = np.column_stack([-normals, mu * reach])
            near = facets @ p <= max(TIGHT * largest, 1e-11)
            facets, reach = facets[near], reach[near]
        if not len(facets):
            self._add(i, np.eye(3), "face")
            return []
        # the null space of the tight rows; p moves with μ by the smallest change that keeps them tight
        self._add(i, facets, "tight")
        _, sizes, V = np.linalg.svd(facets)
        self._add(i, V[int((sizes > NEGLIGIBLE * sizes[0]).sum()) :], "face")
        self.by_mu[i] = np.linalg.lstsq(facets, -reach * p[2], rcond=NEGLIGIBLE)[0]
        self.codes[i] |= CORNER if len(facets) > 1 else 0
        return list(reach)

    def _slide(self, i: int, speed: float) -> None:
        """Add the columns and held rows of a contact that slides, and its changes by μ and by its velocity."""
        mu, u, p, normal = self._mu[i], self._u[i, :2], self._p[i, :2], self._p[i, 2]
        self.codes[i] |= STICKS if speed < NEAR else 0
        self.by_mu[i, :2] = p / mu
        self._add(i, [[0.0, 0.0, 1.0]], "held")
        if self._friction.round:
            e = u / speed
            self._add(i, [[*(-mu * e), 1.0]], "columns", "face")
            rows = slice(3 * i, 3 * i + 2)
            self.turning[rows, rows] = mu * normal / speed * (np.eye(2) - np.outer(e, e))
            return
        # the corner against the velocity, or the two between which the friction is
        corners = self._friction.directions
        best, second = np.argsort(corners @ u, kind="stable")[:2]
        apart = float((corners[second] - corners[best]) @ u)
        self._add(i, [[*(mu * corners[best]), 1.0]], "columns", "face")
        if apart > EQUAL:
            self.codes[i] |= TIE if apart < NEAR else 0
            return
        d = corners[second] - corners[best]
        self._add(i, [[*(mu * corners[second]), 1.0]], "columns", "face")
        self._add(i, [[*d, 0.0]], "held")
        share = float((p - normal * mu * corners[best]) @ d) / (mu * float(d @ d))
        self.codes[i] |= TIE if min(share, normal - share) < NEAR * normal else 0

    def _all_in_cones(self) -> bool:
        """Return whether all impulses are inside the friction polygons of μ: the selection of a law of unlimited friction then
        keeps them there."""
        normals, reach = self._friction.edges
        if np.isinf(self._mu).any():
            return False
        most = np.outer(self._mu * self._p[:, 2], reach) + 1e-9 * self._largest
        return bool((self._p[:, :2] @ normals.T <= most).all())
