"""The engines `newton`, `no-slip` and `viscous`: conditions, the papers' equations, independent solvers, reference values."""

import itertools
from functools import partial
from itertools import product

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast, full
from problems import DT, cross, random_problems, solved, step_problem
from quantecon.optimize.lcp_lemke import lcp_lemke
from stands import block_world

from idyn.solvers.qp import solve_qp
from sim_harness.engines.contact_space import contact_space
from sim_harness.engines.engine import Rows
from sim_harness.engines.newton import Newton
from sim_harness.engines.no_slip import NoSlip
from sim_harness.engines.viscous import Viscous
from sim_harness.world.world import contact_jacobian

G = 9.81
H = 1 / 120  # the note's step [s]


problem = partial(step_problem, dt=H)
STACK = np.array([8.0, 64.0, 512.0, 4096.0, 32768.0])  # masses of boxes on one another, the heaviest on top [kg]
STACKED = np.array([367364.88, 367286.4, 366658.56, 361635.84, 321454.08])  # normal forces, from the bottom [N]
MUS = [0.0, 0.2, 1.0, np.inf]
RECOVERY = 0.1


def box(mass=10.0, half=0.5, height=0.2, mu=0.5, force=(0.0, 0.0, 0.0), **given):
    """On four corners, `half` from its centre in x and y and `height` below it; v is (velocity, spin) in world axes."""
    corners = [(x, y, -height) for x in (-half, half) for y in (-half, half)]
    J = np.vstack([np.hstack([np.eye(3), -cross(r)]) for r in corners])
    M = np.diag([mass] * 3 + [mass / 6] * 3)
    return problem(M, J, mu, h=[0, 0, mass * G, 0, 0, 0], force=[*force, 0, 0, 0], **given)


def stack():
    J = np.zeros((15, 5))
    J[2::3] = np.eye(5) - np.eye(5, k=-1)
    return problem(np.diag(STACK), J, 0.0, h=G * STACK)


def test_high_mass_ratios_are_solved_to_rounding():
    solution = Newton().solve(stack())
    assert solution.status.ok
    np.testing.assert_allclose(solution.p[:, 2] / H, STACKED, rtol=1e-12)


def lcp_roots(A, b):
    """All z with 0 ≤ z ⟂ A z + b ≥ 0, by trying every set of pressing contacts."""
    n = len(b)
    for pressing in itertools.product([False, True], repeat=n):
        on = np.array(pressing)
        z = np.zeros(n)
        z[on] = np.linalg.solve(A[np.ix_(on, on)], -b[on])
        if (z >= -1e-12).all() and (A @ z + b >= -1e-12).all():
            yield z


