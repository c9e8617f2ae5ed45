"""Each engine over random states: dynamics, contact law, energies, bilateral and compliant rows, stops, closed chains."""

import msgspec
import numpy as np
import pytest
from fast import every, every_row, fast, first_is_fast, full
from problems import DT, Body, check_dynamics, random_problems, solved, step_problem
from scipy.optimize import nnls
from stands import robot_world

from controllers.config.loading import parse
from idyn import ConfigError, Flat, InputError, Status, contacts_from_geometry, load_robot
from sim_harness.engines.bilateral import FASTEST
from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import CompliantEngine, Rows
from sim_harness.engines.first_order import FirstOrder
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.engines.no_slip import NoSlip
from sim_harness.engines.penalty import Penalty
from sim_harness.engines.sap import Sap
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.studies.scenes.load import engine_named, load_scene
from sim_harness.studies.scenes.scene import check_rows
from sim_harness.studies.scenes.scene_settings import BodySettings, ClosureSettings, SceneSettings, Shape
from sim_harness.studies.scenes.world import FoldingEngine, build_scene, with_compliance
from sim_harness.world.bodies import MovedBodies, RobotBodies
from sim_harness.world.world import contact_jacobian, generalised_force
from sim_harness.world.worlds import ENGINES, AnyEngine

WEIGHT = 9.81
BOUNCING = (PolygonLcp, Dissipation, NoSlip, Newton)
M, K, TAU = 2.0, 5e3, 4e-3
SCENES = ["four-bar", "dual-arm", "weighing-scale", "grasp-lift", "cube-on-corners", "pendulum-soft-stop"]
G = 9.81


BILATERAL = sorted(set(ENGINES) - {"sap"})  # `sap` has rows of its own, near rigid ones


@every("name", ["quadruped", "solo12"])
@every("edges", first_is_fast([4, 8]))
def test_lcp_satisfies_contact_and_friction_conditions(name, edges):
    engine = PolygonLcp(edges=edges, recovery=0.1)
    for problem in random_problems(name, 300, infinite=True):
        solution, u, w = solved(engine, problem, 0.1)
        normal = solution.p[:, 2]
        friction, slip = np.linalg.norm(solution.p[:, :2], axis=1), np.linalg.norm(u[:, :2], axis=1)
        assert normal.min() >= -1e-12
        finite = np.isfinite(problem.mu)
        assert (friction[finite] <= problem.mu[finite] * normal[finite] + 1e-9).all()
        assert slip[~finite & (w < 1e-9)].max(initial=0) < 1e-9
        sliding = finite & (slip > 1e-6)
        bound = problem.mu[sliding] * normal[sliding] * np.cos(np.pi / edges)
        assert (friction[sliding] >= bound - 1e-9).all()
        work = (solution.p[:, :2] * u[:, :2]).sum(axis=1)[sliding]
        assert (work <= -bound * slip[sliding] + 1e-9).all()


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


@every("engine", sorted(ENGINES))
def test_without_contacts_the_motion_is_free(engine):
    problem = next(random_problems("quadruped", 1))
    free = msgspec.structs.replace(problem, J=np.zeros((0, 18)), mu=np.zeros(0), gaps=np.zeros(0))
    solution = ENGINES[engine]().solve(free)
    expected = free.v + DT * np.linalg.solve(free.M, free.force - free.h)
    np.testing.assert_allclose(solution.v_plus, expected, atol=1e-12)
    assert solution.p.shape == (0, 3)
    assert solution.status.ok


@every("engine", sorted(ENGINES))
def test_equal_problems_give_identical_results(engine):
    for problem in random_problems("quadruped", 20):
        one, two = ENGINES[engine]().solve(problem), ENGINES[engine]().solve(problem)
        assert (one.v_plus.tobytes(), one.p.tobytes()) == (two.v_plus.tobytes(), two.p.tobytes())


@every("engine", sorted(ENGINES))
def test_a_singular_inertia_and_a_non_finite_torque_are_reported(engine):
    problem = next(random_problems("quadruped", 1))
    broken = msgspec.structs.replace(problem, M=np.zeros((18, 18)))
    with np.errstate(all="ignore"):  # the kernels warn when they run interpreted
        assert ENGINES[engine]().solve(broken).status is Status.SINGULAR
    world = robot_world(engine)
    assert world.step(np.full(12, np.nan), DT).status is Status.NON_FINITE


