"""Each engine over random states of two robots: its dynamics, its contact law, and an oracle that shares no code."""

import numpy as np
import pytest
from fast import every
from quantecon.optimize.lcp_lemke import lcp_lemke

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.status import Status
from sim_harness.engines.contact_space import contact_space
from sim_harness.engines.engine import ForwardProblem
from sim_harness.engines.lcp import PolygonLcp, polygon_lcp
from sim_harness.engines.penalty import Penalty
from sim_harness.world.world import contact_jacobian, generalised_force
from sim_harness.world.worlds import ENGINES, AnyEngine

DT = 1e-3


def random_problems(name, count, *, infinite=False):
    """States about the stance: feet up to 2 mm deep, moving, pushed by random torques; the exact stance among them."""
    robot, stance = load_robot(name)
    rng = np.random.default_rng(4)
    for k in range(count):
        q = robot.integrate(stance, 0.2 * (k % 3 > 0) * rng.normal(size=robot.nv))
        q[2] += 0.2
        q[2] -= contacts_from_geometry(robot, q, Flat(), margin=10).gaps.min() + 0.002 * (k % 2)
        v = 0.5 * (k % 4) * rng.normal(size=robot.nv)
        contacts = contacts_from_geometry(robot, q, Flat(), margin=10 if k % 5 == 0 else 0.01)
        terms = robot.terms(q, v)
        mu = rng.uniform(0.05, 1.5, len(contacts))
        if infinite and k % 4 == 0:
            mu[0] = np.inf
        if infinite and k % 5 == 0:
            mu[-1] = 0
        force = np.zeros(robot.nv)
        force[robot.tree.a] = 2 * rng.normal(size=robot.na)
        yield ForwardProblem(
            M=terms.M.copy(),
            h=terms.h.copy(),
            v=v,
            J=contact_jacobian(terms.axes, robot.tree.support, contacts),
            force=force,
            mu=mu,
            gaps=contacts.gaps,
            dt=DT,
        )


def check_dynamics(problem, solution):
    """Recomputed here from the definitions."""
    p = problem
    residual = p.M @ (solution.v_plus - p.v) - p.J.T @ solution.p.ravel() - DT * (p.force - p.h)
    assert np.abs(residual).max() < 1e-10
    assert solution.dynamics < 1e-10


@every("name", ["quadruped", "solo12"])
@every("edges", [4, 8])
def test_lcp_satisfies_contact_and_friction_conditions(name, edges):
    engine = PolygonLcp(edges=edges, recovery=0.1)
    for problem in random_problems(name, 300, infinite=True):
        solution = engine.solve(problem)
        check_dynamics(problem, solution)
        assert solution.status is Status.SOLVED
        assert solution.contact < 1e-9
        u = (problem.J @ solution.v_plus).reshape(-1, 3)
        normal, w = solution.p[:, 2], u[:, 2] + np.maximum(problem.gaps / DT, -0.1)
        friction, slip = np.linalg.norm(solution.p[:, :2], axis=1), np.linalg.norm(u[:, :2], axis=1)
        assert normal.min() >= -1e-12
        assert w.min() >= -1e-9
        assert np.abs(np.minimum(normal, w)).max() < 1e-9
        finite = np.isfinite(problem.mu)
        assert (friction[finite] <= problem.mu[finite] * normal[finite] + 1e-9).all()
        assert slip[~finite & (w < 1e-9)].max(initial=0) < 1e-9
        sliding = finite & (slip > 1e-6)
        bound = problem.mu[sliding] * normal[sliding] * np.cos(np.pi / edges)
        assert (friction[sliding] >= bound - 1e-9).all()
        work = (solution.p[:, :2] * u[:, :2]).sum(axis=1)[sliding]
        assert (work <= -bound * slip[sliding] + 1e-9).all()


