"""Terrains: distances against brute force, normals as the distance's gradient, friction by place and seed."""

from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
from fast import every, every_row, fast, full
from scenes import walker
from scipy.optimize import minimize

from controllers.robot.load import load_robot, shared_folder
from idyn import Ground, ModelError, Robot, State
from idyn.contact.contacts import contacts_from_geometry, contacts_from_points, sphere_against_box
from idyn.contact.terrain import Boxes, Flat, FrictionMap, Heightmap, Slope, Stairs, hills
from idyn.errors import FrameNotFound, InputError
from idyn.model.description import Box, Description
from idyn.tasks import ComTask, FrameTask, PostureTask, SelfCollision, TaskLimits, TaskStack, predict_tasks
from idyn.terms.dynamics import evaluate

SEED = 3


def paper_hills(seed=SEED):
    return hills(side=3.0, resolution=0.02, count=1000, height=0.03, variance=0.005, spread=0.5, seed=seed)


def near(terrain_height, count, reach, low, high, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-reach, reach, (count, 3))
    points[:, 2] = terrain_height(points) + rng.uniform(low, high, count)
    return points


HILLY = Heightmap(paper_hills(), 0.02)
BOXES = np.array([[[0.2, -0.5, -0.1], [0.6, 0.5, 0.04]], [[-0.9, -0.9, 0.0], [-0.5, 0.1, 0.3]]])
TERRAINS = {
    "flat": (Flat(0.07), lambda p: np.full(len(p), 0.07)),
    "slope": (Slope(0.3, 0.02), lambda p: 0.02 + p[:, 0] * np.tan(0.3)),
    "stairs": (Stairs(0.1, 0.2, 0.05, 3, 0.01), lambda p: 0.01 + 0.05 * np.clip(np.floor((p[:, 0] - 0.1) / 0.2) + 1, 0, 3)),
    "boxes": (Boxes(BOXES, -0.02), None),
    "hills": (HILLY, None),
}
JUMPS = ("stairs", "boxes")
"""Terrains whose height is no function of the place."""


def height_of(name):
    terrain, height = TERRAINS[name]
    return height or terrain.height


@every("name", sorted(TERRAINS))
def test_the_distance_has_the_sign_of_the_height_and_its_gradient_leads_to_the_surface(name):
    terrain = TERRAINS[name][0]
    points = near(height_of(name), 300, 1.4, -0.05, 0.05, seed=1)
    np.testing.assert_array_equal(terrain.query(points)[0] > 0, points[:, 2] > height_of(name)(points))
    points = near(height_of(name), 200, 1.4, -0.02, 0.05)
    distances, normals = terrain.query(points)
    e = 1e-6
    gradient = np.column_stack([(terrain.query(points + d)[0] - terrain.query(points - d)[0]) / (2 * e) for d in e * np.eye(3)])
    kinks = np.abs(np.linalg.norm(gradient, axis=1) - 1) > 1e-3  # equally near to two steps
    assert kinks.mean() <= (0.02 if name in JUMPS else 0)
    np.testing.assert_allclose(normals[~kinks], gradient[~kinks], atol=1e-6)
    foot = points - distances[:, None] * normals
    assert np.abs(terrain.query(foot)[0]).max() < 1e-12
    if name not in JUMPS:
        np.testing.assert_allclose(foot[:, 2], height_of(name)(foot), atol=1e-12)


def test_no_point_of_the_hills_is_nearer():
    """Against a direct search over a fine patch around each point, polished by a general minimiser."""
    offsets = np.stack(np.meshgrid(*[np.linspace(-0.06, 0.06, 61)] * 2), axis=-1).reshape(-1, 2)
    for point in near(HILLY.height, 40, 1.4, -0.03, 0.05, seed=2):
        patch = np.column_stack([point[:2] + offsets, np.zeros(len(offsets))])
        patch[:, 2] = HILLY.height(patch)
        start = patch[np.argmin(np.linalg.norm(patch - point, axis=1))]

        def distance(xy, point=point):
            z = HILLY.height(np.array([[*xy, 0.0]]))[0]
            return np.linalg.norm(np.array([*xy, z]) - point)

        best = minimize(distance, start[:2], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}).fun
        assert abs(HILLY.query(point[None])[0][0]) == pytest.approx(best, abs=1e-9)


