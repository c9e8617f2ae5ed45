"""Derivatives of contact Jacobians and of the contacts' drift by the configuration and the velocity, for contact points and
frames that are fixed in the world; and of the demand that `Consistency.HOLD` and `STICK` project (MATHEMATICS §3.7). Spatial
motions in the world are linear at its origin, then angular:

    ∂S_k/∂q_j = S_j × S_k for each degree of freedom j that moves k's body
    ∂(Jᵀ p)_k/∂q_j = (S_j × S_k) · W_k,              W_k: wrench of the contacts that move with k
    ∂(J y)/∂q_j    = E (S_j × (V_b − V_λ)),          V_b: velocity of the contact's body for y, V_λ: of the body before joint j
"""

import numpy as np

from idyn.model.robot import Robot
from idyn.prediction.feasible import EPSILON
from idyn.terms.drift import INDEPENDENT, THETA
from idyn.terms.stages import Dynamics
from idyn.types import Array

DEPENDENT = 1e-12  # a row is dependent if the square of its remaining part is at most this share of the largest square


LEVI, CROSS = np.zeros((3, 3, 3)), np.zeros((6, 6, 6))
LEVI[[0, 1, 2], [2, 0, 1], [1, 2, 0]], LEVI[[1, 2, 0], [2, 0, 1], [0, 1, 2]] = 1.0, -1.0
CROSS[3:, 3:, 3:] = CROSS[3:, :3, :3] = CROSS[:3, :3, 3:] = LEVI
"""(a × b)_r = Σ a_k [k, r, c] b_c, of vectors and of spatial motions."""


def crossing(a: Array) -> Array:
    """Return X (…, 6, 6): X b = a × b of spatial motions, −Xᵀ f = a ×* f of a spatial force, for motions a (…, 6)."""
    matrices: Array = (a @ CROSS.reshape(6, 36)).reshape(*a.shape, 6)
    return matrices


def apply(X: Array, b: Array) -> Array:
    """Return X b for each of some matrices X."""
    product: Array = (X @ b[..., None])[..., 0]
    return product


def cross(a: Array, b: Array) -> Array:
    """Return a × b (…, 3); faster than `np.cross`."""
    return apply((a @ LEVI.reshape(3, 9)).reshape(*a.shape, 3), b)


def at(V: Array, x: Array) -> Array:
    """Return the velocity of points x (…, 3) of bodies with spatial motions V (…, 6)."""
    moved: Array = V[..., :3] + cross(V[..., 3:], x)
    return moved


