"""Constraint rows under engines without rows of their own: one step against a dense KKT system."""

import msgspec
import numpy as np
import pytest
from fast import every
from test_engines import DT, random_problems

from idyn.errors import InputError
from idyn.status import Status
from sim_harness.engines.bilateral import FASTEST, check_rows
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.scenes.scene_settings import BodySettings, ClosureSettings, SceneSettings, Shape
from sim_harness.world.worlds import ENGINES, build_scene

BILATERAL = sorted(set(ENGINES) - {"sap"})
"""`sap` has rows of its own, near rigid ones."""


def with_rows(problem, G, g, stops=None):
    rows = Rows(G=G, g=g, stops=np.zeros(len(g), dtype=bool) if stops is None else stops)
    return msgspec.structs.replace(problem, rows=rows)


def random_rows(rng, nv, m, size=1e-5):
    return rng.normal(size=(m, nv)), size * rng.normal(size=m)


def kkt_step(problem, p):
    """v⁺ and λ of the equality-constrained step under given contact impulses p (n, 3), by one dense system."""
    a = problem
    m, nv = a.rows.G.shape
    K = np.block([[a.M, -a.rows.G.T], [a.rows.G, np.zeros((m, m))]])
    right = np.concatenate([a.M @ a.v + a.dt * (a.force - a.h) + a.J.T @ p.ravel(), -a.rows.g / a.dt])
    x = np.linalg.lstsq(K, right, rcond=1e-12)[0]
    return x[:nv], x[nv:]


@every("engine", BILATERAL)
def test_rows_are_satisfied_and_the_motion_matches_the_kkt_system(engine):
    rng = np.random.default_rng(1)
    for problem in random_problems("quadruped", 40):
        G, g = random_rows(rng, 18, int(rng.integers(1, 5)))
        held = with_rows(problem, G, g)
        solution = ENGINES[engine]().solve(held)
        assert solution.status.ok
        v_plus, impulses = kkt_step(held, solution.p)
        np.testing.assert_allclose(G @ solution.v_plus, -g / DT, atol=1e-9)
        np.testing.assert_allclose(solution.v_plus, v_plus, atol=1e-8)
        np.testing.assert_allclose(solution.rows, impulses, atol=1e-8)
        balance = held.M @ (solution.v_plus - held.v) - held.J.T @ solution.p.ravel() - G.T @ solution.rows
        assert np.abs(balance - DT * (held.force - held.h)).max() < 1e-9
        assert solution.dynamics < 1e-9


@every("engine", BILATERAL)
def test_redundant_rows_change_nothing(engine):
    """Rows doubled, scaled and summed: the same motion and the same forces on the bodies."""
    rng = np.random.default_rng(2)
    for problem in random_problems("quadruped", 30):
        G, g = random_rows(rng, 18, 4)
        mix = rng.normal(size=(5, 4))
        few = ENGINES[engine]().solve(with_rows(problem, G, g))
        many = ENGINES[engine]().solve(with_rows(problem, np.vstack([G, 3 * G, mix @ G]), np.concatenate([g, 3 * g, mix @ g])))
        assert many.status.ok
        np.testing.assert_allclose(many.v_plus, few.v_plus, atol=1e-7)
        stacked = np.vstack([G, 3 * G, mix @ G])
        np.testing.assert_allclose(stacked.T @ many.rows, G.T @ few.rows, atol=1e-7)
        if engine != "newton":  # which shares the load among all of them
            assert np.abs(many.rows[4:]).max() == 0.0


@every("engine", BILATERAL)
def test_a_row_of_rounding_errors_has_no_force(engine):
    """The third row of a plane linkage: 1e-17 of the others' length, with a gap as small."""
    rng = np.random.default_rng(4)
    for problem in random_problems("quadruped", 10):
        G, g = random_rows(rng, 18, 4)
        few = ENGINES[engine]().solve(with_rows(problem, G, g))
        more = ENGINES[engine]().solve(
            with_rows(problem, np.vstack([G, 1e-17 * rng.normal(size=(1, 18))]), np.append(g, 1e-17))
        )
        assert more.status.ok
        np.testing.assert_allclose(more.v_plus, few.v_plus, atol=1e-9)
        assert more.rows[4] == 0.0


@every("engine", BILATERAL)
def test_rows_on_all_degrees_of_freedom_stop_the_motion(engine):
    rng = np.random.default_rng(3)
    for problem in random_problems("quadruped", 6):
        above = msgspec.structs.replace(problem, gaps=np.abs(problem.gaps) + 1e-6)
        solution = ENGINES[engine]().solve(with_rows(above, rng.normal(size=(25, 18)), np.zeros(25)))
        assert solution.status.ok
        np.testing.assert_allclose(solution.v_plus, 0, atol=1e-9)


@every("engine", sorted(set(BILATERAL) - {"penalty", "first-order"}))
def test_rows_that_hold_a_body_inside_another_are_reported(engine):
    problem = next(random_problems("quadruped", 1))
    inside = msgspec.structs.replace(problem, gaps=np.full(len(problem.mu), -1e-3))
    assert not ENGINES[engine]().solve(with_rows(inside, np.eye(18), np.zeros(18))).status.ok


