"""The engine `first-order`: compliant rows and contacts, against closed forms."""

from fractions import Fraction

import numpy as np
import pytest
from fast import every, full
from problems import step_problem

from sim_harness.engines.engine import Rows
from sim_harness.engines.first_order import FirstOrder
from sim_harness.studies import first_order_study as study
from sim_harness.studies.first_order_published import Published

G = 9.81


def step_of(M, force, v, dt, J=None, gaps=(), mu=0.0, **yielding):
    """The step of a system of constant M under a force, J with three rows for each contact.

    yielding: rows; stiffness and dissipation of all contacts or of each
    """
    n = len(gaps)
    yielding = {key: value if key == "rows" else np.zeros(n) + value for key, value in yielding.items()}
    return step_problem(M, J, mu, dt, force=force, v=v, gaps=gaps, **yielding)


def ties(G, g, K, B):
    """Rows that pull and push with springs K [N/m] and dampers B [N·s/m]."""
    return springs(G, g, K, B, stops=False)


def stops(G, g, K, B):
    return springs(G, g, K, B, stops=True)


def springs(G, g, K, B, stops):
    g = np.asarray(g, float)
    K, B = np.zeros(len(g)) + K, np.zeros(len(g)) + B
    return Rows(G=np.asarray(G, float), g=g, stops=np.full(len(g), stops), compliance=1 / K, dissipation=B / K)


def along_normals(N):
    """J of contacts without tangents: three rows for each of N."""
    N = np.asarray(N, float)
    J = np.zeros((3 * len(N), N.shape[1]))
    J[2::3] = N
    return J


def random_spd(rng, n):
    A = rng.normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


def rod(angle=np.pi / 3, m=1.0, length=1.0):
    """A thin rod that leans, its lower end on the ground: M, J (s, t, n) in the plane (x, z, turn)."""
    x, z = -0.5 * length * np.cos(angle), -0.5 * length * np.sin(angle)
    J = np.array([[1.0, 0.0, -z], [0.0, 0.0, 0.0], [0.0, 1.0, x]])
    return np.diag([m, m, m * length * length / 12]), J


def hertz(modulus, radius, depth):
    """F [N] and dF/dd [N/m] of a sphere on a plane at a depth d: F = E* √(r d³)  [Drumwright (121)], as printed: Hertz has 4/3.

    A row's K is dF/dd, and its g the place where a spring of K has the force F, −F/K: not the d^{3/2} of (123), whose
    gradient has no unit of a Jacobian and vanishes where the sphere first touches.
    """
    root = np.sqrt(radius * max(depth, 0.0))
    return modulus * root * max(depth, 0.0), 1.5 * modulus * root


RAMP, RAMP_H, RAMP_G, RAMP_K = np.deg2rad(15), 0.01, 9.8, 1e10
CREEP = RAMP_G * np.sin(RAMP)
"""Force along the ramp [N]: 2.536"""


def engine_of(friction="cone", **settings):
    """The engine, or its variant with the paper's own programs."""
    return Published(**settings) if friction == "published" else FirstOrder(friction=friction, **settings)


def foot(friction, seconds, h=1e-3, k=1e7, b=1.0):
    """1 kg, I = 1/3 kg m², on two springs 0.01 and 0.09 m to its sides, at rest: first forces [N], last tilt [rad]."""
    normals = np.array([[1.0, -0.01], [1.0, 0.09]])
    q, v, engine = np.linalg.solve(normals, -np.array([0.9, 0.1]) * G / k), np.zeros(2), engine_of(friction=friction)
    first = None
    for _ in range(round(seconds / h)):
        J, M = along_normals(normals), np.diag([1, 1 / 3])
        solution = engine.solve(step_of(M, [-G, 0], v, h, J, normals @ q, stiffness=k, dissipation=b / k))
        assert solution.status.ok
        first = solution.p[:, 2] / h if first is None else first
        v = solution.v_plus
        q = q + h * v
    return first, q[1]


