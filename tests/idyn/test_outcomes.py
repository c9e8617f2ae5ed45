"""Other outcomes under the same torques: each solves the forward problem by independent conditions; the prediction is one of
them."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, coulomb_error, dynamics
from fast import fast
from hard import wild_scene
from oracles import coulomb_lcp, enumerate_lcp, full
from scenes import DT, LITERAL, random_scene, standing_scene

from idyn.laws import make_law
from idyn.options import Options
from idyn.prediction.outcomes import outcomes
from idyn.prediction.predict import predict


def predicted(scene):
    return predict(
        scene.robot,
        scene.state,
        scene.contacts,
        scene.q_ddot,
        law=make_law("coulomb"),
        dt=DT,
        options=Options.paper(ground=LITERAL),
    )


@pytest.mark.parametrize(("mu", "least"), fast([(3.0, 1), (10.0, 8)], 10.0))
def test_every_outcome_is_a_solution_and_large_friction_has_several(mu, least):
    several, differences = 0, []
    for seed in range(80):
        scene = wild_scene(seed)
        n = len(scene.contacts)
        touching = msgspec.structs.replace(scene.contacts, mu=np.full(n, mu), gaps=np.zeros(n))
        scene = msgspec.structs.replace(scene, contacts=touching)
        f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
        answer = predicted(scene)
        found = outcomes(scene.robot, scene.state, c, answer.tau, DT)
        assert found
        for outcome in found:
            assert dynamics(f, outcome.impulse, outcome.v_plus, answer.tau, DT) < 1e-8
            assert coulomb_error(f, outcome.impulse, outcome.v_plus, c.mu, allowance(c.gaps, DT)) < 1e-7
        apart = [np.abs(o.v_plus - answer.v_plus).max() for o in found]
        if max(apart) > 1e-6:
            several += 1
            differences.append(max(apart))
    print(f"\nμ = {mu}: {several} of 80 with another outcome, a median of {np.median(differences):.3g} away in v⁺")
    assert several >= least


@pytest.mark.full
def test_all_solutions_of_one_foot_are_found():
    """Compared with all 2⁶ bases of one contact."""
    several = 0
    for seed in range(60):
        scene = random_scene("solo12", seed, mu=10.0, touching=1.0, n=1)
        f, c, tau = full(scene.robot, scene.state, scene.contacts), scene.contacts, predicted(scene).tau
        force = -f.h
        force[f.a] += tau
        free = f.v + DT * np.linalg.solve(f.M, force)
        M, q, G = coulomb_lcp(f.J @ np.linalg.solve(f.M, f.J.T), f.at_end(free), c.mu)
        velocities = [free + np.linalg.solve(f.M, f.J.T @ G @ z) for z in enumerate_lcp(M, q)]
        found = outcomes(scene.robot, scene.state, c, tau, DT)
        for outcome in found:
            assert min(np.abs(outcome.v_plus - v).max() for v in velocities) < 1e-6
        several += len(found) > 1
    assert several > 0


def test_a_stance_has_one_outcome():
    scene = standing_scene("quadruped", mu=0.6)
    assert len(outcomes(scene.robot, scene.state, scene.contacts, predicted(scene).tau, DT)) == 1


def test_a_wrong_torque_has_another_outcome():
    scene = standing_scene("quadruped", mu=0.6)
    answer = predicted(scene)
    (other,) = outcomes(scene.robot, scene.state, scene.contacts, 0.5 * answer.tau, DT)
    assert np.abs(other.v_plus - answer.v_plus).max() > 1e-3
    fewer = msgspec.structs.replace(scene.contacts, mu=np.zeros(4))
    assert len(outcomes(scene.robot, scene.state, fewer, answer.tau, DT)) == 1
