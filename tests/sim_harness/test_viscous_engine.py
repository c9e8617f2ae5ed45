"""The engine `viscous` at both levels: its conditions, an independent QP, and bodies with known answers."""

import msgspec
import numpy as np
import pytest
from conftest import block_world
from fast import every
from test_engines import DT, check_dynamics, random_problems
from test_no_slip_engine import block_problem

from controllers.config.loading import parse
from idyn.errors import ConfigError, InputError
from idyn.solvers.qp import solve_qp
from idyn.status import Status
from sim_harness.engines.viscous import Viscous
from sim_harness.world.worlds import AnyEngine

RECOVERY = 0.1


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


@every("solver", ["qp", "lemke"])
def test_the_solvers_agree_in_the_motion(solver):
    for problem in random_problems("quadruped", 100):
        expected, solution = Viscous().solve(problem), Viscous(solver=solver).solve(problem)
        assert solution.status.ok
        np.testing.assert_allclose(solution.v_plus, expected.v_plus, atol=1e-6)


@every("coefficient", [0.5, 20.0])
def test_a_block_that_slides_slows_down_exponentially(coefficient):
    """v(t) = v₀ e^(−4 μ t / m) on four corners; backward Euler to the last digit, the exponential to O(dt)."""
    world = block_world("viscous", coefficient=coefficient)
    world.reset(world.q, np.array([0.4, 0.1, 0, 0, 0, 0]))
    for _ in range(200):
        assert world.step(np.zeros(0), DT).status.ok
    np.testing.assert_allclose(world.v[:2], np.array([0.4, 0.1]) / (1 + DT * 4 * coefficient / 2) ** 200, rtol=1e-6)
    np.testing.assert_allclose(world.v[:2], np.array([0.4, 0.1]) * np.exp(-4 * coefficient / 2 * 0.2), rtol=0.2)


@every("name", ["quadruped", "solo12"])
def test_contact_never_adds_energy(name):
    """½ v⁺ᵀMv⁺ is at most that of free motion."""
    for problem in random_problems(name, 100):
        p = msgspec.structs.replace(problem, gaps=np.abs(problem.gaps))
        v_free = p.v + DT * np.linalg.solve(p.M, p.force - p.h)
        v_plus = Viscous(coefficient=3.0).solve(p).v_plus
        assert v_plus @ p.M @ v_plus <= v_free @ p.M @ v_free + 1e-12


@every("dt", [1e-3, 2e-2])
def test_energy_never_grows_at_any_coefficient(dt):
    for coefficient in (0.0, 1.0, 1e6):
        world = block_world("viscous", coefficient=coefficient)
        world.reset(world.q, np.array([0.4, 0.1, 0, 0, 0, 0]))
        energy = world.robot.energy(world.q, world.v)
        for _ in range(100):
            assert world.step(np.zeros(0), dt).status.ok
            assert world.robot.energy(world.q, world.v) <= energy + 1e-9
            energy = world.robot.energy(world.q, world.v)


def test_a_robot_on_viscous_ground_slides_without_error(make_world, make_stand):
    world = make_world("viscous")
    stand = make_stand(world)
    for _ in range(1500):
        assert world.step(stand.torque(), DT).status.ok
        assert np.isfinite(world.q).all()


def test_the_acceleration_level_matches_the_published_mlcp():
    """(29)–(32) by a QP in v̇: min ½ v̇ᵀMv̇ − f*ᵀv̇ with N v̇ + Ṅ v ≥ 0, for contacts that rest."""
    rng = np.random.default_rng(3)
    pressing = 0
    for problem in random_problems("quadruped", 80):
        n = len(problem.mu)
        N = problem.J[2::3]
        slide = np.linalg.svd(N)[2][n:].T if n else np.eye(18)
        bias = rng.normal(size=n)
        p = msgspec.structs.replace(problem, v=slide @ slide.T @ problem.v, gaps=np.zeros(n), bias=lambda bias=bias: bias)
        on = touching(p)
        T = p.J.reshape(-1, 3, 18)[on, :2].reshape(-1, 18)
        f = p.force - p.h - 5.0 * T.T @ T @ p.v
        scale = np.linalg.norm(p.M)
        answer = solve_qp(p.M / scale, -f / scale, N[on], -bias[on])
        solution = Viscous(coefficient=5.0, level="acceleration").solve(p)
        assert solution.status.ok
        check_dynamics(p, solution)
        np.testing.assert_allclose((solution.v_plus - p.v) / DT, answer.x, atol=1e-5 * max(1.0, np.abs(answer.x).max()))
        np.testing.assert_allclose(solution.p[:, :2], -DT * 5.0 * (p.J @ p.v).reshape(-1, 3)[:, :2] * on[:, None], atol=1e-12)
        pressing += np.count_nonzero(solution.p[:, 2])
    assert pressing > 50


def test_an_impact_at_the_acceleration_level_is_inelastic():
    problem = block_problem(block_world("viscous"), np.array([0, 0, -2 * 9.81]))
    falling = msgspec.structs.replace(problem, v=np.array([0, 0, -0.7, 0, 0, 0]), bias=lambda: np.zeros(4))
    solution = Viscous(level="acceleration").solve(falling)
    np.testing.assert_allclose(solution.v_plus, 0, atol=1e-12)
    assert solution.p[:, 2].sum() == pytest.approx(2 * (0.7 + 9.81 * DT))


def test_the_levels_differ_by_first_order_in_the_step():
    """One second of a block that slides and turns on the plane."""
    off = []
    for dt in (2e-3, 1e-3):
        ends = []
        for level in ("velocity", "acceleration"):
            world = block_world("viscous", coefficient=2.0, level=level)
            world.reset(world.q, np.array([0.4, 0.1, 0, 0, 0, 1.0]))
            for _ in range(round(0.5 / dt)):
                assert world.step(np.zeros(0), dt).status.ok
            ends.append(world.q)
        off.append(np.abs(ends[0] - ends[1]).max())
    assert off[0] < 5e-3
    assert off[1] == pytest.approx(off[0] / 2, rel=0.1)


def test_the_acceleration_level_requires_the_acceleration_bias():
    problem = block_problem(block_world("viscous"), np.zeros(3))
    with pytest.raises(InputError, match=r"bias: expected Ṅ v .*'viscous' needs at the acceleration level"):
        Viscous(level="acceleration").solve(problem)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ConfigError, match=r"sim\.engine\.coefficient"):
        parse({"kind": "viscous", "coefficient": -0.1}, AnyEngine, "sim.engine")