def ramp(mu, seconds=1.0, **settings):
    """1 kg on a ramp of 15°, from rest: forces of the first step [N], where it is then (along, above) [m], how fast [m/s]."""
    engine = engine_of(**{"stiffness": RAMP_K, "dissipation": 1 / RAMP_K, "tangential": 1e6 / RAMP_H, **settings})
    q, v, first = np.array([0.0, -RAMP_G * np.cos(RAMP) / RAMP_K]), np.zeros(2), None
    weight = RAMP_G * np.array([np.sin(RAMP), -np.cos(RAMP)])
    for _ in range(round(seconds / RAMP_H)):
        solution = engine.solve(step_of(np.eye(2), weight, v, RAMP_H, np.array([[1.0, 0], [0, 0], [0, 1]]), [q[1]], mu))
        assert solution.status.ok
        first = solution.p[0] / RAMP_H if first is None else first
        v = solution.v_plus
        q = q + RAMP_H * v
    return first, q, v


def across(**settings):
    """Friction [N] of a contact that is pressed with 10 N, μ = 0.5, W_t = diag(1, 4), and slides at (1, 1) m/s; h = 0.01 s."""
    engine = engine_of(stiffness=1e10, tangential=1e4, **settings)
    solution = engine.solve(step_of(np.diag([1, 0.25, 1]), [0, 0, -10], [1, 1, 0], 0.01, np.eye(3), [-1e-9], 0.5))
    assert solution.status.ok
    return solution.p[0] / 0.01


def leaning_rod(mu, **settings):
    """Forces (s, n) [N] of the rod's lower end, from rest."""
    M, J = rod()
    engine = engine_of(stiffness=1e10, tangential=1e8, **settings)
    solution = engine.solve(step_of(M, [0, -G, 0], np.zeros(3), 0.01, J, [0.0], mu))
    assert solution.status.ok
    return solution.p[0, ::2] / 0.01


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


def test_the_engine_is_implicit_euler():
    for h, k, b in ((1e-5, 1e6, 1.0), (1e-3, 1e7, 1.0), (1e-2, 1e6, 1e3), (1e-2, 1e6, 0.0)):
        exact = np.linalg.inv(np.array([[1.0, -h], [h * k, 1.0 + h * b]]))
        np.testing.assert_allclose(engines_map(k, b, h), exact, rtol=1e-9, atol=1e-12)
    assert radius(engines_map(1e6, 1.0, 1e-3)) == pytest.approx(1 / np.sqrt(1 + 1e-3 + 1.0), rel=1e-9)


@every("k", [1e5, 1e6, 1e9, 1e12])
@every("b", [0.0, 1.0, 1e6, 1e12])
def test_every_step_size_is_stable(k, b):
    for h in 10.0 ** np.arange(-8, 4):
        assert radius(engines_map(k, b, h)) <= 1.0 + 1e-12


def random_ties(rng, nv=7, n=4, h=1e-3):
    """A step with rows that yield; what it is made of."""
    M, J, f, v = random_spd(rng, nv), rng.normal(size=(n, nv)), rng.normal(size=nv), rng.normal(size=nv)
    K, B, phi = 10 ** rng.uniform(2, 9, n), 10 ** rng.uniform(-1, 5, n), 1e-3 * rng.normal(size=n)
    return M, J, f, v, K, B, phi, step_of(M, f, v, h, rows=ties(J, phi, K, B))


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


def pendulum(h):
    """A second of a bob of 1 kg with I = 1/12 kg m², tied at 1 m, from the side, K = 1e15 N/m: its largest deviation [m], and
    how much energy it has won [J]."""
    q, v = np.array([1.0, 0.0, 0.0]), np.zeros(3)
    M, worst = np.diag([1.0, 1.0, 1 / 12]), 0.0
    for _ in range(round(1.0 / h)):
        c, s = np.cos(q[2]), np.sin(q[2])
        phi = q[:2] - np.array([c, s])  # the arm, 1 m, from the bob to the origin
        J = np.array([[1.0, 0.0, s], [0.0, 1.0, -c]])
        v = solved(step_of(M, [0.0, -G, 0.0], v, h, rows=ties(J, phi, 1e15, 1.0))).v_plus
        q = q + h * v
        worst = max(worst, np.linalg.norm(q[:2] - np.array([np.cos(q[2]), np.sin(q[2])])))
    return worst, 0.5 * v @ M @ v + G * q[1]