class Mechanism:
    """Copies of what the derivatives need of the dynamics of one state."""

    def __init__(self, robot: Robot, d: Dynamics) -> None:
        g, tree = d.given, robot.tree
        self.u, self.a, self.support = tree.u, tree.a, tree.support
        self.parents, self.joint = tree.parents, tree.dof_joint  # joint of each degree of freedom (nv)
        self.before = tree.parents[tree.dof_joint]  # joint before that of each degree of freedom (nv)
        self.axes, self.M, self.J, self.v, self.drift, self.mu = (
            np.array(each) for each in (g.axes, g.M, d.J, g.v, d.drift, g.mu)
        )
        self.ends = np.column_stack([g.bodies, g.others])
        self.points, self.normals, self.radii = np.array(g.points), np.array(g.normals), np.array(g.radii)
        self.E = np.stack([g.tangents, cross(g.normals, g.tangents), g.normals], axis=1)  # rows s, t, n (n, 3, 3)
        # velocity of the contact points in these rows by that of a body (n, 3, 6); X of the axes (nv, 6, 6)
        self._moves, self._X = np.concatenate([self.E, cross(self.points[:, None], self.E)], axis=2), crossing(self.axes)
        self.dt, self.keep, self.rho, self._drifts = g.dt, g.keep, g.rho, g.drift
        self.touches = g.gaps <= g.touching
        gaps = np.maximum(g.gaps / g.dt, -g.recovery_speed)
        self.allowance = np.zeros(len(self.drift))  # φ/dt in the N rows [m/s] (3n)
        self.allowance[2::3] = np.where(np.abs(g.gaps) > g.noise, gaps, 0.0)
        # M_uu⁻¹, M_uu⁻¹ J_uᵀ and Y, see `ReducedProblem`
        self.L, J_u = np.linalg.cholesky(self.M[np.ix_(self.u, self.u)]), self.J[:, self.u]
        self.inertia = np.linalg.inv(self.M[np.ix_(self.u, self.u)])
        self.push, self.stretch = self.inertia @ J_u.T, float(np.sqrt(1.0 + self.rho))
        self.Y = self.stretch * np.linalg.solve(self.L, J_u.T).T
        self.signs = self.support[g.bodies].astype(np.float64) - self.support[g.others]  # (n, nv)

    def velocities(self, y: Array) -> Array:
        """Return the velocities of the bodies (njoints, 6) for a velocity y (nv)."""
        velocities: Array = self.support @ (self.axes * y[:, None])
        return velocities

    def turn_forces(self, p: Array) -> Array:
        """Return ∂(Jᵀ p)/∂q (nv, nv) for impulses p in contact rows (3n)."""
        wrenches = self.signs.T @ np.einsum("nrc,nr->nc", self._moves, p.reshape(-1, 3))
        # (S_j × S_k) · W_k = −S_j · X_kᵀ W_k
        return np.where(self.support[self.joint], -apply(self._X.swapaxes(1, 2), wrenches) @ self.axes.T, 0.0)

    def turn_velocities(self, y: Array) -> Array:
        """Return ∂(J y)/∂q (3n, nv) for a velocity y (nv)."""
        V = self.velocities(y)
        one, other = (np.where(self.support[ends][..., None], V[ends][:, None], V[self.before]) for ends in self.ends.T)
        return (self._moves @ apply(self._X, one - other).swapaxes(1, 2)).reshape(-1, len(y))

    # -- the drift dt J̇ v ------------------------------------------------------------------------------------------------

    def drift_slopes(self, by_place: bool) -> Array:
        """Return the slope of dt J̇ v by q or by v (3n, nv)."""
        if not self._drifts:
            return np.zeros(self.J.shape)
        slope = self._plain_slopes(by_place)
        if not self._may_depend():
            return slope
        # of T w, with r = c_T − T w and Bᵀ λ = Tᵀ r − θ² w:  ∂T w + T ∂w, and ∂w is w for ∂c − ∂A w instead of c, A = (B, T),
        # and f = ∂Tᵀ r − ∂Bᵀ λ
        B, T = self._bound(), np.flatnonzero(self.touches.repeat(3) & (np.arange(len(slope)) % 3 < 2))
        if not by_place:
            slope[T] = self.J[T] @ self._follow(B, T, slope, np.zeros((slope.shape[1], slope.shape[1])))
            return slope
        c = 0.5 * self._plain_slopes(False) @ self.v  # quadratic in v
        w = self._follow(B, T, c[:, None], np.zeros((len(self.v), 1)))[:, 0]
        p = np.zeros(len(c))
        p[T] = c[T] - self.J[T] @ w
        p[B] = -np.linalg.solve(self.J[B] @ self.J[B].T, self.J[B] @ (self.J[T].T @ p[T] - THETA**2 * w))
        turned = self.turn_velocities(w)
        slope[T] = self.J[T] @ self._follow(B, T, slope - turned, self.turn_forces(p)) + turned[T]
        return slope

    def _may_depend(self) -> bool:
        """Return whether contact rows may depend on each other, see `Given.dependent`."""
        bodies, counts = np.unique(self.ends[:, 0], return_counts=True)
        moved = self.support[bodies]
        own = moved[:, moved.sum(axis=0) == 1].sum(axis=1)
        return bool(self.ends[:, 1].any() or (own < np.minimum(3 * counts, 6)).any())

    def _bound(self) -> Array:
        """Return the independent normal rows of touching contacts."""
        kept, Q = list[int](), np.zeros((0, len(self.v)))
        for row in np.flatnonzero(self.touches).tolist():
            rest = self.J[3 * row + 2]
            for _ in range(2):
                rest = rest - Q.T @ (Q @ rest)
            size = np.linalg.norm(rest)
            if len(kept) < len(self.v) and size > INDEPENDENT * np.linalg.norm(self.J[3 * row + 2]):
                kept.append(3 * row + 2)
                Q = np.vstack([Q, rest / size])
        return np.array(kept, dtype=np.int64)

    def _follow(self, B: Array, T: Array, c: Array, force: Array) -> Array:
        """Return w (nv, k): min ‖T w − c_T‖² + θ² ‖w‖² − 2 fᵀ w  s.t.  B w = c_B, for drifts c (3n, k) and forces f (nv, k)."""
        bound, tangents = self.J[B], self.J[T]
        inverse = np.linalg.solve(bound @ bound.T, bound).T
        across = np.eye(len(force)) - inverse @ bound
        w: Array = inverse @ c[B]
        stiffness = across @ tangents.T @ tangents @ across + THETA**2 * np.eye(len(force))
        return w + np.linalg.solve(stiffness, across @ (force + tangents.T @ (c[T] - tangents @ w)))

    def _plain_slopes(self, by_place: bool) -> Array:
        """Return the slope of dt J̇ v before rows that may depend on each other are treated."""
        V, S, X = self.velocities(self.v), self.axes, self._X
        first = np.searchsorted(self.joint, np.arange(1, len(self.parents)))
        A = self.support[:, first] @ apply(crossing(V[self.parents[1:]]), V[1:])  # A_i = A_λ + V_λ × V_i
        changes = []
        for ends in self.ends.T:
            moves, relative = self.support[ends][..., None], V[ends][:, None] - V[self.before]
            turned = apply(X, relative)
            if by_place:
                more = apply(X, A[ends][:, None] - A[self.before])
                change = turned, more - apply(crossing(apply(X, V[self.before])), relative)
            else:
                change = np.broadcast_to(S, turned.shape), turned - apply(X, V[self.joint])
            changes.append([np.where(moves, each, 0.0) for each in change])
        (one_V, one_A), (other_V, other_A) = changes
        # change of A_O + α × x + Ω × ẋ − ω_2 × u in the world
        x, n, r, y = (each[:, None] for each in (self.points, self.normals, self.radii[:, None], self._slipping_points()))
        of, second = V[self.ends[:, 0]][:, None], V[self.ends[:, 1]][:, None]
        moved, spin, relative = one_V - other_V, (of - second)[..., 3:], of - second
        dx = at(of, y) + r * cross(spin, n)
        ddx = at(one_V, y) + r * cross(moved[..., 3:], n)
        slope = at(one_A - other_A, x) + cross(moved[..., 3:], dx) + cross(spin, ddx)
        slope -= cross(other_V[..., 3:], at(relative, x)) + cross(second[..., 3:], at(moved, x))
        return self.dt * np.einsum("nrc,njc->nrj", self.E, slope).reshape(-1, len(S))

    def _slipping_points(self) -> Array:
        """Return the point whose velocity is the slip of each contact: the mean of a body's contacts with the ground."""
        on_ground = self.ends[:, 1] == 0
        share = (self.ends[:, 0][:, None] == self.ends[:, 0]) & on_ground[:, None] & on_ground
        share = np.where(on_ground[:, None], share, np.eye(len(share))).astype(np.float64)
        return share @ self.points / share.sum(axis=1, keepdims=True)


