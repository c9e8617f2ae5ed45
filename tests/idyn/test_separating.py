"""Infinite friction, and feet that do not press: separating feet are released."""

import msgspec
import numpy as np
from conditions import allowance, cone_error, coulomb_error, no_slip_error
from fast import every
from hard import torn_scene
from oracles import full
from scenes import DT, PLAIN, Scene, each_walker, feet, standing_scene, walker

from idyn.laws import make_law
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Consistency, Selection, State

LIFTS = 3
"""The foot that slips off the ground."""


def lifting(name):
    """Four feet on a plane with infinite friction, at rest; the last one is to move away along the plane and upwards."""
    scene = standing_scene(name, mu=np.inf)
    f = full(scene.robot, scene.state, scene.contacts)
    away = np.linalg.pinv(f.J[3 * LIFTS : 3 * LIFTS + 3, f.a]) @ np.array([0.3, -0.2, 0.5])  # m/s²
    return msgspec.structs.replace(scene, q_ddot=away), f


def solve(scene, law, contacts=None, guess=None):
    contacts = scene.contacts if contacts is None else contacts
    return predict(scene.robot, scene.state, contacts, scene.q_ddot, law=law, dt=DT, options=PLAIN, guess=guess)


@every(("law", "error"), [("coulomb", coulomb_error), ("cone-infinite", cone_error), ("no-slip", no_slip_error)])
@each_walker
def test_a_separating_foot_carries_no_force(name, law, error):
    """By the literal conditions it would be held sideways, at any cost for the others. From a cold start or from the last
    basis, the answer is that of the robot without this foot."""
    (scene, f), law = lifting(name), make_law(law)
    alone = solve(scene, law, contacts=scene.contacts.take(np.arange(LIFTS)))
    answers = (solve(scene, law), solve(scene, law, guess=alone.guess))
    assert answers[1].rung == "warm"
    for answer in answers:
        assert (answer.law, answer.status.name) == (law.name, "SOLVED")
        assert not answer.p[3 * LIFTS :].any()
        np.testing.assert_allclose(answer.v_plus, alone.v_plus, atol=1e-9)
        assert error(f, answer.p, answer.v_plus, np.full(4, np.inf), allowance(scene.contacts.gaps, DT)) < 1e-8
        slides = np.abs(f.at_end(answer.v_plus)[3 * LIFTS : 3 * LIFTS + 2]).max()
        assert 1e-5 < slides < 1e-3


def uneven(name, seed):
    """Feet that are not quite on one plane, on ground that fits them, with infinite friction; one is to move away."""
    rng = np.random.default_rng(seed)
    robot, stance = walker(name)
    q = robot.integrate(stance, np.r_[np.zeros(3), rng.uniform(-1e-3, 1e-3, robot.nv - 3)])
    state = State(q=q, v=np.zeros(robot.nv))
    contacts = feet(robot, q, mu=np.full(4, np.inf))
    f, foot = full(robot, state, contacts), int(rng.integers(4))
    away = rng.uniform([-0.1, -0.1, 0.05], [0.1, 0.1, 0.3])  # m/s²
    demand = np.linalg.lstsq(f.J[:, f.a], np.r_[np.zeros(3 * foot), away, np.zeros(9 - 3 * foot)], rcond=None)[0]
    return Scene(robot=robot, state=state, contacts=contacts, q_ddot=demand), foot


@every("law", ["coulomb", "cone-infinite"])
@each_walker
def test_feet_almost_on_one_plane_carry_no_large_internal_forces(name, law):
    """When the robot without the lifting foot has an answer, the whole robot nearly always has the same from a cold start, and
    always from its own basis. By the literal conditions there are kilonewtons instead, or no answer."""
    law, found, expected = make_law(law), 0, 0
    for seed in range(40):
        scene, foot = uneven(name, seed)
        alone = solve(scene, law, contacts=scene.contacts.take(np.delete(np.arange(4), foot)))
        f = full(scene.robot, scene.state, scene.contacts)
        if alone.law != law.name or f.at_end(alone.v_plus)[3 * foot + 2] < 1e-8:
            continue
        expected += 1
        answer = solve(scene, law)
        if answer.law != law.name or np.abs(answer.v_plus - alone.v_plus).max() > 1e-8:
            continue
        found += 1
        assert not answer.p[3 * foot : 3 * foot + 3].any()
        again = solve(scene, law, guess=answer.guess)
        assert again.law == law.name
        np.testing.assert_allclose(again.v_plus, answer.v_plus, atol=1e-9)
    assert expected > 20
    assert found > 0.8 * expected


@each_walker
def test_the_no_slip_motion_does_not_depend_on_the_start(name):
    """Only impulses depend on which rows are taken first."""
    law = make_law("no-slip")
    for seed in range(40):
        scene, _ = uneven(name, seed)
        answer = solve(scene, law)
        again = solve(scene, law, guess=answer.guess)
        np.testing.assert_allclose(again.v_plus, answer.v_plus, atol=1e-8)


def test_with_infinite_friction_coulomb_releases_feet_that_hardly_press():
    """It equals the no-slip law, except for feet that this one holds with kilonewtons while they hardly press: four times the
    torque in the mean."""
    options = Options.paper(selection=Selection.FORCE, consistency=Consistency.HOLD)

    def largest_torque(scene, law):
        answer = predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=make_law(law), dt=1e-3, options=options)
        assert answer.status.certified
        return np.abs(answer.tau).max()

    scenes = [torn_scene(seed) for seed in range(100, 140)]
    coulomb, no_slip = (np.mean([largest_torque(scene, law) for scene in scenes]) for law in ("coulomb", "no-slip"))
    assert coulomb < 0.5 * no_slip