def test_the_contact_jacobian_maps_forces():
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


def test_engines_are_built_by_name_and_settings_of_others_are_named():
    assert parse({"kind": "lcp", "edges": 6}, AnyEngine, "engine") == PolygonLcp(edges=6)
    for name, engine in ENGINES.items():
        assert parse(name, AnyEngine, "engine") == engine(), name
    with pytest.raises(ConfigError, match=r"sim\.engine: no kind named 'lpc'.*lcp"):
        parse("lpc", AnyEngine, "sim.engine")
    with pytest.raises(ConfigError, match=r"sim\.engine\.slipspeed: .*slip_speed"):
        parse({"kind": "penalty", "slipspeed": 1e-4}, AnyEngine, "sim.engine")
    with pytest.raises(ConfigError, match=r"sim\.engine\.edges: no such setting of 'penalty'; it belongs to lcp, dissipation"):
        parse({"kind": "penalty", "edges": 4}, AnyEngine, "sim.engine")


NAN = float("nan")
BOUNCE = {"restitution": (-0.1, 1.1, NAN)}
WRONG = {  # engine, setting, values that it cannot have
    "lcp": BOUNCE | {"edges": (2,)},
    "no-slip": BOUNCE,
    "dissipation": BOUNCE,
    "viscous": {"coefficient": (-0.1,)},
    "newton": BOUNCE
    | {"damping": (0.0, 1.5), "regularisation": (-1e-6,), "tolerance": (0.0,), "recovery": (-1.0, NAN), "edges": (4,)}
    | {"max_iterations": (0,), "linear_iterations": (0,), "solver": ("qr",), "function": ("mixed",)}
    | {"preconditioner": ("global",)},
    "sap": {"stiffness": (-1.0, NAN), "dissipation": (-1e-3,), "sigma": (0.0,), "tolerance": (1.0,)}
    | {"scheme": ("trapezoid",), "candidates": ("all",), "kp": (1.0,)},
    "first-order": {"stiffness": (0.0,), "dissipation": (-1e-3,), "tangential": (NAN,), "normal_weight": (-1.0,)}
    | {"tolerance": (1.0,), "friction": ("pyramid",), "candidates": ("all",), "kp": (1.0,)},
}


@every_row(*[(kind, field, value) for kind, fields in WRONG.items() for field in fields for value in fields[field]])
def test_invalid_settings_are_refused_by_name(kind, field, value):
    with pytest.raises(ConfigError) as caught:
        parse({"kind": kind, field: value}, AnyEngine, "sim.engine")
    assert caught.value.path == f"sim.engine.{field}"


def resting(dt=1e-3, away=3.0, **rows):
    """1 kg at rest on the ground, pushed with 1 N, and an unconnected wheel with a stop at this distance [rad]."""
    J, G = np.eye(3, 4), np.eye(4)[3:]
    rows = Rows(G=G, g=np.array([away]), stops=np.array([True]), **rows)
    return step_problem(np.eye(4), J, 0.5, dt, h=[0.0, 0.0, WEIGHT, 0.0], force=[1.0, 0.0, 0.0, 0.0], rows=rows)


@every("engine", ENGINES)
@every("field", ["J", "v", "h", "force", "gaps", "mu"])
@every("value", [np.nan, -np.inf])
def test_non_finite_problems_are_never_solved(engine, field, value):
    problem = resting()
    broken = getattr(problem, field).copy()
    broken.flat[-1] = value
    solution = ENGINES[engine]().solve(msgspec.structs.replace(problem, **{field: broken}))
    assert not solution.status.ok