@every(("h", "deviation"), [(0.1, 7.790e-2), (1e-2, 9.039e-4), (1e-3, 9.055e-6), (1e-4, 9.055e-8)])
def test_a_stiff_bilateral_pendulum_is_stable_with_the_closed_form_gap(h, deviation):
    """Stable, with a gap of h² (9.056 = v²/2L at the bottom, with v² = 2g / (1 + I)). The engine leaves out the paper's M̂ Ġ v;
    its gap is smaller at large steps."""
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


K = 1e12
"""Of a stop [N·m/rad], whose joint has 1 kg·m²."""

IMPACT = 4.429
"""[rad/s]"""


def hit(h, share, speed=IMPACT):
    """Restitution of a joint that meets its stop, from a share of a step away."""
    q, v = share * h * speed, -speed
    for _ in range(round(8e-6 / h) + 4):
        solution = ENGINE.solve(step_of([[1.0]], [-G], [v], h, rows=stops([[1.0]], [q], K, 1e-9)))
        assert solution.status.ok
        v = solution.v_plus[0]
        q += h * v
        if v > 0 and q > 0:
            break
    return max(v, 0.0) / speed


@every(("h", "expected"), [(1e-5, 0.0097), (1e-7, 0.8559), (1e-8, 0.9844), (1e-9, 0.9984)])
def test_restitution_of_a_stop_at_small_steps(h, expected):
    """The stop is met at 0 itself at 1e-5 s; at small steps e = exp(−π h ω / 2), ω = 1e6/s, wherever the step begins."""
    found = hit(h, 0.0) if h == 1e-5 else np.mean([hit(h, share) for share in (0.25, 0.5, 0.75)])
    assert found == pytest.approx(expected, rel=0.02 if h == 1e-5 else 5e-3)
    if h < 1e-6:
        assert found == pytest.approx(np.exp(-np.pi * h * 1e6 / 2), rel=0.01)


def test_restitution_where_the_step_is_the_springs_time_constant():
    """h ω = 1: 0.25, wherever the step begins. It would depend on the start if rows were taken only at φ ≤ 0."""
    np.testing.assert_allclose([hit(1e-6, share) for share in (0.0, 0.25, 0.5, 0.75)], 0.25, rtol=1e-4)


@full
def test_a_pendulum_meets_its_stop_at_the_closed_form_time():
    q, v, t, h = np.pi / 2, 0.0, 0.0, 1e-4
    while q + h * v > 0:
        v = ENGINE.solve(step_of([[1.0]], [-G * np.sin(q)], [v], h, rows=stops([[1.0]], [q], K, 1e-9))).v_plus[0]
        q, t = q + h * v, t + h
    assert t == pytest.approx(0.59196, abs=2e-4)
    assert -v == pytest.approx(IMPACT, rel=1e-3)


@every("share", [0.25, 0.5, 0.75])
def test_predicted_contacts_do_not_bounce_at_large_steps(share):
    """h = 1e-3 s: no bounce, however the step begins. With rows taken only at φ ≤ 0 it leaves at 1 − share of its speed."""
    h, speed = 1e-3, 1.0
    for candidates, expected in (("near", 0.0), ("touching", 1.0 - share)):
        engine, q, v, out = FirstOrder(stiffness=K, candidates=candidates), share * h * speed, -speed, 0.0
        for _ in range(6):
            solution = engine.solve(step_of([[1.0]], [0.0], [v], h, along_normals([[1.0]]), [q]))
            assert solution.status.ok
            v = solution.v_plus[0]
            q += h * v
            out = max(out, v)
        assert out == pytest.approx(expected, abs=1e-5)


