"""The engine `no-slip`: its conditions, an independent enumeration, a QP, and bodies with known answers."""

from itertools import product

import msgspec
import numpy as np
import pytest
from conftest import block_world
from fast import every, first_is_fast
from test_engines import DT, check_dynamics, random_problems

from idyn.solvers.qp import solve_qp
from idyn.status import Status
from sim_harness.engines.engine import ForwardProblem
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.no_slip import NoSlip
from sim_harness.scenes.load import load_scene
from sim_harness.world.world import contact_jacobian
from sim_harness.world.worlds import build_scene

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
    for problem in random_problems("quadruped", 150, infinite=True):
        expected, solution = NoSlip().solve(problem), NoSlip(solver=solver).solve(problem)
        assert solution.status.ok
        np.testing.assert_allclose(solution.v_plus, expected.v_plus, atol=1e-6)


@every("kind", ["quadruped", "solo12"])
def test_a_robot_stands_as_it_does_under_lcp_with_unlimited_friction(make_world, make_stand, kind):
    ends = []
    for engine in ("no-slip", "lcp"):
        world = make_world(engine, name=kind)
        world.bodies.mu = np.full(len(world.contacts), np.inf)
        stand = make_stand(world)
        for _ in range(300):
            result = world.step(stand.torque(), DT)
            assert result.status.ok
        assert result.normal_force.sum() == pytest.approx(world.robot.total_mass * 9.81, rel=1e-4)
        ends.append(world.q)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)


@every("angle", [0.2, 1.0])
def test_a_block_on_a_ramp_does_not_slide(angle):
    """At any slope until it tips over: gravity turned by the angle, 0.05 m above a base of ±0.2 m."""
    world = block_world("no-slip")
    problem = block_problem(world, 9.81 * 2 * np.array([np.sin(angle), 0, -np.cos(angle)]))
    solution = NoSlip().solve(problem)
    np.testing.assert_allclose(solution.v_plus, 0, atol=1e-12)
    np.testing.assert_allclose(solution.p.sum(axis=0)[2], 2 * 9.81 * np.cos(angle) * DT, rtol=1e-9)
    np.testing.assert_allclose(solution.p.sum(axis=0)[:2] @ along_x(problem), -2 * 9.81 * np.sin(angle) * DT, rtol=1e-9)
    assert (solution.p[solution.p[:, 2] <= 0, :2] == 0).all()  # friction where there is a normal force


def block_problem(world, force):
    """The block of 2 kg on its four corners, at rest, under a force [N] at its centre and no other."""
    terms = world.robot.terms(world.q, world.v)
    return ForwardProblem(
        M=terms.M.copy(),
        h=np.zeros(6),
        v=np.zeros(6),
        J=contact_jacobian(terms.axes, world.robot.tree.support, world.contacts),
        force=np.concatenate([force, np.zeros(3)]),
        mu=np.full(4, 0.5),
        gaps=np.zeros(4),
        dt=DT,
    )


def along_x(problem):
    """The world's x in the tangents of the first contact."""
    return problem.J[:2, 0]


def test_a_wall_does_not_hold_a_falling_block():
    """It touches without pressing: [D15] to the letter would hold it there."""
    problem = msgspec.structs.replace(
        block_problem(block_world("no-slip"), np.array([0, 0, 0.0])), force=np.array([2 * 9.81, 0, 0, 0, 0, 0])
    )
    solution = NoSlip().solve(problem)
    assert solution.v_plus[0] == pytest.approx(9.81 * DT)
    assert not solution.p.any()


def test_a_pressed_patch_does_not_spin():
    """Pushed down and twisted: the four corners hold, though two or three of them carry all."""
    problem = msgspec.structs.replace(
        block_problem(block_world("no-slip"), np.zeros(3)), force=np.array([0, 0, -5.0, 0, 0, 3.0])
    )
    solution = NoSlip().solve(problem)
    np.testing.assert_allclose(solution.v_plus, 0, atol=1e-12)


def test_a_lifting_contact_has_no_force():
    """A block thrown upwards and sideways off the ground, and one that tips about an edge."""
    problem = block_problem(block_world("no-slip"), np.array([0, 0, -2 * 9.81]))
    flying = NoSlip().solve(msgspec.structs.replace(problem, v=np.array([0.3, 0, 0.5, 0, 0, 0])))
    assert not flying.p.any()
    torque = 1.5 * 0.2 * 2 * 9.81
    tipping = NoSlip().solve(msgspec.structs.replace(problem, force=np.array([0, 0, -2 * 9.81, 0, torque, 0])))
    u, w = conditions(problem, tipping)
    assert np.count_nonzero(w > 1e-3) == 2
    assert np.abs(tipping.p[w > 1e-3]).max() == 0
    assert tipping.p[w <= 1e-3, 2].sum() > 0
    assert np.abs(u[w <= 1e-3]).max() < 1e-9
    inertia = 0.03 + 2 * (0.2**2 + 0.05**2)  # about the edge
    assert tipping.v_plus[4] == pytest.approx(DT * (torque - 0.2 * 2 * 9.81) / inertia)


@pytest.mark.parametrize("engine", first_is_fast([NoSlip(), NoSlip(solver="qp")]))
def test_energy_never_grows(engine):
    """A block thrown on the plane, spinning: kinetic and potential energy, gravity and impacts included."""
    rng = np.random.default_rng(7)
    for _ in range(3):
        world = block_world("no-slip")
        world.engine = engine
        q = world.q.copy()
        q[2] += 0.02
        world.reset(q, np.concatenate([rng.normal(size=2), [-0.5], rng.normal(size=3)]))
        energy = world.robot.energy(world.q, world.v)
        for _ in range(500):
            assert world.step(np.zeros(0), DT).status.ok
            now = world.robot.energy(world.q, world.v)
            assert now < energy + 2e-4  # first order: g dt v m in flight
            energy = min(now, energy)
        assert np.abs(world.v).max() < 1e-3


def test_the_motion_matches_the_lcp_engine_at_mu_100():
    """μ = 100 stands for infinite friction in the paper. Infinite friction may allow several motions: where the two differ,
    there are several."""
    agreed = 0
    for problem in random_problems("quadruped", 40):
        rest = msgspec.structs.replace(problem, v=np.zeros(18), gaps=np.abs(problem.gaps), mu=np.full(len(problem.mu), 100.0))
        coulomb, solution = PolygonLcp().solve(rest), NoSlip().solve(rest)
        if np.abs(coulomb.v_plus - solution.v_plus).max() < 1e-6:
            agreed += 1
        else:
            assert len(list(all_choices(rest))) != 1
    assert agreed > 30


@every("solver", ["ppm", "qp", "lemke"])
def test_a_grasp_on_36_contacts_holds(solver):
    """[D15 Fig. 1] at its step of 10 ms, a hundred steps with each solver: nothing falls."""
    world = build_scene(msgspec.structs.replace(load_scene("grasp-boxes"), dt=0.01), NoSlip(solver=solver))
    for _ in range(100):
        step = world.step()
        assert len(step.problem.mu) == 36
        assert step.solution.status.ok
    assert np.abs(world.state.v).max() < 1e-9
    pressing = step.solution.p[:, 2].sum() / 0.01
    assert pressing == pytest.approx(3 * 40.0, rel=1e-6)  # at each of three faces
