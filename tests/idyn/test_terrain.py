"""Terrains: distances against brute force, normals as the distance's gradient, friction by place and seed."""

import numpy as np
import pytest
from fast import every
from scenes import walker
from scipy.optimize import minimize

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.heightmap import Heightmap, hills
from idyn.contact.terrain import Flat, FrictionMap, Slope, Stairs

SEED = 3


def paper_hills(seed=SEED):
    return hills(side=3.0, resolution=0.02, count=1000, height=0.03, variance=0.005, spread=0.5, seed=seed)


@pytest.fixture(scope="module")
def hilly():
    return Heightmap(paper_hills(), 0.02)


def near(terrain_height, count, reach, low, high, seed=0):
    """Points above and below a surface."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-reach, reach, (count, 3))
    points[:, 2] = terrain_height(points) + rng.uniform(low, high, count)
    return points


TERRAINS = {
    "flat": (Flat(0.07), lambda p: np.full(len(p), 0.07)),
    "slope": (Slope(0.3, 0.02), lambda p: 0.02 + p[:, 0] * np.tan(0.3)),
    "stairs": (Stairs(0.1, 0.2, 0.05, 3, 0.01), lambda p: 0.01 + 0.05 * np.clip(np.floor((p[:, 0] - 0.1) / 0.2) + 1, 0, 3)),
    "hills": (Heightmap(paper_hills(), 0.02), None),
}


def height_of(name):
    terrain, height = TERRAINS[name]
    return height or terrain.height


@every("name", sorted(TERRAINS))
def test_the_normal_is_the_gradient_of_the_distance(name):
    terrain = TERRAINS[name][0]
    points = near(height_of(name), 200, 1.4, -0.02, 0.05)
    _, normals = terrain.query(points)
    e = 1e-6
    gradient = np.column_stack([(terrain.query(points + d)[0] - terrain.query(points - d)[0]) / (2 * e) for d in e * np.eye(3)])
    kinks = np.abs(np.linalg.norm(gradient, axis=1) - 1) > 1e-3  # equally near to two steps
    assert kinks.mean() <= (0.02 if name == "stairs" else 0)
    np.testing.assert_allclose(normals[~kinks], gradient[~kinks], atol=1e-6)


@every("name", sorted(TERRAINS))
def test_a_step_of_the_distance_along_the_normal_lands_on_the_surface(name):
    terrain = TERRAINS[name][0]
    points = near(height_of(name), 200, 1.4, -0.02, 0.05)
    distances, normals = terrain.query(points)
    foot = points - distances[:, None] * normals
    assert np.abs(terrain.query(foot)[0]).max() < 1e-12
    if name != "stairs":  # where the height is no function of the place
        np.testing.assert_allclose(foot[:, 2], height_of(name)(foot), atol=1e-12)


@every("name", sorted(TERRAINS))
def test_the_distance_is_positive_above_and_negative_below(name):
    points = near(height_of(name), 300, 1.4, -0.05, 0.05, seed=1)
    distances, _ = TERRAINS[name][0].query(points)
    np.testing.assert_array_equal(distances > 0, points[:, 2] > height_of(name)(points))


def test_no_point_of_the_hills_is_nearer(hilly):
    """Against a direct search over a fine patch around each point, polished by a general minimiser."""
    offsets = np.stack(np.meshgrid(*[np.linspace(-0.06, 0.06, 61)] * 2), axis=-1).reshape(-1, 2)
    for point in near(hilly.height, 40, 1.4, -0.03, 0.05, seed=2):
        patch = np.column_stack([point[:2] + offsets, np.zeros(len(offsets))])
        patch[:, 2] = hilly.height(patch)
        start = patch[np.argmin(np.linalg.norm(patch - point, axis=1))]

        def distance(xy, point=point):
            z = hilly.height(np.array([[*xy, 0.0]]))[0]
            return np.linalg.norm(np.array([*xy, z]) - point)

        best = minimize(distance, start[:2], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}).fun
        assert abs(hilly.query(point[None])[0][0]) == pytest.approx(best, abs=1e-9)


def test_no_point_of_the_stairs_is_nearer():
    terrain, _ = TERRAINS["stairs"]
    along, up = np.linspace(-2, 2, 40001), np.linspace(0, 1, 2001)[:, None]
    treads = np.column_stack([along, height_of("stairs")(along[:, None])])
    risers = [np.hstack([np.full_like(up, 0.1 + 0.2 * k), 0.01 + 0.05 * (k + up)]) for k in range(3)]
    profile = np.vstack([treads, *risers])
    for point in near(height_of("stairs"), 100, 1.0, -0.03, 0.08, seed=4):
        nearest = np.linalg.norm(profile - point[[0, 2]], axis=1).min()
        assert abs(terrain.query(point[None])[0][0]) == pytest.approx(nearest, abs=1e-6)


def test_distance_and_normal_in_each_region_of_a_step():
    stairs = Stairs(0.0, 0.2, 0.05, 1)
    cases = {
        (-0.1, 0.02): (0.02, (0, 1)),  # over the lower tread
        (-0.01, 0.03): (0.01, (-1, 0)),  # before the riser
        (-0.03, 0.09): (0.05, (-0.6, 0.8)),  # before the edge
        (0.1, 0.06): (0.01, (0, 1)),  # over the upper tread
        (0.01, 0.02): (-0.01, (-1, 0)),  # inside, behind the riser
        (0.1, 0.04): (-0.01, (0, 1)),  # inside, under the tread
        (0.1, 0.05): (0, (0, 1)),  # on it
    }
    for (x, z), (distance, normal) in cases.items():
        distances, normals = stairs.query(np.array([[x, 0.3, z]]))
        assert distances[0] == pytest.approx(distance, abs=1e-15)
        np.testing.assert_allclose(normals[0, [0, 2]], normal, atol=1e-12)


def test_hills_have_the_given_height_and_pass_through_the_grid(hilly):
    heights = paper_hills()
    assert heights.shape == (151, 151)
    assert heights.min() == 0
    assert heights.max() == pytest.approx(0.03, abs=1e-15)
    lines = np.linspace(-1.5, 1.5, 151)
    grid = np.array([(x, y, 0) for x in lines for y in lines])
    np.testing.assert_allclose(hilly.height(grid), heights.ravel(), atol=1e-14)


def test_hills_continue_smoothly_beyond_their_border(hilly):
    outside = np.array([[1.9, 0.4, 0.01], [-1.7, -2.0, 0.01]])
    np.testing.assert_allclose(hilly.height(outside), hilly.height(np.clip(outside, -1.5, 1.5)), atol=1e-15)
    _, normals = hilly.query(np.array([[1.5 - 1e-9, 0.4, 0.01], [1.5 + 1e-9, 0.4, 0.01]]))
    np.testing.assert_allclose(normals[0], normals[1], atol=1e-6)


def test_equal_seeds_give_equal_terrain():
    assert (paper_hills() == paper_hills()).all()
    assert np.abs(paper_hills() - paper_hills(SEED + 1)).max() > 0.001
    points = np.random.default_rng(0).uniform(-3, 3, (1000, 3))
    mu = FrictionMap(0.1, 1.5, 0.05, 7).at(points)
    assert (mu == FrictionMap(0.1, 1.5, 0.05, 7).at(points)).all()
    assert (mu != FrictionMap(0.1, 1.5, 0.05, 8).at(points)).mean() > 0.99


def test_friction_is_uniform_over_footholds_and_constant_on_each():
    friction = FrictionMap(0.1, 1.5, 0.05, 7)
    centres = np.array([(0.05 * i + 0.025, 0.05 * j + 0.025, 0) for i in range(-50, 50) for j in range(-50, 50)])
    mu = friction.at(centres)
    assert 0.1 <= mu.min() < 0.11
    assert 1.49 < mu.max() <= 1.5
    assert mu.mean() == pytest.approx(0.8, abs=0.02)
    assert mu.std() == pytest.approx(1.4 / np.sqrt(12), abs=0.01)
    elsewhere = centres + np.random.default_rng(1).uniform(-0.024, 0.024, centres.shape)
    assert (friction.at(elsewhere) == mu).all()


def test_contacts_have_the_friction_of_the_ground_unless_given():
    robot, q = walker("quadruped")
    friction = FrictionMap(0.1, 1.5, 0.05, 7)
    contacts = contacts_from_geometry(robot, q, Flat(friction=friction), margin=1.0)
    assert (contacts.mu == friction.at(contacts.points)).all()
    assert len(set(contacts.mu)) == 4
    assert (contacts_from_geometry(robot, q, Flat(), margin=1.0).mu == robot.spheres.mu).all()
    told = contacts_from_geometry(robot, q, Flat(friction=friction), margin=1.0, mu=np.full(4, 0.3))
    assert (told.mu == 0.3).all()


def test_contact_points_of_feet_lie_at_the_surface_of_the_hill(hilly):
    robot, q = walker("quadruped")
    contacts = contacts_from_geometry(robot, q, hilly, margin=1.0)
    radii = robot.spheres.radii
    surface = contacts.points - contacts.gaps[:, None] * contacts.normals
    np.testing.assert_allclose(surface[:, 2], hilly.height(surface), atol=1e-12)
    np.testing.assert_allclose(
        np.cross(contacts.tangents, np.cross(contacts.normals, contacts.tangents)), contacts.normals, atol=1e-12
    )
    np.testing.assert_allclose(hilly.query(contacts.points)[0] + radii, contacts.gaps + radii, atol=1e-12)


class Water:
    """A user's terrain, with arrays of its own kind."""

    friction = None

    def query(self, points):
        return points[:, 2], np.broadcast_to([0, 0, 1], points.shape)


def test_terrains_may_return_arrays_of_any_dtype_and_layout():
    robot, q = walker("quadruped")
    own, ours = (contacts_from_geometry(robot, q, terrain, margin=1.0) for terrain in (Water(), Flat()))
    for field in ("points", "normals", "tangents", "gaps"):
        np.testing.assert_array_equal(getattr(own, field), getattr(ours, field))


def test_the_plane_accepts_points_of_any_dtype_and_layout():
    points = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected = points[:, 2].astype(np.float64) - 0.07
    for given in (points, np.asfortranarray(points), np.repeat(points, 2, axis=0)[::2]):
        np.testing.assert_allclose(Flat(0.07).query(given)[0], expected, atol=1e-12)
