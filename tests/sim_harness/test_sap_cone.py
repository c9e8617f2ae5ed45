"""The engine `sap`: the projection on the cone, the cost that it minimises, and its derivatives."""

import numpy as np
import scs
from fast import every, full
from sap_problems import TIGHT, cost, gradient, nearest_in_cone, random_convex
from scipy import sparse

from sim_harness.engines.linalg import speeds
from sim_harness.engines.sap_newton import (
    APART,
    MU,
    R_N,
    R_T,
    SLIDING,
    STICKING,
    V_HAT,
    cone_slope,
    hessian,
    minimise,
    project_cone,
)

LAW = np.array([0.5, 0.01, 0.04, 0.0])


def random_law(rng):
    return np.array([rng.choice([0.0, rng.uniform(0, 2)]), *(10 ** rng.uniform(-3, 1, 2)), 0.0])


@every(
    ("y", "expected", "region"),
    [
        ((1, 0, 3), (1, 0, 3), STICKING),
        ((2, 0, 1), (0.588235, 0, 1.176471), SLIDING),
        ((0.3, 0.4, -0.01), (0.0148235, 0.0197647, 0.0494118), SLIDING),
        ((0.3, 0.4, -0.2), (0, 0, 0), APART),
    ],
)
def test_the_projection_has_three_regions(y, expected, region):
    *gamma, where = project_cone(*map(float, y), LAW)
    np.testing.assert_allclose(gamma, expected, atol=5e-7)
    assert where == region


@full
def test_the_projection_solves_its_variational_inequality():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(10_000):
        law, y = random_law(rng), rng.normal(size=3)
        *gamma, region = project_cone(*y, law)
        gamma = np.array(gamma)
        z = np.array([law[R_T], law[R_T], law[R_N]]) * (y - gamma)
        size = np.abs(y).max() * max(1.0, law[R_T], law[R_N]) * max(1.0, law[MU])
        assert np.linalg.norm(gamma[:2]) <= law[MU] * gamma[2] + 1e-14 * size
        assert law[MU] * np.linalg.norm(z[:2]) + z[2] <= 1e-14 * size
        assert abs(z @ gamma) <= 1e-14 * size * max(1.0, np.abs(y).max())
        np.testing.assert_allclose(gamma, nearest_in_cone(y, law), atol=1e-12 * size)
        seen.add(region)
    assert seen == {APART, STICKING, SLIDING}


@every("y", [(0.0, 0.0, -1.0), (1.0, 0.0, -1.0), (0.0, 0.0, 0.0), (1.0, 0.0, 2.0)])
def test_a_frictionless_contact_never_pulls(y):
    s, t, n, _ = project_cone(*y, np.array([0.0, 0.01, 0.04, 0.0]))
    assert (s, t, n) == (0.0, 0.0, max(0.0, y[2]))


def test_boundary_points_belong_to_the_right_region():
    ratio = LAW[MU] * LAW[R_T] / LAW[R_N]
    assert project_cone(0.5, 0.0, 1.0, LAW)[3] == STICKING
    *gamma, region = project_cone(1.0, 0.0, -ratio, LAW)
    assert region == SLIDING
    assert gamma == [0.0, 0.0, 0.0]
    G = np.full((3, 3), np.nan)
    cone_slope(1.0, 0.0, LAW, 0.0, region, G)
    assert np.linalg.eigvalsh(G)[2] > 1.0


def test_a_bilateral_constraint_pulls_and_pushes():
    law = np.array([np.inf, 0.01, 0.04, 0.0])
    assert project_cone(1.0, -2.0, -3.0, law) == (1.0, -2.0, -3.0, STICKING)


