"""The no-slip law: its conditions over random states, and its velocity against a quadratic program in velocities."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, dynamics, no_slip_error
from fast import every
from oracles import eliminate, full, no_slip_is_possible, solve_qp
from scenes import DT, LITERAL, VARIANTS, each_walker, predict_scene, random_scene, standing_scene, turned, varied

from idyn import Consistency, Options, Selection, Status, make_law

LAW = make_law("no-slip")
OPTIONS = Options.paper(selection=Selection.OFF, ground=LITERAL)
TRIED = {name: VARIANTS[name] for name in ("few feet", "twelve points", "some frictionless")} | {"slabs": (4, (0.0, np.inf))}


def solve(scene, options=OPTIONS, **changes):
    return predict_scene(scene, LAW, options, **changes)


def answered(name, variant, count):
    """Scenes with the law's answers. Where it has none, no choice of held contacts has one: an independent program tries them
    all for the original demand."""
    without = 0
    for scene in varied(name, TRIED[variant], count):
        answer = solve(scene)
        if answer.status is Status.OTHER_LAW:
            without += 1
            f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
            D, b, _, _ = eliminate(f, scene.q_ddot, DT)
            b[2::3] += allowance(c.gaps, DT)
            assert len(c) > 4 or not no_slip_is_possible(D, b, c.mu)
            continue
        assert (answer.law, answer.status.name) == ("no-slip", "SOLVED")
        yield scene, answer
    assert without <= (0.1 if TRIED[variant][0] == 1 else 0.15) * count


def least_motion(f, answer, contacts):
    """min ½‖v_u − v_u⁰‖²_M  s.t.  u_N ≥ −φ/dt everywhere and u_T = 0 at the contacts that the answer holds; the joints
    as the answer has them. The no-slip law is the optimality condition of this program."""
    u, a = f.u, f.a
    q_ddot = (answer.v_plus[a] - f.v[a]) / DT
    free = eliminate(f, q_ddot, DT)[2]
    moving = f.at_end(answer.v_plus).reshape(-1, 3)
    held = (contacts.mu > 0) & (np.abs(moving[:, :2]).max(axis=1, initial=0) < 1e-9)
    rows = np.zeros(3 * len(contacts), dtype=bool)
    rows[::3] = rows[1::3] = held
    given, extra = f.Ja @ free[a] + f.drift, allowance(contacts.gaps, DT)
    M = f.M[np.ix_(u, u)]
    v_u = solve_qp(M, -M @ free[u], f.Ju[2::3], -extra - given[2::3], f.Ju[rows], -given[rows])
    v = free.copy()
    v[u] = v_u
    return v


@every("variant", TRIED)
@each_walker
def test_no_slip_satisfies_its_conditions_and_is_the_least_motion_that_holds_the_feet(name, variant):
    for scene, answer in answered(name, variant, 60):
        f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-8
        assert no_slip_error(f, answer.p, answer.v_plus, c.mu, allowance(c.gaps, DT)) < 1e-8
        assert np.abs(answer.v_plus[f.a] - f.v[f.a] - DT * scene.q_ddot).max() <= answer.demand_change + 1e-15
        np.testing.assert_allclose(answer.v_plus, least_motion(f, answer, c), atol=1e-8)


@each_walker
def test_the_tangent_basis_does_not_matter_for_standing_feet(name):
    """Any turn about the normals keeps v⁺, in a loaded stance with all feet on the ground."""
    rng = np.random.default_rng(0)
    options = msgspec.structs.replace(OPTIONS, consistency=Consistency.HOLD)
    for seed in range(60):
        scene = random_scene(name, seed, touching=1.0, n=4)
        scene = msgspec.structs.replace(scene, q_ddot=0.1 * scene.q_ddot)
        answer = solve(scene, options)
        other = solve(scene, options, contacts=turned(scene.contacts, rng.uniform(0, 2 * np.pi, 4)))
        np.testing.assert_allclose(other.v_plus, answer.v_plus, atol=1e-8)


def test_lifted_feet_swing_freely_and_standing_feet_hold():
    """One foot 2 mm up with its own demand, three feet loaded: the demand is unchanged."""
    scene = standing_scene("solo12")
    gaps, q_ddot = np.array([0.002, 0, 0, 0]), np.zeros(12)
    q_ddot[:3] = [5, -20, 30]
    answer = solve(scene, contacts=msgspec.structs.replace(scene.contacts, gaps=gaps), q_ddot=q_ddot)
    f = full(scene.robot, scene.state, scene.contacts)
    slip = np.linalg.norm(f.at_end(answer.v_plus).reshape(-1, 3)[:, :2], axis=1)
    assert answer.demand_change == 0
    assert slip[0] > 1e-3
    assert slip[1:].max() < 1e-9
    assert not answer.p[:3].any()
    assert answer.normal_force.sum() == pytest.approx(scene.robot.total_mass * 9.81, rel=0.05)
