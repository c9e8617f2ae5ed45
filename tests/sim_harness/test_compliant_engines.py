"""The engines `first-order` and `sap`: closed forms, other solvers, reported errors, schemes, and their studies."""

from fractions import Fraction
from types import SimpleNamespace

import msgspec
import numpy as np
import pinocchio as pin
import pytest
from cones import least_over_cones, nearest_in_cone
from fast import every, first_is_fast, full
from problems import DT, Body, G, check_dynamics, cube, near, point_mass, random_problems, step_problem
from scipy.optimize import lsq_linear
from stands import block_world

from idyn import ConfigError, Flat, Ground, Options, Status, load_robot, predict
from idyn.laws import SapSettings
from sim_harness.commands.main import main
from sim_harness.engines import sap_newton
from sim_harness.engines.engine import Rows, Springs
from sim_harness.engines.first_order import FirstOrder
from sim_harness.engines.sap import SCHEMES, Sap, constraint_laws, free_motion
from sim_harness.engines.sap_newton import MU, R_N, R_T, V_HAT
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.studies import first_order_study as page
from sim_harness.studies.first_order_published import Published
from sim_harness.world.worlds import build_world

ENGINE = FirstOrder()
K = 1e12  # of a stop [N·m/rad], whose joint has 1 kg·m²
W = 1 / np.sqrt(3)  # w of a free point of 1 kg [1/kg]
GROUNDS = {
    "shipped": {},
    "soft": {"stiffness": 2e3, "dissipation": 0.05},
    "rigid": {"stiffness": np.inf, "dissipation": DT},
    "creeping": {"sigma": 0.1, "beta": 3.0},
    "near": {"candidates": "near", "dissipation": 0.02},
}


def step_of(M, force, v, dt, J=None, gaps=(), mu=0.0, **yielding):
    """A step with constant M, J with three rows a contact. yielding: rows; stiffness and dissipation of all contacts or each"""
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


def solved(problem):
    solution = ENGINE.solve(problem)
    assert solution.status.ok
    return solution


def test_bilateral_steps_match_equations_53_and_60_to_62():
    """(60)–(62), then (53), (37): by the paper's own unsymmetric formula with Y."""
    rng, h = np.random.default_rng(4), 1e-3
    for _ in range(50):
        M, J, f, v = random_spd(rng, 7), rng.normal(size=(4, 7)), rng.normal(size=7), rng.normal(size=7)
        J[-1] = J[0]  # redundant
        K, B, phi = 10 ** rng.uniform(2, 9, 4), 10 ** rng.uniform(-1, 5, 4), 1e-3 * rng.normal(size=4)
        problem = step_of(M, f, v, h, rows=ties(J, phi, K, B))
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
    """The compliant law of the cone, from its definition, in velocities: forces are divided by dt K + B."""
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
@every("stiffness", first_is_fast([1e7, 1e4, 1e12]))
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
    """stiffness = ∞: R = 0, four feet share a block's weight although the problem is indeterminate, and nothing sinks in."""
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


def test_redundant_contacts_are_solved_or_reported():
    """Twelve rows in six degrees of freedom: several solutions, or a far one; 95 % are found, no wrong one is called solved."""
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
        mixed = msgspec.structs.replace(both, compliance=both.compliance * [0, 1])
        answers = [ENGINE.solve(msgspec.structs.replace(problem, rows=rows)) for rows in (both, mixed)]
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


def random_convex(rng, nv=12, k=5):
    """A problem of k contacts in which all regions occur: it, A, J, a start."""
    B = rng.normal(size=(nv, nv))
    A = B @ B.T / nv + np.eye(nv)
    J = rng.normal(size=(3 * k, nv))
    laws = np.zeros((k, 4))
    laws[:, MU] = rng.uniform(0.1, 1.5, k)
    laws[:, R_N] = 10 ** rng.uniform(-1, 0.5, k)
    laws[:, R_T] = laws[:, R_N] * 10 ** rng.uniform(-1, 0.3, k)
    laws[:, V_HAT] = rng.normal(size=k)
    v_star = 2 * rng.normal(size=nv)
    return convex(A, J, laws, v_star), A, J, 2 * rng.normal(size=nv)


def convex(A, J, laws, v_star, M=None):
    M, n = A if M is None else M, len(v_star)
    motion = sap_newton.Motion(M, M, np.zeros(n, dtype=np.int64), A, v_star, v_star)
    return sap_newton.convex_problem(motion, J, laws, np.arange(n), np.arange(len(laws)))


