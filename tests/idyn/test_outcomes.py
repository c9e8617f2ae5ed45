"""Other outcomes under the same torques: each solves the forward problem by independent conditions; the prediction is one of
them."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, coulomb_error, dynamics
from fast import fast
from hard import wild_scene
from oracles import coulomb_lcp, enumerate_lcp, full
from scenes import DT, LITERAL, predict_scene, random_scene, standing_scene, with_contacts

from idyn import Batch, InputError, Options, all_outcomes, make_law, outcomes, predict, predict_batch


def predicted(scene):
    return predict_scene(scene, "coulomb", Options.paper(ground=LITERAL))


def touching(scene, mu):
    n = len(scene.contacts)
    return with_contacts(scene, mu=np.broadcast_to(mu, n).copy(), gaps=np.zeros(n))


def test_a_stance_has_one_outcome_and_under_a_wrong_torque_another():
    scene = standing_scene("quadruped", mu=0.6)
    assert len(outcomes(scene.robot, scene.state, scene.contacts, predicted(scene).tau, DT)) == 1

    answer = predicted(scene)
    (other,) = outcomes(scene.robot, scene.state, scene.contacts, 0.5 * answer.tau, DT)
    assert np.abs(other.v_plus - answer.v_plus).max() > 1e-3
    fewer = msgspec.structs.replace(scene.contacts, mu=np.zeros(4))
    assert len(outcomes(scene.robot, scene.state, fewer, answer.tau, DT)) == 1


# -- all outcomes: compared with every complementary basis of the LCP, and with random searches ------------------------


def motions_of(scene, force):
    """v⁺ of every complementary basis of the LCP, under a generalised force (nv); finite friction."""
    f = full(scene.robot, scene.state, scene.contacts)
    free = f.v + DT * np.linalg.solve(f.M, force - f.h)
    M, q, G = coulomb_lcp(f.J @ np.linalg.solve(f.M, f.J.T), f.at_end(free), scene.contacts.mu)
    return [free + np.linalg.solve(f.M, f.J.T @ G @ z) for z in enumerate_lcp(M, q)]


def found_in(scene, tau, **options):
    return all_outcomes(scene.robot, scene.state, scene.contacts, tau, DT, **options)


def near(v, velocities):
    return min(np.abs(v - other).max() for other in velocities) < 1e-6


@pytest.mark.parametrize(("n", "seeds"), fast([(1, range(20)), (2, range(12))], 1))
def test_all_bases_of_the_lcp_give_the_same_motions(n, seeds):
    several = 0
    for seed in seeds:
        scene = random_scene("solo12", seed, mu=10.0, touching=1.0, n=n)
        tau, force = predicted(scene).tau, np.zeros(scene.robot.nv)
        force[scene.robot.tree.a] = tau
        velocities, answer = motions_of(scene, force), found_in(scene, tau)
        assert answer.undecided == ""
        assert all(near(outcome.v_plus, velocities) for outcome in answer.found)
        assert all(near(v, [outcome.v_plus for outcome in answer.found]) for v in velocities)
        several += answer.unique is False
    assert several > 0


def test_every_outcome_obeys_the_law_and_none_of_a_random_search_is_missing():
    several, proved = 0, 0
    for seed in range(40):
        scene = touching(wild_scene(seed), (10.0, 0.5, np.inf, 0.0)[seed % 4] if seed % 5 else 10.0)
        f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
        if len(c) > 4:
            continue
        tau = predicted(scene).tau
        answer = found_in(scene, tau)
        assert answer.found
        for outcome in answer.found:
            assert dynamics(f, outcome.impulse, outcome.v_plus, tau, DT) < 1e-8
            assert coulomb_error(f, outcome.impulse, outcome.v_plus, c.mu, allowance(c.gaps, DT)) < 1e-6
        for other in outcomes(scene.robot, scene.state, c, tau, DT, samples=20):
            assert near(other.v_plus, [outcome.v_plus for outcome in answer.found])
        several, proved = several + (answer.unique is False), proved + (answer.unique is True)
    assert several > 2
    assert proved > 2


def test_a_prediction_says_whether_its_motion_is_the_only_one():
    options, seen = Options.paper(ground=LITERAL, outcomes=100), set()
    for seed in range(8):
        scene = random_scene("solo12", seed, mu=10.0, touching=1.0, n=2)
        applied = np.random.default_rng(seed).normal(size=scene.robot.nv)
        args, law = (scene.robot, scene.state, scene.contacts, scene.q_ddot), make_law("coulomb")
        answer = predict(*args, law=law, dt=DT, options=options, applied=applied)
        force = applied.copy()
        force[scene.robot.tree.a] += answer.tau
        others = [v for v in motions_of(scene, force) if np.abs(v - answer.v_plus).max() > 1e-6]
        assert answer.unique is (not others)
        assert all(near(v, answer.others) for v in others)
        assert all(near(v, others) for v in answer.others)
        seen.add(answer.unique)
    assert seen == {True, False}


def test_a_prediction_looks_for_other_motions_only_if_asked():
    scene = standing_scene("quadruped", mu=0.6)
    args, settings = (scene.robot, scene.state, scene.contacts, scene.q_ddot), {"law": make_law("coulomb"), "dt": DT}
    plain = predict(*args, **settings)
    assert (plain.unique, plain.others) == (None, ())
    asked = predict(*args, **settings, options=Options(outcomes=100))
    assert asked.unique is True
    assert np.array_equal(asked.tau, plain.tau)
    with pytest.raises(InputError, match=r"options\.outcomes"):
        predict(*args, **settings, options=Options(outcomes=-1))
    batch = Batch(state=scene.state, contacts=scene.contacts, q_ddot=scene.q_ddot[None])
    with pytest.raises(InputError, match=r"options\.outcomes: expected 0"):
        predict_batch(scene.robot, batch, **settings, options=Options(outcomes=100))


def on_the_base(mu, n=2):
    """A robot that touches the ground with n points of its base: J M⁻¹ Jᵀ is singular."""
    scene = standing_scene("quadruped", mu=mu)
    contacts = msgspec.structs.replace(scene.contacts, bodies=np.ones_like(scene.contacts.bodies), gaps=np.zeros(4))
    return msgspec.structs.replace(scene, contacts=contacts.take(np.arange(n)))


@pytest.mark.parametrize(("mu", "n"), [(0.0, 4), (0.5, 2), pytest.param(0.5, 3, marks=pytest.mark.full)])
def test_impulses_that_are_not_unique_may_give_a_unique_motion(mu, n):
    scene = on_the_base(mu, n)
    assert np.linalg.matrix_rank(full(scene.robot, scene.state, scene.contacts).J) < 3 * n
    answer = found_in(scene, np.zeros(scene.robot.na), budget=10_000)
    assert answer.unique is True
    contact_velocity = full(scene.robot, scene.state, scene.contacts).at_end(answer.found[0].v_plus)
    assert np.abs(contact_velocity[2::3]).max() < 1e-9


def test_beyond_the_budget_and_with_too_many_contacts_nothing_is_claimed():
    answer = found_in(on_the_base(0.5, 4), np.zeros(12), budget=5)
    assert answer.unique is None
    assert answer.undecided == "more than 5 combinations of modes are singular"

    scene = standing_scene("quadruped", mu=0.6)
    several = scene.contacts.join(scene.contacts)
    answer = all_outcomes(scene.robot, scene.state, several, predicted(scene).tau, DT)
    assert (answer.found, answer.unique) == ((), None)
    assert answer.undecided == "8 contacts have 1.0e+08 combinations of modes"