@every("name", ["quadruped", "solo12"])
def test_lcp_agrees_with_an_independent_lemke(name):
    """Both answers solve the problem; their velocities agree wherever the oracle finds one at all."""
    compared = 0
    for problem in random_problems(name, 60):
        p = problem
        space = contact_space(p)
        A, r, contact, direction = polygon_lcp(space.D, space.b, p.mu, np.maximum(p.gaps / DT, -0.05), 4)
        oracle = lcp_lemke(A, r)
        if not oracle.success:
            continue
        compared += 1
        impulse = np.zeros((len(p.mu), 3))
        np.add.at(impulse, contact, oracle.z[:, None] * direction)
        v_oracle = space.v_free + np.linalg.solve(p.M, p.J.T @ impulse.ravel())
        np.testing.assert_allclose(PolygonLcp().solve(problem).v_plus, v_oracle, atol=1e-8)
    assert compared >= 40


def test_polygon_rows_match_their_definition():
    rng = np.random.default_rng(5)
    J = rng.normal(size=(6, 9))
    D, b, mu = J @ J.T, rng.normal(size=6), np.array([0.7, np.inf])
    c = np.array([0.1, -0.2])
    A, r, contact, direction = polygon_lcp(D, b, mu, c, 6)
    assert len(r) == 2 + 7 + 6
    B = np.zeros((len(r), 6))
    for row in range(len(r)):
        B[row, 3 * contact[row] : 3 * contact[row] + 3] = direction[row]
    expected = B @ D @ B.T
    expected[2:8, 8] += 1
    expected[8, 2:8] -= 1
    expected[8, 0] += 0.7
    np.testing.assert_allclose(A, expected, atol=1e-14)
    np.testing.assert_allclose(r, B @ b + np.r_[c, np.zeros(13)], atol=1e-14)


@every("name", ["quadruped", "solo12"])
def test_penalty_forces_follow_springs_and_dampers(name):
    engine = Penalty()
    solved, pressing, near = 0, 0, 0
    for problem in random_problems(name, 300):
        solution = engine.solve(problem)
        check_dynamics(problem, solution)
        if not solution.status.ok:
            assert solution.status is Status.NOT_CERTIFIED
            continue
        solved += 1
        u = (problem.J @ solution.v_plus).reshape(-1, 3)
        normal = np.maximum(0, -engine.kp * (problem.gaps + DT * u[:, 2]) - engine.kv * u[:, 2])
        apart = problem.gaps > 1e-9
        near += np.count_nonzero(normal[apart])  # where a damper that reached through the air would push
        normal[apart] = 0.0
        pressing += np.count_nonzero(normal)
        speed = np.sqrt(u[:, 0] ** 2 + u[:, 1] ** 2 + engine.slip_speed**2)
        force = np.column_stack([-(problem.mu * normal / speed)[:, None] * u[:, :2], normal])
        np.testing.assert_allclose(solution.p / DT, force, atol=1e-4 * max(1.0, force.max(initial=0)))
    assert solved >= 294
    assert pressing > 100
    assert near > 5


def test_penalty_contacts_sink_one_millimetre_at_rest(make_world, make_stand):
    world = make_world("penalty")
    stand = make_stand(world)
    for _ in range(1500):
        result = world.step(stand.torque(), DT)
        assert result.status.ok
    np.testing.assert_allclose(world.contacts.gaps, -1e-3, rtol=1e-3)
    assert result.normal_force.sum() == pytest.approx(47.088, rel=1e-5)
    assert np.abs(world.v).max() < 1e-5


@every("dt", [1e-3, 5e-3])
@every("kp", [1e3, 1e7])
def test_penalty_is_stable_at_any_stiffness(make_block, kp, dt):
    world = make_block("penalty", kp=kp, kv=0.0)
    q = world.q.copy()
    q[2] += 0.01
    world.reset(q)
    energy = world.robot.energy(world.q, world.v)
    for _ in range(600):
        world.step(np.zeros(0), dt)
        assert world.robot.energy(world.q, world.v) < energy + 1e-9
    assert np.abs(world.v).max() < 0.5


