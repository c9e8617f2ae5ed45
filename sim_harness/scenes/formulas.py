"""What is known of a scene without simulating it, from its own numbers."""

from collections.abc import Callable

import numpy as np

from sim_harness.scenes.contacts import GROUND, touching_materials
from sim_harness.scenes.settings import SceneSettings
from sim_harness.scenes.touch import half_extents
from sim_harness.scenes.urdf import body_pose, inertia, mass_of

Formula = Callable[[SceneSettings, int], float]
"""Of a scene and the index of a body."""


def slope(s: SceneSettings) -> float:
    """[rad]"""
    return 0.0 if s.ground is None else s.ground.slope


def friction(s: SceneSettings, body: int) -> float:
    """Coefficient between a body and the ground."""
    return touching_materials(s, body, GROUND).mu


def press(s: SceneSettings) -> float:
    """The part of gravity that presses on the ground [m/s²]."""
    return s.gravity * float(np.cos(slope(s)))


def pull(s: SceneSettings) -> float:
    """The part of gravity along x [m/s²]."""
    return -s.gravity * float(np.sin(slope(s)))


def stop_distance(s: SceneSettings, body: int) -> float:
    """v² / 2 μ g: of a block on level ground [m]."""
    return s.body[body].velocity[0] ** 2 / (2 * friction(s, body) * s.gravity)


def sliding(s: SceneSettings, body: int) -> float:
    """Acceleration of a block at rest on a slope: 0 up to atan μ, beyond it what friction leaves of gravity [m/s²]."""
    along, held = pull(s), friction(s, body) * press(s)
    return float(np.sign(along)) * max(0.0, abs(along) - held)


def rolling(s: SceneSettings, body: int) -> float:
    """Acceleration of a sphere or a cylinder at rest on a slope: g sin α / (1 + I/m r²) while it rolls, which needs friction of
    tan α / (1 + m r²/I); with less it slips [m/s²]."""
    shape = s.body[body].shape
    radius = shape.sphere if shape.cylinder is None else shape.cylinder[0]
    assert radius is not None, "rolling: expected a sphere or a cylinder"
    ratio = float(inertia(shape)[2]) / radius**2
    rolls = abs(pull(s)) / (1 + 1 / ratio) <= friction(s, body) * press(s)
    return pull(s) / (1 + ratio) if rolls else sliding(s, body)


def weight(s: SceneSettings, body: int) -> float:
    """Of one body, what presses on the ground [N]."""
    return mass_of(s.body[body]) * press(s)


def whole_weight(s: SceneSettings, body: int) -> float:
    """Of all bodies that are not fixed [N]."""
    return sum(mass_of(each) for each in s.body if each.joint != "fixed") * press(s)


def fall_time(s: SceneSettings, body: int) -> float:
    """Until a body at rest above the ground is there: √(2 h / g) [s]."""
    height = s.body[body].position[2] - half_extents(s.body[body].shape, body_pose(s.body[body]).rotation)[2]
    return float(np.sqrt(2 * height / s.gravity))


FORMULAS: dict[str, Formula] = {
    "nothing": lambda s, body: 0.0,
    "stop-distance": stop_distance,
    "sliding": sliding,
    "rolling": rolling,
    "weight": weight,
    "whole-weight": whole_weight,
    "fall-time": fall_time,
}
