"""The engine `first-order`: compliant rows and contacts against closed forms and solvers, and its study of a foundation."""

from fractions import Fraction

import numpy as np
import pytest
from fast import every, full
from problems import check_dynamics, random_problems, step_problem
from scipy.optimize import lsq_linear

from idyn.status import Status
from sim_harness.commands.main import main
from sim_harness.engines.engine import Rows
from sim_harness.engines.first_order import FirstOrder
from sim_harness.studies import first_order_study as page
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
    g = np.asarray(g, float)
    K, B = np.zeros(len(g)) + K, np.zeros(len(g)) + B
    return Rows(G=np.asarray(G, float), g=g, stops=np.zeros(len(g), dtype=bool), compliance=1 / K, dissipation=B / K)


def along_normals(N):
    """J of contacts without tangents: three rows for each of N."""
    N = np.asarray(N, float)
    J = np.zeros((3 * len(N), N.shape[1]))
    J[2::3] = N
    return J


def random_spd(rng, n):
    A = rng.normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


ENGINE = FirstOrder()


def solved(problem):
    solution = ENGINE.solve(problem)
    assert solution.status.ok
    return solution


def random_ties(rng, nv=7, n=4, h=1e-3):
    """A step with rows that yield; what it is made of."""
    M, J, f, v = random_spd(rng, nv), rng.normal(size=(n, nv)), rng.normal(size=nv), rng.normal(size=nv)
    J[-1] = J[0]  # redundant
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


def check_law(problem, solution, engine=ENGINE, tolerance=1e-8):
    """The compliant law of the cone, from its definition: springs and dampers at the end of the step, Coulomb's friction. In
    velocities, forces being divided by dt K + B."""
    dt, n = problem.dt, len(problem.mu)
    k = np.full(n, engine.stiffness) if problem.stiffness is None else problem.stiffness
    tau = np.full(n, engine.dissipation) if problem.dissipation is None else problem.dissipation
    u, p = (problem.J @ solution.v_plus).reshape(n, 3), solution.p
    press = -(problem.gaps + (dt + tau) * u[:, 2]) / (dt + tau)
    np.testing.assert_allclose(p[:, 2] / (dt * k * (dt + tau)), np.maximum(press, 0.0), atol=tolerance)
    slip, load, limit = u[:, :2] + p[:, :2] / (dt * engine.tangential), np.hypot(p[:, 0], p[:, 1]), problem.mu * p[:, 2]
    finite = np.isfinite(limit)
    assert (load[finite] <= limit[finite] * (1 + 1e-9) + 1e-12).all()
    speed = np.hypot(slip[:, 0], slip[:, 1])
    for i in np.flatnonzero((speed > 1e-6) & (p[:, 2] > 1e-9) & finite):
        assert load[i] == pytest.approx(limit[i], rel=1e-5)
        assert p[i, :2] @ slip[i] == pytest.approx(-load[i] * speed[i], rel=1e-5, abs=1e-12)
    return speed, finite


@every("name", ["quadruped", "solo12"])
@every("stiffness", [1e4, 1e7, 1e12])
def test_random_problems_satisfy_the_compliant_cone_law(name, stiffness):
    engine, slid = FirstOrder(stiffness=stiffness, dissipation=1e-3), 0
    for problem in random_problems(name, 150):
        solution = engine.solve(problem)
        check_dynamics(problem, solution)
        assert solution.status is Status.SOLVED
        speed, _ = check_law(problem, solution, engine)
        slid += np.count_nonzero((speed > 1e-3) & (solution.p[:, 2] > 0))
    assert slid > 50


