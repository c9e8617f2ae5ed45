"""Elastic tetrahedra as rows: energies, forces and stiffness by differences, known material laws, statics by scipy."""

import numpy as np
import pytest
from fast import every, first_is_fast
from scipy.optimize import brentq, minimize
from scipy.spatial.transform import Rotation

from sim_harness.world.elements import ROWS, deformation, elastic_body, element_rows, principal, shear_slopes, stretch_slopes

YOUNG, POISSON = 1e5, 0.45  # [Macklin §10.3]
TET = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.01], [0.0, 0.12, 0.0], [0.02, 0.0, 0.09]])
ENERGIES = ["corotational", "neo-hookean"]
LAME = YOUNG / (2 * (1 + POISSON)), YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))


def density(s, mu, lam, hyper):
    """Ψ at principal stretches s (3) [Pa]: μ Σ (s − 1)² + ½ λ (Σ s − 3)², or C₁ (Σ s² − 3) + D₁ (J − α)²."""
    if not hyper:
        return mu * ((s - 1.0) ** 2).sum() + 0.5 * lam * (s.sum() - 3.0) ** 2
    first, second = 0.5 * mu, 0.5 * (lam + mu)
    return first * ((s * s).sum() - 3.0) + second * (s[0] * s[1] * s[2] - 1.0 - first / second) ** 2


def stored(body, x):
    """Energy of all tetrahedra [J] with corners at x [m] (n, 3)."""
    stretches = [principal(deformation(body, e, x))[1] for e in range(len(body.nodes))]
    return sum(volume * density(s, body.mu, body.lam, body.hyper) for volume, s in zip(body.volumes, stretches, strict=True))


def tetrahedron(energy):
    return elastic_body(TET, np.arange(4)[None], YOUNG, POISSON, energy)


def differences(f, x, eps=1e-6):
    return np.array([(f(x + eps * e) - f(x - eps * e)) / (2 * eps) for e in np.eye(len(x))]).T


def force(body, x):
    G, g, e = element_rows(body, x.reshape(-1, 3))
    return -G.T @ (g / e)


@every("energy", ENERGIES)
def test_gradient_and_hessian_match_the_energy_density(energy):
    rng, hyper = np.random.default_rng(22), energy == "neo-hookean"
    for _ in range(50):
        s = rng.uniform(0.5, 1.6, 3)
        c, H = stretch_slopes(s, *LAME, hyper)
        np.testing.assert_allclose(c, differences(lambda s: density(s, *LAME, hyper), s), atol=1e-3 * YOUNG * 1e-4)
        np.testing.assert_allclose(H, differences(lambda s: stretch_slopes(s, *LAME, hyper)[0], s), atol=1e-6 * YOUNG)
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            flip, twist = shear_slopes(s, k, *LAME, hyper)
            assert flip * (s[i] - s[j]) == pytest.approx(c[i] - c[j], abs=1e-9 * YOUNG)
            assert twist * (s[i] + s[j]) == pytest.approx(c[i] + c[j], abs=1e-9 * YOUNG)


@pytest.mark.parametrize("energy", first_is_fast(ENERGIES))
def test_rotated_elements_at_rest_have_no_force(energy):
    body = tetrahedron(energy)
    for seed in range(5):
        x = TET @ Rotation.random(random_state=seed).as_matrix().T + [1.0, -2.0, 3.0]
        assert np.abs(force(body, x.ravel())).max() < 1e-10 * YOUNG * 0.01
        assert stored(body, x) == pytest.approx(stored(body, TET), abs=1e-12)


@every("energy", ENERGIES)
def test_rows_have_the_exact_elastic_force(energy):
    body, rng = tetrahedron(energy), np.random.default_rng(1)
    for size in (0.001, 0.01, 0.03):
        x = (TET + size * rng.normal(size=TET.shape)).ravel()
        gradient = differences(lambda x: stored(body, x.reshape(-1, 3)), x)
        np.testing.assert_allclose(force(body, x), -gradient, atol=1e-6 * np.abs(gradient).max())


