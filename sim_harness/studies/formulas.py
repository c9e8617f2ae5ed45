"""Analytic values of a scene, computed from its settings without simulation."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import root
from scipy.spatial.transform import Rotation

from controllers.config.tables import KIND
from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.studies.scenes.contacts import GROUND, half_extents, touching_materials
from sim_harness.studies.scenes.scene_model import anchor, body_pose, inertia, is_loose, mass_of
from sim_harness.studies.scenes.scene_settings import BodySettings, JointSettings, SceneSettings

UP = np.array([0.0, 0.0, 1.0])


def hinges(s: SceneSettings, body: int) -> float:
    """Return the rise of a body at the end of a chain of hinges with springs or compliant stops, from start to rest [m].

    For small angles the rotations are M_i / k_i; here the equilibrium is solved for large angles.
    """
    chain = _chain(s, s.body[body])
    start = np.array([joint.start for _, joint in chain])
    found = root(lambda angles: _torques(s, chain, angles), np.zeros(len(chain)), tol=1e-14)
    return float((_places(chain, found.x)[1][-1] - _places(chain, start)[1][-1])[2])


def at_stop(s: SceneSettings, body: int) -> float:
    """Return the rise of a body on a hinge from its start to its upper stop [m]."""
    chain = _chain(s, s.body[body])
    joint = chain[0][1]
    if len(chain) != 1 or joint.stop is None:
        raise ConfigError("scene.measure.known = 'at-stop'", "expected a body on one hinge with a stop")
    (end,), (start,) = (_places(chain, np.array([angle]))[1] for angle in (joint.stop[1], joint.start))
    return float((end - start)[2])


def _chain(s: SceneSettings, last: BodySettings) -> list[tuple[BodySettings, JointSettings]]:
    """Return the bodies from the world to this one with their hinges. Raises ConfigError for other joints."""
    names, out = {body.name: body for body in s.body}, []
    while True:
        if isinstance(last.joint, str) or [joint.kind for joint in last.joint] != ["hinge"]:
            raise ConfigError("scene.measure.known = 'hinges'", f"expected one hinge between '{last.name}' and its parent")
        out.append((last, last.joint[0]))
        if not last.parent:
            return out[::-1]
        last = names[last.parent]


def _places(chain: list[tuple[BodySettings, JointSettings]], angles: Array) -> tuple[list[Array], list[Array], list[Array]]:
    """Return anchors [m], centres [m] and axes of the hinges at given angles."""
    turn, shift = np.eye(3), np.zeros(3)  # motion of the parent from the reference configuration
    anchors, centres, axes = [], [], []
    for (body, joint), angle in zip(chain, angles, strict=True):
        pivot, axis = turn @ anchor(body, joint) + shift, turn @ (np.array(joint.axis) / np.linalg.norm(joint.axis))
        turn = Rotation.from_rotvec(angle * axis).as_matrix() @ turn
        shift = pivot - turn @ anchor(body, joint)
        anchors.append(pivot)
        centres.append(turn @ np.array(body.position) + shift)
        axes.append(axis)
    return anchors, centres, axes


def _torques(s: SceneSettings, chain: list[tuple[BodySettings, JointSettings]], angles: Array) -> Array:
    """Return the resulting torque of gravity, forces, spring and stop about each hinge [N·m]."""
    anchors, centres, axes = _places(chain, angles)
    loads = [
        -mass_of(body) * s.gravity * UP + sum((np.array(f.force) for f in s.force if f.body == body.name), np.zeros(3))
        for body, _ in chain
    ]
    out = np.zeros(len(chain))
    for i, (_, joint) in enumerate(chain):
        moment = sum((np.cross(centres[j] - anchors[i], loads[j]) for j in range(i, len(chain))), np.zeros(3))
        low, high = joint.stop or (-np.inf, np.inf)
        passed = max(low - angles[i], 0.0) - max(angles[i] - high, 0.0)
        stop = joint.stop_stiffness * passed if passed else 0.0
        out[i] = moment @ axes[i] - joint.stiffness * (angles[i] - joint.rest) + stop
    return out


Formula = Callable[[SceneSettings, int], float]  # function of a scene and the index of a body


def _require(condition: bool, formula: str, expected: str) -> None:
    """Raise ConfigError when a formula does not apply to a scene."""
    if not condition:
        raise ConfigError(f"scene.measure.known = '{formula}'", f"expected {expected}")


def slope(s: SceneSettings) -> float:
    """Return the slope of the ground [rad]."""
    return 0.0 if s.ground is None else s.ground.slope


def friction(s: SceneSettings, body: int) -> float:
    """Return the friction coefficient between a body and the ground."""
    return touching_materials(s, body, GROUND).mu


def press(s: SceneSettings) -> float:
    """Return the component of gravity normal to the ground [m/s²]."""
    return s.gravity * float(np.cos(slope(s)))


def pull(s: SceneSettings) -> float:
    """Return the component of gravity along x [m/s²]."""
    return -s.gravity * float(np.sin(slope(s)))


def viscous_way(s: SceneSettings, body: int) -> float:
    """Return the distance that a block slides on four corners with the friction of the engine `viscous` [m].

    m v / c (1 − exp(−c t / m)) with c = 4 μ_v
    """
    coefficients = [each["coefficient"] for each in s.engines if isinstance(each, dict) and each.get(KIND) == "viscous"]
    _require(bool(coefficients), "viscous-way", "the engine 'viscous' with a coefficient")
    rate = 4 * coefficients[0] / mass_of(s.body[body])
    return float(s.body[body].velocity[0] / rate * -np.expm1(-rate * s.duration))


def sliding(s: SceneSettings, body: int) -> float:
    """Return the acceleration of a block at rest on a slope: 0 up to atan μ, else gravity minus friction [m/s²]."""
    along, held = pull(s), friction(s, body) * press(s)
    return float(np.sign(along)) * max(0.0, abs(along) - held)


def rolling(s: SceneSettings, body: int) -> float:
    """Return the acceleration of a sphere or cylinder that starts at rest on a slope [m/s²].

    It rolls with g sin α / (1 + I/m r²) when μ ≥ tan α / (1 + m r²/I), else it slips.
    """
    shape = s.body[body].shape
    _require(shape.box is None, "rolling", "a sphere or a cylinder")
    radius = shape.cylinder[0] if shape.cylinder is not None else shape.sphere or 0.0
    ratio = float(inertia(shape)[2]) / radius**2
    rolls = abs(pull(s)) / (1 + 1 / ratio) <= friction(s, body) * press(s)
    return pull(s) / (1 + ratio) if rolls else sliding(s, body)


def weight(s: SceneSettings, body: int) -> float:
    """Return the normal component of the weight of one body [N]."""
    return mass_of(s.body[body]) * press(s)


def moving_mass(s: SceneSettings, first: int = 0) -> float:
    """Return the mass of all bodies from the first on that are not fixed [kg]."""
    return sum(mass_of(each) for each in s.body[first:] if each.joint != "fixed")


def whole_weight(s: SceneSettings, body: int) -> float:
    """Return the normal component of the weight of all bodies that are not fixed [N]."""
    return moving_mass(s) * press(s)


def fall_time(s: SceneSettings, body: int) -> float:
    """Return the time √(2 h / g) in which a body at rest falls to the ground [s]."""
    height = s.body[body].position[2] - half_extents(s.body[body].shape, body_pose(s.body[body]).rotation)[2]
    return float(np.sqrt(2 * height / s.gravity))


def lift(s: SceneSettings, body: int) -> float:
    """Return the upward acceleration of all bodies under all upward forces [m/s²]."""
    return sum(force.force[2] for force in s.force) / moving_mass(s) - s.gravity


def implicit_swing(s: SceneSettings, body: int) -> float:
    """Return the `swing` that implicit Euler leaves of a body on a spring along x, started at rest.

    A step multiplies the amplitude by 1/√(1 + h²ω²) and turns the phase by atan(hω).
    """
    rate, steps = s.dt * 2 * np.pi / spring_period(s, body), round(s.duration / s.dt)
    n = np.arange(1, steps + 1)[3 * steps // 4 :]
    return float((np.abs(np.cos(n * np.arctan(rate))) * (1 + rate**2) ** (-n / 2)).max())


def spring_period(s: SceneSettings, body: int) -> float:
    """Return the period of a body on a spring along x; with friction a cylinder rolls and its inertia adds to the mass [s]."""
    given = s.body[body]
    _require(bool(given.joints) and given.joints[0].stiffness > 0, "spring-period", "a slide with a spring first")
    inert = mass_of(given)
    if friction(s, body) > 0 and given.shape.cylinder is not None:
        inert *= 1 + float(inertia(given.shape)[2]) / given.shape.cylinder[0] ** 2
    return float(2 * np.pi * np.sqrt(inert / given.joints[0].stiffness))


def slip_under_pads(s: SceneSettings, body: int) -> float:
    """Return the distance that a body slips down between two pads whose force is low in a part of each period [m].

    In each period it slips by a t²/2 while the force is low, and then by the braking distance.
    """
    _require(bool(s.force), "slip-under-pads", "forces on the pads")
    pad = s.force[0]
    index = [each.name for each in s.body].index(pad.body)
    mu = min(s.body[body].material.mu, s.body[index].material.mu)
    down, up = (2 * mu * abs(force[0]) / mass_of(s.body[body]) for force in (pad.otherwise, pad.force))
    low, turns = pad.every - pad.duration, int(s.duration / pad.every)
    speed = max(0.0, s.gravity - down) * low
    return -turns * (speed * low / 2 + speed**2 / (2 * (up - s.gravity)))


def parallelogram_period(s: SceneSettings, body: int) -> float:
    """Return the period 2π √(I / g S) of small swings of a coupler on two parallel cranks along z, hinged to the world [s].

    I: inertia of the cranks about their hinges, plus the coupler's mass at the length of the cranks
    S: first moment of mass about the hinges
    """
    cranks = [each for each in s.body if not isinstance(each.joint, str) and not each.parent]
    _require(len(cranks) == 2, "parallelogram-period", "two bodies hinged to the world")
    length = 2 * float(np.linalg.norm(np.subtract(cranks[0].position, anchor(cranks[0], cranks[0].joints[0]))))
    coupler = sum(mass_of(each) for each in s.body if each.parent)
    crank_inertia = sum(mass_of(each) * (float(inertia(each.shape)[1]) + (length / 2) ** 2) for each in cranks)
    moment = sum(mass_of(each) * length / 2 for each in cranks) + coupler * length
    return float(2 * np.pi * np.sqrt((crank_inertia + coupler * length**2) / (s.gravity * moment)))


def pressed(s: SceneSettings, body: int) -> float:
    """Return the weight of a body plus all downward forces on it [N]."""
    return weight(s, body) - sum(force.force[2] for force in s.force if force.body == s.body[body].name)


def gripped(s: SceneSettings, body: int) -> float:
    """Return the upward acceleration of a body between pads pressed by forces along x [m/s²].

    It is 0 for m g ≤ μ Σ N, else friction minus gravity.
    """
    _require(bool(s.force), "gripped", "forces on the pads")
    names = [each.name for each in s.body]
    held = sum(touching_materials(s, body, names.index(force.body)).mu * abs(force.force[0]) for force in s.force)
    return -max(0.0, s.gravity - held / mass_of(s.body[body]))


def sinking(s: SceneSettings, body: int) -> float:
    """Return the penetration of a body at rest: its weight over the stiffness of all its contact points [m]."""
    material, shape = touching_materials(s, body, GROUND), s.body[body].shape
    points = 1 if s.shared or shape.sphere is not None else 4 * s.edge if shape.box is not None else 2
    return weight(s, body) / (points * material.stiffness)


def settling(s: SceneSettings, body: int) -> float:
    """Return the rise (negative) of a box on an elastic foundation under its weight and the forces on it [m]."""
    _require(s.cells > 0, "settling", "a scene with cells")
    return -pressed(s, body) / (s.cells**2 * touching_materials(s, body, GROUND).stiffness)


def reading(s: SceneSettings, body: int) -> float:
    """Return the displacement of a scale, a slide with a spring, under the weight of all bodies that are not fixed [m]."""
    joints = s.body[body].joints
    _require(bool(joints) and joints[0].stiffness > 0, "reading", "a slide with a spring")
    return -whole_weight(s, body) / joints[0].stiffness


FORMULAS: dict[str, Formula] = {
    "nothing": lambda s, b: 0.0,
    "all": lambda s, b: 1.0,
    "stop-distance": lambda s, b: s.body[b].velocity[0] ** 2 / (2 * friction(s, b) * s.gravity),
    "sliding-way": lambda s, b: sliding(s, b) * s.duration**2 / 2,
    "held": lambda s, b: mass_of(s.body[b]) * s.gravity,
    "loose-weight": lambda s, b: sum(mass_of(each) for each in s.body if is_loose(s, each)) * s.gravity,
    "stacked-weight": lambda s, b: moving_mass(s, b) * press(s),
    "squeeze": lambda s, b: sum(abs(force.force[0]) for force in s.force if force.body == s.body[b].name),
}
"""Formulas by name; the functions below have theirs. `stop-distance`: v² / 2 μ g of a block on level ground [m]; `sliding-way`:
a t² / 2 of a block from rest on a slope [m]; `held`: weight of a body for vertical gravity [N]; `loose-weight`: that of all
free bodies and bodies fixed to them; `stacked-weight`: normal component of the weight of a body and all bodies listed after it;
`squeeze`: sum of |f_x| over the external forces on a body [N]."""

FORMULAS |= {
    each.__name__.replace("_", "-"): each
    for each in (
        viscous_way, sliding, rolling, weight, whole_weight, fall_time, sinking, reading, lift, spring_period, slip_under_pads,
        parallelogram_period, pressed, settling, gripped, hinges, at_stop, implicit_swing,
    )
}  # fmt: skip
