"""`sap` beside the engines that it should agree with: `penalty` as the step gets small, `lcp` where both are near rigid."""

import numpy as np
import pytest
import scs
from fast import first_is_fast, full
from sap_problems import TIGHT, random_convex
from scipy.optimize import NonlinearConstraint, minimize
from scipy.sparse import csc_matrix

from sim_harness.engines.sap_newton import MU, R_N, R_T, V_HAT, minimise
from sim_harness.world.world import Push

WEIGHT = 2.0 * 9.81
SMALL = 1e-4
"""[s]"""


def compliant(make_block, engine, stiffness, dissipation, mu=0.5):
    """The block on the same springs and dampers under either engine."""
    if engine == "penalty":
        return make_block("penalty", mu=mu, kp=stiffness, kv=stiffness * dissipation, slip_speed=1e-4)
    return make_block("sap", mu=mu, stiffness=stiffness, dissipation=dissipation)


@full
@pytest.mark.parametrize("dissipation", first_is_fast([1e-3, 1e-2]))
def test_sap_and_penalty_agree_on_a_landing(make_block, dissipation):
    """A drop from 10 mm: the forces of the first 0.2 s, bounces and all, to 2 % of the largest."""
    forces = {}
    for engine in ("sap", "penalty"):
        world = compliant(make_block, engine, 5e3, dissipation)
        world.reset(world.q + np.array([0, 0, 0.01, 0, 0, 0, 0]))
        forces[engine] = np.array([world.step(np.zeros(0), SMALL).normal_force.sum() for _ in range(2000)])
    peak = forces["penalty"].max()
    assert peak > 3 * WEIGHT
    touching = (forces["sap"] > 0) & (forces["penalty"] > 0)
    assert np.count_nonzero((forces["sap"] > 0) != (forces["penalty"] > 0)) < 10
    assert np.abs(forces["sap"] - forces["penalty"])[touching].max() < 0.02 * peak


@full
def test_sap_and_penalty_agree_on_a_slide(make_block):
    """1 m/s to rest: way, and the load of the feet while it slides, to 2 %."""
    way, load = {}, {}
    for engine in ("sap", "penalty"):
        world = compliant(make_block, engine, 2e4, 2e-4)
        q = world.q.copy()
        q[2] -= WEIGHT / 4 / 2e4
        world.reset(q, np.array([1.0, 0, 0, 0, 0, 0]))
        forces = np.array([world.step(np.zeros(0), SMALL).normal_force for _ in range(3000)])
        assert abs(world.v[0]) < 1e-3
        way[engine], load[engine] = world.q[0], forces[500:1500].mean(axis=0)
    assert way["sap"] == pytest.approx(way["penalty"], rel=0.02)
    assert way["sap"] == pytest.approx(1.0 / (2 * 0.5 * 9.81), rel=0.02)
    np.testing.assert_allclose(load["sap"], load["penalty"], rtol=0.02)


def slip_onset(world):
    """The force along x, raised slowly at the height of the ground, at which the block leaves [N]."""
    for force in np.linspace(0.8, 1.2, 401) * 0.5 * WEIGHT:
        push = Push(frame="block", force=(force, 0.0, 0.0), point=(0.0, 0.0, -0.05))
        for _ in range(5):
            assert world.step(np.zeros(0), 1e-3, [push]).status.ok
        if world.v[0] > 1e-3:
            return force
    raise AssertionError("it never slips")


def test_sap_near_rigid_and_lcp_slip_at_the_same_force(make_block):
    rigid = slip_onset(make_block("lcp", edges=16))
    near_rigid = slip_onset(make_block("sap", stiffness=np.inf, dissipation=1e-3))
    assert near_rigid == pytest.approx(rigid, rel=0.01)
    assert near_rigid == pytest.approx(0.5 * WEIGHT, rel=0.01)


def dual_by_splitting(A, J, laws, v_star, tolerance):
    """γ of (22), min ½ γᵀ(W + R)γ + rᵀγ in the friction cones, by SCS, a first-order conic solver; and its iterations."""
    n, R = len(laws), np.column_stack([laws[:, R_T], laws[:, R_T], laws[:, R_N]]).ravel()
    r = J @ v_star
    r[2::3] -= laws[:, V_HAT]
    P = J @ np.linalg.solve(A, J.T) + np.diag(R)
    rows = np.zeros((3 * n, 3 * n))  # s = (μ γ_n, γ_t) in second-order cones
    for i in range(n):
        rows[3 * i, 3 * i + 2] = -laws[i, MU]
        rows[3 * i + 1, 3 * i] = rows[3 * i + 2, 3 * i + 1] = -1.0
    data = {"P": csc_matrix(np.triu(P)), "A": csc_matrix(rows), "b": np.zeros(3 * n), "c": r}
    found = scs.SCS(data, {"q": [3] * n}, verbose=False, eps_abs=tolerance, eps_rel=tolerance).solve()
    return found["x"], found["info"]["iter"]