@pytest.mark.parametrize("count", first_is_fast([2000, 10_000]))
def test_the_projection_solves_its_variational_inequality(count):
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(count):
        law = np.array([rng.choice([0.0, rng.uniform(0, 2)]), *(10 ** rng.uniform(-3, 1, 2)), 0.0])
        y = rng.normal(size=3)
        *gamma, region = sap_newton.project_cone(*y, law)
        gamma = np.array(gamma)
        z = np.array([law[R_T], law[R_T], law[R_N]]) * (y - gamma)
        size = np.abs(y).max() * max(1.0, law[R_T], law[R_N]) * max(1.0, law[MU])
        assert np.linalg.norm(gamma[:2]) <= law[MU] * gamma[2] + 1e-14 * size
        assert law[MU] * np.linalg.norm(z[:2]) + z[2] <= 1e-14 * size
        assert abs(z @ gamma) <= 1e-14 * size * max(1.0, np.abs(y).max())
        root, steep = np.sqrt([law[R_T], law[R_T], law[R_N]]), law[MU] * np.sqrt(law[R_T] / law[R_N])
        np.testing.assert_allclose(gamma, nearest_in_cone(root * y, steep) / root, atol=1e-12 * size)  # [SAP App. C]
        seen.add(region)
    assert seen == {sap_newton.APART, sap_newton.STICKING, sap_newton.SLIDING}


@full
def test_the_dual_program_has_the_same_impulses():  # (22)
    rng = np.random.default_rng(2)
    for _ in range(100):
        c, A, J, v = random_convex(rng, k=int(rng.integers(1, 7)))
        _, gamma, status, _ = sap_newton.minimise(c, v, sap_newton.Rules(1e-13, 100))
        assert status == 0
        R, v_hat = c.laws[:, [R_T, R_T, R_N]].ravel(), np.outer(c.laws[:, V_HAT], [0, 0, 1]).ravel()
        D, b = J @ np.linalg.solve(A, J.T) + np.diag(R), J @ c.v_star - v_hat
        oracle = least_over_cones(D, b, c.laws[:, MU]).reshape(-1, 3)
        np.testing.assert_allclose(gamma, oracle, atol=1e-6 * max(1.0, np.abs(oracle).max()))


def parts(engine, problem):
    """The free motion, J and laws of a step."""
    motion, _ = free_motion(problem, engine.scheme)
    J, materials, _ = engine.constraints(problem)
    return motion, J, constraint_laws(J, motion.L, motion.first, materials)


def test_reported_errors_match_a_recomputation():
    engine = Sap(tolerance=1e-3)
    for problem in random_problems("quadruped", 40):
        solution = engine.solve(problem)
        _, J, laws = parts(engine, problem)
        v, gamma = solution.v_plus, solution.p[problem.gaps <= 0]
        D = 1 / np.sqrt(np.diag(problem.M))
        free = problem.v + np.linalg.solve(problem.M, DT * (problem.force - problem.h))
        rest = problem.M @ (v - free) - J.T @ gamma.ravel()
        scale = max(np.linalg.norm(D * (problem.M @ v)), np.linalg.norm(D * (J.T @ gamma.ravel())))
        assert solution.accuracy.momentum == pytest.approx(np.linalg.norm(D * rest) / scale, rel=1e-9, abs=1e-12)
        R, v_hat = laws[:, [1, 1, 2]], np.outer(laws[:, 3], [0, 0, 1])
        g = (J @ v).reshape(-1, 3) - v_hat + R * gamma
        total = 0.5 * (v - free) @ problem.M @ (v - free) + 0.5 * (R * gamma * gamma).sum()
        slack = np.abs((g * gamma).sum(axis=1)).mean() / total if len(gamma) else 0.0
        assert solution.accuracy.slackness == pytest.approx(slack, abs=1e-12)


@every("sigma", [1e-6, 1e-1])
@every("stiffness", [1e3, np.inf])
@every("candidates", ["touching", "near"])
def test_random_states_of_a_robot_are_all_solved(stiffness, sigma, candidates):
    for problem in random_problems("quadruped", 60, infinite=True):
        solution = Sap(stiffness=stiffness, sigma=sigma, candidates=candidates).solve(problem)
        assert solution.status.ok
        assert solution.iterations <= 40


def test_a_step_that_does_not_converge_is_reported():
    problem = list(random_problems("quadruped", 8))[7]
    assert Sap(max_iterations=1, tolerance=1e-14).solve(problem).status is Status.NOT_CERTIFIED


def test_the_estimate_of_w_matches_its_definition():
    for m in (1.0, 2.0):
        assert parts(near(), point_mass(m).problem(DT))[2][0, R_T] == pytest.approx(1e-3 * W / m, rel=1e-12)
    np.testing.assert_allclose(parts(near(), cube().problem(DT))[2][:, R_T] / 1e-3, 2.61406, rtol=2e-6)


