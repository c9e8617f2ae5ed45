"""Quadrupeds on legs of two hinges, of closed chains and of many hinges, that walk in MuJoCo, served in process."""

import numpy as np
import pytest
from fast import full
from many_hinges import PLACES, angles_of, urdf_of

from controllers.robot.kinematics import contact_places
from controllers.robot.load import load_robot
from sim_harness.robot.lying import PerturbationSettings, perturbed
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller

WALK = {"pattern": "walk", "period": 0.6, "duty": 0.8}
TROT = {"pattern": "trot"}

MANY = """
[robot]
urdf = "hinges.urdf"
armature = 0.002
contact = [{contact}]
standing = {{ {standing} }}

[controller]
contact.source = "planner"
torque_feedback = {{ kp = 10.0, kd = 0.3 }}
safety.torque_rate = inf
reference = {{ kind = "gait", start = 0.5, gait = {{ period = 0.4, duty = 0.7, step_height = 0.03 }} }}

[experiment]
laws = ["coulomb"]
engine = "mujoco"
contacts = "binary"
duration = 4.0
paced = false
"""


def walk(experiment, seconds, speed, gait, seed=0):
    """Run at a constant forward speed [m/s]."""
    reference = {"gait": gait, "path": {"waypoints": [], "velocity": [speed, 0.0, 0.0]}}
    plan = with_controller(load_plan(experiment, seconds, "mujoco"), {"law": "coulomb", "reference": reference})
    return run_in_process(plan, "coulomb", lambda label, ticks: None, seed=seed)


def is_a_good_walk(run, speed):
    """Upright, as fast as commanded, joints where they should be, smooth torques, forces as predicted."""
    s = run.summary
    assert s.upright
    assert s.forward == pytest.approx(speed, rel=0.05)
    assert s.tilt < 0.05
    assert s.tracking < 0.005
    assert s.torque_rate < 35.0
    assert s.force_error_relative < 0.04
    assert s.modes["ok"] > 0.99
    return True


@full
@pytest.mark.parametrize(("gait", "speed"), [(TROT, 0.3), (WALK, 0.15)], ids=["trot", "walk"])
@pytest.mark.parametrize("robot", ["solo8", "fivebar"])
def test_robots_on_two_hinges_and_on_closed_legs_walk(robot, gait, speed):
    assert is_a_good_walk(walk(f"trot-{robot}", 5.0, speed, gait), speed)


@full
@pytest.mark.parametrize("hinges", [(4, 4), (4, 7)], ids=str)
def test_robots_on_legs_of_many_hinges_walk(tmp_path, hinges):
    (tmp_path / "hinges.urdf").write_text(urdf_of(*hinges))
    contact = ", ".join(f'{{ frame = "{leg}_foot", radius = 0.01, mu = 0.8 }}' for leg in PLACES)
    standing = ", ".join(f"{joint} = {angle}" for joint, angle in angles_of(*hinges).items())
    (tmp_path / "hinges.toml").write_text(MANY.format(contact=contact, standing=standing))
    assert is_a_good_walk(walk(str(tmp_path / "hinges.toml"), 4.0, 0.2, TROT), 0.2)


def start_of(name, seed=1):
    robot, stance = load_robot(name)
    return robot, stance, *perturbed(robot, stance, PerturbationSettings(shift=1e-3, speed=0.1), seed)


def test_a_displaced_start_carries_feet_of_two_hinges_sideways():
    robot, stance, q, _ = start_of("solo8")
    shift, moved = q[:3] - stance[:3], contact_places(robot, q) - contact_places(robot, stance)
    assert np.abs(shift).min() > 1e-5
    np.testing.assert_allclose(moved, [[0.0, shift[1], 0.0]] * 4, atol=1e-9)


def test_a_displaced_start_leaves_chains_closed():
    """In position and velocity; the motors have random speeds."""
    robot, stance, q, v = start_of("fivebar")
    gaps, G = robot.closure_gaps(q)
    assert np.abs(gaps).max() < 1e-8
    assert np.abs(G @ v).max() < 1e-9
    assert np.abs(v[robot.tree.a]).min() > 0.001
    assert not v[:6].any()
    np.testing.assert_allclose(contact_places(robot, q)[:, [0, 2]], contact_places(robot, stance)[:, [0, 2]], atol=1e-8)
