"""The engine `first-order`: bilateral springs and dampers against closed forms [Drumwright]."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from fast import every, first_is_fast
from first_order_bodies import G, compliance_and_share, random_spd, step_of, stiffness_and_damping, ties

from sim_harness.engines.first_order import FirstOrder

ENGINE = FirstOrder()


def solved(problem):
    solution = ENGINE.solve(problem)
    assert solution.status.ok
    return solution


def engines_map(k, b, h):
    """What a step makes of (q, v) of 1 kg on a spring and a damper (2, 2)."""
    columns = []
    for q, v in np.eye(2):
        after = solved(step_of([[1.0]], [0.0], [v], h, rows=ties([[1.0]], [q], k, b))).v_plus[0]
        columns.append((q + h * after, after))
    return np.array(columns).T


def radius(A):
    return np.abs(np.linalg.eigvals(A)).max()


def explicit(k, b, h):
    return np.array([[1.0, h], [-h * k, 1.0 - h * b]])


def semi_implicit(k, b, h):
    """The damper at the end of the step, the spring at its beginning  (11)–(12)"""
    v = np.array([-h * k, 1.0]) / (1.0 + h * b)
    return np.array([[1.0, 0.0] + h * v, v])


@every(
    ("scheme", "h", "k", "b", "expected"),
    [
        (explicit, 1e-5, 1e6, 1.0, 1.000045),
        (explicit, 1e-5, 1e6, 10.0, 1.0),
        (explicit, 1e-5, 1e6, 2e5, 0.99995),
        (explicit, 1e-5, 1e6, 2.1e5, 1.09995),
        (semi_implicit, 1e-3, 1e6, 1.0, 0.9995),
        (semi_implicit, 1e-3, 1e7, 1.0, 7.864),
        (engines_map, 1e-5, 1e6, 0.0, 0.99995),
        (engines_map, 1e-2, 1e6, 0.0, 0.0995),
    ],
)
def test_spectral_radii_match_the_closed_form(scheme, h, k, b, expected):
    assert radius(scheme(k, b, h)) == pytest.approx(expected, abs=5e-6 if scheme is explicit else 5e-4 * expected)


def test_semi_implicit_euler_is_unstable_beyond_its_limit():
    h, b = 1e-3, 1.0
    limit = 2 * (2 + h * b) / h**2
    assert limit == pytest.approx(4.002e6)
    assert radius(semi_implicit(0.999 * limit, b, h)) < 1.0 < radius(semi_implicit(1.001 * limit, b, h))


def test_the_engine_is_implicit_euler():
    for h, k, b in ((1e-5, 1e6, 1.0), (1e-3, 1e7, 1.0), (1e-2, 1e6, 1e3)):
        exact = np.linalg.inv(np.array([[1.0, -h], [h * k, 1.0 + h * b]]))
        np.testing.assert_allclose(engines_map(k, b, h), exact, rtol=1e-9, atol=1e-12)
    assert radius(engines_map(1e6, 1.0, 1e-3)) == pytest.approx(1 / np.sqrt(1 + 1e-3 + 1.0), rel=1e-9)


@every("k", [1e5, 1e6, 1e9, 1e12])
@every("b", [0.0, 1.0, 1e6, 1e12])
def test_every_step_size_is_stable(k, b):
    for h in 10.0 ** np.arange(-8, 4):
        assert radius(engines_map(k, b, h)) <= 1.0 + 1e-12


def test_an_undamped_spring_decays_by_the_closed_form_factor():
    """h = 0.01 s, k = 1e6 N/m, b = 0: each step leaves 1/√(1 + h² k) = 0.0995."""
    left = radius(engines_map(1e6, 0.0, 1e-2))
    assert left == pytest.approx(0.0995, abs=5e-5)
    assert left == pytest.approx(1 / np.sqrt(101.0), rel=1e-9)


def random_ties(rng, nv=7, n=4, h=1e-3):
    """A step with rows that yield; what it is made of."""
    M, J, f, v = random_spd(rng, nv), rng.normal(size=(n, nv)), rng.normal(size=nv), rng.normal(size=nv)
    K, B, phi = 10 ** rng.uniform(2, 9, n), 10 ** rng.uniform(-1, 5, n), 1e-3 * rng.normal(size=n)
    return M, J, f, v, K, B, phi, step_of(M, f, v, h, rows=ties(J, phi, K, B))


def test_in_constraint_space_the_motion_is_a_mass_on_a_spring():
    """(35) as implicit Euler has it, for rows that do not bend: M̂ φ̈ + B φ̇ + K φ = f̂ at the end of the step."""
    rng = np.random.default_rng(3)
    for h in (1e-3, 1e-9):
        for _ in range(20):
            M, J, f, v, K, B, phi, problem = random_ties(rng, h=h)
            after = solved(problem).v_plus
            Mhat = np.linalg.inv(J @ np.linalg.solve(M, J.T))
            fhat = Mhat @ J @ np.linalg.solve(M, f)
            speed = J @ after
            left = Mhat @ (speed - J @ v) / h + B * speed + K * (phi + h * speed)
            scale = max(np.abs(part).max() for part in (Mhat @ (speed - J @ v) / h, K * phi, B * speed))
            np.testing.assert_allclose(left, fhat, atol=1e-8 * scale)


def test_bilateral_steps_match_equations_53_and_60_to_62():
    """(60)–(62), then (53), (37): by the paper's own unsymmetric formula with Y."""
    rng, h = np.random.default_rng(4), 1e-3
    for _ in range(50):
        M, J, f, v, K, B, phi, problem = random_ties(rng)
        W, a = J @ np.linalg.solve(M, J.T), J @ np.linalg.solve(M, f)
        speed = np.linalg.solve(np.eye(4) + W * (h * h * K + h * B), J @ v - h * W @ (K * phi) + h * a)
        solution = solved(problem)
        np.testing.assert_allclose(J @ solution.v_plus, speed, atol=1e-9)
        load = -K * (phi + h * speed) - B * speed
        np.testing.assert_allclose(solution.rows / h, load, rtol=1e-5, atol=1e-5 * np.abs(load).max())
        p = np.linalg.solve(W + np.diag(1 / (h * h * K + h * B)), -(J @ v + h * a + K * phi / (h * K + B)))
        np.testing.assert_allclose(solution.rows, p, rtol=1e-9, atol=1e-9 * np.abs(p).max())
        np.testing.assert_allclose(solution.v_plus, v + np.linalg.solve(M, J.T @ p + h * f), atol=1e-9)


