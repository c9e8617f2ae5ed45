"""The solver of the engine `first-order` on random contacts and stacks, against oracles that share no code."""

import time

import numpy as np
import pytest
from fast import every
from first_order_bodies import G, along_normals, random_spd, step_of, ties
from scipy.optimize import lsq_linear
from test_engines import check_dynamics, random_problems

from idyn.status import Status
from sim_harness.engines.engine import Rows
from sim_harness.engines.first_order import FirstOrder, free_motion, scaled_jacobian

ENGINE = FirstOrder()


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


def stack(count, radius=0.05, mass=1.0):
    """Spheres one upon the other, six degrees of freedom each: M, J of the contacts (ground first)."""
    M = np.diag([mass] * 3 * count + [0.4 * mass * radius**2] * 3 * count)
    order = np.concatenate([np.r_[3 * i : 3 * i + 3, 3 * (count + i) : 3 * (count + i) + 3] for i in range(count)])
    J = np.zeros((3 * count, 6 * count))
    touch = np.array([[1.0, 0, 0, 0, -radius, 0], [0, 1, 0, radius, 0, 0], [0, 0, 1, 0, 0, 0]])
    below = np.array([[1.0, 0, 0, 0, radius, 0], [0, 1, 0, -radius, 0, 0], [0, 0, 1, 0, 0, 0]])
    for i in range(count):
        J[3 * i : 3 * i + 3, 6 * i : 6 * i + 6] = touch
        if i:
            J[3 * i : 3 * i + 3, 6 * i - 6 : 6 * i] = -below
    return M[np.ix_(order, order)], J


def dropped(count, seconds, h=0.01, spacing=1e-3, mu=0.5):
    """Dropped from even spacing, K = 1e11 N/m, B = 1 N·s/m: forces [N], heights above the neighbour [m], seconds per step."""
    M, J = stack(count)
    engine, q, v = FirstOrder(stiffness=1e11, dissipation=1e-11), np.zeros(6 * count), np.zeros(6 * count)
    q[2::6] = spacing * np.arange(1, count + 1)
    weight = np.zeros(6 * count)
    weight[2::6] = -G
    spent, solution = [], None
    for _ in range(round(seconds / h)):
        gaps = J[2::3] @ q
        problem = step_of(M, weight, v, h, J, gaps, mu)
        begin = time.perf_counter()
        solution = engine.solve(problem)
        spent.append(time.perf_counter() - begin)
        assert solution.status.ok
        v = solution.v_plus
        q = q + h * v
    return solution.p[:, 2] / h, J[2::3] @ q, np.median(spent)


@every("count", [2, 10, 30])
def test_each_sphere_of_a_stack_carries_those_above(count):
    """At rest contact i carries (N − i + 1) m g to 1e-3, and no sphere is above its initial place."""
    forces, gaps, _ = dropped(count, 1.0)
    np.testing.assert_allclose(forces, G * np.arange(count, 0, -1), rtol=1e-3)
    assert (gaps <= 0.0).all()
    assert (np.diff(0.1 * np.arange(count) + np.cumsum(gaps)) > 0).all()


def test_the_delassus_matrix_of_a_sphere_stack_is_sparse():
    """At most 18 N numbers of the 9 N² of W = J M⁻¹ Jᵀ."""
    M, J = stack(100)
    assert np.count_nonzero(np.abs(J @ np.linalg.solve(M, J.T)) > 1e-12) <= 18 * 100
    problem = step_of(M, np.zeros(600), np.zeros(600), 0.01, J, np.zeros(100), 0.5)
    bodies, table = ENGINE.parts(problem, ENGINE.choose(problem))
    Y, _, _ = scaled_jacobian(bodies, free_motion(bodies), table)
    assert Y.begin[-1] <= 12 * 100
    assert (np.arange(600) - Y.first).sum() <= 12 * 600


@pytest.mark.long
def test_a_stack_of_a_hundred_spheres_rests():
    """A step's time stays below the cube of the number. It is not linear, as the sparsity of W would allow: M and J are dense
    arrays, which each step reads whole; 25 to 100 spheres took 20 to 36 times as long."""
    forces, gaps, seconds = dropped(100, 5.0)
    np.testing.assert_allclose(forces, G * np.arange(100, 0, -1), rtol=1e-3)
    assert (gaps <= 0.0).all()
    few = dropped(25, 1.0)[2]
    print(f"\n100 spheres: {1e3 * seconds:.1f} ms per step, 25: {1e3 * few:.1f} ms")
    assert seconds < 64 * few
