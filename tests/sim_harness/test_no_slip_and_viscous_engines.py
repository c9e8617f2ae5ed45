"""The engines `no-slip` and `viscous`: their conditions, the equations of the paper, and independent solvers."""

from itertools import product

import msgspec
import numpy as np
import pytest
from conftest import block_world
from fast import every
from problems import DT, check_dynamics, random_problems, step_problem
from quantecon.optimize.lcp_lemke import lcp_lemke

from idyn.errors import InputError
from idyn.solvers.qp import solve_qp
from idyn.status import Status
from sim_harness.engines.contact_space import contact_space
from sim_harness.engines.engine import Rows
from sim_harness.engines.no_slip import NoSlip
from sim_harness.engines.viscous import Viscous
from sim_harness.world.world import contact_jacobian

RECOVERY = 0.1


def conditions(problem, solution):
    """Contact velocities (n, 3) and N v⁺ + c (n)."""
    u = (problem.J @ solution.v_plus).reshape(-1, 3)
    return u, u[:, 2] + np.maximum(problem.gaps / problem.dt, -RECOVERY)


@every("name", ["quadruped", "solo12"])
def test_pressing_contacts_neither_sink_nor_slip(name):
    """[D15 Eqs. 25, 45, 46] where contacts press; no force where they separate, except for wedged ones."""
    pressing, parting, wedged = 0, 0, 0
    for problem in random_problems(name, 300, infinite=True):
        solution = NoSlip(recovery=RECOVERY).solve(problem)
        check_dynamics(problem, solution)
        assert solution.status is Status.SOLVED
        assert solution.contact < 1e-9
        u, w = conditions(problem, solution)
        normal, friction = solution.p[:, 2], np.linalg.norm(solution.p[:, :2], axis=1)
        assert np.abs(np.minimum(normal, w)).max(initial=0) < 1e-9
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


def block_problem(world, force):
    """The block of 2 kg on its four corners, at rest, under a force [N] at its centre and no other."""
    terms = world.robot.terms(world.q, world.v)
    J = contact_jacobian(terms.axes, world.robot.tree.support, world.contacts)
    return step_problem(terms.M, J, 0.5, force=np.concatenate([force, np.zeros(3)]))


def test_a_wall_does_not_hold_a_falling_block_and_a_pressed_patch_does_not_spin():
    """It touches without pressing: [D15] to the letter would hold it there. Pushed down and twisted: the four corners hold,
    though two or three of them carry all."""
    problem = msgspec.structs.replace(
        block_problem(block_world("no-slip"), np.array([0, 0, 0.0])), force=np.array([2 * 9.81, 0, 0, 0, 0, 0])
    )
    solution = NoSlip().solve(problem)
    assert solution.v_plus[0] == pytest.approx(9.81 * DT)
    assert not solution.p.any()
    problem = msgspec.structs.replace(
        block_problem(block_world("no-slip"), np.zeros(3)), force=np.array([0, 0, -5.0, 0, 0, 3.0])
    )
    solution = NoSlip().solve(problem)
    np.testing.assert_allclose(solution.v_plus, 0, atol=1e-12)


def touching(problem):
    free = problem.v + DT * np.linalg.solve(problem.M, problem.force - problem.h)
    return problem.gaps / DT + problem.J[2::3] @ free <= 0


@every("name", ["quadruped", "solo12"])
@every("coefficient", [0.0, 0.1, 1000.0])
def test_contact_and_drag_conditions_hold(name, coefficient):
    engine = Viscous(coefficient=coefficient, recovery=RECOVERY)
    pressing = 0
    for problem in random_problems(name, 200):
        solution = engine.solve(problem)
        check_dynamics(problem, solution)
        assert solution.status is Status.SOLVED
        u = (problem.J @ solution.v_plus).reshape(-1, 3)
        w = u[:, 2] + np.maximum(problem.gaps / DT, -RECOVERY)
        assert np.abs(np.minimum(solution.p[:, 2], w)).max(initial=0) < 1e-9
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


def test_an_impact_at_the_acceleration_level_is_inelastic_and_needs_the_bias():
    problem = block_problem(block_world("viscous"), np.array([0, 0, -2 * 9.81]))
    falling = msgspec.structs.replace(problem, v=np.array([0, 0, -0.7, 0, 0, 0]), bias=lambda: np.zeros(4))
    solution = Viscous(level="acceleration").solve(falling)
    np.testing.assert_allclose(solution.v_plus, 0, atol=1e-12)
    assert solution.p[:, 2].sum() == pytest.approx(2 * (0.7 + 9.81 * DT))
    problem = block_problem(block_world("viscous"), np.zeros(3))
    with pytest.raises(InputError, match=r"bias: expected Ṅ v .*'viscous' needs at the acceleration level"):
        Viscous(level="acceleration").solve(problem)


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


@every("seed", range(5))
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


@every("seed", range(5))
def test_viscous_engine_solves_equations_29_to_42_of_d15(seed):
    """Accelerations and forces of contacts that rest, against the MLCP solved by an independent Lemke."""
    rng = np.random.default_rng(seed)
    pressing = 0
    for problem in random_problems("quadruped", 20):
        p = closed(problem, rng)
        N, T = p.J[2::3], np.delete(p.J, np.s_[2::3], axis=0)
        fixed = np.vstack([N, p.rows.G])
        slide = np.linalg.svd(fixed)[2][len(fixed) :].T
        bias = rng.normal(size=len(N))
        p = msgspec.structs.replace(p, v=slide @ slide.T @ p.v, bias=lambda bias=bias: bias)
        solution = Viscous(coefficient=2.0, level="acceleration").solve(p)
        free = contact_space(p).b[2::3]
        if not len(free) or free.max() > 0.0:
            continue  # one of them does not touch
        drag = 2.0 * T.T @ T @ p.v
        F, e, x_of, _ = reduced(p.M, p.rows.G, N, p.force - p.h - drag, np.zeros(2))
        answer = lcp_lemke(F, e + bias)
        assert answer.success
        x = x_of(answer.z)
        np.testing.assert_allclose((solution.v_plus - p.v) / DT, x[:18], atol=1e-6 * max(1.0, np.abs(x).max()))
        np.testing.assert_allclose(solution.p[:, 2] / DT, answer.z, atol=1e-6 * max(1.0, answer.z.max()))
        np.testing.assert_allclose(solution.rows / DT, x[18:], atol=1e-6 * max(1.0, np.abs(x).max()))
        pressing += np.count_nonzero(answer.z)
    assert pressing > 5
