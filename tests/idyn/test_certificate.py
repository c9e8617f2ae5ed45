"""Residuals of the certificate compared with numpy, for correct and for spoiled answers."""

import msgspec
import numpy as np
import pytest
from certificates import LAWS, answer_of, certificate
from conditions import allowance, relative_dynamics, speed_per_impulse
from fast import every, first_is_fast
from oracles import convex_program, corners, outcome
from scenes import DT, each_walker, random_scene
from scipy.optimize import linprog

from idyn.laws import make_law
from idyn.status import Conditions
from idyn.types import Residuals


def shares_of(x, k):
    """x = Σ share_j · corner_j with the least sum (SciPy's LP): the two corners next to it."""
    found = linprog(np.ones(k), A_eq=corners(k).T, b_eq=x, bounds=(0, None), options={"primal_feasibility_tolerance": 1e-10})
    assert found.status == 0
    return found.x


def expected(scene, law, f, a):
    """The six residuals, from the dense system."""
    c, k = scene.contacts, len(law.directions)
    s = speed_per_impulse(f, len(c))
    u, p = f.at_end(a.v_plus).reshape(-1, 3), a.p.reshape(-1, 3) * s[:, None]
    w = u[:, 2] + allowance(c.gaps, DT)
    force = relative_dynamics(f, a.p, a.v_plus, a.tau, DT)
    demand = np.abs(a.v_plus[f.a] - f.v[f.a] - DT * scene.q_ddot).max()
    if law.conditions is Conditions.FREE:
        return Residuals(dynamics=force, demand=demand, complementarity=0, cone=np.abs(p).max(initial=0), penetration=0, slip=0)
    if law.conditions is Conditions.COMPLIANT:
        worst, cone = compliant(f, law.material, c, u, a.p.reshape(-1, 3))
        return Residuals(dynamics=force, demand=demand, complementarity=worst, cone=cone, penetration=0, slip=0)
    penetration, cone, slip = max(-w.min(initial=0), 0), max(-p[:, 2].min(initial=0), 0), 0.0
    pairs = []
    free = np.isinf(c.mu) | (law.unlimited_friction & (c.mu > 0))
    moving, pulling = np.abs(u[:, :2]).max(axis=1, initial=0), np.abs(p[:, :2]).max(axis=1, initial=0)
    apart = (w > 1e-9) & ~p.any(axis=1)
    if law.conditions is not Conditions.CONVEX:
        cone = max(cone, pulling[free & (w > 1e-9) & (p[:, 2] <= 1e-9)].max(initial=0))
    if law.conditions is Conditions.NO_SLIP:
        pairs.append(np.minimum(p[:, 2], w))
        slip = moving[(c.mu > 0) & ~apart].max(initial=0)
        cone = max(cone, pulling[c.mu == 0].max(initial=0))
    if law.conditions is Conditions.COULOMB:
        pairs.append(np.minimum(p[:, 2], w))
        slip = moving[free & ~apart].max(initial=0)
        for i in np.flatnonzero(~free):
            shares, along = shares_of(p[i, :2], k), corners(k) @ u[i, :2]
            speed, rest = max(-along.min(), 0), c.mu[i] * p[i, 2] - shares.sum()
            pairs.append(np.r_[min(speed, max(rest, 0)), np.minimum(shares, along + speed)])
            cone = max(cone, -rest)
    if law.conditions is Conditions.EXACT_CONE:
        pairs.append(np.minimum(p[:, 2], w))
        slip = moving[free & ~apart].max(initial=0)
        for i in np.flatnonzero(~free):
            most, x = c.mu[i] * max(p[i, 2], 0), p[i, :2] - u[i, :2]
            pairs.append(p[i, :2] - x * min(1, most / max(np.linalg.norm(x), 1e-300)))
            cone = max(cone, np.linalg.norm(p[i, :2]) - most)
    if law.conditions in (Conditions.CONVEX, Conditions.CONE):
        pairs.append(np.minimum(s * a.y, w))
        qp = convex_program(f, scene.q_ddot, DT, c.mu, allowance(c.gaps, DT), k)
        gradient = qp.V.T @ f.M @ a.v_plus if law.conditions is Conditions.CONVEX else np.column_stack([u[:, :2], w]).ravel()
        slope = (gradient - (f.J[2::3] @ qp.V).T @ a.y + a.epsilon * a.p).reshape(-1, 3)
        for i in range(len(c)):
            if law.conditions is Conditions.CONE and free[i] and apart[i]:
                continue
            if free[i]:
                pairs.append(np.r_[slope[i, :2], min(p[i, 2], slope[i, 2])])
                continue
            shares = shares_of(p[i, :2], k)
            rest = c.mu[i] * p[i, 2] - shares.sum()
            loaded = (shares + max(rest, 0) / k) / c.mu[i] if c.mu[i] > 0 else np.full(k, max(p[i, 2], 0) / k)
            pairs.append(np.minimum(loaded, slope[i, 2] + c.mu[i] * corners(k) @ slope[i, :2]))
            cone = max(cone, -rest)
    worst = np.abs(np.concatenate([np.zeros(1), *pairs])).max()
    return Residuals(dynamics=force, demand=demand, complementarity=worst, cone=cone, penetration=penetration, slip=slip)