def test_stiffness_is_limited_to_what_the_step_resolves():
    tau, beta = 1e-3, 1.3
    crossover = 4 * np.pi**2 / (beta**2 * W * DT * (DT + tau))
    for k in np.logspace(2, 14, 49):
        R_n = parts(near(stiffness=k, dissipation=tau, beta=beta), point_mass().problem(DT))[2][0, R_N]
        rigid, soft = beta**2 * W / (4 * np.pi**2), 1 / (DT * k * (DT + tau))
        assert R_n == pytest.approx(rigid if k > crossover else soft, rel=1e-12)


def test_separating_contacts_do_not_adhere():
    """A separating body is released once −φ < τ_d v_n at the end of the step; before, the damper reduces the spring's force."""
    engine = near(stiffness=1e4, dissipation=5e-3)
    for speed, depth in np.random.default_rng(15).uniform((0.05, 1e-4), (1.0, 6e-3), (400, 2)):
        body = point_mass(mu=0.0)
        body.h[:], body.q[2], body.v[2] = 0.0, -depth, speed
        free = depth - DT * speed < 5e-3 * speed
        solution = body.step(engine, DT)
        assert (solution.p[0, 2] == 0.0) == free
        assert solution.p[0, 2] >= 0.0


def test_a_gear_yields_by_its_load():
    """Two joints geared one to two, a weight on the first: the error of the gear stays below R times the load."""
    body = Body(np.eye(2), np.array([G, 0.0]), np.zeros((0, 2)), lambda _: np.zeros(0), [])
    body.rows = np.array([[1.0, -2.0]]), np.array([False])
    for _ in range(500):
        before = body.q
        solution = body.step(Sap(), DT)
    G_row, load = np.array([1.0, -2.0]), abs(solution.rows[0])
    assert load > 0.0
    R = 1 / (4 * np.pi**2) * 5.0
    tau = DT / np.pi
    assert abs(G_row @ before + (DT + tau) * G_row @ body.v) <= (DT + tau) * R * load * (1 + 1e-6)
    assert abs(G_row @ body.q) < 1e-5


def swinging(seed, dt=DT):
    """The quadruped in the air with springs and dampers in its joints: a problem without contacts, and its robot and q."""
    robot, q = load_robot("quadruped")
    rng = np.random.default_rng(seed)
    q, v = robot.integrate(q, 0.2 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)
    terms = robot.terms(q, v)
    on = np.r_[np.zeros(6), np.ones(12)]
    force = on * rng.normal(size=robot.nv)
    springs = Springs(stiffness=50.0 * on, damping=0.2 * on, stretch=0.1 * on * rng.normal(size=robot.nv))

    def moved(shift, v):
        terms = robot.terms(robot.integrate(q, shift), v)
        return terms.M.copy(), terms.h.copy()

    system = SimpleNamespace(terms=moved)
    problem = step_problem(terms.M, dt=dt, h=terms.h.copy(), v=v, force=force, springs=springs, system=system)
    return problem, robot, q


@every("seed", range(5))
def test_without_contacts_a_step_is_an_euler_step_of_forward_dynamics(seed):
    problem, robot, q = swinging(seed)
    s = problem.springs
    tau = problem.force - s.stiffness * s.stretch - s.damping * problem.v
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    acceleration = pin.aba(model, model.createData(), q, problem.v, tau)
    np.testing.assert_allclose(Sap().solve(problem).v_plus, problem.v + DT * acceleration, rtol=1e-12, atol=1e-12)


def momentum(problem, name, v):
    """m(v) of (14), from the problem's own system."""
    theta, theta_vq = SCHEMES[name]
    a, s, dt = problem, problem.springs, problem.dt
    shift = theta * dt * (theta_vq * v + (1 - theta_vq) * a.v)
    middle = theta * v + (1 - theta) * a.v
    M, h = a.system.terms(shift, middle)
    return M @ (v - a.v) - dt * (a.force - h - s.stiffness * (s.stretch + shift) - s.damping * middle)


@every("scheme", ["implicit", "midpoint"])
def test_A_is_the_slope_of_the_momentum_to_first_order(scheme):
    errors = []
    for dt in (2e-3, 1e-3, 5e-4):
        problem, _, _ = swinging(9, dt)
        motion, found = free_motion(problem, scheme)
        assert found
        assert np.abs(momentum(problem, scheme, motion.v_star)).max() < 1e-12
        up, down = (np.array([momentum(problem, scheme, motion.v_star + h * e) for e in np.eye(18)]).T for h in (1e-4, -1e-4))
        errors.append(np.abs((up - down) / 2e-4 - motion.A).max())
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2.0, atol=0.2)