@every("engine", [Newton(), FirstOrder(stiffness=np.inf)])
@every("dt", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
@every("away", [0.01, 3.0, 50.0])
def test_distant_stops_do_not_reduce_accuracy(engine, dt, away):
    """A stop 3 rad away at 1 ms does not count as 3000 rad/s: the contact beside it bears its weight."""
    solution = engine.solve(resting(dt, away))
    assert solution.status.ok
    np.testing.assert_allclose(solution.p[0] / dt, [-1.0, 0.0, WEIGHT], atol=1e-3)


@every("engine", [Newton(), FirstOrder(), FirstOrder(dissipation=0.5, stiffness=np.inf)])
def test_a_rigid_row_has_no_damping(engine):
    """τ_d belongs to compliant rows: it does not change a rigid stop."""
    arriving = resting(away=0.1)
    arriving = msgspec.structs.replace(arriving, v=np.array([0.0, 0.0, 0.0, 1.0]))
    told = msgspec.structs.replace(arriving.rows, compliance=np.zeros(1), dissipation=np.array([0.5]))
    for problem in (arriving, msgspec.structs.replace(arriving, rows=told)):
        assert engine.solve(problem).v_plus[3] == pytest.approx(1.0, abs=1e-12)


def point(speed, gap, slip=1.0):
    """A point of 2 kg that moves down onto the floor without gravity, and along it at `slip` [m/s]."""
    return step_problem(2.0 * np.eye(3), np.eye(3), 0.1, v=[slip, 0.0, -speed], gaps=[gap])


@every("engine", BOUNCING)
def test_an_impact_is_reversed_by_the_coefficient(engine):
    slip = 0.0 if engine is Dissipation else 1.0  # its sliding contacts open faster: the modelling error of its docstring
    solution = engine(restitution=0.4).solve(point(speed=2.0, gap=1e-3, slip=slip))
    assert solution.status.ok
    assert solution.v_plus[2] == pytest.approx(0.8, rel=1e-6)
    assert solution.p[0, 2] == pytest.approx(2.0 * 2.8, rel=1e-6)
    friction = {NoSlip: -2.0, Dissipation: 0.0}.get(engine, -0.1 * 2.0 * 2.8)
    assert solution.p[0, 0] == pytest.approx(friction, rel=1e-3, abs=1e-9)


@every("engine", BOUNCING)
@every(("speed", "gap"), [(2.0, 0.01), (0.01, 0.0), (-1.0, 0.0)])
def test_far_slow_and_opening_contacts_do_not_bounce(engine, speed, gap):
    bouncing, plain = (each.solve(point(speed, gap)) for each in (engine(restitution=0.4), engine()))
    np.testing.assert_array_equal(bouncing.v_plus, plain.v_plus)


def pyramid_rows(mu):
    """|p_S| + |p_T| ≤ μ p_N and p_N ≥ 0 of one contact as rows ≥ 0, written down corner by corner."""
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    return np.array([[0, 0, 1], *([-s, -t, mu] for s, t in signs)] if np.isfinite(mu) else [[0, 0, 1]], dtype=float)


@every("name", ["quadruped", "solo12"])
def test_no_admissible_impulse_leaves_less_energy(name):
    """The convex energy's gradient, J v⁺ with the gap speeds, is a non-negative sum of the active constraints' normals."""
    engine = Dissipation(recovery=0.1)
    for problem in random_problems(name, 200, infinite=True):
        solution = engine.solve(problem)
        check_dynamics(problem, solution)
        assert solution.status is Status.SOLVED
        assert solution.contact < 1e-10
        n, p = len(problem.mu), solution.p.ravel()
        u = problem.J @ solution.v_plus
        D = problem.J @ np.linalg.solve(problem.M, problem.J.T)
        u[2::3] += np.maximum(problem.gaps / DT, -0.1)
        slack = u[2::3]
        normals = [D[3 * i + 2] for i in np.flatnonzero(slack < 1e-9)]
        assert slack.min(initial=0) > -1e-9
        for i in range(n):
            rows = np.zeros((len(pyramid_rows(problem.mu[i])), 3 * n))
            rows[:, 3 * i : 3 * i + 3] = pyramid_rows(problem.mu[i])
            assert (rows @ p).min() > -1e-10
            normals += list(rows[rows @ p < 1e-10])
        _, distance = nnls(np.array(normals).reshape(-1, 3 * n).T, u)
        assert distance < 1e-7


@full
@pytest.mark.parametrize(("law", "kind"), [("cone", "sway"), ("cone", "squat"), ("convex", "sway")])
def test_cone_complementarity_predicts_dissipation(law, kind):
    """`cone` and `dissipation` solve one another. `convex` prescribes joints, where the engine has torques."""
    least, most = (0.0, 1e-6) if law == "cone" else (1e-9, 0.015)
    plan = load_plan("stand", 1.5)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, engine=Dissipation()))
    changes = {"law": law, "reference": {"kind": kind, "start": 0.2, "ramp": 0.3}}
    summary = run_in_process(with_controller(plan, changes), law, lambda *_: None).summary
    assert summary.upright
    assert summary.modes == {"ok": 1.0}
    assert least <= summary.force_error_relative < most


