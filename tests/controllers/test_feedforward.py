"""Feed-forward torque of each kind of law: PID and sensed forces follow their definitions  [ZD §7.3]."""

import msgspec
import numpy as np
import pytest
from fast import every
from rigs import at_rest, controller, nudged

from controllers.command import Inputs, Reference
from controllers.contact.sensed_forces import SensedForces
from idyn.errors import ConfigError
from sim_harness.compare.controllers import CONTROLLERS

FIRST, TICK = Inputs(dt=0.0), Inputs(dt=0.001)


def paper(name, base="paper-stand", **changes):
    return controller(base, **CONTROLLERS[name].changes, **changes)


def test_pid_is_proportional_derivative_and_integral():
    gains = {"kp": 20.0, "kd": 0.1, "ki": 3.0, "integral_limit": 10.0}
    c = controller("quadruped", law="pid", torque_feedback=gains, safety__torque_rate=np.inf)
    state = nudged(c, np.random.default_rng(0))
    angles, speeds = c.robot.joint_angles(state.q), state.v[c.robot.tree.a]
    reference = Reference(q=angles + 0.01, v=speeds + 0.5, a=np.full(12, 1e3))
    contacts = c.contacts(state.q)
    for k in range(5):
        inputs = msgspec.structs.replace(TICK if k else FIRST, reference=reference)
        command = c.step(state, contacts, inputs)
        np.testing.assert_allclose(command.tau, 20 * 0.01 + 0.1 * 0.5 + 3 * 0.01 * 0.001 * k, rtol=1e-9)
        np.testing.assert_array_equal(command.tau, command.tau_fb)
        assert command.prediction is None
        assert not command.tau_ff.any()
    c.reset()
    np.testing.assert_allclose(c.step(state, contacts, msgspec.structs.replace(FIRST, reference=reference)).tau, 0.25)


def test_pid_torque_can_be_added_to_a_law():
    plain = paper("id-lcp-mu")
    both = paper("id-lcp-mu", torque_feedback={"kp": 20.0, "kd": 0.1})
    state = nudged(plain, np.random.default_rng(1))
    one, two = (c.step(state, c.contacts(state.q), FIRST) for c in (plain, both))
    feedback = paper("pid").step(state, plain.contacts(state.q), FIRST).tau_fb
    np.testing.assert_array_equal(two.tau_ff, one.tau_ff)
    np.testing.assert_array_equal(two.tau_fb, feedback)
    np.testing.assert_allclose(two.tau, np.clip(one.tau_ff + feedback, -7.3, 7.3), atol=1e-12)
    assert not one.tau_fb.any()


def test_pid_without_gains_is_refused():
    with pytest.raises(ConfigError, match=r"torque_feedback\.kp"):
        controller("paper-stand", law="pid")


@every("delay", [1, 2])
def test_sensed_forces_are_used_after_the_set_number_of_measurements(delay):
    """The Coulomb law's prediction, measured one period after another, gives that law's torque after the delay."""
    predictive, sensing = paper("id-lcp-mu"), paper(f"id-t-{delay}")
    state = at_rest(predictive)
    contacts = predictive.contacts(state.q)
    answer = predictive.step(state, contacts, FIRST).prediction
    free = paper("contact-free").step(state, contacts, FIRST).tau_ff
    for k in range(delay + 1):
        sensed = answer.force if k == 1 else None
        tau = sensing.step(state, contacts, Inputs(dt=0.001 * (k > 0), sensed_force=sensed)).tau_ff
        expected = answer.tau if k == delay else free
        np.testing.assert_allclose(tau, expected, atol=1e-10)


def test_sensed_forces_are_assigned_by_contact_key():
    c = controller("quadruped")
    contacts = c.contacts(c.stance)
    sensed = SensedForces(1)
    force = np.arange(12.0).reshape(4, 3)
    sensed.measure(contacts, force)
    p = sensed.impulses(contacts, 0.001).reshape(4, 3)
    np.testing.assert_allclose(p @ np.ones(3), 1e-3 * force.sum(axis=1) * [1, 1, 1, 1], atol=1e-15)
    np.testing.assert_allclose(p[:, 2], 1e-3 * force[:, 2], atol=1e-15)  # normals point upwards
    sensed.measure(contacts, None)
    assert not sensed.impulses(contacts, 0.001).any()


def test_a_wrong_delay_is_refused():
    with pytest.raises(ConfigError, match=r"law\.delay"):
        controller("quadruped", law={"kind": "sensed", "delay": 0})
