"""Derivatives of a batch: each member equals its single derivatives to the last bit, and differences of batches."""

import msgspec
import numpy as np
import pytest
from fast import first_is_fast

from controllers.robot.load import load_robot
from idyn import (
    Batch,
    Consistency,
    ContactSet,
    Flat,
    InputError,
    Options,
    State,
    contacts_from_geometry,
    derivatives,
    derivatives_batch,
    predict,
    predict_batch,
)
from idyn.batch.arrays import TOUCH

DT, MEMBERS = 1e-3, 12
PARTS = ("q_ddot", "q", "v", "mu", "preferred")
STEPS = {"q_ddot": 1e-2, "q": 1e-6, "v": 1e-6, "mu": 1e-5, "preferred": 1e-3}
"""Steps of the differences."""


def batch(speed, seed=0):
    """Robot and a batch: members in pairs with the same state; feet stick at 0.05 m/s, they slide, stick and open at 0.5."""
    rng = np.random.default_rng(seed)
    robot, stance = load_robot("go2")
    states, touch = [], []
    for _ in range(MEMBERS // 2):
        q, v = robot.integrate(stance, 0.03 * rng.normal(size=robot.nv)), speed * rng.normal(size=robot.nv)
        contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
        states += 2 * [(q, v)]
        touch += 2 * [msgspec.structs.replace(contacts, gaps=np.zeros(4), mu=np.full(4, 0.6))]
    arrays = {name: np.array([getattr(each, name) for each in touch]) for name in TOUCH}
    q, v = (np.array(each) for each in zip(*states, strict=True))
    demands = (2.0 if speed < 0.2 else 20.0) * rng.normal(size=(MEMBERS, robot.na))
    contacts = ContactSet(**arrays, keys=touch[0].keys)
    return robot, Batch(
        state=State(q=q, v=v), contacts=contacts, q_ddot=demands, preferred=5.0 * rng.normal(size=(MEMBERS, 4, 3))
    )


def single(robot, given, i, guess, **common):
    """Single derivatives of member i, right after its prediction."""
    contacts = ContactSet(**{name: getattr(given.contacts, name)[i] for name in TOUCH}, keys=given.contacts.keys)
    arguments = robot, State(q=given.state.q[i], v=given.state.v[i]), contacts, given.q_ddot[i]
    more = common | {"guess": guess, "preferred": given.preferred[i]}
    return derivatives(*arguments, predict(*arguments, dt=DT, **more), **more)


CASES = [
    ("coulomb", Options(), 0.05),
    ("coulomb", Options(consistency=Consistency.OFF), 0.5),
    ("no-slip", Options(), 0.05),
    ("exact-cone", Options(consistency=Consistency.OFF), 0.5),
]
"""Law, options, and the size of velocities."""


def answered(law, options, speed):
    """Robot, batch, its answer after another one, and the settings of both."""
    robot, given = batch(speed)
    common = {"law": law, "options": options}
    common["guess"] = predict_batch(robot, moved(robot, given, q_ddot=-0.1 * given.q_ddot), dt=DT, **common).guess
    return robot, given, predict_batch(robot, given, dt=DT, **common), common


def moved(robot, given, q_ddot=0.0, q=None, v=0.0, mu=0.0, preferred=None):
    """The batch with changes, each with a row for each member: q along the tangent, preferred forces in rows S, T, N."""
    place = given.state.q
    if q is not None:
        place = np.array([robot.integrate(*each) for each in zip(place, q, strict=True)])
    c, forces = given.contacts, given.preferred
    if preferred is not None:
        axes = np.stack([c.tangents, np.cross(c.normals, c.tangents), c.normals], axis=2)
        forces = forces + np.einsum("bkra,bka->bkr", np.swapaxes(axes, 2, 3), preferred.reshape(forces.shape))
    return Batch(
        state=State(q=place, v=given.state.v + v),
        contacts=msgspec.structs.replace(c, mu=c.mu + mu),
        q_ddot=given.q_ddot + q_ddot,
        preferred=forces,
    )


@pytest.mark.parametrize(("law", "options", "speed"), first_is_fast(CASES, 2))
def test_members_equal_single_derivatives(law, options, speed):
    robot, given, answer, common = answered(law, options, speed)
    found, compared = derivatives_batch(robot, given, answer, **common), 0
    assert len(found) == MEMBERS
    for i in range(MEMBERS):
        one = answer.member(i)
        if one.law != law or not one.status.ok:
            assert not found.classical[i]
            assert np.isnan(found.q.tau[i]).all()
            with pytest.raises(InputError, match=f"no derivatives of member {i}: no certified answer of the law"):
                found.member(i)
            continue
        alone = single(robot, given, i, **common | {"guess": common["guess"].member(i)})
        assert (found.switches[i], found.classical[i]) == (alone.switches, alone.classical)
        for name in PARTS:
            pairs = zip(*(msgspec.structs.astuple(getattr(each, name)) for each in (found, alone)), strict=True)
            assert all(np.array_equal(many[i], expected) for many, expected in pairs)
        assert np.array_equal(found.member(i).v.p, alone.v.p)
        compared += 1
    assert compared > MEMBERS // 2


@pytest.mark.parametrize(("law", "options", "speed"), first_is_fast(CASES))
def test_slopes_are_the_central_differences_of_batches(law, options, speed):
    """Along a random direction, for members that are not at a switch."""
    robot, given, answer, common = answered(law, options, speed)
    found, rng = derivatives_batch(robot, given, answer, **common), np.random.default_rng(1)
    assert found.classical.sum() > MEMBERS // 2
    for name, step in STEPS.items():
        slope = getattr(found, name).v_plus
        way = rng.normal(size=(MEMBERS, slope.shape[2]))
        low, high = (
            predict_batch(robot, moved(robot, given, **{name: sign * step * way}), dt=DT, **common) for sign in (-1, 1)
        )
        difference, expected = (high.v_plus - low.v_plus) / (2 * step), np.einsum("brk,bk->br", slope, way)
        for i in np.flatnonzero(found.classical):
            size = max(np.abs(slope[i]).max(), np.abs(expected[i]).max(), 1e-8 / step)
            assert np.abs(difference[i] - expected[i]).max() < 1e-6 * size, (name, i)


def test_values_that_all_members_share_need_no_axis():
    robot, stance = load_robot("go2")
    contacts = contacts_from_geometry(robot, stance, Flat(), margin=0.002)
    demands = 0.1 * np.random.default_rng(0).normal(size=(3, robot.na))
    given = Batch(state=State(q=stance, v=np.zeros(robot.nv)), contacts=contacts, q_ddot=demands)
    found = derivatives_batch(robot, given, predict_batch(robot, given, law="coulomb", dt=DT), law="coulomb")
    assert found.q_ddot.tau.shape == (3, robot.na, robot.na)
    assert found.mu.p.shape == (3, 12, 4)
    few = predict_batch(robot, msgspec.structs.replace(given, q_ddot=demands[:2]), law="coulomb", dt=DT)
    with pytest.raises(InputError, match="expected the answer of 3 members, got 2"):
        derivatives_batch(robot, given, few, law="coulomb")
    with pytest.raises(InputError, match="expected a law with a basis"):
        derivatives_batch(robot, given, few, law="sap")