def with_rows(problem, G, g, stops=None):
    rows = Rows(G=G, g=g, stops=np.zeros(len(g), dtype=bool) if stops is None else stops)
    return msgspec.structs.replace(problem, rows=rows)


def random_rows(rng, nv, m, size=1e-5):
    return rng.normal(size=(m, nv)), size * rng.normal(size=m)


def kkt_step(a, p):
    """v⁺ and λ of the equality-constrained step under given contact impulses p (n, 3), by one dense system."""
    K = np.block([[a.M, -a.rows.G.T], [a.rows.G, np.zeros((len(a.rows.g),) * 2)]])
    right = np.concatenate([a.M @ a.v + a.dt * (a.force - a.h) + a.J.T @ p.ravel(), -a.rows.g / a.dt])
    return np.split(np.linalg.lstsq(K, right, rcond=1e-12)[0], [len(a.v)])


@every("engine", first_is_fast(BILATERAL, 2))
def test_rows_are_satisfied_as_the_kkt_system_says_and_redundant_ones_change_nothing(engine):
    """Rows doubled, scaled and summed: the same motion and the same forces on the bodies."""
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
def test_a_row_of_rounding_errors_has_no_force_and_rows_on_all_degrees_of_freedom_stop(engine):
    """The third row of a plane linkage: 1e-17 of the others' length, with a gap as small."""
    rng = np.random.default_rng(4)
    for problem in random_problems("quadruped", 10):
        G, g = random_rows(rng, 18, 4)
        few = ENGINES[engine]().solve(with_rows(problem, G, g))
        rounding = np.vstack([G, 1e-17 * rng.normal(size=(1, 18))])
        more = ENGINES[engine]().solve(with_rows(problem, rounding, np.append(g, 1e-17)))
        assert more.status.ok
        np.testing.assert_allclose(more.v_plus, few.v_plus, atol=1e-9)
        assert more.rows[4] == 0.0
    rng = np.random.default_rng(3)
    for problem in random_problems("quadruped", 6):
        above = msgspec.structs.replace(problem, gaps=np.abs(problem.gaps) + 1e-6)
        solution = ENGINES[engine]().solve(with_rows(above, rng.normal(size=(25, 18)), np.zeros(25)))
        assert solution.status.ok
        np.testing.assert_allclose(solution.v_plus, 0, atol=1e-9)


@every("engine", sorted(set(BILATERAL) - {"penalty", "first-order"}))
def test_rigid_stops_stop_and_rows_that_hold_a_body_inside_another_are_reported(engine):
    problem = next(random_problems("quadruped", 1))
    inside = msgspec.structs.replace(problem, gaps=np.full(len(problem.mu), -1e-3))
    assert not ENGINES[engine]().solve(with_rows(inside, np.eye(18), np.zeros(18))).status.ok
    at = swing(engine, 0.0)
    np.testing.assert_allclose(at.v_plus, 0.0, atol=1e-12)
    np.testing.assert_allclose(at.rows, [0.6, -1.5], atol=1e-12)
    assert swing(engine, 1e-4).v_plus[0] == pytest.approx(-0.1)  # what is left of the way


@every("engine", first_is_fast(BILATERAL, 2))
def test_contradictory_and_non_finite_rows_are_not_solved(engine):
    rng = np.random.default_rng(4)
    problem = next(random_problems("quadruped", 1))
    G, _ = random_rows(rng, 18, 2)
    twice = with_rows(problem, np.vstack([G, G[0]]), np.array([0.0, 0.0, 0.1]))
    assert ENGINES[engine]().solve(twice).status is Status.NOT_CERTIFIED
    with pytest.raises(InputError, match=r"rows\[2\]: expected a row .* one that contradicts them by 0.1 m"):
        check_rows(problem.M, twice.rows)
    check_rows(problem.M, with_rows(problem, np.vstack([G, G[0]]), np.array([0.1, 0.0, 0.1])).rows)
    problem = next(random_problems("quadruped", 1))
    for G, g in ((np.ones((1, 18)), [np.nan]), (np.full((1, 18), np.nan), [0.0])):
        assert not ENGINES[engine]().solve(with_rows(problem, G, np.array(g))).status.ok


