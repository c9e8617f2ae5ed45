"""Independent mathematics: dense numpy, SciPy, QP back ends and brute force; nothing of it is shared with the package."""

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pinocchio as pin
import qpsolvers
import scipy.linalg
import scipy.optimize

from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, State


class Full(NamedTuple):
    """The full system: inertia (nv, nv), bias force (nv), contact Jacobian in rows S, T, N (3n, nv), velocity, u and a, and
    what the motion of the robot adds to the contact velocities in a period (3n)."""

    M: Array
    h: Array
    J: Array
    v: Array
    u: Array
    a: Array
    drift: Array

    @property
    def Ju(self) -> Array:
        return self.J[:, self.u]

    @property
    def Ja(self) -> Array:
        return self.J[:, self.a]

    def at_end(self, v_plus: Array) -> Array:
        """Contact velocities at the end of the period (3n)."""
        end: Array = self.J @ v_plus + self.drift
        return end


@lru_cache(maxsize=16)
def _model(urdf: str, base: str) -> tuple[pin.Model, pin.Data]:
    model = pin.buildModelFromXML(urdf, pin.JointModelFreeFlyer()) if base == "free_flyer" else pin.buildModelFromXML(urdf)
    return model, model.createData()


def full(robot: Robot, state: State, contacts: ContactSet, dt: float = 1e-3) -> Full:
    """M column by column, rotors by hand, and h from recursive Newton–Euler; J from joint Jacobians and cross products; the
    drift in a period dt from moved positions, 0 for laws at J v⁺."""
    model, data = _model(robot.description.urdf, robot.description.base)
    still = np.zeros(model.nv)
    gravity = pin.rnea(model, data, state.q, still, still).copy()
    M = np.column_stack([pin.rnea(model, data, state.q, still, e) - gravity for e in np.eye(model.nv)])
    for name, rotor in robot.description.armature.items():
        column = model.joints[model.getJointId(name)].idx_v
        M[column, column] += rotor
    h = pin.rnea(model, data, state.q, state.v, still).copy()
    pin.computeJointJacobians(model, data, state.q)
    rows = []
    for i in range(len(contacts)):
        at = contacts.points[i]
        J = point_jacobian(model, data, contacts.bodies[i], at) - point_jacobian(model, data, contacts.others[i], at)
        n, s = contacts.normals[i], contacts.tangents[i]
        rows.append(np.vstack([s, np.cross(n, s), n]) @ J)
    J = np.vstack(rows) if rows else np.zeros((0, model.nv))
    drift = dt * contact_acceleration(model, data, state, contacts)
    if dt and may_depend(robot, contacts):
        follow(J, drift, contacts.gaps <= 1e-4)
    return Full(M=(M + M.T) / 2, h=h, J=J, v=state.v, u=robot.tree.u, a=robot.tree.a, drift=drift)


def may_depend(robot: Robot, contacts: ContactSet) -> bool:
    """Whether a contact is between two bodies, or a body has fewer degrees of freedom for itself alone than contact rows."""
    moves, bodies = robot.tree.support, contacts.bodies.tolist()
    shared = [moves[[other for other in set(bodies) if other != body]].any(axis=0) for body in bodies]
    own = [int((moves[body] & ~each).sum()) for body, each in zip(bodies, shared, strict=True)]
    few = any(free < min(3 * bodies.count(body), 6) for body, free in zip(bodies, own, strict=True))
    return few or bool(contacts.others.any())