def test_the_springs_of_the_bed_add_up_to_its_stiffness():
    for per_side, modulus, expected in ((10, 1e7, 1e5), (10, 1e11, 1e9), (30, 1e7, 1.11e4), (30, 1e11, 1.11e8)):
        assert pytest.approx(expected, rel=2e-3) == study.bed(per_side, modulus, 5.0).K


def test_five_newtons_keep_the_bed_pressed_and_fifty_lift_an_edge():
    """Statics: z = 0.5 m − (m g + F) / (E s²/depth) = 0.49999165 m, tilt F s/2 / (K Σ x²) = 3.0e-6 rad."""
    on = study.bed(10, 1e7, 5.0)
    pose, solution, pressed = study.stepped(ENGINE, on, 0.01, 1.0)
    assert pressed == 100
    assert pose.q[2] == pytest.approx(0.49999165, abs=1e-8)
    assert pose.tilt == pytest.approx(3.0e-6, rel=0.02)
    assert pose.tilt == pytest.approx(2.5 / (on.K * (on.points[:, 0] ** 2).sum()), rel=1e-2)
    assert solution.p[:, 2].sum() / 0.01 == pytest.approx(study.MASS * study.GRAVITY + 5.0, rel=1e-3)
    _, _, pressed = study.stepped(ENGINE, study.bed(10, 1e7, 50.0), 0.01, 1.0)
    assert 50 < pressed < 100


def test_a_sphere_on_a_hertz_spring_has_the_closed_form_depth():
    """F = 2.367 N on E* = 1e11 N/m², r = 0.01 m: 3.83e-7 m deep (the paper's 1e-8 m is a misprint); K by the tangent."""
    load, modulus, r, h = 2.367, 1e11, 0.01, 1e-3
    depth = (load / (modulus * np.sqrt(r))) ** (2 / 3)
    assert depth == pytest.approx(3.83e-7, rel=1e-3)
    assert hertz(modulus, r, depth)[0] == pytest.approx(load, rel=1e-12)
    q, v = -1e-8, 0.0
    for _ in range(60):
        F, k = hertz(modulus, r, -q)
        solution = ENGINE.solve(step_of([[0.25]], [-load], [v], h, along_normals([[1.0]]), [-F / k], stiffness=k))
        assert solution.status.ok
        v = solution.v_plus[0]
        q += h * v
    assert -q == pytest.approx(depth, rel=0.01)
    assert solution.p[0, 2] / h == pytest.approx(load, rel=1e-6)


@every(("mu", "way"), [(0.0, 1.281), (0.125, 0.683), (0.25, 0.0858), (0.375, 0.0)])
def test_a_block_on_a_ramp_slides_as_coulomb_says(mu, way):
    """h = 0.01 s, over 1 s: g/2 (sin − μ cos) · 1.01; it neither creeps nor hovers."""
    forces, place, v = ramp(mu)
    exact = max(0.0, RAMP_G / 2 * (np.sin(RAMP) - mu * np.cos(RAMP))) * (1 + RAMP_H)
    assert place[0] == pytest.approx(way, rel=0.01, abs=1e-6)
    assert place[0] == pytest.approx(exact, rel=1e-4, abs=1e-6)
    assert forces[2] / 4 == pytest.approx(2.367, rel=1e-3)
    assert abs(place[1]) < 1e-8
    if mu == 0.0:
        assert forces[0] == forces[1] == 0.0
    if mu == 0.375:
        assert v[0] == pytest.approx(CREEP / (1e6 / RAMP_H), rel=1e-6)