def compliant(f, material, c, u, p):
    """How far p is from the point of the round cone nearest to p − (u − v̂ + R p), and from the cone  [SAP (21), (29), (30)]."""
    D, settle = f.J @ np.linalg.solve(f.M, f.J.T), DT + material.dissipation
    worst, scales = np.zeros(2), speed_per_impulse(f, len(c))
    for i, s in enumerate(scales):
        mu = min(c.mu[i], 10.0)
        outside = s * max(0.0, -p[i, 2], np.linalg.norm(p[i, :2]) - mu * p[i, 2])
        worst = np.maximum(worst, [0.0, outside])
        if material.touching_only and c.gaps[i] > 0:
            worst[0] = max(worst[0], s * np.linalg.norm(p[i, :2]), s * abs(p[i, 2]))
            continue
        w = np.linalg.norm(D[3 * i : 3 * i + 3, 3 * i : 3 * i + 3]) / 3
        soft_n = max(material.beta**2 * w / (4 * np.pi**2), 1 / (DT * material.stiffness * settle))
        z = u[i] + np.array([material.sigma * w, material.sigma * w, soft_n]) * p[i]
        z[2] += c.gaps[i] / settle
        x = s * p[i] - z
        across = np.linalg.norm(x[:2])
        if mu * across <= -x[2]:
            nearest = np.zeros(3)
        elif across <= mu * x[2]:
            nearest = x
        else:
            ray = np.array([mu * x[0] / across, mu * x[1] / across, 1.0]) / np.hypot(mu, 1.0)
            nearest = (ray @ x) * ray
        worst[0] = max(worst[0], np.abs(s * p[i] - nearest).max())
    return worst


def spoiled(a, rng, f, q_ddot):
    """Answers with one error, and some in which all is wrong."""
    size = rng.choice([1e-6, 1e-3, 1.0])
    p = a.p + size * rng.normal(size=len(a.p)) * (rng.uniform(size=len(a.p)) < 0.5)
    yield msgspec.structs.replace(a, p=p)
    v_plus, tau = outcome(f, q_ddot, DT, p)
    yield msgspec.structs.replace(a, p=p, v_plus=v_plus, tau=tau)
    yield msgspec.structs.replace(a, v_plus=a.v_plus + size * rng.normal(size=len(a.v_plus)))
    yield msgspec.structs.replace(a, tau=a.tau + size * rng.normal(size=len(a.tau)))
    yield msgspec.structs.replace(a, y=a.y + size * rng.normal(size=len(a.y)))


@pytest.mark.parametrize("count", first_is_fast([8, 24]))
@every("law", [law for law in LAWS if make_law(law).conditions is not Conditions.SOFT])
@each_walker
def test_residuals_match_dense_numpy(name, law, count):
    """For correct answers and for errors of any size. The law `mujoco` is held against MuJoCo itself (tests/sim_harness)."""
    law, rng, solved = make_law(law), np.random.default_rng(0), 0
    for seed in range(count):
        scene = random_scene(name, seed)
        if seed % 2:  # frictionless and sticking contacts among them
            mu = rng.choice([0.0, 0.5, np.inf], len(scene.contacts))
            scene = msgspec.structs.replace(scene, contacts=msgspec.structs.replace(scene.contacts, mu=mu))
        f, a = answer_of(scene, law)
        if law.conditions is Conditions.CONE and (not len(a.y) or np.abs(a.p).max(initial=0) > 1e3):
            continue  # unlimited friction against the demand: without solution, or nearly
        solved += 1
        for one in (a, *spoiled(a, rng, f, scene.q_ddot)):
            actual, impulse = certificate(scene, law, one)
            wanted = expected(scene, law, f, one)
            for field in Residuals.__struct_fields__:
                value = getattr(wanted, field)
                assert getattr(actual, field) == pytest.approx(value, rel=1e-6, abs=1e-10), field
            t = np.cross(scene.contacts.normals, scene.contacts.tangents)
            frame = np.stack([scene.contacts.tangents, t, scene.contacts.normals], axis=1)
            np.testing.assert_allclose(impulse, np.einsum("ic,icw->iw", one.p.reshape(-1, 3), frame), atol=1e-12)
    assert solved >= count // 3
