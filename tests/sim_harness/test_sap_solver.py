"""The engine `sap`: its cone and cost, its solver, the errors that it reports, and its islands."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest
import scs
from fast import every, fast, first_is_fast
from problems import DT, Body, G, cube, near, point_mass, random_problems
from scipy import sparse

from idyn.status import SOLVED, Status
from sim_harness.engines.linalg import (
    Sparse,
    islands_of,
    sparse_pushed,
    speeds,
)
from sim_harness.engines.sap import Sap, constraint_laws, free_motion, solve_islands
from sim_harness.engines.sap_newton import (
    APART,
    MU,
    R_N,
    R_T,
    SLIDING,
    STICKING,
    V_HAT,
    Motion,
    Rules,
    cone_slope,
    convex_problem,
    hessian,
    impulses,
    minimise,
    project_cone,
    symmetric_times,
)

TIGHT = Rules(1e-13, 100)


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
    """All of it as one problem, in the order it has."""
    M, n = A if M is None else M, len(v_star)
    motion = Motion(M, M, np.zeros(n, dtype=np.int64), A, v_star, v_star)
    return convex_problem(motion, J, laws, np.arange(n), np.arange(len(laws)))


def nearest_in_cone(y, law):
    """P_F(y) by the Euclidean projection on the cone of friction μ̃ in coordinates R^½ γ  [SAP App. C]."""
    root = np.sqrt(np.array([law[R_T], law[R_T], law[R_N]]))
    x, steep = root * y, law[MU] * np.sqrt(law[R_T] / law[R_N])
    radius = np.linalg.norm(x[:2])
    if radius <= steep * x[2]:
        return np.array(y)
    if steep * radius <= -x[2]:
        return np.zeros(3)
    edge = np.array([*(steep * x[:2] / radius), 1.0]) / np.sqrt(1 + steep * steep)
    return (x @ edge) * edge / root


def cost(c, A, J, v):
    """ℓ(v) from its definition."""
    away = v - c.v_star
    total = 0.5 * away @ A @ away
    for law, u in zip(c.laws, (J @ v).reshape(-1, 3), strict=True):
        R = np.array([law[R_T], law[R_T], law[R_N]])
        gamma = nearest_in_cone((np.array([0, 0, law[V_HAT]]) - u) / R, law)
        total += 0.5 * gamma @ (R * gamma)
    return total


def gradient(c, v):
    """As the engine has it."""
    return symmetric_times(c.A, c.J.first, v - c.v_star) - sparse_pushed(c.J, impulses(c, speeds(c.J, v)))


LAW = np.array([0.5, 0.01, 0.04, 0.0])


def random_law(rng):
    return np.array([rng.choice([0.0, rng.uniform(0, 2)]), *(10 ** rng.uniform(-3, 1, 2)), 0.0])


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


def test_boundary_points_belong_to_the_right_region():
    ratio = LAW[MU] * LAW[R_T] / LAW[R_N]
    assert project_cone(0.5, 0.0, 1.0, LAW)[3] == STICKING
    *gamma, region = project_cone(1.0, 0.0, -ratio, LAW)
    assert region == SLIDING
    assert gamma == [0.0, 0.0, 0.0]
    G = np.full((3, 3), np.nan)
    cone_slope(1.0, 0.0, LAW, 0.0, region, G)
    assert np.linalg.eigvalsh(G)[2] > 1.0
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


def regions(c, v):
    """Of all contacts at v."""
    u = speeds(c.J, v)
    scaled = zip(
        -u[:, 0] / c.laws[:, R_T], -u[:, 1] / c.laws[:, R_T], (c.laws[:, V_HAT] - u[:, 2]) / c.laws[:, R_N], strict=True
    )
    return tuple(project_cone(*y, law)[3] for y, law in zip(scaled, c.laws, strict=True))


def parts(engine, problem):
    """The free motion, J and laws of a step."""
    motion, _ = free_motion(problem, engine.scheme)
    J, materials, _ = engine.constraints(problem)
    return motion, J, constraint_laws(J, motion.L, motion.first, materials)


def symmetric(lower):
    return np.tril(lower) + np.tril(lower, -1).T


def test_momentum_balances_and_complementarity_holds():
    engine = Sap(tolerance=1e-12)
    for problem in random_problems("quadruped", 60):
        solution = engine.solve(problem)
        assert solution.status.ok
        scale = np.abs(problem.M @ solution.v_plus).max()
        balance = problem.M @ (solution.v_plus - problem.v) - problem.J.T @ solution.p.ravel()
        assert np.abs(balance - DT * (problem.force - problem.h)).max() < 1e-10 * max(1.0, scale)
        assert solution.accuracy.slackness < 1e-14


def test_newton_converges_quadratically_and_the_cost_never_rises():
    rng = np.random.default_rng(23)
    tails = 0
    for _ in range(20):
        c, A, J, v0 = random_convex(rng, k=5)
        best, _, _, steps = minimise(c, v0, TIGHT)
        assert steps <= 10
        iterates = [minimise(c, v0, Rules(1e-15, n))[0] for n in range(steps + 1)]
        costs = np.array([cost(c, A, J, v) for v in iterates])
        assert (np.diff(costs) <= 1e-14 * costs[0]).all()
        assert np.abs(gradient(c, iterates[-1])).max() < 1e-12 * np.abs(A @ v0).max()
        errors = [np.linalg.norm(v - best) for v in iterates[:-1]]
        tails += any(after <= 10 * before**2 and after < 1e-3 for before, after in pairwise(errors))
    assert tails >= 15


def test_every_start_leads_to_the_same_velocity():
    rng = np.random.default_rng(24)
    for _ in range(10):
        c, _, _, v = random_convex(rng, k=5)
        best, _, _, _ = minimise(c, v, TIGHT)
        for _ in range(10):
            found, _, status, steps = minimise(c, 1e3 * rng.normal(size=len(v)), TIGHT)
            assert status == SOLVED
            assert steps <= 30
            np.testing.assert_allclose(found, best, atol=1e-11)


def test_a_body_at_rest_takes_at_most_one_iteration():
    body, engine = cube(), near(stiffness=np.inf, dissipation=DT, tolerance=1e-5)
    body.run(engine, DT, 500)
    assert max(body.step(engine, DT).iterations for _ in range(100)) <= 1


@every("tolerance", [1e-1, 1e-3, 1e-6, 1e-9])
def test_the_step_ends_below_its_tolerance(tolerance):
    engine = Sap(tolerance=tolerance)
    for problem in random_problems("quadruped", 40):
        solution = engine.solve(problem)
        assert solution.status.ok
        assert solution.accuracy.momentum < tolerance


def test_units_change_neither_iterations_nor_errors():
    """Each degree of freedom in a unit of its own, as millimetres and degrees would be."""
    rng = np.random.default_rng(28)
    for problem in random_problems("quadruped", 20):
        unit = 10 ** rng.uniform(-3, 3, 18)
        other = msgspec.structs.replace(
            problem,
            M=problem.M / np.outer(unit, unit),
            h=problem.h / unit,
            force=problem.force / unit,
            v=problem.v * unit,
            J=problem.J / unit,
        )
        one, two = Sap(tolerance=1e-5).solve(problem), Sap(tolerance=1e-5).solve(other)
        assert one.iterations == two.iterations
        np.testing.assert_allclose(two.v_plus / unit, one.v_plus, atol=1e-9)
        assert two.accuracy.momentum == pytest.approx(one.accuracy.momentum, rel=1e-3, abs=1e-12)


CONDITION = {1e-1: 786, 1e-2: 997, 1e-3: 9.92e3, 1e-4: 9.91e4, 1e-5: 9.91e5, 1e-6: 9.91e6}


@every("sigma", CONDITION)
def test_the_hessian_of_a_cube_at_rest_has_the_known_condition_number(sigma):
    engine, body = near(stiffness=1e12, dissipation=0.01, sigma=sigma), cube()
    body.run(engine, 0.01, 300)
    motion, J, laws = parts(engine, body.problem(0.01))
    c = convex_problem(motion, J, laws, np.arange(6), np.arange(4))
    assert np.linalg.cond(symmetric(hessian(c, speeds(c.J, body.v)))) == pytest.approx(CONDITION[sigma], rel=5e-3)


def crowd(rng, trees=12, groups=3):
    """Bodies of three degrees of freedom; those of one group touch one another and the ground."""
    nv = 3 * trees
    M, h = np.zeros((nv, nv)), np.tile([0.0, 0.0, G], trees)
    for t in range(trees):
        B = rng.normal(size=(3, 3))
        M[3 * t : 3 * t + 3, 3 * t : 3 * t + 3] = B @ B.T + np.eye(3)
    group = rng.permutation(np.arange(trees) % groups)
    blocks = []
    for t in range(trees):
        J = np.zeros((3, nv))
        J[:, 3 * t : 3 * t + 3] = rng.normal(size=(3, 3))
        other = next((o for o in range(t + 1, trees) if group[o] == group[t]), None)
        if other is not None:
            J[:, 3 * other : 3 * other + 3] = rng.normal(size=(3, 3))
        blocks.append(J)
    gaps = -1e-3 * rng.uniform(size=trees)
    body = Body(M, h, np.vstack(blocks), lambda q: gaps, np.full(trees, 0.5))
    body.v = rng.normal(size=nv)
    return body, np.repeat(group, 3)


def test_islands_are_solved_as_the_whole_problem():
    rng = np.random.default_rng(29)
    engine = Sap(tolerance=1e-13)
    for _ in range(10):
        body, _ = crowd(rng)
        motion, J, laws = parts(engine, body.problem(DT))
        c = convex_problem(motion, J, laws, np.arange(36), np.arange(12))
        whole, gamma, status, _ = minimise(c, body.v, TIGHT)
        v, impulses, how, _ = solve_islands(motion, J, laws, TIGHT)
        assert status == how == SOLVED
        np.testing.assert_allclose(v, whole, atol=1e-10)
        np.testing.assert_allclose(impulses, gamma, atol=1e-10)


def test_islands_are_independent():
    rng = np.random.default_rng(30)
    body, group = crowd(rng)
    before = Sap().solve(body.problem(DT)).v_plus
    after = Sap().solve(body.problem(DT, np.where(group == 1, 50.0, 0.0))).v_plus
    assert (before[group != 1] == after[group != 1]).all()
    assert (before[group == 1] != after[group == 1]).all()


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


def test_the_derivative_by_torques_matches_finite_differences():
    """dv/dτ = dt H⁻¹, against differences of the engine's own solutions where no contact changes its region."""
    engine, compared = Sap(tolerance=1e-13), 0
    for problem in random_problems("quadruped", 60):
        solution = engine.solve(problem)
        motion, J, laws = parts(engine, problem)
        c = convex_problem(motion, J, laws, np.arange(18), np.arange(len(laws)))
        slope = DT * np.linalg.inv(symmetric(hessian(c, speeds(c.J, solution.v_plus))))
        for d in (0, 6, 13):
            e = np.zeros(18)
            e[d] = 1e-3
            up = engine.solve(msgspec.structs.replace(problem, force=problem.force + e))
            down = engine.solve(msgspec.structs.replace(problem, force=problem.force - e))
            numeric = (up.v_plus - down.v_plus) / 2e-3
            if any(np.sign(a.p[:, 2]).tolist() != np.sign(solution.p[:, 2]).tolist() for a in (up, down)):
                continue
            compared += 1
            np.testing.assert_allclose(numeric, slope[:, d], atol=2e-6 * np.abs(slope[:, d]).max())
            normal = (up.p - down.p) / 2e-3
            expected = -slope_of_impulses(c, solution.v_plus) @ slope[:, d]
            np.testing.assert_allclose(
                normal[problem.gaps <= 0].ravel(), expected, atol=2e-5 * max(np.abs(expected).max(initial=0), 1e-9)
            )
    assert compared > 60


