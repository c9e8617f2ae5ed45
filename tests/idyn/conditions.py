"""The contact laws as statements about (p, v⁺), each as a residual in N·s or m/s; written with projections, not with pairs."""

import numpy as np
from cones import nearest_in_cone
from oracles import Full, corners, facet_normals

from idyn.contact.ground import Material
from idyn.types import Array


def allowance(gaps: Array, dt: float, noise: float = 0.0, recovery: float = np.inf) -> Array:
    """φ/dt after noise floor and recovery limit."""
    return np.where(np.abs(gaps) <= noise, 0.0, np.maximum(gaps / dt, -recovery))


def dynamics(f: Full, p: Array, v_plus: Array, tau: Array, dt: float) -> float:
    """‖M(v⁺ − v) − Jᵀp − dt(Pᵀτ − h)‖∞"""
    return float(np.abs(_balance(f, p, v_plus, tau, dt)).max())


def relative_dynamics(f: Full, p: Array, v_plus: Array, tau: Array, dt: float) -> float:
    """The same, each row divided by its inertia where that is below 1."""
    return float(np.abs(_balance(f, p, v_plus, tau, dt) / np.minimum(1.0, np.diag(f.M))).max())


def _balance(f: Full, p: Array, v_plus: Array, tau: Array, dt: float) -> Array:
    force = np.zeros(len(f.v))
    force[f.a] = tau
    rows: Array = f.M @ (v_plus - f.v) - f.J.T @ p - dt * (force - f.h)
    return rows


def speed_per_impulse(f: Full, count: int) -> Array:
    """Lower bound of the inverse mass of each contact from its free degrees of freedom one by one, at least 1 [1/kg] (n)."""
    rows = (f.Ju.reshape(count, 3, -1) ** 2).sum(axis=1) / np.diag(f.M)[f.u]
    return np.maximum(1.0, rows.max(axis=1, initial=0.0))


def project_on_polygon(x: Array, size: float, k: int) -> Array:
    """The nearest point of size × polygon to x (2)."""
    if size <= 0:
        return np.zeros(2)
    if (facet_normals(k) @ x <= size).all():
        return x
    d = size * corners(k)
    candidates = []
    for j in range(k):
        edge = d[(j + 1) % k] - d[j]
        share = np.clip((x - d[j]) @ edge / (edge @ edge), 0, 1)
        candidates.append(d[j] + share * edge)
    return min(candidates, key=lambda y: float(np.linalg.norm(y - x)))


def normal_error(f: Full, p: Array, v_plus: Array, extra: Array) -> float:
    """0 ≤ p_N ⟂ N v⁺ + φ/dt ≥ 0"""
    return float(np.abs(np.minimum(p[2::3], f.at_end(v_plus)[2::3] + extra)).max(initial=0))


def holds_while_parting(u: Array, impulse: Array, extra: Array, free: Array) -> float:
    """Largest sideways impulse of separating contacts of infinite friction that do not press [N·s]."""
    held = free & (u[:, 2] + extra > 1e-9) & (impulse[:, 2] <= 1e-9)
    return float(np.abs(impulse[held, :2]).max(initial=0))


def coulomb_error(f: Full, p: Array, v_plus: Array, mu: Array, extra: Array, k: int = 4) -> float:
    """Signorini's condition, and friction that dissipates most: p_T = Proj(p_T − u_T) on μ p_N × polygon. With μ = ∞ nothing
    slides but a contact that parts, and that carries nothing."""
    u, impulse = f.at_end(v_plus).reshape(-1, 3), p.reshape(-1, 3)
    worst = max(normal_error(f, p, v_plus, extra), holds_while_parting(u, impulse, extra, np.isinf(mu)))
    for i in range(len(mu)):
        pt = p[3 * i : 3 * i + 2]
        if np.isinf(mu[i]) and u[i, 2] + extra[i] > 1e-9 and not pt.any():
            continue
        if np.isinf(mu[i]):
            worst = max(worst, np.abs(u[i, :2]).max())
        else:
            worst = max(worst, np.abs(pt - project_on_polygon(pt - u[i, :2], mu[i] * p[3 * i + 2], k)).max())
    return float(worst)


