"""Cost of a steady tick: each algorithm of Pinocchio runs once per configuration, and few functions are called."""

import collections
import sys
from pathlib import Path

import numpy as np
import pytest
from fast import every

import idyn.model.robot
from controllers.build import load_controller
from controllers.command import Inputs
from idyn import State
from idyn.jit.mode import PLAIN

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(str(ROOT / name) for name in ("idyn", "controllers"))
MOST_FUNCTIONS = 29 if PLAIN else 25
"""Different functions of the project in one tick of a controller. Fallback mode checks the arguments of kernels in Python."""


def ticks(controller, count):
    """States and inputs of a robot that stands still."""
    for _ in range(count):
        state = State(q=controller.stance.copy(), v=np.zeros(controller.robot.nv))
        inputs = Inputs(dt=controller.settings.period, tau_applied=np.zeros(controller.robot.na))
        yield state, inputs


@pytest.mark.parametrize("name", ["quadruped", "quadruped-trot"])
def test_each_algorithm_of_pinocchio_runs_once_per_configuration(monkeypatch, name):
    """Inertia and bias forces once; forward kinematics once, at the reference angles."""
    controller, counts, pin = load_controller(name), collections.Counter(), idyn.model.robot.pin

    class Counting:
        def __getattr__(self, algorithm):
            def counted(*arguments):
                counts[algorithm] += 1
                return getattr(pin, algorithm)(*arguments)

            return counted

    rungs = []
    for tick, (state, inputs) in enumerate(ticks(controller, 40)):
        if tick == 39:
            monkeypatch.setattr(idyn.model.robot, "pin", Counting())
        command = controller.step(state, controller.contacts(state), inputs)
        rungs.append(command.prediction.rung)
    assert rungs[-1] == "warm"
    assert counts == {"crba": 1, "nonLinearEffects": 1, "forwardKinematics": 1}


@every("name", ["quadruped", "quadruped-trot"])
def test_a_steady_tick_calls_few_functions(name):
    controller, called = load_controller(name), set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    for state, inputs in ticks(controller, 40):
        contacts = controller.contacts(state)
        called.clear()
        sys.setprofile(note)
        command = controller.step(state, contacts, inputs)
        sys.setprofile(None)
    assert command.prediction.rung == "warm"
    assert 10 < len(called) <= MOST_FUNCTIONS, sorted(called)