def test_no_point_of_the_stairs_is_nearer():
    terrain, _ = TERRAINS["stairs"]
    along, up = np.linspace(-2, 2, 40001), np.linspace(0, 1, 2001)[:, None]
    treads = np.column_stack([along, height_of("stairs")(along[:, None])])
    risers = [np.hstack([np.full_like(up, 0.1 + 0.2 * k), 0.01 + 0.05 * (k + up)]) for k in range(3)]
    profile = np.vstack([treads, *risers])
    for point in near(height_of("stairs"), 100, 1.0, -0.03, 0.08, seed=4):
        nearest = np.linalg.norm(profile - point[[0, 2]], axis=1).min()
        assert abs(terrain.query(point[None])[0][0]) == pytest.approx(nearest, abs=1e-6)


def test_no_point_of_a_box_is_nearer():
    """Against points on the surface of both boxes and on the ground."""
    terrain, grid = TERRAINS["boxes"][0], np.linspace(0.0, 1.0, 41)
    squares = np.array([(x, y) for x in grid for y in grid])
    sides = [np.insert(squares, axis, end, axis=1) for axis in range(3) for end in (0.0, 1.0)]
    surface = np.vstack([low + np.vstack(sides) * (high - low) for low, high in BOXES])
    points = np.random.default_rng(3).uniform([-1.2, -1.2, -0.02], [1.0, 1.0, 0.5], (300, 3))
    surface = surface[surface[:, 2] > -0.02]  # what stands on the ground has no lower side
    inside = ((BOXES[:, 0] < points[:, None]) & (points[:, None] < BOXES[:, 1])).all(axis=2).any(axis=1)
    to_boxes = np.linalg.norm(points[:, None] - surface, axis=2).min(axis=1)
    nearest = np.where(inside, to_boxes, np.minimum(to_boxes, points[:, 2] + 0.02))
    distances = terrain.query(points)[0]
    np.testing.assert_array_equal(distances < 0.0, inside)
    assert (np.abs(distances) <= nearest + 1e-12).all()
    assert (np.abs(distances) >= nearest - 0.02).all()  # what the grid may be away