def follow(J: Array, drift: Array, touching: Array, theta: float = 1e-3) -> None:
    """Replace the drift of touching tangential rows by the nearest one that some acceleration follows, whose length counts θ;
    it follows that of touching normals exactly, but for rows that depend on earlier ones."""
    tangents, chosen = np.repeat(touching, 3), []
    tangents[2::3] = False
    for row in 3 * np.flatnonzero(touching) + 2:
        before = J[chosen].reshape(-1, J.shape[1])
        rest = J[row] - before.T @ np.linalg.lstsq(before.T, J[row], rcond=None)[0]
        if np.linalg.norm(rest) > 1e-3 * np.linalg.norm(J[row]):
            chosen.append(row)
    T, N, nv = J[tangents], J[chosen].reshape(-1, J.shape[1]), J.shape[1]
    w = np.linalg.lstsq(N, drift[chosen], rcond=None)[0]
    free = scipy.linalg.null_space(N) if chosen else np.eye(nv)
    A = np.vstack([T @ free, theta * np.eye(free.shape[1])])
    z = np.linalg.lstsq(A, np.r_[drift[tangents] - T @ w, np.zeros(free.shape[1])], rcond=None)[0]
    drift[tangents] = T @ (w + free @ z)


def contact_acceleration(model: pin.Model, data: pin.Data, state: State, contacts: ContactSet) -> Array:
    """Rate of the contact velocities while the robot moves on with constant v, by central differences (3n). A sphere stays on
    the second body: its contact point follows its centre. Points of one body on the ground move with the mean of their centres.
    Rows turn with the second body."""
    n, step = len(contacts), 1e-3 / max(1.0, float(np.abs(state.v).max()))
    names = contacts.bodies.tolist()
    together = [i for i in range(n) if contacts.others[i] == 0]
    groups = [[k for k in together if names[k] == names[i]] if i in together else [i] for i in range(n)]
    centres = contacts.points + contacts.radii[:, None] * contacts.normals

    def place(t: float) -> list[pin.SE3]:
        pin.forwardKinematics(model, data, pin.integrate(model, state.q, t * state.v), state.v)
        return [pin.SE3(each) for each in data.oMi]

    start = place(0.0)

    def velocities(t: float) -> Array:
        now, found = place(t), []
        moves = [now[names[i]] * start[names[i]].inverse() for i in range(n)]
        shifts = [moves[i].act(centres[i]) - centres[i] for i in range(n)]
        for i in range(n):
            other = int(contacts.others[i])
            turn = now[other].rotation @ start[other].rotation.T
            normal, tangent = turn @ contacts.normals[i], turn @ contacts.tangents[i]
            point = centres[i] + np.mean([shifts[k] for k in groups[i]], axis=0) - contacts.radii[i] * normal
            u = _point_velocity(data, names[i], point) - _point_velocity(data, other, point)
            found += [tangent @ u, np.cross(normal, tangent) @ u, normal @ u]
        return np.array(found)

    # of fourth order
    near, far = velocities(step) - velocities(-step), velocities(2 * step) - velocities(-2 * step)
    rate: Array = (8 * near - far) / (12 * step)
    return rate


def _point_velocity(data: pin.Data, joint: int, point: Array) -> Array:
    """World velocity of the body point at `point` (3); joint 0 is the ground."""
    motion = data.oMi[joint].act(data.v[joint]) if joint else pin.Motion.Zero()
    velocity: Array = motion.linear + np.cross(motion.angular, point)
    return velocity


