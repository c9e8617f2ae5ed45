"""Each engine over random states of two robots: its dynamics, its contact law, energies, and oracles that share no code."""

import msgspec
import numpy as np
import pytest
from fast import every, full
from problems import DT, check_dynamics, random_problems, step_problem
from scipy.optimize import nnls

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.status import Status
from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import Rows
from sim_harness.engines.first_order import FirstOrder
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.engines.no_slip import NoSlip
from sim_harness.engines.penalty import Penalty
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.studies.newton_study import Scheme
from sim_harness.world.world import contact_jacobian, generalised_force
from sim_harness.world.worlds import ENGINES, AnyEngine


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
        assert one.v_plus.tobytes() == two.v_plus.tobytes()
        assert one.p.tobytes() == two.p.tobytes()


@every("engine", sorted(ENGINES))
def test_a_singular_inertia_and_a_non_finite_torque_are_reported(engine, make_world):
    problem = next(random_problems("quadruped", 1))
    broken = msgspec.structs.replace(problem, M=np.zeros((18, 18)))
    with np.errstate(all="ignore"):  # the kernels warn when they run interpreted
        assert ENGINES[engine]().solve(broken).status is Status.SINGULAR
    world = make_world(engine)
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
WRONG = {
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
"""Engine, setting, values that it cannot have."""


@every(
    ("kind", "field", "value"),
    [(kind, field, value) for kind, fields in WRONG.items() for field, values in fields.items() for value in values],
)
def test_invalid_settings_are_refused_by_name(kind, field, value):
    with pytest.raises(ConfigError) as caught:
        parse({"kind": kind, field: value}, AnyEngine, "sim.engine")
    assert caught.value.path == f"sim.engine.{field}"


WEIGHT = 9.81


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


@every("engine", [Newton(), Scheme(form="divided", damping=1.0), Scheme(), FirstOrder(stiffness=np.inf)])
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


BOUNCING = (PolygonLcp, Dissipation, NoSlip, Newton)


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
    """The energy's gradient, J v⁺ with the gap speeds, is a non-negative sum of the active constraints' normals: enough, as it
    is convex."""
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
@pytest.mark.parametrize(
    ("law", "kind", "least", "most"),
    [("cone", "sway", 0.0, 1e-6), ("cone", "squat", 0.0, 1e-6), ("convex", "sway", 1e-9, 0.015)],
)
def test_cone_complementarity_predicts_dissipation(law, kind, least, most):
    """`cone` and `dissipation` solve one another. `convex` prescribes joints, where the engine has torques."""
    plan = load_plan("stand", 1.5)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, engine=Dissipation()))
    changes = {"law": law, "reference": {"kind": kind, "start": 0.2, "ramp": 0.3}}
    summary = run_in_process(with_controller(plan, changes), law, lambda *_: None).summary
    assert summary.upright
    assert summary.modes == {"ok": 1.0}
    assert least <= summary.force_error_relative < most