def primal_by_interior_points(A, J, laws, v_star):
    """v of (19), min ½‖v − v*‖²_A + ½‖σ‖²_R with J v − v̂ + R σ in the dual cones, by SciPy's interior-point method."""
    nv, n = len(v_star), len(laws)
    R = np.column_stack([laws[:, R_T], laws[:, R_T], laws[:, R_N]]).ravel()
    v_hat, mu = np.zeros(3 * n), laws[:, MU]
    v_hat[2::3] = laws[:, V_HAT]
    G = np.hstack([J, np.diag(R)])
    H = np.zeros((nv + 3 * n, nv + 3 * n))
    H[:nv, :nv], H[nv:, nv:] = A, np.diag(R)
    linear = np.r_[-A @ v_star, np.zeros(3 * n)]

    def dual_cone(x):  # g_n ≥ μ ‖g_t‖, smooth as squares with g_n ≥ 0
        g = (G @ x - v_hat).reshape(-1, 3)
        return np.r_[g[:, 2] ** 2 - mu**2 * (g[:, :2] ** 2).sum(axis=1), g[:, 2]]

    def slope(x):
        g, rows = (G @ x - v_hat).reshape(-1, 3), G.reshape(n, 3, -1)
        square = 2 * (g[:, 2, None] * rows[:, 2] - mu[:, None] ** 2 * (g[:, :2, None] * rows[:, :2]).sum(axis=1))
        return np.vstack([square, rows[:, 2]])

    each = G.reshape(n, 3, -1)
    bends = 2 * (
        np.einsum("ia,ib->iab", each[:, 2], each[:, 2])
        - mu[:, None, None] ** 2 * np.einsum("ija,ijb->iab", each[:, :2], each[:, :2])
    )
    start = np.r_[v_star, np.linalg.solve(np.diag(R), v_hat - J @ v_star + np.tile([0.0, 0.0, 10.0], n))]
    found = minimize(
        lambda x: 0.5 * x @ H @ x + linear @ x, start, jac=lambda x: H @ x + linear, hess=lambda x: H, method="trust-constr",
        constraints=NonlinearConstraint(dual_cone, 0.0, np.inf, jac=slope, hess=lambda _, w: np.tensordot(w[:n], bends, 1)),
        options={"gtol": 1e-10, "xtol": 1e-14, "maxiter": 3000},
    )  # fmt: skip
    return found.x[:nv], found.x[nv:]


def momentum_error(A, J, v, v_star, gamma):
    """e_m of (32) with A for M, unscaled."""
    return np.linalg.norm(A @ (v - v_star) - J.T @ gamma) / max(np.linalg.norm(A @ v), np.linalg.norm(J.T @ gamma))


@pytest.mark.parametrize("seed", first_is_fast([0, 1, 2, 3]))
def test_sap_agrees_with_an_interior_point_and_a_first_order_solver(seed):
    """The same impulses from (24), (19) and (22) [SAP §VI-C]: SAP in at most 10 iterations, SCS in more and more with its
    tolerance; e_m of SAP is rounding, of the dual solution too, as v follows from γ there."""
    c, A, J, start = random_convex(np.random.default_rng(38 + seed), k=4)
    v, gamma, _, steps = minimise(c, start, TIGHT)
    gamma = gamma.ravel()
    assert steps <= 10
    assert momentum_error(A, J, v, c.v_star, gamma) < 1e-12
    taken = []
    for tolerance in (1e-3, 1e-6, 1e-9):
        found, iterations = dual_by_splitting(A, J, c.laws, c.v_star, tolerance)
        np.testing.assert_allclose(found, gamma, atol=100 * tolerance * max(1.0, np.abs(gamma).max()))
        taken.append(iterations)
    assert steps < taken[0] <= taken[1] < taken[2]
    interior, sigma = primal_by_interior_points(A, J, c.laws, c.v_star)
    np.testing.assert_allclose(interior, v, atol=1e-4)
    np.testing.assert_allclose(sigma, gamma, atol=1e-3)
    assert momentum_error(A, J, interior, c.v_star, sigma) < 1e-3