def test_a_point_on_the_ground_inside_a_wall_is_pushed_out_sideways():
    wall = Boxes([[[0.9, -1.0, 0.0], [1.1, 1.0, 1.0]]])
    distances, normals = wall.query(np.array([[0.921, 0.0, 0.02], [1.05, 0.0, 0.001]]))
    np.testing.assert_allclose(distances, [-0.021, -0.05])
    np.testing.assert_allclose(normals, [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert Boxes([], 0.1).query(np.array([[0.0, 0.0, 0.3]]))[0] == pytest.approx(0.2)


def test_hills_have_the_given_height_and_continue_smoothly_beyond_their_border():
    heights = paper_hills()
    assert heights.shape == (151, 151)
    assert (heights.min(), heights.max()) == (0, pytest.approx(0.03, abs=1e-15))
    lines = np.linspace(-1.5, 1.5, 151)
    grid = np.array([(x, y, 0) for x in lines for y in lines])
    np.testing.assert_allclose(HILLY.height(grid), heights.ravel(), atol=1e-14)
    outside = np.array([[1.9, 0.4, 0.01], [-1.7, -2.0, 0.01]])
    np.testing.assert_allclose(HILLY.height(outside), HILLY.height(np.clip(outside, -1.5, 1.5)), atol=1e-15)
    _, normals = HILLY.query(np.array([[1.5 - 1e-9, 0.4, 0.01], [1.5 + 1e-9, 0.4, 0.01]]))
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
    assert (mu.mean(), mu.std()) == (pytest.approx(0.8, abs=0.02), pytest.approx(1.4 / np.sqrt(12), abs=0.01))
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


def test_contact_points_of_feet_lie_at_the_surface_of_the_hill():
    robot, q = walker("quadruped")
    contacts = contacts_from_geometry(robot, q, HILLY, margin=1.0)
    radii = robot.spheres.radii
    surface = contacts.points - contacts.gaps[:, None] * contacts.normals
    np.testing.assert_allclose(surface[:, 2], HILLY.height(surface), atol=1e-12)
    across = np.cross(contacts.normals, contacts.tangents)
    np.testing.assert_allclose(np.cross(contacts.tangents, across), contacts.normals, atol=1e-12)
    np.testing.assert_allclose(HILLY.query(contacts.points)[0] + radii, contacts.gaps + radii, atol=1e-12)


def test_terrains_take_and_return_arrays_of_any_dtype_and_layout():
    robot, q = walker("quadruped")
    water = SimpleNamespace(friction=None, query=lambda points: (points[:, 2], np.broadcast_to([0, 0, 1], points.shape)))
    own, ours = (contacts_from_geometry(robot, q, terrain, margin=1.0) for terrain in (water, Flat()))
    for field in ("points", "normals", "tangents", "gaps"):
        np.testing.assert_array_equal(getattr(own, field), getattr(ours, field))
    points = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected = points[:, 2].astype(np.float64) - 0.07
    for given in (points, np.asfortranarray(points), np.repeat(points, 2, axis=0)[::2]):
        np.testing.assert_allclose(Flat(0.07).query(given)[0], expected, atol=1e-12)


# -- contacts between bodies -------------------------------------------------------------------------------------------


HALF = np.array([0.3, 0.2, 0.1])
BELOW = Flat(-0.2)


def gap(centre, radius=0.05):
    normal = np.empty(3)
    return sphere_against_box(np.array(centre, dtype=float), radius, HALF, normal), normal


@every_row(
    ("face", (0.1, -0.1, 0.25), 0.15, (0, 0, 1)),
    ("face, below", (0.1, -0.1, -0.11), 0.01, (0, 0, -1)),
    ("face, touching", (-0.35, 0.0, 0.0), 0.05, (-1, 0, 0)),
    ("edge", (0.33, 0.24, 0.05), 0.05, (0.6, 0.8, 0)),
    ("corner", (0.32, -0.21, -0.12), 0.03, (2 / 3, -1 / 3, -2 / 3)),
    ("inside, under a face", (0.1, 0.1, 0.08), -0.02, (0, 0, 1)),
    ("inside, beside a face", (0.1, -0.17, 0.0), -0.03, (0, -1, 0)),
    ("on the surface", (0.1, 0.1, -0.1), 0.0, (0, 0, -1)),
    ("in the middle", (0.0, 0.0, 0.0), -0.1, (0, 0, 1)),
)
def test_distance_and_normal_in_each_region_of_a_box(region, centre, distance, normal):
    found, direction = gap(centre)
    assert found == pytest.approx(distance - 0.05, abs=1e-15)
    np.testing.assert_allclose(direction, normal, atol=1e-12)


@full
def test_no_point_of_the_box_is_nearer():
    """Outside against a bounded minimiser, inside against the six faces."""
    rng = np.random.default_rng(0)
    for centre in rng.uniform(-0.5, 0.5, (300, 3)):
        found, normal = gap(centre, 0.0)
        assert np.linalg.norm(normal) == pytest.approx(1, abs=1e-12)
        if (np.abs(centre) < HALF).all():
            assert found == pytest.approx(-min(np.r_[HALF - centre, HALF + centre]), abs=1e-12)
        else:
            bounds = list(zip(-HALF, HALF, strict=True))
            nearest = minimize(lambda x, c=centre: ((x - c) ** 2).sum(), np.zeros(3), bounds=bounds, tol=1e-14)
            assert found == pytest.approx(np.sqrt(nearest.fun), abs=1e-6)
            np.testing.assert_allclose(np.clip(centre - found * normal, -HALF, HALF), centre - found * normal, atol=1e-12)


def grasp(seed=None):
    """The arm at its grasp, or knocked about it with all tips near the box."""
    robot, q = load_robot("arm")
    if seed is not None:
        q = robot.integrate(q, 0.02 * np.random.default_rng(seed).normal(size=robot.nv))
    return robot, q


def test_the_finger_tips_touch_the_box_from_both_sides():
    robot, q = grasp()
    contacts = contacts_from_geometry(robot, q, BELOW, margin=1e-3)
    assert contacts.keys == ("TIP_00/BOX", "TIP_01/BOX", "TIP_10/BOX", "TIP_11/BOX")
    assert np.abs(contacts.gaps).max() < 1e-6
    fingers = [robot.joint_of_frame(f"TIP_{i}") for i in ("00", "01", "10", "11")]
    np.testing.assert_array_equal(contacts.bodies, fingers)
    np.testing.assert_array_equal(contacts.others, robot.joint_of_frame("BOX"))
    _, origins = robot.place(q)
    box = origins[robot.joint_of_frame("BOX")]
    assert ((contacts.points - box) * contacts.normals).sum(axis=1) == pytest.approx(0.05071 / 2, abs=1e-6)


@every("seed", range(5))
def test_contact_rows_are_the_relative_velocity_of_the_two_bodies_and_the_rate_of_the_gaps(seed):
    """Finite differences of two material points, one on each body, that coincide at the contact."""
    robot, q = grasp(seed)
    v = np.random.default_rng(seed + 10).normal(size=robot.nv)
    c = contacts_from_geometry(robot, q, BELOW, margin=1.0)
    assert (c.others > 0).sum() == 4
    J = evaluate(robot, State(q=q, v=v), c, dt=1e-3, ground=Ground.rigid()).dynamics.J

    def carried(joint, point, step):
        rotations, origins = (a.copy() for a in robot.place(q))
        local = rotations[joint].T @ (point - origins[joint])
        rotations, origins = robot.place(robot.integrate(q, step * v))
        return origins[joint] + rotations[joint] @ local

    e = 1e-6
    for i in range(len(c)):
        body, other = ((carried(j, c.points[i], e) - carried(j, c.points[i], -e)) / (2 * e) for j in (c.bodies[i], c.others[i]))
        directions = np.stack([c.tangents[i], np.cross(c.normals[i], c.tangents[i]), c.normals[i]])
        np.testing.assert_allclose(J[3 * i : 3 * i + 3] @ v, directions @ (body - other), atol=1e-7)
    after, before = (contacts_from_geometry(robot, robot.integrate(q, s * v), BELOW, margin=2.0) for s in (e, -e))
    assert after.keys == before.keys == c.keys
    np.testing.assert_allclose((J @ v)[2::3], (after.gaps - before.gaps) / (2 * e), atol=1e-7)


def test_contact_sets_survive_a_round_trip_by_key():
    robot, q = grasp(3)
    c = contacts_from_geometry(robot, q, BELOW, margin=0.1)
    again = contacts_from_points(robot, c.keys, c.points, c.normals, c.mu, c.gaps, c.tangents)
    assert again.keys == c.keys
    np.testing.assert_array_equal(again.bodies, c.bodies)
    np.testing.assert_array_equal(again.others, c.others)
    for field in ("points", "normals", "tangents", "mu", "gaps"):
        np.testing.assert_allclose(getattr(again, field), getattr(c, field), atol=1e-15)


def test_box_corners_touch_the_ground_with_the_boxes_friction():
    robot, q = grasp()
    q = robot.integrate(q, np.r_[0, 0, -0.2 - 0.2 + 0.05071 / 2, np.zeros(robot.nv - 3)])
    told = np.arange(16.0)
    contacts = contacts_from_geometry(robot, q, BELOW, margin=1e-3, mu=told)
    assert len(contacts) == 4
    assert (contacts.others == 0).all()
    assert set(contacts.keys) == {"BOX", "BOX.2", "BOX.4", "BOX.6"}
    np.testing.assert_array_equal(contacts.mu, [told[robot.spheres.keys.index(key)] for key in contacts.keys])
    robot, q = grasp()
    held = contacts_from_geometry(robot, q, BELOW, margin=1e-3, mu=told)
    np.testing.assert_array_equal(held.mu, told[-4:])
    slippery = robot.variant(box=(Box(frame="BOX", size=(1, 1, 1), mu=0.2),))
    assert (contacts_from_geometry(slippery, q, BELOW, margin=1.0).mu[-4:] == 0.2).all()


def test_a_box_may_be_rotated_and_offset_in_its_frame():
    """Twelve random placements against the same box written with its offset moved into the sphere."""
    robot, q = grasp(5)
    box = Box(frame="BOX", size=(0.02, 0.04, 0.06), offset=(0.01, -0.02, 0.03))
    shifted = robot.variant(box=(box,))
    c = contacts_from_geometry(shifted, q, BELOW, margin=np.inf)
    rotations, origins = shifted.place(q)
    joint = shifted.joint_of_frame("BOX")
    half = 0.5 * np.array(box.size)
    for key, point, normal, distance in zip(c.keys, c.points, c.normals, c.gaps, strict=True):
        if "/" in key:
            centre = point + 0.01 * normal
            local = rotations[joint].T @ (centre - origins[joint]) - np.array(box.offset)
            assert distance == pytest.approx(np.linalg.norm(local - np.clip(local, -half, half)) - 0.01, abs=1e-12)


def test_robots_without_boxes_have_no_pairs_and_faulty_boxes_are_refused_by_name():
    robot, _ = walker("quadruped")
    assert robot.boxes.pair_keys == ()
    robot, _ = grasp()
    for box, named in (
        (Box(frame="BOX", size=(1, 0, 1)), r"box\.BOX\.size: expected > 0"),
        (Box(frame="BOX", size=(1, 1, 1), mu=-1), r"box\.BOX\.mu: expected ≥ 0"),
    ):
        with pytest.raises(InputError, match=named):
            Robot(Description(urdf=robot.description.urdf, base="fixed", box=(box,)))
    with pytest.raises(FrameNotFound):
        Robot(Description(urdf=robot.description.urdf, base="fixed", box=(Box(frame="BOXX", size=(1, 1, 1)),)))


def test_the_arm_has_the_published_mass_and_valid_inertias():
    robot, _ = grasp()
    assert (robot.total_mass, robot.na, robot.nu) == (pytest.approx(1.1 + 6000 * 0.05071**3, abs=1e-6), 11, 6)
    assert not robot.inspect()


# -- self-collision ----------------------------------------------------------------------------------------------------


DT, DISTANCE = 1e-3, 0.02


class Judge:
    """Distances by MuJoCo between the front legs of `quadruped`, and of these to the body."""

    def __init__(self, robot):
        self.model, self.robot = mujoco.MjModel.from_xml_string(robot.description.urdf), robot
        self.data = mujoco.MjData(self.model)
        self.order = [robot.joint_names.index(self.model.joint(k).name) for k in range(self.model.njnt)]
        bodies = [self.model.body(k).name for k in self.model.geom_bodyid]
        legs = [[g for g, name in enumerate(bodies) if name.startswith(leg)] for leg in ("LF", "RF")]
        self.pairs = [(one, other) for one in legs[0] for other in legs[1]]

    def distance(self, q):
        """Least distance [m], negative in penetration."""
        self.data.qpos[:] = self.robot.joint_angles(q)[self.order]
        mujoco.mj_kinematics(self.model, self.data)
        return min(mujoco.mj_geomDistance(self.model, self.data, i, j, 1.0, None) for i, j in self.pairs)


def walk(robot, q, stack, lifted=(), ticks=600, judge=None):
    """Steps of the predicted motion. Returns the last configuration and answer, and the least distance on the way."""
    v, least, guess = np.zeros(robot.nv), np.inf, None
    for _ in range(ticks):
        contacts = contacts_from_geometry(robot, q, Flat(), margin=0.003)
        contacts = contacts.take(np.array([key not in lifted for key in contacts.keys], np.bool_))
        answer = predict_tasks(robot, State(q=q, v=v), contacts, stack, law="coulomb", dt=DT, guess=guess)
        assert answer.prediction.status.ok
        v, guess = answer.prediction.v_plus, answer.prediction.guess
        q = robot.integrate(q, DT * v)
        least = least if judge is None else min(least, judge.distance(q))
    return q, answer, least


def arms():
    """The quadruped without a floating base, as a robot with four arms, and tasks: its front feet change places."""
    robot, q = load_robot("quadruped")
    robot, q = robot.variant(base="fixed", contact=()), q[7:]
    here, there = (robot.frames.placement(frame, q).translation for frame in ("LF_FOOT", "RF_FOOT"))
    tasks = [FrameTask(frame="LF_FOOT", position=there), FrameTask(frame="RF_FOOT", position=here)]
    return robot, q, [*tasks, PostureTask(angles=q, level=1)]


def legs():
    """The quadruped that stands on three feet, and tasks: hold the centre of mass, move the fourth foot into the leg beside."""
    robot, q = load_robot("quadruped")
    feet = {key: robot.frames.placement(key, q).translation for key in robot.spheres.keys}
    middle = np.mean([place for key, place in feet.items() if key != "LF_FOOT"], axis=0)
    position = [*middle[:2], robot.center_of_mass(q)[2]]
    upright = FrameTask(frame="root_joint", rotation=np.eye(3))
    hold, posture = ComTask(position=position), PostureTask(angles=robot.joint_angles(q), level=2)
    q, _, _ = walk(robot, q, TaskStack(tasks=[hold, upright, posture]))
    into = FrameTask(frame="LF_FOOT", position=feet["RF_FOOT"] + [0.0, 0.0, 0.1], level=1)
    return robot, q, [hold, upright, into, posture]


@full
@pytest.mark.parametrize("scene", fast([arms, legs], arms))
def test_links_stop_at_the_distance_and_collide_without_it(scene):
    """The distance may fall short by 0.2 mm while links turn about each other."""
    robot, q, tasks = scene()
    judge, kept = Judge(robot), SelfCollision(robot, distance=DISTANCE, stance=q)
    free = walk(robot, q, TaskStack(tasks=tasks), ["LF_FOOT"], 1000, judge)
    assert free[2] < 0.0
    assert free[1]["LF_FOOT"].met
    stack = TaskStack(tasks=tasks, limits=TaskLimits(self_collision=kept))
    end, answer, least = walk(robot, q, stack, ["LF_FOOT"], 1000, judge)
    assert least > DISTANCE - 2e-4
    assert abs(judge.distance(end) - DISTANCE) < 1e-4
    assert answer["LF_FOOT"].obstacles[0].startswith("self-collision of LF_FOOT and RF_")
    assert not answer.relaxed


def test_links_that_are_too_near_move_apart():
    robot, q, tasks = arms()
    judge = Judge(robot)
    near, _, _ = walk(robot, q, TaskStack(tasks=tasks[:2]), ticks=150)
    while judge.distance(near) > 0.5 * DISTANCE:
        near, _, _ = walk(robot, near, TaskStack(tasks=tasks[:2]), ticks=10)
    stack = TaskStack(tasks=tasks, limits=TaskLimits(self_collision=SelfCollision(robot, distance=DISTANCE, stance=q)))
    end, _, _ = walk(robot, near, stack, ticks=300)
    assert abs(judge.distance(end) - DISTANCE) < 1e-4


@pytest.mark.parametrize("name", fast(["a1", "go2", "quadruped"], "a1"))
def test_rows_are_the_derivatives_of_the_distances(name):
    """Of boxes, cylinders, spheres and hulls of meshes, against differences of the distances, which coal computes to 1e-6 m."""
    robot, stance = load_robot(name)
    kept = SelfCollision(robot, folders=[shared_folder().parents[1]], reach=0.05)
    rng, step, errors = np.random.default_rng(0), 2e-4, []
    for _ in range(20):
        q, way = robot.integrate(stance, 0.5 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)
        places = (robot.integrate(q, x * way) for x in (0.0, -step, step))
        here, low, high = (kept.near(robot, robot.terms(place, np.zeros(robot.nv))) for place in places)
        if low.links == here.links == high.links:
            difference = (high.distances - low.distances) / (2 * step)
            errors += np.abs(difference - here.rows @ way)[here.distances > 0.0].tolist()
    assert len(errors) > 30
    assert max(errors) < 1e-2
    assert np.median(errors) < 1e-6


def test_links_that_move_together_or_share_a_joint_are_not_watched():
    robot, stance = load_robot("a1")
    pairs = SelfCollision(robot).pairs
    for links in (("FL_calf", "FL_foot"), ("FL_thigh", "FL_calf"), ("trunk", "FL_hip")):
        assert links not in pairs
        assert links[::-1] not in pairs
    assert ("FL_foot", "FR_foot") in pairs
    srdf = '<robot name="a1"><disable_collisions link1="FR_foot" link2="FL_foot" reason="Never"/></robot>'
    assert set(pairs) - set(SelfCollision(robot, srdf=srdf).pairs) == {("FL_foot", "FR_foot")}
    far = SelfCollision(robot, distance=0.1, stance=stance)
    assert set(far.pairs) < set(pairs)
    assert (far.near(robot, robot.terms(stance, np.zeros(robot.nv))).distances >= 0.1).all()


@every_row(
    ("distance", {"distance": -0.01}),
    ("reach", {"reach": np.inf}),
    ("braking", {"braking": 0.0}),
    ("stance", {"stance": [0.0]}),
    ("srdf", {"srdf": "<robot>"}),
)
def test_bad_settings_are_named(field, changes):
    with pytest.raises(InputError) as error:
        SelfCollision(load_robot("a1")[0], **changes)
    assert error.value.field == field


def test_robots_without_shapes_missing_meshes_and_other_robots_are_refused():
    with pytest.raises(ModelError, match="the URDF has no collision shapes"):
        SelfCollision(load_robot("arm")[0])
    with pytest.raises(ModelError, match="collision shapes"):
        SelfCollision(load_robot("go2")[0])
    robot, q = load_robot("quadruped")
    contacts, state = contacts_from_geometry(robot, q, Flat(), margin=0.003), State(q=q, v=np.zeros(robot.nv))
    for other in (load_robot("a1")[0], robot.variant(base="fixed")):
        stack = TaskStack(tasks=[ComTask()], limits=TaskLimits(self_collision=SelfCollision(other)))
        with pytest.raises(InputError, match=r"limits\.self_collision"):
            predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT)