def no_slip_error(f: Full, p: Array, v_plus: Array, mu: Array, extra: Array) -> float:
    """Signorini; with friction no slip, unless a contact parts and carries nothing; no tangential impulse without friction."""
    u, impulse = f.at_end(v_plus).reshape(-1, 3), p.reshape(-1, 3)
    slip, pull = np.abs(u[:, :2]).max(axis=1, initial=0), np.abs(impulse[:, :2]).max(axis=1, initial=0)
    apart = (u[:, 2] + extra > 1e-9) & ~impulse.any(axis=1)
    error = np.where(mu == 0, pull, np.where(apart, 0, slip))
    held = holds_while_parting(u, impulse, extra, mu > 0)
    return float(max(normal_error(f, p, v_plus, extra), held, error.max(initial=0)))


def cone_error(f: Full, p: Array, v_plus: Array, mu: Array, extra: Array, k: int = 4) -> float:
    """Cone complementarity: p in the polygon's cone, (u_T, u_N + φ/dt) in its dual, and the two at right angles. Where friction
    has no limit, a contact that parts and carries nothing may slide."""
    u, impulse = f.at_end(v_plus).reshape(-1, 3), p.reshape(-1, 3)
    u[:, 2] += extra
    worst = max(outside_cone(p, mu, k), holds_while_parting(u, impulse, 0 * extra, np.isinf(mu)))
    for i in range(len(mu)):
        if np.isinf(mu[i]) and u[i, 2] > 1e-9 and not impulse[i].any():
            continue
        if np.isinf(mu[i]):
            worst = max(worst, np.abs(u[i, :2]).max(), -u[i, 2], abs(min(impulse[i, 2], u[i, 2])))
        else:
            lowest = u[i, 2] + mu[i] * (corners(k) @ u[i, :2]).min()  # along the ray that closes fastest
            worst = max(worst, -lowest, abs(impulse[i] @ u[i]))
    return float(worst)


def exact_cone_error(f: Full, p: Array, v_plus: Array, mu: Array, extra: Array) -> float:
    """De Saxcé: p is the point of the round cone nearest to p − (u_T, u_N + φ/dt + μ ‖u_T‖). With μ = ∞ as Coulomb."""
    u, impulse, free = f.at_end(v_plus).reshape(-1, 3), p.reshape(-1, 3), np.isinf(mu)
    u[:, 2] += extra
    worst = holds_while_parting(u, impulse, 0 * extra, free)
    for i in range(len(mu)):
        if free[i]:
            sticks = impulse[i].any() or u[i, 2] <= 1e-9
            worst = max(worst, abs(min(impulse[i, 2], u[i, 2])), sticks * np.linalg.norm(u[i, :2]))
            continue
        x = impulse[i] - u[i] - [0, 0, mu[i] * np.linalg.norm(u[i, :2])]
        worst = max(worst, np.abs(impulse[i] - nearest_in_cone(x, mu[i])).max())
    return float(worst)


def compliant_rows(f: Full, material: Material, gaps: Array, dt: float) -> tuple[Array, Array, Array]:
    """R (3n) and v̂ (3n) of ground of known stiffness, and which contacts are active (n)  [SAP (21), (29), (30)]."""
    D, settle = f.J @ np.linalg.solve(f.M, f.J.T), dt + material.dissipation
    R, aim = np.empty(3 * len(gaps)), np.zeros(3 * len(gaps))
    for i, gap in enumerate(gaps):
        w = np.linalg.norm(D[3 * i : 3 * i + 3, 3 * i : 3 * i + 3]) / 3
        R[3 * i : 3 * i + 2] = material.sigma * w
        R[3 * i + 2] = max(material.beta**2 * w / (4 * np.pi**2), 1 / (dt * material.stiffness * settle))
        aim[3 * i + 2] = -gap / settle
    return R, aim, (gaps <= 0) | (not material.touching_only)


def law_error(law: str, f: Full, p: Array, v_plus: Array, mu: Array, extra: Array, k: int = 4) -> float:
    """Error of the law's own conditions; 0 for laws without any here."""
    if law in ("no-slip", "exact-cone"):
        return (no_slip_error if law == "no-slip" else exact_cone_error)(f, p, v_plus, mu, extra)
    if law == "coulomb":
        return coulomb_error(f, p, v_plus, mu, extra, k)
    return cone_error(f, p, v_plus, mu, extra, k) if law in ("cone", "cone-infinite") else 0.0


def outside_cone(p: Array, mu: Array, k: int = 4) -> float:
    """How far impulses pull or leave the polygon (μ = ∞ does not limit)."""
    impulse = p.reshape(-1, 3)
    finite = np.isfinite(mu)
    facets = impulse[finite, :2] @ facet_normals(k).T - (mu[finite] * impulse[finite, 2])[:, None]
    return float(max(-impulse[:, 2].min(initial=0), facets.max(initial=0), 0.0))
