"""Elastic blocks of a scene: particles (bodies on three slides) and the tetrahedra between them."""

from itertools import permutations

import numpy as np

from idyn.types import Array
from sim_harness.scenes.bodies.model import SceneModel
from sim_harness.scenes.bodies.settings import BodySettings, ElasticSettings, JointSettings, Shape
from sim_harness.scenes.bodies.urdf import joint_name
from sim_harness.world.elements import Elastic, elastic_body, element_rows


def grid_of(block: ElasticSettings) -> tuple[Array, Array]:
    """Return the rest positions of the particles [m] (n, 3) and the corners of the tetrahedra (k, 4).

    Particles are numbered along z first, then y, then x. Each cell has six tetrahedra, one for each order of the axes in a path
    of edges from its lowest to its highest corner.
    """
    counts = np.array(block.cells) + 1
    steps = np.stack(np.meshgrid(*(np.arange(count) for count in counts), indexing="ij"), axis=-1).reshape(-1, 3)
    low = steps[(steps < counts - 1).all(axis=1)]
    stride = np.array([counts[1] * counts[2], counts[2], 1])
    paths = np.array(
        [np.cumsum([np.zeros(3, int), *np.eye(3, dtype=int)[list(order)]], axis=0) for order in permutations(range(3))]
    )
    nodes = ((low[:, None, None] + paths[None]) @ stride).reshape(-1, 4)
    return np.array(block.corner) + steps * np.array(block.size) / block.cells, nodes


def elastic_of(block: ElasticSettings) -> Elastic:
    """Return the tetrahedra of a block with their material."""
    points, nodes = grid_of(block)
    return elastic_body(points, nodes, block.young, block.poisson, block.energy)


def particles_of(block: ElasticSettings) -> list[BodySettings]:
    """Return the particles of a block; each corner has a quarter of its tetrahedra's mass.

    If `block.held`, the particles with the lowest x are fixed.
    """
    points, nodes = grid_of(block)
    masses = np.zeros(len(points))
    np.add.at(masses, nodes, block.density * elastic_of(block).volumes[:, None] / 4)
    slides = tuple(JointSettings(kind="slide", axis=(x, y, z)) for x, y, z in np.eye(3).tolist())
    held = block.held & (points[:, 0] == points[:, 0].min())
    return [
        BodySettings(
            name=f"{block.name}-{i}",
            shape=Shape(sphere=block.radius),
            mass=float(masses[i]),
            material=block.material,
            position=tuple(points[i].tolist()),
            joint="fixed" if held[i] else slides,
            touches=block.touches,
        )
        for i in range(len(points))
    ]


class ElasticBlock:
    """Constraint rows of an elastic block in a scene."""

    def __init__(self, model: SceneModel, settings: ElasticSettings) -> None:
        self._model, self._elastic, self._dissipation = model, elastic_of(settings), settings.dissipation
        names = [body.name for body in particles_of(settings)]
        self._bodies = np.array([model.names.index(name) for name in names])
        moving = [i for i, name in enumerate(names) if joint_name(model.settings.body[self._bodies[i]]) in model.dofs]
        bodies = [model.settings.body[self._bodies[i]] for i in moving]
        self._columns = (3 * np.array(moving, dtype=np.int64)[:, None] + np.arange(3)).ravel()
        self._dofs = np.array([model.dofs[joint_name(body, k)][0] for body in bodies for k in range(3)], dtype=np.int64)

    def rows(self, q: Array) -> tuple[Array, Array, Array, Array]:
        """Return G (m, nv), g, compliance and dissipation (m) at q."""
        along, g, compliance = element_rows(self._elastic, self._model.place(q)[1][self._bodies])
        G = np.zeros((len(g), self._model.robot.nv))
        G[:, self._dofs] = along[:, self._columns]
        return G, g, compliance, np.full(len(g), self._dissipation)