def test_rows_of_a_wrong_shape_are_refused():
    with pytest.raises(InputError, match=r"rows: expected finite G \(2, 18\)"):
        check_rows(np.eye(18), Rows(G=np.zeros((2, 17)), g=np.zeros(2), stops=np.zeros(2, dtype=bool)))
    with pytest.raises(InputError, match="rows: expected finite G"):
        check_rows(np.eye(3), Rows(G=np.zeros((2, 3)), g=np.array([0, np.nan]), stops=np.zeros(2, dtype=bool)))


@every("engine", BILATERAL)
def test_a_wide_gap_closes_at_a_bounded_speed_and_a_stop_pushes_one_way(engine):
    problem = next(random_problems("quadruped", 1))
    solution = ENGINES[engine]().solve(with_rows(problem, np.eye(18)[:1], np.array([0.1])))
    assert solution.v_plus[0] == pytest.approx(-FASTEST)
    away = swing(engine, 0.0, speed=0.3)
    assert away.status.ok
    np.testing.assert_allclose(away.v_plus, [0.3, 0.0], atol=1e-12)
    np.testing.assert_allclose(away.rows, [0.0, -1.5], atol=1e-12)
    far = swing(engine, 0.001)
    np.testing.assert_allclose(far.v_plus, [-0.3, 0.0], atol=1e-12)
    assert far.p.shape == (0, 3)


def swing(engine, g, speed=-0.3):
    """A mass of 2 kg on a line that may not go below g, and one closure that holds its neighbour."""
    rows = Rows(G=np.eye(2), g=np.array([g, 0.0]), stops=np.array([True, False]))
    return ENGINES[engine]().solve(step_problem(np.diag([2.0, 3.0]), v=[speed, 0.5], rows=rows))


def test_a_yielding_stop_is_a_spring():
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


def weight_on_a_row(stop, g=0.0, v=0.0, compliance=1 / K, dissipation=TAU):
    """A mass under gravity that a row supports, and a second one that slides on the ground."""
    body = Body(np.diag([M, 1.0, 1.0, 1.0]), np.array([M * G, 0, 0, G]), np.eye(4)[1:], lambda q: q[3:], 0.5)
    body.v = np.array([v, 1.0, 0.0, 0.0])
    yielding = {"compliance": np.array([compliance]), "dissipation": np.array([dissipation])}
    rows = Rows(G=np.eye(4)[:1], g=np.array([g]), stops=np.array([stop]), **yielding)
    return msgspec.structs.replace(body.problem(DT), rows=rows, system=None)


@every("name", ENGINES)
@every(("stop", "g", "v"), [(False, -0.02, 0.3), (False, 0.02, 0.3), (True, -0.02, 0.3), (True, 1e-4, -0.4), (True, 1e-4, 0.4)])
def test_a_compliant_row_is_an_implicit_spring(name, stop, g, v):
    engine = with_compliance(parse(name, AnyEngine, "engine"))
    solution = engine.solve(weight_on_a_row(stop, g, v))
    v_plus = (M * v - DT * M * G - DT * K * g) / (M + DT * K * (DT + TAU))  # M (v⁺ − v) = −dt M G + impulse
    impulse = -DT * K * (g + (DT + TAU) * v_plus)
    if stop and impulse < 0:
        v_plus, impulse = v - DT * G, 0.0
    assert solution.status.ok
    assert solution.v_plus[0] == pytest.approx(v_plus, abs=1e-9)
    assert solution.rows[0] == pytest.approx(impulse, abs=1e-8)
    alone = engine.solve(msgspec.structs.replace(weight_on_a_row(stop, g, v), rows=None))
    np.testing.assert_allclose(solution.p, alone.p, atol=1e-7)  # the other mass feels nothing of it


