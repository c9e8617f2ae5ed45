"""Sensed forces: zero is contact-free, the law's own prediction gives the law's own torque."""

import numpy as np
from fast import every
from scenes import each_walker, predict_scene, random_scene, random_scenes

from idyn.laws import make_law
from idyn.laws.sensed import Sensed


def solve(scene, law):
    return predict_scene(scene, law)


@each_walker
def test_without_sensed_forces_the_answer_is_contact_free(name):
    for scene in random_scenes(name, 20):
        free = solve(scene, make_law("contact-free"))
        for law in (make_law("sensed"), Sensed(np.zeros(3 * len(scene.contacts)))):
            answer = solve(scene, law)
            assert answer.status.ok
            np.testing.assert_array_equal(answer.tau, free.tau)
            np.testing.assert_array_equal(answer.v_plus, free.v_plus)


@every("law", ["coulomb", "no-slip", "convex"])
@each_walker
def test_a_predicted_force_that_is_sensed_gives_the_predicted_torque(name, law):
    for scene in random_scenes(name, 20):
        predicted = solve(scene, make_law(law))
        if predicted.law != law:
            continue
        answer = solve(scene, Sensed(predicted.p))
        assert answer.law == "sensed"
        np.testing.assert_allclose(answer.tau, predicted.tau, rtol=0, atol=1e-9)
        np.testing.assert_allclose(answer.impulse, predicted.impulse, rtol=0, atol=1e-15)


def test_sensed_forces_are_certified_by_dynamics_only():
    """Also forces that pull, or act through the ground."""
    scene = random_scene("solo12", 0, n=4)
    answer = solve(scene, Sensed(np.tile([0.01, 0.0, -0.02], 4)))
    assert answer.status.ok
    assert answer.residuals.dynamics < 1e-12
    assert answer.residuals.cone == answer.residuals.complementarity == 0.0