def test_cfm_and_erp_convert_to_stiffness_and_damping():
    rng = np.random.default_rng(5)
    K, B = 10 ** rng.uniform(0, 12, 100), 10 ** rng.uniform(-3, 9, 100)
    for h in (1e-5, 1e-3, 1e-1):
        R, share = compliance_and_share(K, B, h)
        again = stiffness_and_damping(R, share, h)
        np.testing.assert_allclose(again[0], K, rtol=1e-9)
        kept = share < 1 - 1e-6  # 1 − E is all rounding beyond
        np.testing.assert_allclose(again[1][kept], B[kept], rtol=1e-6)
    assert compliance_and_share(0.0, 10.0, 1e-3) == (100.0, 0.0)
    assert compliance_and_share(np.inf, 10.0, 1e-3) == (0.0, 1.0)


def test_cfm_and_erp_reproduce_the_engines_step():
    k, b, h, q, v = 2e5, 30.0, 2e-3, 0.01, -0.4
    R, share = compliance_and_share(k, b, h)
    solution = solved(step_of([[1.0]], [3.0], [v], h, rows=ties([[1.0]], [q], k, b)))
    assert solution.v_plus[0] + R * solution.rows[0] == pytest.approx(-share / h * q, abs=1e-12)
    assert solution.v_plus[0] == pytest.approx((v + h * (3.0 - k * q)) / (1 + h * b + h * h * k), rel=1e-12)


