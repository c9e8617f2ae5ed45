"""The engine `first-order`: its solver, the published examples, and the study of a foundation."""

import time

import numpy as np
import pytest
from fast import every, full
from problems import check_dynamics, random_problems
from scipy.optimize import lsq_linear
from test_first_order_rows import G, across, along_normals, foot, leaning_rod, ramp, random_spd, step_of, ties

from idyn.errors import InputError
from idyn.status import Status
from sim_harness.commands.main import main
from sim_harness.engines.engine import Rows
from sim_harness.engines.first_order import FirstOrder, free_motion, scaled_jacobian
from sim_harness.studies import first_order_study as page
from sim_harness.studies.first_order_published import Published
from sim_harness.studies.first_order_study import exact_pendulum, pendulum

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


PUBLISHED = Published(tangential=1e4)


@full
def test_a_foot_tips_over_under_the_published_program():
    """(5.335, 4.836) N instead of the springs' own (8.829, 0.981) N, and 0.554 rad after a second."""
    forces, tilt = foot("published", 1.0)
    np.testing.assert_allclose(forces, [5.335, 4.836], atol=5e-4)
    assert tilt == pytest.approx(0.554, abs=5e-4)


@every("friction", ["cone", "convex"])
def test_a_foot_stands_on_its_springs_under_the_engine(friction):
    forces, tilt = foot(friction, 1.0)
    np.testing.assert_allclose(forces, [8.829, 0.981], atol=5e-4)
    assert tilt == pytest.approx((0.9 - 0.1) * 9.81 / 1e7 / 0.1 / 1.0, rel=1e-3)


@every("engine", [Published(), FirstOrder()])
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


def test_no_single_weight_suits_every_contact_of_the_published_program():
    """μ = 0.125, ζ = 1/h: 20.29 N instead of 9.47 N, no sliding, 5.5 m above the ramp after a second. With the weight that
    suits the block a sticking rod has (3.36, −3.02) N instead of (7.97, 3.19) N."""
    forces, place, _ = ramp(0.125, friction="published")
    assert forces[2] == pytest.approx(20.29, abs=5e-3)
    assert abs(place[0]) < 1e-6
    assert place[1] == pytest.approx(5.5, abs=0.05)
    _, place, _ = ramp(0.125, friction="published", normal_weight=100 * (1 + 1e6) ** 2)
    assert place[0] == pytest.approx(0.6833, abs=5e-5)
    friction, normal = leaning_rod(0.9, friction="published", normal_weight=100 * (1 + 1e6) ** 2)
    assert (normal, friction) == (pytest.approx(3.36, abs=5e-3), pytest.approx(-3.02, abs=5e-3))
    friction, normal = leaning_rod(0.9)
    assert (normal, friction) == (pytest.approx(7.970, abs=1e-3), pytest.approx(3.185, abs=2e-3))


def test_friction_direction_is_that_of_least_slip_or_most_dissipation():
    """−107.07° is least slip, −138.02° most dissipation."""
    for settings, degrees in (({"friction": "published", "normal_weight": 1e10}, -107.07), ({}, -138.02)):
        force = across(**settings)
        assert np.rad2deg(np.arctan2(force[1], force[0])) == pytest.approx(degrees, abs=0.01)
        assert np.hypot(*force[:2]) == pytest.approx(5.0, rel=1e-6)


def test_infinite_friction_and_stiffness_are_refused_by_the_published_programs():
    problem = step_of(np.eye(3), [0, 0, -10], np.zeros(3), 1e-2, np.eye(3), [0.0], np.inf)
    with pytest.raises(InputError, match=r"mu: expected finite friction.*'published'.*'first-order'"):
        PUBLISHED.solve(problem)
    rows = Rows(G=np.array([[1.0]]), g=np.zeros(1), stops=np.array([True]))
    rigid = step_of([[1.0]], [-10], [0.0], 1e-2, rows=rows)
    with pytest.raises(InputError, match=r"stiffness: expected finite stiffness.*'published'.*'first-order'"):
        PUBLISHED.solve(rigid)


@full
def test_the_tables_have_eight_cells(monkeypatch):
    """All eight cells, of which one is computed here, at a tenth of its size."""
    monkeypatch.setattr(page, "SOFT_S", 0.02)
    found = page.cell(4, 1e7, 5.0)
    assert found.pressed == 16
    assert set(found.seconds) == {"first-order", "BDF", "RK45"}
    assert all(0.0 < seconds < np.inf for seconds in found.seconds.values())
    tables = page.time_table([found] * 8), page.error_table([found] * 8)
    assert [len(table) for table in tables] == [9, 9]
    assert tables[0][4][0] == "100 elements, 50 N"
    assert tables[0][4][3].endswith("(5550)")
    assert "(8.14e-01)" in tables[1][4][3]


