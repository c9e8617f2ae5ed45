"""Consistency of the demand: the projection against an independent QP, infeasible demands, and feasible ones, which stay."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, coulomb_error, dynamics
from fast import every
from oracles import eliminate, full, solve_qp
from scenes import (
    DT,
    LITERAL,
    each_walker,
    fingers_scene,
    predict_scene,
    random_scene,
    standing_scene,
)
from scipy.optimize import linprog

from idyn import Consistency, Options, Selection, Status
from idyn.prediction.feasible import EPSILON, project
from idyn.terms.dynamics import evaluate


def solve(scene, law, consistency=Consistency.PROJECT, ground=LITERAL):
    options = Options.paper(selection=Selection.OFF, consistency=consistency, ground=ground)
    return predict_scene(scene, law, options)


def projected(scene, sticking, touching=np.inf, closed=False):
    dynamics = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=LITERAL).dynamics
    return project(dynamics, scene.q_ddot, sticking, touching, closed=closed)


def nearest_velocity(scene, f, held, closed):
    """min ‖v_a − v_des‖² + ε‖v_u − v_u(t)‖²  s.t.  u_N ≥ −φ/dt; held: u_T = 0 and, if closed, u_N = −φ/dt."""
    weight = np.full(len(f.v), np.sqrt(EPSILON))
    weight[f.a] = 1
    target = f.v.copy()
    target[f.a] += DT * scene.q_ddot
    extra = allowance(scene.contacts.gaps, DT)
    equal = np.repeat(held, 3)
    equal[2::3] &= closed
    wanted = np.zeros(len(equal))
    wanted[2::3] = -extra
    above = ~(held & closed)
    J = f.J / weight
    x = solve_qp(
        np.eye(len(f.v)),
        np.zeros(len(f.v)),
        J[2::3][above],
        (wanted - f.at_end(target))[2::3][above],
        J[equal],
        (wanted - f.at_end(target))[equal],
    )
    return target + x / weight


@every("closed", [False, True])
@each_walker
def test_the_projection_is_the_nearest_feasible_motion(name, closed):
    for seed in range(60):
        scene = random_scene(name, seed)
        held = np.random.default_rng(seed).uniform(size=len(scene.contacts)) < 0.7
        f = full(scene.robot, scene.state, scene.contacts)
        q_ddot, change, status = projected(scene, held.astype(float), closed=closed)
        assert status is Status.SOLVED
        expected = nearest_velocity(scene, f, held, closed)[f.a]
        np.testing.assert_allclose(f.v[f.a] + DT * q_ddot, expected, atol=1e-9)
        assert change == pytest.approx(DT * np.abs(q_ddot - scene.q_ddot).max(), abs=1e-12)


def test_only_contacts_that_touch_are_held():
    scene = random_scene("solo12", 11, n=4, touching=0.5)
    touch = scene.contacts.gaps <= 1e-4
    assert 0 < touch.sum() < 4
    f = full(scene.robot, scene.state, scene.contacts)
    q_ddot, _, _ = projected(scene, np.ones(4), touching=1e-4)
    np.testing.assert_allclose(f.v[f.a] + DT * q_ddot, nearest_velocity(scene, f, touch, False)[f.a], atol=1e-9)
    q_ddot, _, _ = projected(scene, np.zeros(4))
    np.testing.assert_allclose(f.v[f.a] + DT * q_ddot, nearest_velocity(scene, f, np.zeros(4, bool), False)[f.a], atol=1e-9)


def farkas(f, q_ddot, extra):
    """y ≥ 0 with N_uᵀ y = 0 and yᵀ(b_N + φ/dt) = −1 (MATHEMATICS §4): proof that the demand forces penetration; or None."""
    _, b, _, _ = eliminate(f, q_ddot, DT)
    N_u, r = f.Ju[2::3], b[2::3] + extra
    found = linprog(np.zeros(len(r)), A_eq=np.vstack([N_u.T, r]), b_eq=np.r_[np.zeros(len(f.u)), -1.0], bounds=(0, None))
    return found.x if found.status == 0 else None


LAWS = ("no-slip", "coulomb", "exact-cone", "convex", "convex-infinite", "cone", "cone-infinite")


@every("law", LAWS)
def test_squeezing_fingers_are_an_impossible_demand(law):
    """Proof by certificate; without projection the law fails and reports it, with it the demand is changed."""
    scene = fingers_scene((10.0, -10.0))
    f = full(scene.robot, scene.state, scene.contacts)
    extra = allowance(scene.contacts.gaps, DT)
    y = farkas(f, scene.q_ddot, extra)
    assert y is not None
    assert y.min() > 0

    refused = solve(scene, law, Consistency.OFF)
    assert refused.rung == "last forces"
    assert refused.law == "contact-free"
    assert refused.status in (Status.RAY, Status.BACKEND_FAILED)
    assert np.isfinite(refused.tau).all()

    answer = solve(scene, law)
    assert (answer.law, answer.status) == (law, Status.SOLVED)
    assert answer.demand_change == pytest.approx(0.01, rel=1e-3)
    q_ddot = (answer.v_plus[f.a] - f.v[f.a]) / DT
    assert farkas(f, q_ddot, extra) is None
    np.testing.assert_allclose(q_ddot, 0, atol=1e-6)  # the middle between opposite demands
    assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-12


@every("law", LAWS)
@every("demand", [(5.0, 5.0), (-4.0, 9.0), (0.0, 0.0), (3.0, 7.0)])
def test_feasible_finger_demands_are_unchanged(law, demand):
    """Together, apart, and one running away from the other: there is no certificate against them."""
    scene = fingers_scene(demand)
    f = full(scene.robot, scene.state, scene.contacts)
    assert farkas(f, scene.q_ddot, allowance(scene.contacts.gaps, DT)) is None
    answer = solve(scene, law)
    assert (answer.law, answer.status, answer.demand_change) == (law, Status.SOLVED, 0)
    np.testing.assert_allclose(answer.v_plus[f.a], DT * np.array(demand), atol=1e-15)


def test_fingers_carry_the_box_by_friction():
    """Without pressure the box falls; squeezed beforehand (both fingers moving on together) friction may not exceed μ N."""
    scene = fingers_scene((5.0, 5.0))
    answer = solve(scene, "coulomb")
    f = full(scene.robot, scene.state, scene.contacts)
    assert coulomb_error(f, answer.p, answer.v_plus, scene.contacts.mu, np.zeros(2)) < 1e-12
    moved = 0.5 + 2e-3  # box and the rails that go along x with it
    assert answer.p[2] - answer.p[5] == pytest.approx(moved * 5.0 * DT, rel=1e-9)


def test_stick_and_hold_project_demands_that_drag_feet_apart():
    """A demand that spreads standing feet is projected before the first solve, whatever the law, and all feet then stay."""
    scene = standing_scene("solo12")
    q_ddot = 20 * np.random.default_rng(0).normal(size=12)
    scene = msgspec.structs.replace(scene, q_ddot=q_ddot)
    f = full(scene.robot, scene.state, scene.contacts)
    for law in ("no-slip", "coulomb"):
        for consistency in (Consistency.STICK, Consistency.HOLD):
            answer = solve(scene, law, consistency)
            assert answer.status.ok
            assert answer.demand_change > 1e-3
    answer = solve(scene, "no-slip", Consistency.HOLD)
    np.testing.assert_allclose(f.at_end(answer.v_plus), 0, atol=1e-9)
