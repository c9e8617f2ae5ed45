"""The compared controllers: each can be built and answers; those of the paper use its selection."""

import numpy as np
import pytest
from fast import fast

from controllers.build import load_controller
from controllers.command import Inputs, Mode
from idyn.types import State
from sim_harness.compare.controllers import CONTROLLERS


@pytest.mark.parametrize("name", fast(CONTROLLERS, "id-qp-mu", "mindiff", "pid"))
def test_each_compared_controller_answers(name):
    c = load_controller("paper-stand", CONTROLLERS[name].changes)
    state = State(q=c.stance, v=np.zeros(c.robot.nv))
    command = c.step(state, c.contacts(c.stance), Inputs(dt=0.0))
    assert np.isfinite(command.tau).all()
    assert command.mode is (Mode.DEGRADED if name == "mindiff" else Mode.OK)  # four feet are too many for it


def test_the_papers_controllers_use_the_published_selection():
    changes = {name: row.changes for name, row in CONTROLLERS.items()}
    for name in ("id-lcp-mu", "id-lcp-inf", "id-qp-mu-one-stage"):
        assert changes[name]["selection"] == "off"
    for name in ("id-qp-mu", "id-qp-inf"):
        assert changes[name]["selection"] == "torque"
    assert not changes["id-lcp-mu"]["warm_start"]