@every("K", [1e4, 1e12])
def test_redundant_springs_share_the_load_by_stiffness(K):
    """Two springs 3 : 1 that hold 2 kg: 14.715 and 4.905 N, W = ½ (1 1; 1 1) being of rank 1."""
    stiffness, q, v, h = K * np.array([3.0, 1.0]), 0.0, 0.0, 1e-2
    W = np.ones((2, 2)) / 2.0
    assert np.linalg.matrix_rank(W) == 1
    for _ in range(600):
        solution = solved(step_of([[2.0]], [-2 * G], [v], h, rows=ties([[1.0], [1.0]], [q, q], stiffness, 1e-3 * K)))
        v = solution.v_plus[0]
        q += h * v
    np.testing.assert_allclose(solution.rows / h, [14.715, 4.905], rtol=1e-6)


class Tie(NamedTuple):
    """Rows J of a body of inertia M, how far they are open, how they bend (Ġ v), and their spring and damper."""

    M: np.ndarray
    J: np.ndarray
    phi: np.ndarray
    bend: np.ndarray
    k: float
    b: float


def engines_step(tie, v, f, h):
    return solved(step_of(tie.M, f, v, h, rows=ties(tie.J, tie.phi, tie.k, tie.b))).v_plus


def papers_step(tie, v, f, h):
    """v⁺ by (51)–(53) with M̂ Ġ v, in numpy."""
    M, J, phi, bend, k, b = tie
    W, S = J @ np.linalg.solve(M, J.T), h * h * k + h * b
    load = np.linalg.solve(np.eye(len(phi)) + S * W, -k * phi - (h * k + b) * (J @ v + h * J @ np.linalg.solve(M, f)))
    return v + h * np.linalg.solve(M, J.T @ (load - np.linalg.solve(W, bend)) + f)


def papers_step_by_the_engine(tie, v, f, h):
    """The same, solved by the engine: − M̂ Ġ v as a force, and the rows opened by what this force closes them."""
    M, J, phi, bend, k, b = tie
    W = J @ np.linalg.solve(M, J.T)
    rows = ties(J, phi + h * (h * k + b) / k * bend, k, b)
    return solved(step_of(M, f - J.T @ np.linalg.solve(W, bend), v, h, rows=rows)).v_plus


def pendulum(h, k=1e15, b=1.0, step=engines_step):
    """A second of a bob of 1 kg with I = 1/12 kg m², tied at 1 m, from the side: its largest deviation [m], and how much energy
    it has won [J]."""
    q, v = np.array([1.0, 0.0, 0.0]), np.zeros(3)
    M, worst = np.diag([1.0, 1.0, 1 / 12]), 0.0
    for _ in range(round(1.0 / h)):
        c, s = np.cos(q[2]), np.sin(q[2])
        phi = q[:2] - np.array([c, s])  # the arm, 1 m, from the bob to the origin
        J = np.array([[1.0, 0.0, s], [0.0, 1.0, -c]])
        v = step(Tie(M, J, phi, v[2] ** 2 * np.array([c, s]), k, b), v, np.array([0.0, -G, 0.0]), h)
        q = q + h * v
        worst = max(worst, np.linalg.norm(q[:2] - np.array([np.cos(q[2]), np.sin(q[2])])))
    return worst, 0.5 * v @ M @ v + G * q[1]