@every("engine", BILATERAL)
def test_contradictory_rows_are_not_solved(engine):
    rng = np.random.default_rng(4)
    problem = next(random_problems("quadruped", 1))
    G, _ = random_rows(rng, 18, 2)
    twice = with_rows(problem, np.vstack([G, G[0]]), np.array([0.0, 0.0, 0.1]))
    assert ENGINES[engine]().solve(twice).status is Status.NOT_CERTIFIED
    with pytest.raises(InputError, match=r"rows\[2\]: expected a row .* one that contradicts them by 0.1 m"):
        check_rows(problem.M, twice.rows)
    check_rows(problem.M, with_rows(problem, np.vstack([G, G[0]]), np.array([0.1, 0.0, 0.1])).rows)


def test_rows_of_a_wrong_shape_are_refused():
    with pytest.raises(InputError, match=r"rows: expected finite G \(2, 18\)"):
        check_rows(np.eye(18), Rows(G=np.zeros((2, 17)), g=np.zeros(2), stops=np.zeros(2, dtype=bool)))
    with pytest.raises(InputError, match="rows: expected finite G"):
        check_rows(np.eye(3), Rows(G=np.zeros((2, 3)), g=np.array([0, np.nan]), stops=np.zeros(2, dtype=bool)))


@every("engine", BILATERAL)
def test_a_non_finite_row_is_reported(engine):
    problem = next(random_problems("quadruped", 1))
    for G, g in ((np.ones((1, 18)), [np.nan]), (np.full((1, 18), np.nan), [0.0])):
        assert not ENGINES[engine]().solve(with_rows(problem, G, np.array(g))).status.ok


@every("engine", BILATERAL)
def test_a_wide_gap_closes_at_a_bounded_speed(engine):
    problem = next(random_problems("quadruped", 1))
    solution = ENGINES[engine]().solve(with_rows(problem, np.eye(18)[:1], np.array([0.1])))
    assert solution.v_plus[0] == pytest.approx(-FASTEST)


def swing(engine, g, speed=-0.3):
    """A mass of 2 kg on a line that may not go below g, and one closure that holds its neighbour."""
    return ENGINES[engine]().solve(
        ForwardProblem(
            M=np.diag([2.0, 3.0]),
            h=np.zeros(2),
            v=np.array([speed, 0.5]),
            J=np.zeros((0, 2)),
            force=np.zeros(2),
            mu=np.zeros(0),
            gaps=np.zeros(0),
            dt=DT,
            rows=Rows(G=np.eye(2), g=np.array([g, 0.0]), stops=np.array([True, False])),
        )
    )


@every("engine", BILATERAL)
def test_a_stop_pushes_one_way_only(engine):
    away = swing(engine, 0.0, speed=0.3)
    assert away.status.ok
    np.testing.assert_allclose(away.v_plus, [0.3, 0.0], atol=1e-12)
    np.testing.assert_allclose(away.rows, [0.0, -1.5], atol=1e-12)
    far = swing(engine, 0.001)
    np.testing.assert_allclose(far.v_plus, [-0.3, 0.0], atol=1e-12)
    assert far.p.shape == (0, 3)


@every("engine", sorted(set(BILATERAL) - {"penalty", "first-order"}))
def test_a_rigid_stop_stops(engine):
    at = swing(engine, 0.0)
    np.testing.assert_allclose(at.v_plus, 0.0, atol=1e-12)
    np.testing.assert_allclose(at.rows, [0.6, -1.5], atol=1e-12)
    assert swing(engine, 1e-4).v_plus[0] == pytest.approx(-0.1)  # what is left of the way


def test_a_yielding_stop_is_a_spring():
    """With the engine's own kp and kv, at the end of the step."""
    at = swing("penalty", -0.001)
    engine = ENGINES["penalty"]()
    force = -engine.kp * (-0.001 + DT * at.v_plus[0]) - engine.kv * at.v_plus[0]
    assert at.rows[0] == pytest.approx(DT * force, rel=1e-9)
    assert 2.0 * (at.v_plus[0] + 0.3) == pytest.approx(at.rows[0], rel=1e-9)


def test_a_scene_with_contradictory_closures_is_refused():
    """A block welded to the world and pinned to it elsewhere: open by half a turn, no first-order step closes both."""
    block = BodySettings(name="block", shape=Shape(box=(0.1, 0.1, 0.1)), mass=1.0)
    pins = tuple(ClosureSettings(kind="pin", bodies=("block", ""), at=at) for at in ((0.05, 0.0, 0.0), (0.0, 0.05, 0.0)))
    weld = ClosureSettings(kind="weld", bodies=("block", ""), at=(0.0, 0.0, 0.0))
    scene = SceneSettings(about="held", body=(block,), engines=("lcp",), dt=DT, duration=0.1, closure=(weld, *pins))
    world = build_scene(scene, ENGINES["lcp"]())
    for _ in range(20):
        assert world.step().solution.status.ok
    assert np.abs(world.state.v).max() < 1e-9
    q = world.bodies.robot.integrate(world.state.q, np.array([0, 0, 0, 0, 0, 1.5]))
    with pytest.raises(InputError, match=r"rows\[\d+\]: expected a row .* one that contradicts them"):
        world.reset(q, np.zeros(6))