def slope_of_impulses(c, v):
    """G J: −dγ/dv, from H − A = Jᵀ G J by the contacts one by one (3k, nv)."""
    rows = []
    for i in range(len(c.laws)):
        begin, end = c.J.begin[i], c.J.begin[i + 1]
        alone = np.zeros((3, len(v)))
        alone[:, c.J.columns[begin:end]] = c.J.rows[begin:end].T
        row = Sparse(np.array([0, 3]), np.arange(3), np.eye(3), np.zeros(3, dtype=np.int64))
        one = c._replace(A=np.zeros((3, 3)), v_star=np.zeros(3), J=row, laws=c.laws[i : i + 1].copy())
        rows.append(symmetric(hessian(one, (alone @ v)[None])) @ alone)
    return np.vstack(rows) if rows else np.zeros((0, len(v)))


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


def test_point_masses_with_any_friction_come_to_rest():
    for mu in (0.0, 0.5, np.inf):
        body = point_mass(mu=mu)
        body.run(Sap(), DT, 500)
        assert abs(body.v[2]) < 1e-3


def test_a_chain_has_a_narrow_profile_in_any_numbering():
    rng = np.random.default_rng(3)
    names = rng.permutation(30)
    touches = np.zeros((29, 30), dtype=bool)
    for i in range(29):
        touches[i, names[[i, i + 1]]] = True
    order, _ = islands_of(touches)
    place = np.argsort(order)
    assert max(abs(place[names[i]] - place[names[i + 1]]) for i in range(29)) == 1


