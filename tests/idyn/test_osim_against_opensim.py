"""A model with all kinds of joints moves, and needs the forces, that OpenSim says.

`IDYN_OPENSIM` names an interpreter that has OpenSim (`pip install opensim`); the tests are skipped without it.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from osim_models import LINEAR, body, coordinate, joint, model, offset, transform

from idyn.explain.explanation import load_walker

OPENSIM = os.environ.get("IDYN_OPENSIM")

pytestmark = [pytest.mark.full, pytest.mark.skipif(OPENSIM is None, reason="IDYN_OPENSIM names no interpreter with OpenSim")]

BREADTH_FIRST = ["r1", "r2", "r3", "t1", "t2", "t3", "k", "g1", "g2", "g3", "p", "pl1", "pl2", "pl3", "u1", "u2", "s"]
"""Coordinates of `every_joint` in the order of OpenSim's accelerations."""


def spline(y):
    return f'<SimmSpline name="function"><x>-2 -1 0 1 2</x><y>{y}</y></SimmSpline>'


def every_joint():
    inertias = "0.2 0.3 0.25 0.01 0.02 -0.01", "0.1 0.05 0.1 0 0.01 0", *["0.02 0.02 0.02 0 0 0"] * 5
    bodies = "".join(body(name, str(3 + k), f"0.1 -0.2 0.0{k}", inertias[k]) for k, name in enumerate("abcdefg"))
    free = zip(
        ("rotation1", "rotation2", "rotation3", "translation1", "translation2", "translation3"), BREADTH_FIRST, strict=False
    )
    along = ("0 0 1", "1 0 0", "0 1 0", "1 0 0", "0 1 0", "0 0 1")
    root = {axis: (name, direction, LINEAR) for (axis, name), direction in zip(free, along, strict=True)}
    lift = '<PolynomialFunction name="function"><coefficients>0.02 0.1 -0.4</coefficients></PolynomialFunction>'
    knee = {
        "rotation1": ("k", "0.1 -0.2 1", LINEAR),
        "rotation2": ("k", "1 0 0", spline("0.1 0.05 0 0.02 0.1")),
        "translation1": ("k", "1 0 0", spline("0.01 0.05 0 0.02 0.03")),
        "translation2": ("k", "0 1 0", lift),
    }
    joints = joint("CustomJoint", "root", ("/ground", "/bodyset/a"), names("r1 r2 r3 t1 t2 t3"), "", transform(**root))
    joints += joint("CustomJoint", "knee", ("from", "to"), names("k"), frames("a", "b"), transform(**knee))
    for kind, parent, child, own in (
        ("PinJoint", "b", "c", "p"),
        ("UniversalJoint", "c", "d", "u1 u2"),
        ("GimbalJoint", "a", "e", "g1 g2 g3"),
        ("PlanarJoint", "e", "f", "pl1 pl2 pl3"),
        ("SliderJoint", "f", "g", "s"),
    ):
        joints += joint(kind, f"{kind}_{child}", ("from", "to"), names(own), frames(parent, child))
    return model(bodies, joints)


def names(words):
    return "".join(map(coordinate, words.split()))


def frames(parent, child):
    there = offset("from", f"/bodyset/{parent}", "0.1 -0.4 0.02", "0.1 0.2 -0.3")
    return there + offset("to", f"/bodyset/{child}", "0.02 0.03 0.01", "-0.2 0.1 0.4")


def compare(path, order):
    """Random states: places and velocities of all bodies, and generalised forces of all coordinates."""
    rng = np.random.default_rng(7)
    states = [{name: rng.uniform(-0.9, 0.9, 3).tolist() for name in order} for _ in range(5)]
    script = Path(__file__).parent / "opensim_oracle.py"
    answer = subprocess.run([OPENSIM, script, path], input=json.dumps(states), capture_output=True, text=True, check=True)
    robot, coordinates = load_walker(path)
    ground = coordinates.ground
    for state, wanted in zip(states, json.loads(answer.stdout.splitlines()[-1]), strict=True):
        c, c1, c2 = (np.array([[state[name][k] for name in coordinates.names]]) for k in range(3))
        q, v, a = coordinates.joint_motion(c, c1, c2)
        for name, (place, velocity) in wanted["places"].items():
            np.testing.assert_allclose(robot.frames.placement(name, q[0]).translation @ ground, place, atol=1e-12)
            np.testing.assert_allclose(robot.frames.velocity(name, q[0], v[0])[:3] @ ground, velocity, atol=1e-12)
        tau = coordinates.moments(c, robot.inverse_dynamics(q[0], v[0], a[0])[None])[0]
        np.testing.assert_allclose(tau, [wanted["tau"][name] for name in coordinates.names], atol=1e-8)


def test_every_kind_of_joint(tmp_path):
    path = tmp_path / "all.osim"
    path.write_text(every_joint())
    compare(path, BREADTH_FIRST)
