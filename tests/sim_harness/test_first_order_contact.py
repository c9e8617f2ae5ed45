"""The engine `first-order`: stops, a bed of springs, spheres and friction, against closed forms and reference values
[Drumwright]."""

import numpy as np
import pytest
from fast import every, first_is_fast, full
from first_order_bodies import G, along_normals, hertz, rod, step_of, stops
from first_order_scenes import CREEP, RAMP, RAMP_G, RAMP_H, leaning_rod, ramp

from sim_harness.engines.first_order import FirstOrder
from sim_harness.studies import first_order_study as study

ENGINE = FirstOrder()
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


@pytest.mark.parametrize(("h", "expected"), first_is_fast([(1e-5, 0.0097), (1e-7, 0.8559), (1e-8, 0.9844), (1e-9, 0.9984)], 2))
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


def test_five_newtons_keep_the_bed_pressed():
    """Statics: z = 0.5 m − (m g + F) / (E s²/depth) = 0.49999165 m, tilt F s/2 / (K Σ x²) = 3.0e-6 rad."""
    on = study.bed(10, 1e7, 5.0)
    pose, solution, pressed = study.stepped(ENGINE, on, 0.01, 1.0)
    assert pressed == 100
    assert pose.q[2] == pytest.approx(0.49999165, abs=1e-8)
    assert pose.tilt == pytest.approx(3.0e-6, rel=0.02)
    assert pose.tilt == pytest.approx(2.5 / (on.K * (on.points[:, 0] ** 2).sum()), rel=1e-2)
    assert solution.p[:, 2].sum() / 0.01 == pytest.approx(study.MASS * study.GRAVITY + 5.0, rel=1e-3)


def test_fifty_newtons_lift_an_edge_of_the_bed():
    _, _, pressed = study.stepped(ENGINE, study.bed(10, 1e7, 50.0), 0.01, 1.0)
    assert 50 < pressed < 100


@full
@pytest.mark.parametrize(("force", "note"), [(5.0, 1.4e-7), (50.0, 1.5e-6)])
def test_the_bed_follows_its_differential_equation(force, note):
    """At h = 0.01 s, after 1 s, of which 50 N take four: [Drumwright Table 2] has 2.96e-5 and 0.813."""
    on = study.bed(10, 1e7, force)
    exact, _ = study.integrated(on, "DOP853", 1.0, 1e-9, 1e-12)
    pose, _, _ = study.stepped(ENGINE, on, 0.01, 1.0)
    assert study.distance(pose, exact) == pytest.approx(note, rel=0.1)
    assert study.distance(pose, exact) < 1e-5


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


def test_without_friction_there_is_no_tangential_force():
    forces, _, _ = ramp(0.0, seconds=0.1)
    assert forces[0] == forces[1] == 0.0


def test_a_larger_friction_coefficient_shortens_the_slide():
    ways = [ramp(mu)[1][0] for mu in np.linspace(0, 0.3, 13)]
    assert (np.diff(ways) < 1e-9).all()


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


def test_forces_of_smooth_contacts_start_at_zero():
    """K and B that vanish at φ = 0 make λ continuous there: it falls as √depth. With B = const it jumps by B v."""
    depths = 10.0 ** np.arange(-18, -5)
    forces = np.array([smooth_force(depth) for depth in depths])
    assert smooth_force(0.0) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(forces[:4] / np.sqrt(depths[:4]), forces[0] / np.sqrt(depths[0]), rtol=1e-2)
    assert (np.diff(forces) > 0).all()
    plain = step_of([[1.0]], [0.0], [-0.1], 1e-4, along_normals([[1.0]]), [-1e-18], stiffness=1.0, dissipation=1e3)
    assert ENGINE.solve(plain).p[0, 2] / 1e-4 == pytest.approx(1e3 * 0.1 / 1.1, rel=1e-3)


def test_force_gradients_of_smooth_contacts_are_continuous():
    """dλ/dq by central differences, τ_d = 0 (Hertz alone): no jump between neighbours, down to nothing at φ = 0."""
    q = np.linspace(-1e-6, 2e-5, 2001)
    slope = np.gradient([smooth_force(depth, tau=0.0, v=0.0) for depth in q], q)
    assert slope[q < -1e-8].max() == 0.0
    assert np.abs(np.diff(slope)).max() < 0.05 * slope.max()