@every("name", ENGINES)
def test_row_impulses_keep_the_order_of_the_problem(name):
    problem = weight_on_a_row(stop=False)
    compliance = np.array([0.0, 1 / K, 0.0])
    rows = Rows(G=np.eye(4)[[3, 0, 1]], g=np.zeros(3), stops=np.array([True, False, False]), compliance=compliance)
    solution = with_compliance(parse(name, AnyEngine, "engine")).solve(msgspec.structs.replace(problem, rows=rows, system=None))
    residual = problem.M @ (solution.v_plus - problem.v) - problem.J.T @ solution.p.ravel() - rows.G.T @ solution.rows
    np.testing.assert_allclose(residual, -DT * problem.h, atol=1e-10)
    assert solution.rows[1] == pytest.approx(-DT * K * DT * solution.v_plus[0], rel=1e-6)
    assert abs(solution.v_plus[1]) < 0.03  # what slides is held at once, by sap but for β² / 4π² of it


@every("name", [name for name in ENGINES if not isinstance(parse(name, AnyEngine, ""), CompliantEngine)])
def test_an_engine_of_rigid_rows_refuses_others(name):
    with pytest.raises(InputError, match=r"rows\.compliance.*rigid"):
        parse(name, AnyEngine, "engine").solve(weight_on_a_row(stop=False))


def test_sap_handles_compliance_itself_and_without_it_results_are_identical():
    assert with_compliance(Sap()) == Sap()
    for stop in (False, True):
        problem = weight_on_a_row(stop, -0.01, 0.1)
        np.testing.assert_allclose(Sap().solve(problem).v_plus, FoldingEngine(engine=Sap()).solve(problem).v_plus, atol=1e-9)
    rows = Rows(G=np.eye(4)[:1], g=np.zeros(1), stops=np.ones(1, bool))
    rigid = msgspec.structs.replace(weight_on_a_row(stop=True), rows=rows)
    lcp = parse("lcp", AnyEngine, "engine")
    assert (with_compliance(lcp).solve(rigid).v_plus == lcp.solve(rigid).v_plus).all()


def test_stops_without_a_consistent_set_are_not_solved():
    class Restless:
        """An engine whose answer always contradicts."""

        def solve(self, problem):
            pressed = problem.M[0, 0] > M
            solution = Sap().solve(problem)
            return msgspec.structs.replace(solution, v_plus=np.full(4, 1.0 if pressed else -1.0))

    assert not FoldingEngine(engine=Restless()).solve(weight_on_a_row(stop=True)).status.ok


def slopes(values, nv, at, eps=1e-6):
    """How values(shift) change with the shift, by central differences (len, nv)."""
    return np.array([(values(at + eps * e) - values(at - eps * e)) / (2 * eps) for e in np.eye(nv)]).T


@pytest.mark.parametrize("name", fast(SCENES, *[name for name in SCENES if name != "dual-arm"]))
def test_rows_of_a_moved_scene_match_finite_differences(name):
    settings = load_scene(name)
    world = build_scene(settings, engine_named(settings, "sap"))
    for _ in range(5):
        problem = world.step().problem
    system, nv = problem.system, world.bodies.robot.nv
    rest = np.zeros(nv)
    if problem.rows is None:
        assert system.rows(rest) is None
    else:
        np.testing.assert_allclose(system.rows(rest).G, problem.rows.G, atol=1e-12)
        np.testing.assert_allclose(system.rows(rest).G, slopes(lambda s: system.rows(s).g, nv, rest), atol=1e-6)
    v = np.random.default_rng(0).normal(size=nv)
    moved = world.bodies.after(system.q, v, v, 0.1)
    assert np.abs(world.bodies.moved(system.q, 0.1 * v) - moved.q).max() == 0.0


def test_rows_of_a_moved_robot_match_finite_differences():
    world = robot_world()
    assert MovedBodies(bodies=world.bodies, q=world.q).rows(np.zeros(world.robot.nv)) is None
    legs, q = load_robot("fivebar")
    bodies = RobotBodies(legs, Flat(), q)
    closed = MovedBodies(bodies=bodies, q=q)
    still = np.zeros(legs.nv)
    np.testing.assert_allclose(closed.rows(still).G, slopes(lambda s: closed.rows(s).g, legs.nv, still), atol=1e-6)