@every("scheme", ["implicit", "midpoint"])
def test_A_is_exact_for_a_constant_mass_matrix(scheme):
    """(16) with θ_vq once, not twice as printed."""
    body = point_mass().spring([1e4, 2e4, 3e4], damping=50.0)
    body.q[2] = 1.0
    problem = body.problem(0.01)
    A, v = free_motion(problem, scheme)[0].A, np.zeros(3)
    slope = np.array([momentum(problem, scheme, v + e) - momentum(problem, scheme, v) for e in np.eye(3)]).T
    np.testing.assert_allclose(slope, A, atol=1e-9)


def test_implicit_schemes_need_the_bodies_at_other_configurations():
    problem = next(random_problems("quadruped", 1))
    with pytest.raises(ConfigError, match=r"engine\.scheme: expected 'symplectic' or 'explicit' .* got 'midpoint'"):
        Sap(scheme="midpoint").solve(problem)


def test_dampers_folded_into_the_problem_are_kept():
    """A damper folded into M and force acts alike under every scheme if no other force depends on the velocity."""
    body = point_mass()
    body.q[2], body.v[0] = 1.0, 2.0
    problem = body.problem(0.01)
    damped = msgspec.structs.replace(problem, M=problem.M + 0.01 * 30.0 * np.eye(3), force=problem.force - 30.0 * problem.v)
    for scheme in SCHEMES:
        assert Sap(scheme=scheme).solve(damped).v_plus[0] == pytest.approx(2.0 / 1.3, rel=1e-12)


@full
@pytest.mark.parametrize(("scheme", "order", "most"), [("symplectic", 1, 0.03), ("midpoint", 2, 1e-4)])
def test_a_spinning_block_flies_straight_up_to_the_schemes_error(scheme, order, most):
    """1 m/s and 10 rad/s for a second; velocities are in body axes, which turn meanwhile."""
    errors = []
    for dt in (DT, DT / 2):
        world = block_world("sap", scheme=scheme)
        world.reset(world.q + np.r_[0, 0, 50.0, np.zeros(4)], np.array([1.0, 0, 0, 0, 0, 10.0]))
        for _ in range(round(1 / dt)):
            world.step(np.zeros(0), dt)
        errors.append(np.hypot(world.q[0] - 1.0, world.q[1]))
    assert errors[0] < most
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)


@every("ground", GROUNDS)
@every("name", first_is_fast(["solo12", "quadruped", "go2"]))
def test_random_motion_has_the_predicted_forces(name, ground):
    """50 steps of random demands from a drop on, each torque applied in the world: forces and velocities to 1e-9."""
    robot, stance = load_robot(name)
    rng = np.random.default_rng(0)
    world = build_world(Sap(tolerance=1e-12, **GROUNDS[ground]), robot, Flat(), stance)
    world.reset(stance, 0.1 * rng.normal(size=robot.nv))
    law = SapSettings(**GROUNDS[ground], drift=False).build()
    options, pressed = Options.paper(ground=Ground.rigid(noise=0.0)), 0
    for _ in range(50):
        demand = rng.normal(scale=20.0, size=robot.na)
        answer = predict(robot, world.state, world.contacts, demand, law=law, dt=DT, options=options)
        assert answer.law == "sap"
        assert answer.status.ok
        result = world.step(answer.tau, DT)
        assert result.status.ok
        largest = np.abs(result.force).max(initial=1.0)
        np.testing.assert_allclose(answer.normal_force, result.normal_force, atol=1e-9 * largest)
        np.testing.assert_allclose(answer.impulse, result.impulse, atol=1e-9 * DT * largest)
        np.testing.assert_allclose(answer.v_plus, world.v, atol=1e-9)
        pressed += (result.normal_force > 0.1).sum()
    assert pressed > 20


@full
def test_with_the_floors_parameters_sap_predicts_forces_within_one_per_cent():
    """Every component of every foot's force in 99 of 100 ticks, relative to a fourth of the weight; the sum to 0.2 % in all but
    1 %. The rigid law with T_r, T_p predicts the sum as well and the single forces not."""
    weight, plan = 4.8 * 9.81, load_plan("sway-springs", 1.5)  # [N]
    for law, springs in zip(plan.settings.laws, (False, True), strict=True):
        run = run_in_process(with_controller(plan, {"law": law}), "", lambda *_: None)
        predicted, simulated = np.nan_to_num(run.trace.predicted[50:]), np.nan_to_num(run.trace.simulated[50:])
        assert run.summary.upright
        assert run.summary.tilt < 5e-3
        total = np.abs((predicted - simulated)[:, :, 0].sum(axis=1)) / weight
        each = np.abs(predicted - simulated).max(axis=(1, 2)) / weight
        assert np.percentile(total, 99) < 2e-3
        if springs:
            assert np.percentile(each, 99) < 1e-2
            assert run.summary.modes == {"ok": 1.0}