def point_jacobian(model: pin.Model, data: pin.Data, joint: int, point: Array) -> Array:
    """World velocity of a body point per joint velocity (3, nv); joint 0 is the ground."""
    if joint == 0:
        return np.zeros((3, model.nv))
    J = pin.getJointJacobian(model, data, int(joint), pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    arm = point - data.oMi[int(joint)].translation
    return J[:3] + np.cross(J[3:], arm, axis=0)


def solved(f: Full, q_ddot: Array, dt: float) -> tuple[Array, Array]:
    """(v⁺, τ) of the full system [M −dt Pᵀ; P 0] (v⁺, τ) = (M v − dt h + Jᵀp, v_a + dt q̈): at p = 0, and per impulse."""
    na = len(f.a)
    P = np.eye(len(f.v))[f.a]
    K = np.block([[f.M, -dt * P.T], [P, np.zeros((na, na))]])
    zero = np.linalg.solve(K, np.r_[f.M @ f.v - dt * f.h, f.v[f.a] + dt * q_ddot])
    return zero, np.linalg.solve(K, np.vstack([f.J.T, np.zeros((na, len(f.J)))]))


def eliminate(f: Full, q_ddot: Array, dt: float) -> tuple[Array, Array, Array, Array]:
    """D, b (without gaps), and v⁺, τ at p = 0."""
    (zero, per_impulse), nv = solved(f, q_ddot, dt), len(f.v)
    return f.J @ per_impulse[:nv], f.at_end(zero[:nv]), zero[:nv], zero[nv:]


def response(f: Full, q_ddot: Array, dt: float) -> tuple[Array, Array]:
    """v⁺ = v₀ + V p with the joints driven to v_a + dt q̈: v₀ (nv) and V (nv, 3n)."""
    zero, per_impulse = solved(f, q_ddot, dt)
    return zero[: len(f.v)], per_impulse[: len(f.v)]


def outcome(f: Full, q_ddot: Array, dt: float, p: Array) -> tuple[Array, Array]:
    """v⁺ and τ under impulses p."""
    zero, per_impulse = solved(f, q_ddot, dt)
    v, tau = np.split(zero + per_impulse @ p, [len(f.v)])
    return v, tau


def corners(k: int) -> Array:
    """Corners of the regular polygon in the unit circle, the first at +s (k, 2)."""
    return np.array([[np.cos(2 * np.pi * j / k), np.sin(2 * np.pi * j / k)] for j in range(k)])


def facet_normals(k: int) -> Array:
    """Rows a_j with a_j · x ≤ 1 for x in the polygon (k, 2)."""
    middle = np.array([[np.cos(np.pi * (2 * j + 1) / k), np.sin(np.pi * (2 * j + 1) / k)] for j in range(k)])
    return middle / np.cos(np.pi / k)


def coulomb_lcp(D: Array, b: Array, mu: Array, k: int = 4) -> tuple[Array, Array, Array]:
    """Matrix and vector in the order p_N, p_F, λ [ZD §5], and G with p = G z."""
    n = len(mu)
    d = corners(k)
    G = np.zeros((3 * n, (k + 2) * n))
    for i in range(n):
        G[3 * i + 2, i] = 1
        for j in range(k):
            G[3 * i : 3 * i + 2, n + k * i + j] = d[j]
    M, q = G.T @ D @ G, G.T @ b
    for i in range(n):
        row, friction = (k + 1) * n + i, slice(n + k * i, n + k * i + k)
        M[row, i], M[row, friction], M[friction, row] = mu[i], -1, 1
    return M, q, G


def enumerate_lcp(M: Array, q: Array, zero: float = 1e-9) -> list[Array]:
    """All solutions of an LCP that belong to a regular complementary basis, by trying each of the 2ⁿ."""
    n, found = len(q), []
    for basis in product([False, True], repeat=n):
        B = np.array(basis, dtype=bool)
        z = np.zeros(n)
        if B.any():
            block = M[np.ix_(B, B)]
            if np.linalg.matrix_rank(block) < B.sum():
                continue
            z[B] = np.linalg.solve(block, -q[B])
        w = M @ z + q
        if z.min(initial=0) >= -zero * (1 + np.abs(z).max(initial=0)) and w.min(initial=0) >= -zero * (
            1 + np.abs(q).max(initial=0)
        ):
            found.append(z)
    return found


def no_slip_is_possible(D: Array, b: Array, mu: Array) -> bool:
    """Whether any choice of who is held obeys the no-slip law with D p + b, gaps in b: contacts with friction either press,
    stand and stick, or part and carry nothing; those without are complementary. By SciPy's LP for each of the choices."""
    n = len(mu)
    for choice in product([False, True], repeat=n):
        held = np.array(choice)
        rows = np.repeat(held, 3) & np.tile([True, True, True], n)
        sides = np.repeat(mu == 0, 3) & np.tile([True, True, False], n)  # no friction there
        bounds = [(0, 0) if not rows[i] or sides[i] else (0, None) if i % 3 == 2 else (None, None) for i in range(3 * n)]
        equal = rows & ~sides
        normal = np.tile([False, False, True], n) & ~rows
        found = scipy.optimize.linprog(np.zeros(3 * n), -D[normal], b[normal], D[equal], -b[equal], bounds)
        if found.status == 0:
            return True
    return False


def lcp_error(M: Array, q: Array, z: Array) -> float:
    """max |min(z, M z + q)|"""
    return float(np.abs(np.minimum(z, M @ z + q)).max(initial=0))


def solve_qp(
    H: Array, f: Array, A: Array, lower: Array, E: Array | None = None, e: Array | None = None, solver: str = "quadprog"
) -> Array:
    """min ½xᵀHx + fᵀx s.t. A x ≥ lower, E x = e; equalities may be dependent."""
    if E is not None and e is not None and len(E):
        return _on_equalities(lambda *program: solve_qp(*program, solver=solver), H, f, A, lower, E, e)
    if len(lower) == 0:
        return np.linalg.solve(H, -f)
    settings = {"piqp": {"eps_abs": 1e-12, "eps_rel": 1e-12}}
    for name in dict.fromkeys((solver, "piqp")):  # quadprog cannot do with a feasible set without an inside
        x = qpsolvers.solve_qp((H + H.T) / 2, f, -A, -lower, solver=name, **settings.get(name, {}))
        if x is not None:
            return x
    raise AssertionError(f"neither {solver} nor PIQP found a solution")


def solve_semidefinite_qp(H: Array, f: Array, A: Array, lower: Array, E: Array | None = None, e: Array | None = None) -> Array:
    """The same for a singular H of order one: quadprog on proximal steps, which end in an exact solution."""
    if E is not None and e is not None and len(E):
        return _on_equalities(solve_semidefinite_qp, H, f, A, lower, E, e)
    x = np.zeros(len(f))
    weight = 1e-9 * max(np.trace(H) / len(H), 1e-3)
    for _ in range(40):
        step = solve_qp(H + weight * np.eye(len(H)), H @ x + f, A, lower - A @ x)
        x = x + step
        if np.abs(step).max() < 1e-14 * (1 + np.abs(x).max()):
            break
    return x


def _on_equalities(solve: Callable[..., Array], H: Array, f: Array, A: Array, lower: Array, E: Array, e: Array) -> Array:
    """The program in the null space of its equalities."""
    Z = scipy.linalg.null_space(E, rcond=1e-11)
    x0 = np.linalg.lstsq(E, e, rcond=1e-11)[0]
    assert np.abs(E @ x0 - e).max() < 1e-8 * (1 + np.abs(e).max()), "equalities contradict one another"
    if Z.shape[1] == 0:
        return x0
    return x0 + Z @ solve(Z.T @ H @ Z, Z.T @ (H @ x0 + f), A @ Z, lower - A @ x0)


class Convex(NamedTuple):
    """Stage I [ZD §2.3.4] from the kinetic energy of the whole robot: ½pᵀHp + fᵀp over A p ≥ lower; v⁺ = v₀ + V p."""

    H: Array
    f: Array
    A: Array
    lower: Array
    v0: Array
    V: Array


def convex_program(f: Full, q_ddot: Array, dt: float, mu: Array, extra: Array, k: int = 4) -> Convex:
    """Least kinetic energy ½ v⁺ᵀ M v⁺ with no penetration and impulses in their cones."""
    v0, V = response(f, q_ddot, dt)
    for i in np.flatnonzero(mu == 0):
        V[:, 3 * i : 3 * i + 2] = 0  # a frictionless contact has no tangential impulse
    A, lower = [f.J[2::3] @ V], [-(f.at_end(v0)[2::3] + extra)]
    for i in range(len(mu)):
        limited = 0 < mu[i] < np.inf
        facets = np.zeros((k if limited else 1, 3 * len(mu)))
        facets[:, 3 * i + 2] = mu[i] if limited else 1
        if limited:
            facets[:, 3 * i : 3 * i + 2] = -facet_normals(k)
        A.append(facets)
        lower.append(np.zeros(len(facets)))
    return Convex(V.T @ f.M @ V, V.T @ f.M @ v0, np.vstack(A), np.concatenate(lower), v0, V)
