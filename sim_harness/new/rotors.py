"""Rotor inertias, which a URDF does not have: guessed for joints whose links are too light for the gains."""

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.new.toml import damping_of, rounded

PERIOD = 1e-3
"""Of the controller and of the drives [s]."""

SHOWN = 4
"""Names of joints in the sentence."""

MARGIN = 4.0
"""Least inertia of a joint over damping × period. Below 0.5 the damping is unstable."""


def rotors_of(robot: Robot, q: Array, stiffness: float) -> tuple[dict[str, float], list[str]]:
    """Return the rotor inertias of all joints, if the gains need more than the model has, and a sentence about them.

    q: standing configuration; stiffness: weight × hip height, from which the gains follow [N·m/rad]
    """
    apparent = 1.0 / np.diag(np.linalg.inv(robot.terms(q, np.zeros(robot.nv)).M))[robot.tree.a]
    least = rounded(MARGIN * damping_of(stiffness) * PERIOD)
    light = [robot.joint_names[k] for k in np.flatnonzero(apparent < least).tolist()]
    if not light:
        return {}, []
    own = robot.description.armature
    assert isinstance(own, dict)  # as `Robot` stores it
    shown = ", ".join(light[:SHOWN]) + (f" and {len(light) - SHOWN} more" if len(light) > SHOWN else "")
    said = f"rotor inertia guessed, {least:g} kg·m², because the links alone are too light for the gains: {shown}"
    return own | {name: max(least, own.get(name, 0.0)) for name in light}, [said]