@pytest.mark.parametrize(
    ("h", "papers", "deviation"),
    first_is_fast(
        [(0.1, 1.336e-1, 7.790e-2), (1e-2, 9.099e-4, 9.039e-4), (1e-3, 9.056e-6, 9.055e-6), (1e-4, 9.055e-8, 9.055e-8)], 3
    ),
)
def test_a_stiff_bilateral_pendulum_is_stable_with_the_closed_form_gap(h, papers, deviation):
    """k = 1e15 N/m: stable, with a gap of h² (9.056 = v²/2L at the bottom, with v² = 2g / (1 + I)). `papers` is for the scheme
    with M̂ Ġ v, in numpy and as a force under the engine; the engine alone leaves this term out, and its gap is smaller at large
    steps."""
    assert pendulum(h, step=papers_step)[0] == pytest.approx(papers, rel=1e-3)
    assert pendulum(h, step=papers_step_by_the_engine)[0] == pytest.approx(papers, rel=1e-3)
    worst, energy = pendulum(h)
    assert worst == pytest.approx(deviation, rel=1e-3)
    assert np.isfinite(energy)
    if h <= 1e-2:
        assert worst / h**2 == pytest.approx(9.06, rel=0.01)
        assert abs(energy) < 20 * h  # F7: O(h), not "precisely zero"


def test_forces_of_stiff_springs_have_no_cancellation_error():
    """k = 1e15 N/m at h = 1e-2 s: forces as rational numbers have them; (53) itself, from φ⁺, is off by 1e-5 N and more."""
    rng, h, k = np.random.default_rng(8), 1e-2, 1e15
    lost = 0.0
    for _ in range(20):
        phi, v, f = 1e-3 * rng.normal(), rng.normal(), 10 * rng.normal()
        solution = solved(step_of([[2.0]], [f], [v], h, rows=ties([[1.0]], [phi], k, 1.0)))
        H, K, B, m = Fraction(h), 1 / Fraction(1 / k), Fraction(1), Fraction(2)
        S = H * H * K + H * B
        exact = float((-K * Fraction(phi) - S / H * (Fraction(v) + H * Fraction(f) / m)) / (1 + S / m))
        assert solution.rows[0] / h == pytest.approx(exact, rel=1e-12)
        assert abs(solution.rows[0] / h - exact) < 1e-3
        speed = solution.v_plus[0]
        lost = max(lost, abs(-k * (phi + h * speed) - speed - exact))
    assert lost > 1e-5


def test_stiff_gains_are_stable_as_a_row_and_unstable_as_a_force():
    """h² kp > 4 m: a PD whose force is that of the beginning of the step goes astray; as a row it is stable."""
    m, h = 1.0, 1e-2
    for kp, stable in ((3.5 * m / h**2, True), (4.5 * m / h**2, False)):
        q, v = 0.01, 0.0
        for _ in range(100):
            v = solved(step_of([[m]], [-kp * q], [v], h)).v_plus[0]
            q += h * v
        assert (abs(q) < 1.0) == stable
        q, v = 0.01, 0.0
        for _ in range(100):
            v = solved(step_of([[m]], [0.0], [v], h, rows=ties([[1.0]], [q], kp, 1.0))).v_plus[0]
            q += h * v
        assert abs(q) < 0.01


@every(("K", "h", "m"), [(1e5, 1e-3, 10.0), (1e9, 1e-3, 10.0), (1e4, 1e-2, 1.0)])
def test_the_error_of_an_unknown_deformation_matches_its_formula(K, h, m):
    """φ₀ taken for 0: the force is −(hK + B) φ̇⁺, and N/mg = SW / (1 + SW), 1 % of it in the first case."""
    B = 1.0
    solution = solved(step_of([[m]], [-m * G], [0.0], h, rows=ties([[1.0]], [0.0], K, B)))
    load = solution.rows[0] / h
    SW = (h * h * K + h * B) / m
    assert load / (m * G) == pytest.approx(SW / (1 + SW), rel=1e-9)
    assert load == pytest.approx(-(h * K + B) * solution.v_plus[0], rel=1e-6)
    if K == 1e5:
        assert load / (m * G) == pytest.approx(0.01, rel=0.1)