@every("energy", ENERGIES)
def test_rows_have_the_exact_stiffness_where_the_energy_is_convex(energy):
    body, rng, exact = tetrahedron(energy), np.random.default_rng(2), 0
    for _ in range(40):
        x = (TET + 0.01 * rng.normal(size=TET.shape)).ravel()
        G, _, e = element_rows(body, x.reshape(-1, 3))
        stiffness, true = G.T @ (G / e[:, None]), -differences(lambda x: force(body, x), x)
        assert np.abs(true - true.T).max() < 1e-4 * np.abs(true).max()
        lowest = np.linalg.eigvalsh(true).min()
        assert np.linalg.eigvalsh(stiffness - true).min() > -1e-4 * np.abs(true).max()  # never softer than it is
        if lowest > -1e-5 * np.abs(true).max():
            exact += 1
            np.testing.assert_allclose(stiffness, true, atol=1e-4 * np.abs(true).max())
    assert exact >= 2, exact


def test_a_tetrahedron_turned_inside_out_is_pushed_back():
    body = tetrahedron("neo-hookean")
    x = TET.copy()
    x[3, 2] = -0.02
    assert np.linalg.det(deformation(body, 0, x)) < 0
    gradient = differences(lambda x: stored(body, x.reshape(-1, 3)), x.ravel())
    np.testing.assert_allclose(force(body, x.ravel()), -gradient, atol=1e-5 * np.abs(gradient).max())
    assert force(body, x.ravel())[11] > 0


@every("energy", ENERGIES)
def test_small_strains_match_young_and_poisson(energy):
    c, H = stretch_slopes(np.ones(3), *LAME, energy == "neo-hookean")
    assert np.abs(c).max() < 1e-9 * YOUNG
    softness = np.linalg.inv(H)
    assert 1 / softness[0, 0] == pytest.approx(YOUNG, rel=1e-9)
    assert -softness[0, 1] / softness[0, 0] == pytest.approx(POISSON, rel=1e-9)
    assert shear_slopes(np.ones(3), 0, *LAME, energy == "neo-hookean")[0] == pytest.approx(2 * LAME[0], rel=1e-9)


def relaxed(stretch, energy):
    """The stretch across a bar that is pulled to a length, with free sides."""
    hyper = energy == "neo-hookean"
    return brentq(lambda t: stretch_slopes(np.array([stretch, t, t]), *LAME, hyper)[0][1], 0.2, 2.0)


@every("stretch", [1.25, 1.5, 2.0])
def test_neo_hookean_bars_keep_more_volume_than_corotational_ones(stretch):
    """The co-rotational one loses 1.5, 10 and 40 % of its volume; the other none: it swells by 2, 3.3 and 5 %."""
    volume = {energy: stretch * relaxed(stretch, energy) ** 2 for energy in ENERGIES}
    print(f"stretch {stretch}: volume {volume['corotational']:.4f} linear, {volume['neo-hookean']:.4f} neo-Hookean")
    assert volume["corotational"] < 1.0 <= volume["neo-hookean"] < 1.06


@every("energy", ENERGIES)
def test_newton_iterations_on_the_rows_find_the_static_equilibrium(energy):
    """Two tetrahedra that hang from three corners: the minimum of energy and height."""
    points = np.vstack([TET, [[0.09, 0.08, 0.1]]])
    body = elastic_body(points, np.array([[0, 1, 2, 3], [1, 2, 3, 4]]), YOUNG, POISSON, energy)
    load = np.zeros(15)
    load[[11, 14]] = -20.0
    free = np.arange(9, 15)

    def at(y):
        x = points.ravel().copy()
        x[free] = y
        return x

    found = minimize(lambda y: stored(body, at(y).reshape(-1, 3)) - load @ at(y), points.ravel()[free], method="BFGS",
                     options={"gtol": 1e-9})  # fmt: skip
    y = points.ravel()[free]
    for _ in range(20):
        G, g, e = element_rows(body, at(y).reshape(-1, 3))
        G = G[:, free]
        y = y + np.linalg.solve(G.T @ (G / e[:, None]), load[free] - G.T @ (g / e))
    assert len(g) == 2 * ROWS
    np.testing.assert_allclose(y, found.x, atol=1e-6)
    assert np.abs(y - points.ravel()[free]).max() > 1e-3
