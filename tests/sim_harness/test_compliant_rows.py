"""Compliant rows in every engine: the implicit step of a spring and damper; and rows and contacts at other configurations."""

import msgspec
import numpy as np
import pytest
from conftest import robot_world
from fast import every, fast
from sap_bodies import DT, Body, G

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.errors import InputError
from sim_harness.engines.engine import CompliantEngine, Rows
from sim_harness.engines.sap import Sap
from sim_harness.scenes.contacts import Geometry
from sim_harness.scenes.load import engine_named, load_scene
from sim_harness.world.bodies import MovedBodies, RobotBodies
from sim_harness.world.worlds import ENGINES, AnyEngine, FoldingEngine, build_scene, with_compliance

M, K, TAU = 2.0, 5e3, 4e-3


def weight_on_a_row(stop, g=0.0, v=0.0, compliance=1 / K, dissipation=TAU):
    """A mass under gravity that a row supports, and a second one that slides on the ground."""
    body = Body(np.diag([M, 1.0, 1.0, 1.0]), np.array([M * G, 0, 0, G]), np.eye(4)[1:], lambda q: q[3:], 0.5)
    body.v = np.array([v, 1.0, 0.0, 0.0])
    rows = Rows(
        G=np.eye(4)[:1],
        g=np.array([g]),
        stops=np.array([stop]),
        compliance=np.array([compliance]),
        dissipation=np.array([dissipation]),
    )
    return msgspec.structs.replace(body.problem(DT), rows=rows, system=None)


def spring_step(v, g):
    """v⁺ and impulse of the implicit step: M (v⁺ − v) = −dt M G − dt K (g + (dt + τ_d) v⁺)."""
    v_plus = (M * v - DT * M * G - DT * K * g) / (M + DT * K * (DT + TAU))
    return v_plus, -DT * K * (g + (DT + TAU) * v_plus)


@every("name", ENGINES)
@every(("stop", "g", "v"), [(False, -0.02, 0.3), (False, 0.02, 0.3), (True, -0.02, 0.3), (True, 1e-4, -0.4), (True, 1e-4, 0.4)])
def test_a_compliant_row_is_an_implicit_spring(name, stop, g, v):
    engine = with_compliance(parse(name, AnyEngine, "engine"))
    solution = engine.solve(weight_on_a_row(stop, g, v))
    v_plus, impulse = spring_step(v, g)
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
    rows = Rows(
        G=np.eye(4)[[3, 0, 1]], g=np.zeros(3), stops=np.array([True, False, False]), compliance=np.array([0.0, 1 / K, 0.0])
    )
    solution = with_compliance(parse(name, AnyEngine, "engine")).solve(msgspec.structs.replace(problem, rows=rows, system=None))
    residual = problem.M @ (solution.v_plus - problem.v) - problem.J.T @ solution.p.ravel() - rows.G.T @ solution.rows
    np.testing.assert_allclose(residual, -DT * problem.h, atol=1e-10)
    assert solution.rows[1] == pytest.approx(-DT * K * DT * solution.v_plus[0], rel=1e-6)
    assert abs(solution.v_plus[1]) < 0.03  # what slides is held at once, by sap but for β² / 4π² of it


@every("name", [name for name in ENGINES if not isinstance(parse(name, AnyEngine, ""), CompliantEngine)])
def test_an_engine_of_rigid_rows_refuses_others(name):
    with pytest.raises(InputError, match=r"rows\.compliance.*rigid"):
        parse(name, AnyEngine, "engine").solve(weight_on_a_row(stop=False))


def test_sap_handles_compliance_itself():
    assert with_compliance(Sap()) == Sap()
    for stop in (False, True):
        problem = weight_on_a_row(stop, -0.01, 0.1)
        np.testing.assert_allclose(Sap().solve(problem).v_plus, FoldingEngine(engine=Sap()).solve(problem).v_plus, atol=1e-9)


def test_stops_without_a_consistent_set_are_not_solved():
    class Restless:
        """An engine whose answer always contradicts."""

        def solve(self, problem):
            pressed = problem.M[0, 0] > M
            solution = Sap().solve(problem)
            return msgspec.structs.replace(solution, v_plus=np.full(4, 1.0 if pressed else -1.0))

    assert not FoldingEngine(engine=Restless()).solve(weight_on_a_row(stop=True)).status.ok


def test_without_compliance_the_result_is_identical():
    rigid = msgspec.structs.replace(
        weight_on_a_row(stop=True), rows=Rows(G=np.eye(4)[:1], g=np.zeros(1), stops=np.ones(1, bool))
    )
    lcp = parse("lcp", AnyEngine, "engine")
    assert (with_compliance(lcp).solve(rigid).v_plus == lcp.solve(rigid).v_plus).all()


def slopes(values, nv, at, eps=1e-6):
    """How values(shift) change with the shift, by central differences (len, nv)."""
    return np.array([(values(at + eps * e) - values(at - eps * e)) / (2 * eps) for e in np.eye(nv)]).T


SCENES = ["four-bar", "dual-arm", "weighing-scale", "grasp-lift", "cube-on-corners", "pendulum-soft-stop"]