def test_the_convexified_law_lifts_a_sliding_block_by_step_times_mu_times_speed():
    """h μ v: 1.69e-3 m above the ramp at 1.353 m/s; the distance along the ramp is right."""
    _, place, v = ramp(0.125, friction="convex")
    assert place[0] == pytest.approx(0.6831, abs=5e-5)
    assert v[0] == pytest.approx(1.353, abs=5e-4)
    assert place[1] == pytest.approx(RAMP_H * 0.125 * v[0], rel=1e-3)
    assert place[1] == pytest.approx(1.69e-3, rel=2e-3)


def test_a_leaning_rod_slides_or_sticks_with_the_closed_form_force():
    """60°: at μ = 0.2 it slides with N = g / (W_nn + μ W_nt), 6.583 N; at μ = 0.9 it sticks with (7.970, 3.185) N."""
    M, J = rod()
    W = J[::2] @ np.linalg.solve(M, J[::2].T)
    friction, normal = leaning_rod(0.2)
    assert normal == pytest.approx(G / (W[1, 1] + 0.2 * W[0, 1]), rel=1e-6)
    assert normal == pytest.approx(6.583, abs=1e-3)
    assert friction == pytest.approx(0.2 * normal, rel=1e-9)
    rigid = np.linalg.solve(W, [0.0, G])
    np.testing.assert_allclose(leaning_rod(0.9), rigid, rtol=1e-5)
    np.testing.assert_allclose(rigid, [3.185, 7.970], atol=1.5e-3)


def test_friction_dissipates_energy():
    """Random contacts: its power is not positive but for what creep is, and what slides slides against all of it."""
    rng, slid = np.random.default_rng(20), 0
    for _ in range(200):
        n, nv = 3, 9
        J, v = rng.normal(size=(3 * n, nv)), rng.normal(size=nv)
        solution = ENGINE.solve(step_of(np.eye(nv), rng.normal(size=nv), v, 1e-3, J, np.zeros(n), rng.uniform(0.1, 1, n)))
        assert solution.status.ok
        u = (J @ solution.v_plus).reshape(n, 3)
        assert ((u[:, :2] * solution.p[:, :2]).sum(axis=1) <= 1e-12).all()
        slid += np.count_nonzero((np.hypot(u[:, 0], u[:, 1]) > 1e-3) & (solution.p[:, 2] > 0))
    assert slid > 100


def smooth_force(depth, tau=0.02, v=-0.1, h=1e-4):
    """λ of a sphere on Hertz's spring with a damper τ_d dF/dd, by the engine's step [N]."""
    F, k = hertz(1e9, 0.01, depth)
    gap = -F / k if k > 0 else 0.0
    problem = step_of([[1.0]], [0.0], [v], h, along_normals([[1.0]]), [gap], stiffness=k, dissipation=tau)
    solution = ENGINE.solve(problem)
    assert solution.status.ok
    return solution.p[0, 2] / h


def test_forces_of_smooth_contacts_start_at_zero_and_their_gradients_are_continuous():
    """K and B that vanish at φ = 0 make λ continuous there: it falls as √depth. With B = const it jumps by B v. dλ/dq by
    central differences, τ_d = 0 (Hertz alone): no jump between neighbours, down to nothing at φ = 0."""
    depths = 10.0 ** np.arange(-18, -5)
    forces = np.array([smooth_force(depth) for depth in depths])
    assert smooth_force(0.0) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(forces[:4] / np.sqrt(depths[:4]), forces[0] / np.sqrt(depths[0]), rtol=1e-2)
    assert (np.diff(forces) > 0).all()
    plain = step_of([[1.0]], [0.0], [-0.1], 1e-4, along_normals([[1.0]]), [-1e-18], stiffness=1.0, dissipation=1e3)
    assert ENGINE.solve(plain).p[0, 2] / 1e-4 == pytest.approx(1e3 * 0.1 / 1.1, rel=1e-3)
    q = np.linspace(-1e-6, 2e-5, 2001)
    slope = np.gradient([smooth_force(depth, tau=0.0, v=0.0) for depth in q], q)
    assert slope[q < -1e-8].max() == 0.0
    assert np.abs(np.diff(slope)).max() < 0.05 * slope.max()
