"""Static deflection of mechanisms and elastic blocks, computed without constraint rows, engines or Pinocchio."""

import numpy as np
from scipy.optimize import root
from scipy.spatial.transform import Rotation

from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.scenes.bodies.elastic import grid_of, particles_of
from sim_harness.scenes.bodies.settings import BodySettings, JointSettings, SceneSettings
from sim_harness.scenes.bodies.urdf import anchor, mass_of

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


def block_statics(s: SceneSettings, body: int) -> float:
    """Return the static rise of a particle of a held elastic block under its weight [m].

    Linear elasticity for small displacements, with strains in Voigt's order.
    """
    name = s.body[body].name
    for block in s.elastic:
        particles = particles_of(block)
        names = [particle.name for particle in particles]
        if name in names and block.held:
            points, nodes = grid_of(block)
            K = _stiffness(points, nodes, block.young, block.poisson)
            free = np.array([particle.joint != "fixed" for particle in particles]).repeat(3)
            load = np.array([-mass_of(particle) * s.gravity * UP for particle in particles]).ravel()
            moved = np.zeros(len(load))
            moved[free] = np.linalg.solve(K[np.ix_(free, free)], load[free])
            return float(moved[3 * names.index(name) + 2])
    raise ConfigError("scene.measure.known = 'block-statics'", f"expected a particle of a held elastic block, got '{name}'")


def _stiffness(points: Array, nodes: Array, young: float, poisson: float) -> Array:
    """Return the stiffness matrix ∫ Bᵀ D B of all tetrahedra [N/m] (3n, 3n)."""
    factor = young / ((1 + poisson) * (1 - 2 * poisson))
    D = factor * np.diag([1 - poisson] * 3 + [(1 - 2 * poisson) / 2] * 3)
    D[:3, :3] += factor * poisson * (1 - np.eye(3))
    K = np.zeros((3 * len(points), 3 * len(points)))
    for corners in nodes:
        shape = np.linalg.inv(np.column_stack([np.ones(4), points[corners]]))[1:]  # gradients of the four shape functions
        B = np.zeros((6, 12))
        for k, (x, y, z) in enumerate(shape.T):
            B[:, 3 * k : 3 * k + 3] = [[x, 0, 0], [0, y, 0], [0, 0, z], [y, x, 0], [0, z, y], [z, 0, x]]
        volume = abs(np.linalg.det(np.column_stack([np.ones(4), points[corners]]))) / 6
        where = (3 * corners[:, None] + np.arange(3)).ravel()
        K[np.ix_(where, where)] += volume * B.T @ D @ B
    return K