class Counting:
    """The engine, and how many iterations each of its steps took."""

    def __init__(self):
        self.iterations = []

    def solve(self, problem):
        solution = FirstOrder().solve(problem)
        self.iterations.append(solution.iterations)
        return solution


@full
@pytest.mark.parametrize(("per_side", "modulus", "force"), page.CELLS)
def test_every_cell_of_the_table_has_bounded_errors(per_side, modulus, force):
    """At h = 0.01 s for 1 s: every step solved, in 2 to 5 iterations on the mean, whatever their number and stiffness (at 1e11
    N/m² some take 30 to 40, at rounding); 50 N lift an edge, 5 N none; errors below 1e-5 at the end, at 1e11 N/m² after
    0.02 s, where the reference needs half a million evaluations already."""
    on, engine = page.bed(per_side, modulus, force), Counting()
    pose, _, pressed = page.stepped(engine, on, page.DT, 1.0)
    assert np.mean(engine.iterations) <= 6
    assert max(engine.iterations) <= 50
    assert np.isfinite(pose.q).all()
    assert pressed == per_side**2 if force == 5.0 else 0.8 * per_side**2 < pressed < 0.95 * per_side**2
    sink = (page.MASS * page.GRAVITY + force) * page.DEPTH / (modulus * page.SIDE**2)
    assert 0.5 * page.SIDE - pose.q[2] == pytest.approx(sink, rel=1e-3 if force == 5.0 else 0.05)
    end = 1.0 if modulus < 1e9 else 0.02
    exact, _ = page.integrated(on, "DOP853", end, *page.TIGHT[modulus])
    assert page.distance(page.stepped(engine, on, page.DT, end)[0], exact) < 1e-5


@pytest.mark.bench
def test_the_time_of_a_step_grows_at_most_linearly_with_the_elements():
    """That of the published program grows with their cube (900 elements of 100: 25 to 65 times as long); here the unknowns are
    the cube's velocity."""
    engine, spent = FirstOrder(), {}
    for per_side in (10, 30):
        on = page.bed(per_side, 1e7, 50.0)
        page.stepped(engine, on, 0.01, 0.01)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            page.stepped(engine, on, 0.01, 0.3)
            times.append(time.perf_counter() - begin)
        spent[per_side] = min(times)
    print(f"\n100 elements: {spent[10]:.3f} s for 0.3 s, 900: {spent[30]:.3f} s")
    assert spent[30] < 27 * spent[10]


def test_errors_halve_with_the_step():
    """The pendulum's place and pivot's forces after 0.8 s. The error of its velocity falls with the square of the step, at any
    time: the place is late by half a step, the velocity is not."""
    exact = exact_pendulum(0.8)
    ends = [pendulum(dt, 0.8) for dt in (2e-3, 1e-3)]
    for name, ratio in (("q", 2.0), ("v", 4.0), ("forces", 2.0)):
        coarse, fine = (np.linalg.norm(getattr(end, name) - getattr(exact, name)) for end in ends)
        assert coarse / fine == pytest.approx(ratio, rel=0.02), name


@full
def test_errors_of_the_foundation_halve_with_the_step():
    on = page.bed(6, 1e3, 5.0)
    exact, _ = page.integrated(on, "DOP853", 0.5, 1e-11, 1e-13)
    errors = [page.distance(page.stepped(FirstOrder(), on, dt, 0.5)[0], exact) for dt in (1e-3, 5e-4)]
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.05)


@full
def test_errors_of_a_pendulum_with_a_stop_halve_with_the_step():
    """[Drumwright §5.4]: linear in the step once it resolves the stop."""
    exact = page.exact_limited_pendulum(1.0, page.STOP_K, page.STOP_B)
    errors = [page.limited_pendulum(dt, 1.0, page.STOP_K, page.STOP_B).q[0] - exact.q[0] for dt in (1e-4, 5e-5)]
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.05)


@full
def test_the_page_has_its_tables_and_picture(tmp_path, monkeypatch, capsys):
    small = page.Cell(
        seconds=dict.fromkeys(("first-order", "BDF", "RK45"), 0.1),
        errors=dict.fromkeys(("first-order", "1 ms", "BDF", "RK45"), 1e-6),
        pressed=1,
    )
    monkeypatch.setattr(page, "cell", lambda *_: small)
    monkeypatch.setattr(page, "STEPS", (8e-3, 4e-3))
    assert main(["compare", "first-order-study", "--out", str(tmp_path)]) == 0
    assert {"orders.png", "report.html"} == {path.name for path in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    assert "restitution" in printed
    assert "published" in printed