@every("engine", sorted(ENGINES))
def test_without_contacts_the_motion_is_free(engine):
    problem = next(random_problems("quadruped", 1))
    free = ForwardProblem(
        M=problem.M, h=problem.h, v=problem.v, J=np.zeros((0, 18)), force=problem.force, mu=np.zeros(0), gaps=np.zeros(0), dt=DT
    )
    solution = ENGINES[engine]().solve(free)
    expected = free.v + DT * np.linalg.solve(free.M, free.force - free.h)
    np.testing.assert_allclose(solution.v_plus, expected, atol=1e-12)
    assert solution.p.shape == (0, 3)
    assert solution.status.ok


@every("engine", sorted(ENGINES))
def test_a_singular_inertia_is_reported(engine):
    problem = next(random_problems("quadruped", 1))
    broken = ForwardProblem(
        M=np.zeros((18, 18)),
        h=problem.h,
        v=problem.v,
        J=problem.J,
        force=problem.force,
        mu=problem.mu,
        gaps=problem.gaps,
        dt=DT,
    )
    with np.errstate(all="ignore"):  # the kernels warn when they run interpreted
        assert ENGINES[engine]().solve(broken).status is Status.SINGULAR


@every("engine", sorted(ENGINES))
def test_a_non_finite_torque_is_reported(make_world, engine):
    world = make_world(engine)
    assert world.step(np.full(12, np.nan), DT).status is Status.NON_FINITE


def test_generalised_contact_forces_are_the_transposed_jacobian():
    """Jᵀ p of a contact equals the generalised force of the same impulse at the same point."""
    robot, q = load_robot("quadruped")
    rng = np.random.default_rng(6)
    q = robot.integrate(q, 0.1 * rng.normal(size=18))
    contacts = contacts_from_geometry(robot, q, Flat(), margin=10)
    axes = robot.terms(q, np.zeros(18)).axes
    J = contact_jacobian(axes, robot.tree.support, contacts)
    for i in range(4):
        force = rng.normal(size=3)
        frame = np.stack([contacts.tangents[i], np.cross(contacts.normals[i], contacts.tangents[i]), contacts.normals[i]])
        expected = J[3 * i : 3 * i + 3].T @ (frame @ force)
        actual = generalised_force(axes, robot.tree.support, contacts.bodies[i], contacts.points[i], force)
        np.testing.assert_allclose(actual, expected, atol=1e-14)


def test_contact_jacobian_is_the_derivative_of_the_foot_centres():
    robot, q = load_robot("quadruped")
    rng = np.random.default_rng(7)
    q = robot.integrate(q, 0.1 * rng.normal(size=18))
    contacts = contacts_from_geometry(robot, q, Flat(), margin=10)
    J = contact_jacobian(robot.terms(q, np.zeros(18)).axes, robot.tree.support, contacts)
    v = rng.normal(size=18)
    e = 1e-6
    after = contacts_from_geometry(robot, robot.integrate(q, e * v), Flat(), margin=10).gaps
    before = contacts_from_geometry(robot, robot.integrate(q, -e * v), Flat(), margin=10).gaps
    np.testing.assert_allclose(J[2::3] @ v, (after - before) / (2 * e), atol=1e-8)


def test_engines_are_built_by_name():
    assert parse({"kind": "lcp", "edges": 6}, AnyEngine, "engine") == PolygonLcp(edges=6)
    for wrong, named in (
        ("lpc", r"sim\.engine: no kind named 'lpc'.*lcp"),
        ({"kind": "lcp", "edges": 2}, r"sim\.engine\.edges"),
        ({"kind": "penalty", "slipspeed": 1e-4}, r"sim\.engine\.slipspeed: .*slip_speed"),
        ({"kind": "penalty", "edges": 4}, r"sim\.engine\.edges: no such setting of 'penalty'; it belongs to lcp, dissipation"),
    ):
        with pytest.raises(ConfigError, match=named):
            parse(wrong, AnyEngine, "sim.engine")
