"""Friction without limit, and feet that do not press: those that part are let go, the others hold no more than they must."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, cone_error, coulomb_error, no_slip_error
from oracles import full
from scenes import DT, PLAIN, WALKERS, standing_scene, subset

from idyn.inverse_dynamics import predict
from idyn.laws import make_law

LIFTS = 3
"""The foot that slips off the ground."""


def lifting(name):
    """Four feet on a plane under unlimited friction, at rest; the last one is to go away along the plane and upwards."""
    scene = standing_scene(name, mu=np.inf)
    f = full(scene.robot, scene.state, scene.contacts)
    away = np.linalg.pinv(f.J[3 * LIFTS : 3 * LIFTS + 3, f.a]) @ np.array([0.3, -0.2, 0.5])  # m/s²
    return msgspec.structs.replace(scene, q_ddot=away), f


def solve(scene, law, contacts=None, guess=None):
    contacts = scene.contacts if contacts is None else contacts
    return predict(scene.robot, scene.state, contacts, scene.q_ddot, law=law, dt=DT, options=PLAIN, guess=guess)


@pytest.mark.parametrize(
    ("law", "error"), [("coulomb", coulomb_error), ("cone-infinite", cone_error), ("no-slip", no_slip_error)]
)
@pytest.mark.parametrize("name", WALKERS)
def test_a_foot_that_parts_is_let_go(name, law, error):
    """To the letter it would be held sideways, with whatever that takes at the others. Begun anew or at the last basis, the
    answer is that of the robot without this foot."""
    (scene, f), law = lifting(name), make_law(law)
    alone = solve(scene, law, contacts=subset(scene.contacts, np.arange(LIFTS)))
    answers = (solve(scene, law), solve(scene, law, guess=alone.guess))
    assert answers[1].rung == "warm"
    for answer in answers:
        assert (answer.law, answer.status.name) == (law.name, "SOLVED")
        assert not answer.p[3 * LIFTS :].any()
        np.testing.assert_allclose(answer.v_plus, alone.v_plus, atol=1e-9)
        assert error(f, answer.p, answer.v_plus, np.full(4, np.inf), allowance(scene.contacts.gaps, DT)) < 1e-8
        slides = np.abs((f.J @ answer.v_plus)[3 * LIFTS : 3 * LIFTS + 2]).max()
        assert 1e-5 < slides < 1e-3


@pytest.mark.parametrize("law", ["coulomb", "cone-infinite", "no-slip"])
@pytest.mark.parametrize("name", WALKERS)
def test_feet_do_not_hold_against_one_another_without_selection(name, law):
    """The laws' own impulses in a stance with some drift: in all the weight, and nowhere friction without pressure."""
    scene, law = standing_scene(name, mu=np.inf), make_law(law)
    weight = 9.81 * scene.robot.total_mass
    rng = np.random.default_rng(0)
    f = full(scene.robot, scene.state, scene.contacts)
    for _ in range(20):
        v = np.zeros(len(f.v))
        v[:6] = 0.01 * rng.normal(size=6)  # a base that drifts over feet that stay
        v[f.a] = -np.linalg.lstsq(f.J[:, f.a], f.J[:, :6] @ v[:6], rcond=None)[0]
        drifting = msgspec.structs.replace(scene, state=msgspec.structs.replace(scene.state, v=v))
        answer = solve(drifting, law)
        assert answer.law == law.name
        force = answer.p.reshape(-1, 3) / DT
        assert np.abs(force).max() < 3 * weight
        idle = force[:, 2] < 1e-9
        assert np.abs(force[idle]).max(initial=0) < 1e-9