def test_random_lcps_have_their_only_root():
    """J = I and μ = 0: the LCP is that of M⁻¹ and v; found by trying all sets, to 10⁻⁸."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        n = int(rng.integers(1, 6))
        B = rng.normal(size=(n, n))
        D, v = B @ B.T + 0.1 * np.eye(n), rng.normal(size=n)
        J = np.zeros((3 * n, n))
        J[2::3] = np.eye(n)
        solution = Newton().solve(problem(np.linalg.inv(D), J, 0.0, v=v))
        assert solution.status.ok
        (z,) = lcp_roots(D, v)
        np.testing.assert_allclose(solution.p[:, 2], z, atol=1e-8 * max(1.0, np.abs(z).max()))


def test_compliant_contacts_damp_only_after_touching():
    """Above the ground no force brakes the fall at any speed."""
    given = {"gaps": [1e-3], "dt": 5e-4, "stiffness": np.array([5e4]), "dissipation": np.array([0.1])}
    falling = problem(np.eye(3), np.eye(3), 0.5, v=(0, 0, -1.0), h=[0, 0, G], **given)  # on the plane z = 0
    assert Newton().solve(falling).p[0, 2] == 0.0
    assert problem(np.eye(3), np.eye(3), 0.5).stiffness is None


def pile(rng, mu):
    """Three boxes on one another, each on four corners, their masses between 0.1 and 100 kg, pushed and moving."""
    masses, J = 10.0 ** rng.uniform(-1, 2, size=3), []
    for b, x, y in itertools.product(range(3), (-0.5, 0.5), (-0.5, 0.5)):
        rows = np.zeros((3, 18))
        rows[:, 6 * b : 6 * b + 6] = np.hstack([np.eye(3), -cross((x, y, -0.5))])
        if b:
            rows[:, 6 * b - 6 : 6 * b] = -np.hstack([np.eye(3), -cross((x, y, 0.5))])
        J.append(rows)
    weight = np.repeat(G * masses, 6)
    return problem(
        np.diag(np.repeat(masses, 6) * np.tile([1, 1, 1, 1 / 6, 1 / 6, 1 / 6], 3)),
        np.vstack(J),
        mu,
        h=weight * np.tile([0, 0, 1.0, 0, 0, 0], 3),
        v=rng.normal(size=18) * rng.choice([0.0, 0.01, 0.3]),
        force=rng.normal(size=18) * rng.choice([0.0, 0.1, 1.0]) * weight,
    )


def pushed_box(rng, mu):
    """Its weight is at most three times as large as what pushes it, somewhere."""
    given = box(mass=10.0 ** rng.uniform(-1, 2), mu=mu, v=rng.normal(size=6) * rng.choice([0.0, 0.01, 1.0]))
    return msgspec.structs.replace(given, force=rng.normal(size=6) * given.h[2] * rng.choice([0.0, 0.3, 1.0, 3.0]))


def limbs(rng, mu):
    """18 degrees of freedom that four contacts move independently."""
    A = rng.normal(size=(18, 18))
    h, force, v, gaps = 50 * rng.normal(size=18), 20 * rng.normal(size=18), rng.normal(size=18), 1e-3 * rng.normal(size=4)
    return problem(A @ A.T + np.eye(18), rng.normal(size=(12, 18)), mu, h=h, force=force, v=v, gaps=gaps)


def assert_coulomb(given, solution, recovery=0.05):
    """From problem and solution alone: balance, 0 ≤ p_N ⟂ N v⁺ + φ/dt ≥ 0, the cone, and friction of maximal dissipation."""
    a, p, u = given, solution.p, (given.J @ solution.v_plus).reshape(-1, 3)
    scale = max(1.0, np.abs(u).max())
    balance = a.M @ (solution.v_plus - a.v) - a.J.T @ p.ravel() - a.dt * (a.force - a.h)
    size = max(1e-3, np.abs(a.dt * a.h).max(), np.abs(p).max())
    assert np.abs(balance).max() < 1e-9 * size
    away = u[:, 2] + np.maximum(a.gaps / a.dt, -recovery)
    slides, friction = np.hypot(u[:, 0], u[:, 1]), np.hypot(p[:, 0], p[:, 1])
    assert (p[:, 2] >= 0).all()
    assert (away > -1e-7 * scale).all()
    assert (p[:, 2] * away < 1e-6 * size * scale).all()
    endless = np.isinf(a.mu)
    bound = np.zeros(len(a.mu))
    bound[~endless] = a.mu[~endless] * p[~endless, 2]
    assert (friction[~endless] <= bound[~endless] + 1e-9 * size).all()
    lost = (u[:, :2] * p[:, :2]).sum(axis=1) + bound * slides
    assert np.abs(lost[~endless]).max(initial=0.0) < 1e-6 * size * scale
    held = endless & (p[:, 2] > 1e-9 * size)
    assert (slides[held] < 1e-7 * scale).all()
    assert (friction[endless & (p[:, 2] == 0)] == 0).all()


@pytest.mark.full
@pytest.mark.parametrize("mu", [*MUS, None])
@pytest.mark.parametrize("make", [pile, pushed_box, limbs])
def test_random_problems_satisfy_coulombs_law(make, mu):
    """None: another μ at each contact. With μ = ∞ some have no solution; else piles with friction are refused, 3 of 900."""
    rng, solved = np.random.default_rng(10), 0
    for _ in range(60):
        given = make(rng, 0.0 if mu is None else mu)
        if mu is None:
            given = msgspec.structs.replace(given, mu=rng.choice(MUS, size=len(given.mu)))
        solution = Newton().solve(given)
        if solution.status.ok:
            assert_coulomb(given, solution)
            solved += 1
    least = 45 if mu is None or np.isinf(mu) else 58 if make is pile and mu > 0 else 60
    assert solved >= least


def modes_that_hold(given):
    """How many sets of pressing contacts solve a problem with μ = 0 and μ = ∞ alone."""
    a, count = given, 0
    D = a.J @ np.linalg.solve(a.M, a.J.T)
    b = a.J @ (a.v + np.linalg.solve(a.M, a.dt * (a.force - a.h)))
    b[2::3] += np.maximum(a.gaps / a.dt, -0.05)
    for pressing in itertools.product([False, True], repeat=len(a.mu)):
        on = np.repeat(pressing, 3)
        on[0::3] &= np.isinf(a.mu)
        on[1::3] &= np.isinf(a.mu)
        p = np.zeros(len(b))
        p[on] = np.linalg.solve(D[np.ix_(on, on)], -b[on])
        u = D @ p + b
        count += bool((p[2::3] >= -1e-9).all() and (u[2::3] >= -1e-9).all())
    return count


@full
def test_unsolved_problems_have_no_solution():
    """μ = 0 or ∞ at each of four contacts, all modes tried one by one: one of 150 problems has a solution that is not found."""
    rng, refused, missed = np.random.default_rng(12), 0, 0
    for _ in range(150):
        given = limbs(rng, 0.0)
        given = msgspec.structs.replace(given, mu=rng.choice([0.0, np.inf], size=4))
        solved = Newton().solve(given).status.ok
        solvable = modes_that_hold(given) > 0
        assert solvable or not solved
        refused += not solvable
        missed += solvable and not solved
    assert refused > 5
    assert missed <= 1


@every("infinite", [False, True])
def test_random_torques_on_a_quadruped_are_solved(infinite):
    """60 sets of random torques from a zero start: the engine solves all, in a median of 3 iterations."""
    for p in random_problems("quadruped", 60, infinite=infinite):
        solution = Newton().solve(p)
        assert solution.status.ok
        assert_coulomb(p, solution)


@every("name", ["quadruped", "solo12"])
def test_pressing_contacts_neither_sink_nor_slip(name):
    """[D15 Eqs. 25, 45, 46] where contacts press; no force where they separate, except for wedged ones."""
    pressing, parting, wedged = 0, 0, 0
    for problem in random_problems(name, 300, infinite=True):
        solution, u, w = solved(NoSlip(recovery=RECOVERY), problem, RECOVERY)
        normal, friction = solution.p[:, 2], np.linalg.norm(solution.p[:, :2], axis=1)
        grips = problem.mu > 0
        assert np.abs(u[(normal > 0) & grips, :2]).max(initial=0) < 1e-9
        assert friction[~grips].max(initial=0) == 0
        held = (normal == 0) & (friction > 0)
        assert np.abs(u[held, :2]).max(initial=0) < 1e-9  # D15 to the letter
        pressing += np.count_nonzero(normal > 0)
        parting += np.count_nonzero((w > 1e-6) & ~held)
        wedged += np.count_nonzero(held)
    assert pressing > 100
    assert parting > 100
    assert 0 < wedged < 0.2 * pressing


def all_choices(problem):
    """Velocities v⁺ of every choice of sticking contacts whose normals, by an equality-constrained QP, press exactly there."""
    p, n, nv = problem, len(problem.mu), len(problem.v)
    S = p.J.reshape(-1, 3, nv)
    c = np.maximum(p.gaps / p.dt, -RECOVERY)
    v_free = p.v + p.dt * np.linalg.solve(p.M, p.force - p.h)
    for sticks in product([False, True], repeat=n):
        A = S[list(sticks), :2].reshape(-1, nv)
        Z = np.linalg.svd(A)[2][np.linalg.matrix_rank(A) :].T if len(A) else np.eye(nv)
        if not Z.shape[1]:
            continue
        M, f = Z.T @ p.M @ Z, -Z.T @ p.M @ v_free
        scale = np.linalg.norm(M)
        answer = solve_qp(M / scale, f / scale, S[:, 2] @ Z, -c)
        presses = -answer.multipliers * scale > 1e-9
        if answer.status.ok and (presses == np.array(sticks)).all():
            yield Z @ answer.x


def test_the_motion_is_among_the_enumerated_solutions():
    """All 2ⁿ choices of sticking contacts, each a convex program in v⁺ by an active-set QP."""
    found = 0
    for problem in random_problems("quadruped", 60):
        motions = list(all_choices(problem))
        solution = NoSlip(recovery=RECOVERY).solve(problem)
        wedged = (solution.p[:, 2] == 0) & (np.abs(solution.p[:, :2]).max(axis=1, initial=0) > 0)
        assert bool(motions) != wedged.any()  # wedged only where no choice is consistent
        if motions:
            found += 1
            assert min(np.abs(solution.v_plus - v).max() for v in motions) < 1e-6
    assert found > 40


@every("solver", ["qp", "lemke"])
def test_the_solvers_agree_in_the_motion(solver):
    for engine, count in ((NoSlip, 150), (Viscous, 100)):
        for problem in random_problems("quadruped", count, infinite=engine is NoSlip):
            expected, solution = engine().solve(problem), engine(solver=solver).solve(problem)
            assert solution.status.ok
            np.testing.assert_allclose(solution.v_plus, expected.v_plus, atol=1e-6)


def test_a_wall_does_not_hold_a_falling_block_and_a_pressed_patch_does_not_spin():
    """It touches without pressing: [D15] to the letter would hold it there. Pushed down and twisted: the four corners hold,
    though two or three of them carry all."""
    world = block_world("no-slip")  # the block of 2 kg on its four corners, at rest
    terms = world.robot.terms(world.q, world.v)
    J = contact_jacobian(terms.axes, world.robot.tree.support, world.contacts)
    problem = still = step_problem(terms.M, J, 0.5, force=np.array([2 * 9.81, 0, 0, 0, 0, 0]))
    solution = NoSlip().solve(problem)
    assert solution.v_plus[0] == pytest.approx(9.81 * DT)
    assert not solution.p.any()
    problem = msgspec.structs.replace(still, force=np.array([0, 0, -5.0, 0, 0, 3.0]))
    solution = NoSlip().solve(problem)
    np.testing.assert_allclose(solution.v_plus, 0, atol=1e-12)


def touching(problem):
    free = problem.v + DT * np.linalg.solve(problem.M, problem.force - problem.h)
    return problem.gaps / DT + problem.J[2::3] @ free <= 0


@every("name", ["quadruped", "solo12"])
@every("coefficient", first_is_fast([0.1, 0.0, 1000.0]))
def test_contact_and_drag_conditions_hold(name, coefficient):
    engine = Viscous(coefficient=coefficient, recovery=RECOVERY)
    pressing = 0
    for problem in random_problems(name, 200):
        solution, u, _ = solved(engine, problem, RECOVERY)
        drag = -DT * coefficient * u[:, :2] * touching(problem)[:, None]
        np.testing.assert_allclose(solution.p[:, :2], drag, atol=1e-12 * max(1, coefficient))
        pressing += np.count_nonzero(solution.p[:, 2])
    assert pressing > 50


def test_the_motion_minimises_its_convex_program():
    """v⁺ minimises ½(v − v_free)ᵀ M (v − v_free) + ½ dt μ |u_T|² under N v + c ≥ 0: an active-set QP in v."""
    for problem in random_problems("quadruped", 60):
        p = problem
        v_free = p.v + DT * np.linalg.solve(p.M, p.force - p.h)
        T = p.J.reshape(-1, 3, 18)[touching(p), :2].reshape(-1, 18)
        H = p.M + DT * 50.0 * T.T @ T
        scale = np.linalg.norm(H)
        answer = solve_qp(H / scale, -p.M @ v_free / scale, p.J[2::3], -np.maximum(p.gaps / DT, -RECOVERY))
        solution = Viscous(coefficient=50.0, recovery=RECOVERY).solve(p)
        np.testing.assert_allclose(solution.v_plus, answer.x, atol=1e-6)


def reduced(M, held, N, drive, right):
    """F (n, n), e without h (n), and x(y): A x − (N, 0)ᵀ y + g = 0 with A = [M −Hᵀ; H 0] and g = −(drive, right)."""
    m, k = len(M), len(held)
    A = np.block([[M, -held.T], [held, np.zeros((k, k))]])
    C = np.vstack([-N.T, np.zeros((k, len(N)))])
    D, g = -C.T, -np.concatenate([drive, right])
    inverse = np.linalg.inv(A)
    return -D @ inverse @ C, -D @ inverse @ g, lambda y: -inverse @ (C @ y + g), m


def closed(problem, rng):
    """With two closures at rest, and contacts that touch."""
    rows = Rows(G=rng.normal(size=(2, 18)), g=np.zeros(2), stops=np.zeros(2, dtype=bool))
    return msgspec.structs.replace(problem, rows=rows, gaps=np.zeros(len(problem.mu)))


@every("seed", first_is_fast(range(5)))
def test_no_slip_engine_solves_equations_47_to_57_of_d15(seed):
    """All contacts of the set are held, as there, beside two closures."""
    rng, compared = np.random.default_rng(seed), 0
    for problem in random_problems("quadruped", 20):
        p = closed(problem, rng)
        S = p.J.reshape(-1, 3, 18)
        held = np.vstack([p.rows.G, *S[:, :2]])
        if np.linalg.matrix_rank(held) < len(held):
            continue
        F, e, x_of, _ = reduced(p.M, held, S[:, 2], p.M @ p.v + DT * (p.force - p.h), np.zeros(len(held)))
        solution, answer = NoSlip(recovery=0.0).solve(p), lcp_lemke(F, e)
        closing = contact_space(p).b[2::3].max(initial=-1.0) < -1e-6
        if closing and answer.success and (answer.z > 1e-9).all():  # all close and all press: the paper's model to the letter
            compared += 1
            x = x_of(answer.z)
            np.testing.assert_allclose(solution.v_plus, x[:18], atol=1e-8)
            np.testing.assert_allclose(solution.rows, x[18:20], atol=1e-8)
            np.testing.assert_allclose(solution.p[:, :2].ravel(), x[20:], atol=1e-8)
    assert compared > 0