@pytest.mark.parametrize("count", fast([1, 2, 5, 10], 5))
def test_the_lowest_of_a_stack_sinks_by_the_weight_of_all(count):
    """N points of 1 kg, one on the other, near rigid: R_n is that of the lowest alone."""
    nv, rows = 3 * count, []
    for i in range(count):
        J = np.zeros((3, nv))
        J[:, 3 * i : 3 * i + 3] = np.eye(3)
        if i:
            J[:, 3 * i - 3 : 3 * i] = -np.eye(3)
        rows.append(J)
    J = np.vstack(rows)
    body = Body(np.eye(nv), np.tile([0.0, 0.0, G], count), J, lambda q: J[2::3] @ q, [0.5] * count)
    engine = Sap(stiffness=np.inf, dissipation=DT, candidates="near")
    body.run(engine, DT, 2000)
    R_n = 1 / np.sqrt(3) / (4 * np.pi**2)
    assert -body.q[2] == pytest.approx(count * G * DT * (DT + DT) * R_n, rel=1e-4)


@pytest.mark.parametrize("points", first_is_fast([3, 4, 16]))
def test_a_patch_of_points_is_one_spring_that_resists_turning(points):
    """k/N at each: mg/k in all; a torque about the normal below what its friction bears turns it by creep alone."""
    angle = 2 * np.pi * np.arange(points) / points
    at = 0.1 * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(points)])
    J = np.vstack([[[1, 0, 0, -y], [0, 1, 0, x], [0, 0, 1, 0]] for x, y, _ in at])
    body = Body(np.diag([1.0, 1.0, 1.0, 0.005]), np.array([0, 0, G, 0]), J, lambda q: np.full(points, q[2]), [0.5] * points)
    engine = Sap(stiffness=1e4 / points, dissipation=0.01, candidates="near")
    body.run(engine, DT, 2000, np.array([0, 0, 0, 0.9 * 0.5 * G * 0.1]))
    assert -body.q[2] == pytest.approx(G / 1e4, rel=1e-6)
    assert 0.0 < body.v[3] < 1e-3
    body.run(engine, DT, 100, np.array([0, 0, 0, 1.1 * 0.5 * G * 0.1]))
    assert body.v[3] > 0.5