def conic_oracle(A, J, laws, v_star):
    """γ of the dual (22) by an operator-splitting method on second-order cones."""
    R = np.repeat(laws[:, R_N], 3)
    R[0::3] = R[1::3] = laws[:, R_T]
    v_hat = np.zeros(len(R))
    v_hat[2::3] = laws[:, V_HAT]
    P = sparse.csc_matrix(np.triu(J @ np.linalg.solve(A, J.T) + np.diag(R)))
    cone = np.zeros((len(R), len(R)))
    for i, mu in enumerate(laws[:, MU]):  # (μ γ_n, γ_s, γ_t) is in the second-order cone
        cone[3 * i, 3 * i + 2], cone[3 * i + 1, 3 * i], cone[3 * i + 2, 3 * i + 1] = -mu, -1.0, -1.0
    data = {"P": P, "A": sparse.csc_matrix(cone), "b": np.zeros(len(R)), "c": J @ v_star - v_hat}
    answer = scs.SCS(data, {"q": [3] * len(laws)}, eps_abs=1e-9, eps_rel=0, verbose=False).solve()
    assert answer["info"]["status"] == "solved"
    return answer["x"].reshape(-1, 3)


def test_the_dual_program_has_the_same_impulses():
    rng = np.random.default_rng(2)
    for _ in range(100):
        c, A, J, v = random_convex(rng, k=int(rng.integers(1, 7)))
        _, gamma, status, _ = minimise(c, v, TIGHT)
        assert status == 0
        oracle = conic_oracle(A, J, c.laws, c.v_star)
        np.testing.assert_allclose(gamma, oracle, atol=1e-6 * max(1.0, np.abs(oracle).max()))


def test_the_gradient_matches_the_cost():
    rng = np.random.default_rng(3)
    for _ in range(50):
        c, A, J, v = random_convex(rng)
        h, numeric = 1e-4, np.zeros(len(v))
        for d, e in enumerate(np.eye(len(v))):
            outer = (cost(c, A, J, v + 2 * h * e) - cost(c, A, J, v - 2 * h * e)) / (4 * h)
            numeric[d] = (4 * (cost(c, A, J, v + h * e) - cost(c, A, J, v - h * e)) / (2 * h) - outer) / 3
        if len({regions(c, v + a * h * e) for e in np.eye(len(v)) for a in (-2, 2)}) == 1:
            assert np.abs(numeric - gradient(c, v)).max() < 1e-8 * np.abs(numeric).max()


def regions(c, v):
    """Of all contacts at v."""
    u = speeds(c, v)
    scaled = zip(
        -u[:, 0] / c.laws[:, R_T], -u[:, 1] / c.laws[:, R_T], (c.laws[:, V_HAT] - u[:, 2]) / c.laws[:, R_N], strict=True
    )
    return tuple(project_cone(*y, law)[3] for y, law in zip(scaled, c.laws, strict=True))


def test_the_hessian_matches_the_gradient_and_is_at_least_A():
    rng = np.random.default_rng(4)
    compared = 0
    for _ in range(60):
        c, A, _, v = random_convex(rng)
        H = hessian(c, speeds(c, v))
        H = np.tril(H) + np.tril(H, -1).T
        assert np.linalg.eigvalsh(H)[0] >= np.linalg.eigvalsh(A)[0] - 1e-9
        h = 1e-4
        if len({regions(c, v + a * h * e) for e in np.eye(len(v)) for a in (-2, 2)}) > 1:
            continue
        compared += 1
        near = np.array([gradient(c, v + h * e) - gradient(c, v - h * e) for e in np.eye(len(v))]) / (2 * h)
        far = np.array([gradient(c, v + 2 * h * e) - gradient(c, v - 2 * h * e) for e in np.eye(len(v))]) / (4 * h)
        np.testing.assert_allclose((4 * near - far) / 3, H, atol=1e-8 * np.abs(H).max())
    assert compared > 40


def test_the_slope_of_the_impulses_is_symmetric_and_positive_semidefinite():
    rng = np.random.default_rng(5)
    for _ in range(1000):
        law, y, G = random_law(rng), rng.normal(size=3), np.zeros((3, 3))
        *_, normal, region = project_cone(*y, law)
        cone_slope(y[0], y[1], law, normal, region, G)
        assert (G == G.T).all()
        assert np.linalg.eigvalsh(G)[0] >= -1e-12 * np.abs(G).max()