@pytest.mark.parametrize("name", fast(SCENES, *[name for name in SCENES if name != "dual-arm"]))
def test_rows_and_contacts_of_a_moved_scene_match_finite_differences(name):
    settings = load_scene(name)
    world = build_scene(settings, engine_named(settings, "sap"))
    for _ in range(5):
        step = world.step()
    problem, system, nv = step.problem, step.problem.system, world.bodies.robot.nv
    rest = np.zeros(nv)
    J, gaps = system.contacts(rest)
    np.testing.assert_allclose(J, problem.J, atol=1e-12)
    np.testing.assert_allclose(gaps, problem.gaps, atol=1e-12)
    np.testing.assert_allclose(J[2::3], slopes(lambda s: system.contacts(s)[1], nv, rest), atol=1e-6)
    if problem.rows is None:
        assert system.rows(rest) is None
    else:
        np.testing.assert_allclose(system.rows(rest).G, problem.rows.G, atol=1e-12)
        np.testing.assert_allclose(system.rows(rest).G, slopes(lambda s: system.rows(s).g, nv, rest), atol=1e-6)
    v = np.random.default_rng(0).normal(size=nv)  # where a step leads, bodies turned: J is still along the axes at q
    moved = world.bodies.after(system.q, v, v, 0.1)
    there = world.bodies.terms(moved.q, moved.v)[2]
    assert np.abs(world.bodies.moved(system.q, 0.1 * v) - moved.q).max() == 0.0
    turned = system.contacts(0.1 * v)[0] @ v
    if (step.touching.pairs[:, 1] < 0).all():
        points = moved_points(world.bodies, step.touching, system.q, moved.q)
        plain = [
            point_velocity(there, world.bodies, i, p, moved.v) for i, p in zip(step.touching.pairs[:, 0], points, strict=True)
        ]
        normals = step.touching.contacts.normals
        np.testing.assert_allclose(turned[2::3], (np.array(plain).reshape(-1, 3) * normals).sum(axis=1), atol=1e-9)


@every("name", ["rolls", "sphere-column", "spring-cylinder"])
def test_contact_points_of_round_bodies_stay_below_their_centre(name):
    """Contacts at another configuration are those that geometry finds there, except for balls that roll around one another."""
    settings = load_scene(name)
    world = build_scene(settings, engine_named(settings, "lcp"))
    problem = world.step().problem
    model, shift = world.bodies, np.zeros(len(problem.v))
    shift[model.free.ravel()], shift[model.free.ravel() + 3] = 1e-4, 0.3 * (np.arange(model.free.size) % 3 == 1)
    at = model.moved(problem.system.q, shift)
    found = Geometry(model).touching(at).contacts
    _, gaps = problem.system.contacts(shift)
    ground = problem.system.touching.pairs[:, 1] < 0
    there = np.array([found.gaps[found.keys.index(key)] for key in problem.system.touching.contacts.keys])
    np.testing.assert_allclose(gaps[ground], there[ground], atol=1e-9)
    np.testing.assert_allclose(gaps, there, atol=1e-6)


def moved_points(model, touching, q, moved):
    """Where the contact points of the first bodies have gone (n, 3)."""
    body = touching.pairs[:, 0]
    (turns, centres), (there, ends) = (tuple(x.copy() for x in model.place(each)) for each in (q, moved))
    return [there[i] @ turns[i].T @ (p - centres[i]) + ends[i] for i, p in zip(body, touching.contacts.points, strict=True)]


def point_velocity(axes, model, body, point, v):
    twist = model.robot.tree.support[model.joints[body]] @ (axes * v[:, None])
    return twist[:3] + np.cross(twist[3:], point)


def test_rows_and_contacts_of_a_moved_robot_match_finite_differences():
    world = robot_world()
    robot, contacts = world.robot, world.contacts
    system = MovedBodies(bodies=world.bodies, q=world.q, touching=world.bodies.touching(world.q))
    rest = np.zeros(robot.nv)
    J, gaps = system.contacts(rest)
    np.testing.assert_allclose(gaps, contacts.gaps, atol=1e-15)
    np.testing.assert_allclose(J[2::3], slopes(lambda s: system.contacts(s)[1], robot.nv, rest), atol=1e-6)
    assert system.rows(rest) is None
    legs, q = load_robot("fivebar")
    bodies = RobotBodies(legs, Flat(), q)
    closed = MovedBodies(bodies=bodies, q=q, touching=bodies.touching(q))
    still = np.zeros(legs.nv)
    np.testing.assert_allclose(closed.rows(still).G, slopes(lambda s: closed.rows(s).g, legs.nv, still), atol=1e-6)


@every("name", ["lcp", "sap"])
@pytest.mark.parametrize("stiffness", fast([1e2, 1e6, 1e10, 1e12], 1e6))
def test_a_spring_row_yields_by_weight_over_stiffness(name, stiffness):
    engine = with_compliance(parse(name, AnyEngine, "engine"))
    g, v = 0.0, 0.0
    for _ in range(3000):
        v = engine.solve(weight_on_a_row(False, g, v, 1 / stiffness, 2 / np.sqrt(stiffness))).v_plus[0]
        g += DT * v
    assert -g == pytest.approx(M * G / stiffness, rel=1e-4, abs=1e-15)