class Projection:
    """The projection q̈ → q̈ + J_aᵀ λ/dt of the demand: S λ = −J wanted − c over the held rows J, S = J W Jᵀ = L Lᵀ, W = 1 for
    joints and 1/ε for the base; wanted = (1 − keep) v, plus dt q̈ at the joints; c = dt J̇ v + φ/dt. With V = L⁻¹ J and
    y = wanted + W Jᵀ λ:

        by the demand 1 − V_aᵀ V_a,   by v −V_aᵀ ((1 − keep) V + L⁻¹ ∂c)/dt,
        by q (∂(Jᵀλ)_a − V_aᵀ L⁻¹ [∂(J y) + J W ∂(Jᵀ λ) + ∂c])/dt
    """

    def __init__(self, m: Mechanism, q_ddot: Array, rows: Array) -> None:
        """rows: which rows of J contacts hold (3n, bool); without any, the demand is not projected"""
        self._m, y = m, (1.0 - m.keep) * m.v
        y[m.a] += m.dt * q_ddot
        self._weights = np.full(len(m.v), 1.0 / EPSILON)
        self._weights[m.a] = 1.0
        J = m.J[rows]
        order, self._L = independent_rows((J * self._weights) @ J.T)
        self._rows = np.flatnonzero(rows)[order]
        self._V = np.linalg.solve(self._L, m.J[self._rows])
        rest = self._V @ y + np.linalg.solve(self._L, (m.drift + m.allowance)[self._rows])
        self._multipliers = np.zeros(len(m.drift))
        self._multipliers[self._rows] = -np.linalg.solve(self._L.T, rest)
        self._y = y + self._weights * (m.J.T @ self._multipliers)

    def by_demand(self) -> Array:
        """Return dt times the slope of the projected demand by the demand (na, na)."""
        V = self._V[:, self._m.a]
        return self._m.dt * (np.eye(V.shape[1]) - V.T @ V)

    def by_velocity(self, drift: Array) -> Array:
        """Return the slope of v_a⁺ by v (na, nv). drift: of dt J̇ v by v (3n, nv)"""
        a, change = self._m.a, np.linalg.solve(self._L, drift[self._rows]) + (1.0 - self._m.keep) * self._V
        return np.eye(drift.shape[1])[a] - self._V[:, a].T @ change

    def by_place(self, drift: Array) -> Array:
        """Return dt times the slope of the projected demand by q (na, nv). drift: of dt J̇ v by q (3n, nv)"""
        m, rows = self._m, self._rows
        pulled = m.turn_forces(self._multipliers)
        change = (m.J[rows] * self._weights) @ pulled + m.turn_velocities(self._y)[rows] + drift[rows]
        return pulled[m.a] - self._V[:, m.a].T @ np.linalg.solve(self._L, change)


def independent_rows(S: Array) -> tuple[Array, Array]:
    """Return the indices of the independent rows of a positive semidefinite S (k), by Cholesky's method with pivots, and the
    factor of S in these rows (k, k)."""
    L, left, order = np.zeros(S.shape), np.diag(S).copy(), list[int]()
    largest = float(left.max(initial=0.0))
    while len(order) < len(S):
        best = int(left.argmax())
        if not left[best] > DEPENDENT * largest:
            break
        k = len(order)
        order.append(best)
        L[:, k] = (S[:, best] - L[:, :k] @ L[best, :k]) / np.sqrt(left[best])
        left -= L[:, k] ** 2
        left[order] = 0.0
    return np.array(order, dtype=np.int64), L[order][:, : len(order)]
