"""Run another project's task controller: `PYTHON serve.py tsid|placo`, started by `sim_harness.compare.tasks.peer`.

The first line on stdin is JSON, as `Setup`. Then each tick is a block of doubles: q (nq) and v (nv) in Pinocchio's order, trunk
and foot (9 each: position, velocity, acceleration), which contacts stand (0 or 1), normal force that is asked for (NaN: none).
The answer is a block of doubles: run time [s], whether there is a solution (0 or 1), torques, normal force of each contact.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace

import numpy as np


class Setup(SimpleNamespace):
    """What a controller is built from.

    urdf: path; base, contacts: names of links
    swinging: link of the free foot; pressing: number of the contact whose force is asked for
    joints, armature, effort, angles: name, rotor inertia, torque limit and posture of each actuated joint
    mu, margin: friction coefficient and the share of it that is not used; least: least normal force [N]
    stiffness, damping: of all tasks; dt: period [s]; q: stance
    """


class Tick:
    """Measured state and targets of a tick, see the module."""

    def __init__(self, values: np.ndarray, nq: int, nv: int, contacts: int) -> None:
        ends = np.cumsum([nq, nv, 9, 9, contacts])
        self.q, self.v, self.trunk, self.foot, self.stands, (self.presses,) = np.split(values, ends)


def main(name: str) -> None:
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print goes to stderr
    setup = Setup(**json.loads(stdin.readline()))
    controller = import_module(f"{name}_controller").Controller(setup)
    nq, na, contacts = len(setup.q), len(setup.joints), len(setup.contacts)
    nv, size = na + 6, nq + na + 6 + 18 + contacts + 1
    stdout.write(b"ready\n")
    stdout.flush()
    while len(block := stdin.read(8 * size)) == 8 * size:
        tick = Tick(np.frombuffer(block), nq, nv, contacts)
        begin = perf_counter()
        tau, normal, ok = controller.tick(tick)
        seconds = perf_counter() - begin
        stdout.write(np.concatenate([[seconds, ok], tau, normal]).tobytes())
        stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(sys.argv[1])
