"""Random states in numbers: every answer certified, and the right inverse of an independent forward problem. States: joints
±0.05 rad about the stance, speeds 0.2, demands 30 rad/s², μ in {0.1, 0.6, 1.5}, 1 to 4 feet, gaps 0 to 2 mm; in half of the
sweeps half of the gaps are exactly 0, as with gaps of millimetres hardly any contact closes within a period."""

from collections import Counter

import numpy as np
import pytest
from conditions import allowance, coulomb_error, dynamics, no_slip_error, outside_cone
from fast import every, fast
from oracles import eliminate, full, no_slip_is_possible, outcome
from scenes import DT, LITERAL, each_walker, random_scene

from idyn.laws import make_law
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Selection
from sim_harness.engines.engine import ForwardProblem
from sim_harness.engines.lcp import PolygonLcp

COUNTS = [150, pytest.param(10_000, marks=pytest.mark.long)]
OPTIONS = Options.paper(ground=LITERAL)
EXACT = 1e-8
"""Largest residual of an answer [N·s, N·m·s or m/s]."""


def solve(scene, law, options=OPTIONS):
    return predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options)


def report(title, counts):
    print(f"\n{title}: " + ", ".join(f"{key} {value}" for key, value in counts.most_common()))


def simulated(f, answer, contacts):
    """The velocity of a time-stepping engine under the predicted torque: all joints free. Its law is at J v⁺."""
    force = np.zeros(len(f.v))
    force[f.a] = answer.tau
    problem = ForwardProblem(M=f.M, h=f.h, v=f.v, J=f.J, force=force, mu=contacts.mu, gaps=contacts.gaps, dt=DT)
    solution = PolygonLcp(recovery=np.inf).solve(problem)
    return solution.v_plus, solution.p.ravel()


@pytest.mark.parametrize("count", COUNTS)
@every("touching", [0.0, 0.5])
@each_walker
def test_coulomb_is_a_right_inverse(name, touching, count):
    """(v⁺, p) solves the forward problem under τ in every state, by independent conditions. The forward solver finds that v⁺
    too, or another solution of the same problem: large friction coefficients allow two, more often where feet touch."""
    law, rungs, forward = make_law("coulomb"), Counter(), Counter()
    pressing = 0
    for seed in range(count):
        scene = random_scene(name, seed, touching=touching)
        answer = solve(scene, law, Options.paper())
        rungs[answer.law, answer.rung] += 1
        assert answer.status.ok
        assert answer.law == "coulomb"
        assert answer.demand_change == 0
        assert answer.residuals.worst <= EXACT
        f, c = full(scene.robot, scene.state, scene.contacts, dt=0.0), scene.contacts
        extra = allowance(c.gaps, DT)
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) <= EXACT
        assert coulomb_error(f, answer.p, answer.v_plus, c.mu, extra) <= EXACT
        np.testing.assert_allclose(answer.v_plus[f.a], f.v[f.a] + DT * scene.q_ddot, atol=1e-12)
        pressing += answer.p[2::3].any()

        v_plus, p = simulated(f, answer, c)
        if np.abs(v_plus - answer.v_plus).max() <= 1e-7:
            forward["same"] += 1
            continue
        forward["another solution"] += 1
        assert c.mu.min() > 1
        assert dynamics(f, p, v_plus, answer.tau, DT) <= EXACT
        assert coulomb_error(f, p, v_plus, c.mu, extra) <= EXACT
    report(f"coulomb, {name}, {touching:.0%} touching, {pressing} of {count} pressing", rungs + forward)
    assert forward["another solution"] <= (0.01 if touching == 0 else 0.035) * count + (2 if count < 1000 else 0)
    assert pressing > (0.01 if touching == 0 else 0.25) * count


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("touching", fast([0.0, 0.5], 0.5))
@every("law", ["no-slip", "convex"])
@each_walker
def test_other_laws_are_certified(name, law, touching, count):
    """Their own conditions, cone and force balance in every state; impossible demands (no-slip) are changed and say so, and
    where the no-slip law has no answer, an independent program finds none either."""
    make, rungs, impossible = make_law(law), Counter(), 0
    for seed in range(count):
        scene = random_scene(name, seed, touching=touching)
        answer = solve(scene, make)
        rungs[answer.law, answer.rung, "changed" if answer.demand_change else "as asked"] += 1
        assert answer.status.certified
        assert answer.residuals.worst <= EXACT
        f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
        extra = allowance(c.gaps, DT)
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) <= EXACT
        if law == "no-slip" and not answer.status.ok:
            D, b, _, _ = eliminate(f, scene.q_ddot, DT)
            b[2::3] += extra
            impossible += not no_slip_is_possible(D, b, c.mu)
        if answer.law == "no-slip":
            assert no_slip_error(f, answer.p, answer.v_plus, c.mu, extra) <= EXACT
        else:
            assert outside_cone(answer.p, c.mu) <= EXACT
            assert (f.at_end(answer.v_plus)[2::3] + extra).min() >= -EXACT
        if answer.demand_change == 0:
            v_plus, _ = outcome(f, scene.q_ddot, DT, answer.p)
            np.testing.assert_allclose(v_plus, answer.v_plus, atol=1e-7 * max(1, np.abs(answer.p).max() / DT / 1e3))
    report(f"{law}, {name}, {touching:.0%} touching, {impossible} without answer", rungs)
    own = sum(value for key, value in rungs.items() if key[0] == law)
    assert own + impossible >= 0.995 * count
    assert impossible <= 0.1 * count


@pytest.mark.parametrize("count", COUNTS)
@every("law", ["no-slip", "coulomb", "convex"])
@each_walker
def test_selection_keeps_the_motion_and_does_not_increase_the_torque(name, law, count):
    """‖τ‖ does not grow while the limits allow it, v⁺ does not change; undone selections are counted."""
    make, rungs = make_law(law), Counter()
    for seed in range(count):
        scene = random_scene(name, seed)
        plain = solve(scene, make, Options.paper(ground=LITERAL, selection=Selection.OFF))
        answer = solve(scene, make)
        if (plain.law, plain.demand_change) != (answer.law, answer.demand_change):
            rungs["another rung"] += 1
            continue
        rungs["undone" if "unselected" in answer.rung else "chosen" if answer.null_dim else "no choice"] += 1
        assert np.abs(answer.v_plus - plain.v_plus).max() <= 1e-9
        within = np.abs(plain.tau) <= scene.robot.limits.tau_max
        if answer.torque_excess == 0 and within.all():
            assert np.linalg.norm(answer.tau) <= np.linalg.norm(plain.tau) * (1 + 1e-9)
    report(f"selection, {law}, {name}", rungs)
    assert rungs["another rung"] + rungs["undone"] <= 0.01 * count
