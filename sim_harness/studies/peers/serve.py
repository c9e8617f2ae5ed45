"""Run another project's task controller: `PYTHON serve.py tsid|placo`, started by `sim_harness.studies.tasks`.

The first line on stdin is JSON, as `Setup`. Then each tick is a block of doubles: q (nq) and v (nv) in Pinocchio's order; trunk
and frames (9 each: position, velocity, acceleration; NaN: not asked for); which contacts stand (0 or 1); normal force that is
asked for (NaN: none); joint accelerations that are asked for (na; NaN: none).
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

    urdf: path; base, contacts: names of links; soles: numbers of the contacts that are the corners of one
    frames: links whose position may be asked for; pressing: number of the contact whose force may be
    joints, armature, effort, angles: name, rotor inertia, torque limit and posture of each actuated joint
    mu, margin: friction coefficient and the share of it that is not used; normal: of the ground; least: least normal force [N]
    stiffness, damping: of all tasks; dt: period [s]; q: stance
    accelerates: whether joint accelerations are asked for, instead of trunk and posture
    """


class Tick:
    """Measured state and targets of a tick, see the module."""

    def __init__(self, values: np.ndarray, nq: int, nv: int, frames: int, contacts: int) -> None:
        ends = np.cumsum([nq, nv, 9, 9 * frames, contacts, 1])
        self.q, self.v, self.trunk, rows, self.stands, (self.presses,), self.demand = np.split(values, ends)
        self.frames = rows.reshape(frames, 9)


def main(name: str) -> None:
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print goes to stderr
    setup = Setup(**json.loads(stdin.readline()))
    controller = import_module(f"{name}_controller").Controller(setup)
    nq, nv, frames, contacts = len(setup.q), len(setup.joints) + 6, len(setup.frames), len(setup.contacts)
    size = nq + nv + 9 + 9 * frames + contacts + 1 + len(setup.joints)
    stdout.write(b"ready\n")
    stdout.flush()
    while len(block := stdin.read(8 * size)) == 8 * size:
        tick = Tick(np.frombuffer(block), nq, nv, frames, contacts)
        controller.prepare(tick)
        begin = perf_counter()
        tau, normal, ok = controller.tick(tick)
        seconds = perf_counter() - begin
        stdout.write(np.concatenate([[seconds, ok], tau, normal]).tobytes())
        stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(sys.argv[1])
