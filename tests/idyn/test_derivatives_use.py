"""Derivatives are those of their own call, whatever is predicted before or after it; robots without contacts or without a
base."""

import msgspec
import numpy as np
import pytest
from fast import every

from controllers.robot.load import load_robot
from idyn import Flat, InputError, Options, State, contacts_from_geometry, derivatives, predict

DT = 1e-3
PARTS = ("q_ddot", "q", "v", "mu", "preferred")


def scene(name="go2", seed=0, speed=0.05, options=None, law="coulomb"):
    """A prediction of a random state near the stance, after another one, and the arguments of both functions."""
    rng = np.random.default_rng(seed)
    robot, stance = load_robot(name)
    q = robot.integrate(stance, 0.02 * rng.normal(size=robot.nv))
    contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
    contacts = msgspec.structs.replace(contacts, gaps=np.zeros(len(contacts)))
    state, q_ddot = State(q=q, v=speed * rng.normal(size=robot.nv)), rng.normal(size=robot.na)
    common = {"law": law, "options": Options() if options is None else options}
    guess = predict(robot, state, contacts, 0.9 * q_ddot, dt=DT, **common).guess
    arguments = robot, state, contacts, q_ddot
    return arguments, predict(*arguments, dt=DT, guess=guess, **common), common | {"guess": guess}


def read(found):
    return [np.vstack(msgspec.structs.astuple(getattr(found, name))) for name in PARTS]


def test_slopes_read_later_are_those_of_their_own_state():
    (robot, state, contacts, q_ddot), answer, common = scene()
    expected = read(derivatives(robot, state, contacts, q_ddot, answer, **common))
    found = derivatives(robot, state, contacts, q_ddot, answer, **common)
    other = State(q=robot.integrate(state.q, np.full(robot.nv, 0.1)), v=state.v + 1.0)
    predict(robot, other, contacts, -q_ddot, dt=DT, **common)
    state.q[:] = other.q
    for one, two in zip(read(found), expected, strict=True):
        np.testing.assert_array_equal(one, two)


@every("change", ["q", "v", "points", "mu", "gaps"])
def test_the_dynamics_of_another_state_are_not_used(change):
    """The last prediction before the call was made for another state or other contacts."""
    (robot, state, contacts, q_ddot), answer, common = scene()
    expected = read(derivatives(robot, state, contacts, q_ddot, answer, **common))
    other, touched = state, contacts
    if change == "q":
        other = State(q=robot.integrate(state.q, np.full(robot.nv, 1e-3)), v=state.v)
    elif change == "v":
        other = State(q=state.q, v=state.v + 1e-3)
    else:
        touched = msgspec.structs.replace(contacts, **{change: getattr(contacts, change) + 1e-3})
    predict(robot, other, touched, q_ddot, dt=2 * DT, law="no-slip")
    for one, two in zip(read(derivatives(robot, state, contacts, q_ddot, answer, **common)), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9 * np.abs(two).max(initial=0.0))


def test_numbers_of_other_types_are_accepted():
    (robot, state, contacts, q_ddot), answer, common = scene()
    expected = read(derivatives(robot, state, contacts, q_ddot, answer, **common))
    found = derivatives(robot, State(q=state.q.tolist(), v=state.v.tolist()), contacts, q_ddot.tolist(), answer, **common)
    for one, two in zip(read(found), expected, strict=True):
        np.testing.assert_array_equal(one, two)


@every("field", ["q_ddot", "preferred", "state"])
def test_arrays_of_a_wrong_size_are_named(field):
    (robot, state, contacts, q_ddot), answer, common = scene()
    if field == "q_ddot":
        q_ddot = q_ddot[1:]
    elif field == "preferred":
        common = common | {"preferred": np.zeros((3, 3))}
    else:
        state = State(q=state.q, v=state.v[1:])
    with pytest.raises(InputError, match="v" if field == "state" else field):
        derivatives(robot, state, contacts, q_ddot, answer, **common)


def test_an_answer_for_other_contacts_is_refused():
    (robot, state, contacts, q_ddot), answer, common = scene()
    with pytest.raises(InputError, match="answer"):
        derivatives(robot, state, contacts.take(np.arange(3)), q_ddot, answer, **common)


@every("law", ["coulomb", "contact-free"])
def test_without_contacts_the_torques_are_those_of_free_motion(law):
    """∂τ/∂q̈ is the inertia of the joints seen through the free base; impulses have no rows."""
    robot, stance = load_robot("go2")
    rng = np.random.default_rng(1)
    state, q_ddot = State(q=stance, v=rng.normal(size=robot.nv)), rng.normal(size=robot.na)
    none = contacts_from_geometry(robot, stance, Flat(), margin=np.inf).take(np.zeros(0, np.int64))
    answer = predict(robot, state, none, q_ddot, law=law, dt=DT)
    found = derivatives(robot, state, none, q_ddot, answer, law=law)
    M, u, a = robot.terms(state.q, state.v).M.copy(), robot.tree.u, robot.tree.a
    free = M[np.ix_(a, a)] - M[np.ix_(a, u)] @ np.linalg.solve(M[np.ix_(u, u)], M[np.ix_(u, a)])
    np.testing.assert_allclose(found.q_ddot.tau, free, rtol=0.0, atol=1e-9)
    assert found.classical
    assert found.mu.tau.shape == (robot.na, 0)
    step, direction = 1e-6, rng.normal(size=robot.nv)
    for name in ("q", "v"):
        taus = []
        for sign in (1.0, -1.0):
            q = robot.integrate(stance, sign * step * direction) if name == "q" else stance
            v = state.v + sign * step * direction if name == "v" else state.v
            taus.append(predict(robot, State(q=q, v=v), none, q_ddot, law=law, dt=DT).tau)
        slope = getattr(found, name).tau @ direction
        np.testing.assert_allclose((taus[0] - taus[1]) / (2 * step), slope, rtol=0.0, atol=1e-6 * max(np.abs(slope).max(), 1.0))


def test_forces_that_move_no_unactuated_body_are_the_preferred_ones():
    """A finger of an arm with a fixed base touches the ground."""
    robot, stance = load_robot("arm")
    contacts = contacts_from_geometry(robot, stance, Flat(), margin=np.inf).take(np.arange(1))
    contacts = msgspec.structs.replace(contacts, gaps=np.zeros(1), mu=np.full(1, 0.5))
    state, preferred = State(q=stance, v=np.zeros(robot.nv)), 20.0 * contacts.normals
    common = {"law": "coulomb", "preferred": preferred}
    answer = predict(robot, state, contacts, np.zeros(robot.na), dt=DT, **common)
    found = derivatives(robot, state, contacts, np.zeros(robot.na), answer, **common)
    np.testing.assert_allclose(answer.normal_force, 20.0, atol=1e-6)
    np.testing.assert_allclose(found.preferred.p, DT * np.eye(3), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(found.q_ddot.p, 0.0, atol=1e-9)


@every("between", [False, True])
def test_a_demand_that_is_not_finite_is_refused(between):
    """Right after the prediction, and after another one."""
    (robot, state, contacts, q_ddot), answer, common = scene()
    if between:
        predict(robot, State(q=robot.integrate(state.q, np.full(robot.nv, 0.1)), v=state.v), contacts, q_ddot, dt=DT, **common)
    q_ddot[3] = np.nan
    with pytest.raises(InputError, match=r"q_ddot\[3\]: expected a finite number"):
        derivatives(robot, state, contacts, q_ddot, answer, **common)
