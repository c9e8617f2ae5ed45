"""Torque chatter of the Coulomb law on an indeterminate stance: selection removes it and leaves the motion alone."""

import numpy as np
import pytest
from fast import full

from controllers.build import load_controller
from controllers.command import Inputs
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.types import Consistency, Selection, State
from sim_harness.world.worlds import ENGINES, build_world

DT = 1e-3
TICKS = 2000


def sway(name: str, kind: str, selection: Selection, *, warm_start: bool) -> tuple[np.ndarray, np.ndarray]:
    """Torques (n, na) and configurations (n, nq) of a stroke over four feet that stay, by the law to the letter."""
    changes = {"law": "coulomb", "consistency": Consistency.STICK, "selection": selection, "warm_start": warm_start}
    changes |= {"robot": name, "reference": kind, "safety": {"torque_rate": 1e9}}
    controller = load_controller("paper-stand", changes)
    robot, stance = load_robot(name)
    world = build_world(ENGINES["lcp"](), robot, Flat(), stance)
    tau, q = np.empty((TICKS, robot.na)), np.empty((TICKS, robot.nq))
    for k in range(TICKS):
        state = State(q=world.q, v=world.v)
        command = controller.step(state, controller.contacts(state.q), Inputs(dt=DT if k else 0.0))
        world.step(command.tau, DT)
        tau[k], q[k] = command.tau, world.q
    return tau, q


@full
@pytest.mark.parametrize(("name", "kind"), [("solo12", "sway"), ("solo12", "squat")])
def test_selection_removes_the_chatter_and_keeps_the_motion(name, kind):
    paper, paper_motion = sway(name, kind, Selection.OFF, warm_start=False)
    ours, our_motion = sway(name, kind, Selection.TORQUE, warm_start=True)
    rates = [np.abs(np.diff(tau, axis=0)).mean() / DT for tau in (paper, ours)]
    print(f"{name} {kind}: mean |dτ/dt| {rates[0]:.4g} → {rates[1]:.4g} N·m/s, {rates[0] / rates[1]:.0f} times less")
    assert rates[0] > 100 * rates[1]
    assert np.abs(paper_motion - our_motion).max() < 1e-9
    assert np.abs(paper_motion - paper_motion[0]).max() > 5e-3
