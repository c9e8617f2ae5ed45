"""Deferred parts of the cascade: without them predictions stay certified or say that they are not, and name what is missing."""

import numpy as np
import pytest

from controllers.robot.load import load_robot
from idyn import Consistency, Flat, Options, State, contacts_from_geometry, make_law, predict
from idyn.prediction.rungs import EVERYTHING, NOT_LOADED, defer, is_loaded, loaded, waiting

ROBOT, STANCE = load_robot("quadruped")


@pytest.fixture
def nothing_deferred():
    """Whether the loaded parts are all again at the end."""
    yield
    loaded([EVERYTHING])
    assert waiting() == ()


def answers(law, consistency, scale):
    """Predictions for random demands up to `scale` [rad/s²], on four feet, friction limited and unlimited."""
    rng, out = np.random.default_rng(3), []
    for k in range(12):
        q = ROBOT.integrate(STANCE, 0.01 * rng.normal(size=ROBOT.nv))
        contacts = contacts_from_geometry(ROBOT, q, Flat(), margin=0.05, mu=np.full(4, (0.7, np.inf)[k % 2]))
        demand = scale * rng.normal(size=ROBOT.na)
        options, state = Options.paper(consistency=consistency, bounded=True), State(q=q, v=0.05 * rng.normal(size=ROBOT.nv))
        out.append(predict(ROBOT, state, contacts, demand, law=make_law(law), dt=1e-3, options=options))
    return out


@pytest.mark.parametrize(
    ("law", "consistency", "scale"),
    [("no-slip", Consistency.HOLD, 300.0), ("coulomb", Consistency.OFF, 3000.0), ("convex", Consistency.PROJECT, 1e14)],
)
def test_answers_without_deferred_parts_are_certified_or_say_so(nothing_deferred, law, consistency, scale):
    before = answers(law, consistency, scale)
    defer([EVERYTHING])
    assert not is_loaded("convex")
    without = answers(law, consistency, scale)
    for one, other in zip(before, without, strict=True):
        assert not other.status.certified or other.residuals.worst < 1e-8
        if NOT_LOADED not in other.rung:
            assert (one.rung, one.tau.tobytes()) == (other.rung, other.tau.tobytes())
        assert one.status.certified or not other.status.certified
    assert any(NOT_LOADED in each.rung for each in without)
    loaded([EVERYTHING])
    assert [each.tau.tobytes() for each in answers(law, consistency, scale)] == [each.tau.tobytes() for each in before]