def test_frictionless_problems_match_bounded_least_squares():
    """½ ‖Y ᵀp‖² + ½ ‖p‖²_R + b p over p ≥ 0, as a least squares problem of scipy's."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        n, nv = int(rng.integers(1, 12)), int(rng.integers(1, 8))
        M, N, f, v = random_spd(rng, nv), rng.normal(size=(n, nv)), 5 * rng.normal(size=nv), rng.normal(size=nv)
        gaps, k, tau = 1e-3 * rng.normal(size=n), 10 ** rng.uniform(3, 7, n), 10 ** rng.uniform(-5, -2, n)
        solution = ENGINE.solve(step_of(M, f, v, 1e-3, along_normals(N), gaps, stiffness=k, dissipation=tau))
        assert solution.status.ok
        R, b = 1 / (1e-3 * k * (1e-3 + tau)), N @ (v + 1e-3 * np.linalg.solve(M, f)) + gaps / (1e-3 + tau)
        half = np.vstack([np.linalg.solve(np.linalg.cholesky(M), N.T), np.diag(np.sqrt(R))])
        target = np.concatenate([np.zeros(nv), -b / np.sqrt(R)])
        oracle = lsq_linear(half, target, (0, np.inf), method="bvls", tol=1e-14)
        np.testing.assert_allclose(solution.p[:, 2], oracle.x, atol=1e-6 * max(1e-3, np.abs(oracle.x).max()))


def test_rigid_contacts_are_the_limit_of_stiff_ones():
    """stiffness = ∞: R = 0, four feet of a block share its weight although the problem is indeterminate, and nothing sinks
    in."""
    rng = np.random.default_rng(2)
    for _ in range(30):
        J, v = rng.normal(size=(9, 12)), rng.normal(size=12)
        problem = step_of(np.eye(12), rng.normal(size=12), v, 1e-3, J, np.zeros(3), 0.4)
        rigid, stiff = FirstOrder(stiffness=np.inf).solve(problem), FirstOrder(stiffness=1e13).solve(problem)
        assert rigid.status.ok
        assert stiff.status.ok
        u = (J @ rigid.v_plus)[2::3]
        assert np.abs(np.minimum(u, rigid.p[:, 2])).max() < 1e-9
        np.testing.assert_allclose(rigid.v_plus, stiff.v_plus, atol=1e-6)
    corners = along_normals([[1.0, x, y] for x in (-0.2, 0.2) for y in (-0.1, 0.1)])
    solution = FirstOrder(stiffness=np.inf).solve(step_of(np.eye(3), [-G, 0, 0], np.zeros(3), 1e-3, corners, np.zeros(4)))
    assert solution.status.ok
    np.testing.assert_allclose(solution.p[:, 2] / 1e-3, G / 4, rtol=1e-6)


def test_the_cone_law_and_the_convexified_law_differ_only_where_contacts_slide():
    alike = 0
    for problem in random_problems("quadruped", 120):
        answers = [FirstOrder(friction=each).solve(problem) for each in ("cone", "convex")]
        assert all(answer.status.ok for answer in answers)
        u = (problem.J @ answers[0].v_plus).reshape(-1, 3)
        gaps = problem.gaps / problem.dt + u[:, 2]
        if (gaps >= problem.mu * np.hypot(u[:, 0], u[:, 1]) - 1e-9).all():  # as the convexified law asks for
            alike += 1
            np.testing.assert_allclose(answers[0].v_plus, answers[1].v_plus, atol=1e-7)
    assert alike > 5


def test_redundant_contacts_are_solved_or_reported():
    """Twelve tangents and normals in six degrees of freedom: several solutions, or one that is far away; 95 % are found, and no
    wrong one is reported as solved."""
    rng, found = np.random.default_rng(4), 0
    for _ in range(300):
        J, v, mu = rng.normal(size=(12, 6)), rng.normal(size=6), rng.uniform(0.1, 1, 4)
        problem = step_of(np.eye(6), rng.normal(size=6), v, 1e-3, J, np.zeros(4), mu)
        solution = ENGINE.solve(problem)
        check_dynamics(problem, solution)
        if solution.status.ok:
            found += 1
            check_law(problem, solution)
        else:
            assert solution.status is Status.NOT_CERTIFIED
            assert solution.contact > 1e-10
    assert found >= 285


def test_rigid_and_compliant_rows_are_solved_together():
    """A tie of 1e13 N/m, h² K = 1e7 kg, and a rigid one move alike."""
    rng = np.random.default_rng(5)
    for problem in random_problems("quadruped", 15):
        row, other = rng.normal(size=(1, 18)), rng.normal(size=(1, 18))
        both = ties(np.vstack([row, other]), [1e-5, -1e-5], 1e13, 1.0)
        soft = type(problem)(**{f: getattr(problem, f) for f in problem.__struct_fields__} | {"rows": both})
        mixed = Rows(G=both.G, g=both.g, stops=both.stops, compliance=both.compliance * [0, 1], dissipation=both.dissipation)
        rigid = type(problem)(**{f: getattr(problem, f) for f in problem.__struct_fields__} | {"rows": mixed})
        answers = [ENGINE.solve(each) for each in (soft, rigid)]
        assert all(answer.status.ok for answer in answers)
        np.testing.assert_allclose(answers[0].v_plus, answers[1].v_plus, atol=1e-5)
        np.testing.assert_allclose(answers[0].rows, answers[1].rows, atol=1e-5)


@every("engine", [Published(), ENGINE])
def test_a_contact_beside_a_tie_has_its_spring_force(engine):
    rng, h = np.random.default_rng(9), 1e-3
    for _ in range(100):
        gap, v, f = 1e-3 * rng.normal(), 0.1 * rng.normal(size=2), 10 * rng.normal(size=2)
        rows, N = ties([[0.5, 1.0]], [1e-3 * rng.normal()], 1e5, 10.0), np.array([[1.0, 0.0]])
        M = random_spd(rng, 2)
        solution = engine.solve(step_of(M, f, v, h, along_normals(N), [gap], rows=rows, stiffness=1e6, dissipation=1e-5))
        speed, along = solution.v_plus[0], rows.G[0] @ solution.v_plus
        expected = max(0.0, -1e6 * (gap + h * speed) - 10.0 * speed)
        tie = -1e5 * (rows.g[0] + h * along) - 10.0 * along
        assert solution.p[0, 2] / h == pytest.approx(expected, rel=1e-7, abs=1e-7)
        np.testing.assert_allclose(M @ (solution.v_plus - v), h * (f + N[0] * expected + rows.G[0] * tie), atol=1e-9)


@full
def test_the_page_has_its_tables_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "SOFT_S", 0.02)
    found = page.cell(4, 1e7, 5.0)
    assert found.pressed == 16
    monkeypatch.setattr(page, "cell", lambda *_: found)
    monkeypatch.setattr(page, "STEPS", (8e-3, 4e-3))
    assert main(["compare", "first-order-study", "--out", str(tmp_path)]) == 0
    assert {"orders.png", "report.html"} == {path.name for path in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    assert "restitution" in printed
    assert "published" in printed
