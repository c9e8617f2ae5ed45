"""Contacts of bodies: where they touch the ground and one another, and hulls."""

import re
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from fast import every, full
from scipy.spatial.transform import Rotation

from idyn.errors import ConfigError
from sim_harness.scenes.contacts import (
    ContactFinder,
    Geometry,
    PlacedShape,
    combined,
    face_points,
)
from sim_harness.scenes.load import blocks_of, check_scene, copies_of, engine_named, load_scene
from sim_harness.scenes.measures import outcome_of, read, save_run
from sim_harness.scenes.polyhedra import hull_of
from sim_harness.scenes.recording import run_scene
from sim_harness.scenes.scene_model import SceneModel, inertia, mass_of, tensor, volume
from sim_harness.scenes.scene_settings import (
    ArchSettings,
    BodySettings,
    GroundSettings,
    JointSettings,
    Material,
    SceneSettings,
    Shape,
)
from sim_harness.view.bodies import scene_page

CUBE, BALL, CAN = Shape(box=(0.1, 0.1, 0.1)), Shape(sphere=0.05), Shape(cylinder=(0.05, 0.1))
LYING = Rotation.from_euler("x", np.pi / 2).as_matrix()
E = np.eye(3)


def spots(first, second, margin=0.01, edge=1):
    return list(ContactFinder(margin, edge).between(first, second))


def place(shape, x=0.0, y=0.0, z=0.0, rotation=E):
    return PlacedShape(shape, rotation, np.array([x, y, z]))


@every("gap", [-1e-3, -1e-6, 0.0, 1e-9, 5e-3])
def test_a_cube_on_a_cube_has_four_contacts_with_the_gap_between_the_faces(gap):
    found = spots(place(CUBE, z=0.1 + gap), place(CUBE))
    corners = {(round(float(s.point[0]), 6), round(float(s.point[1]), 6)) for s in found}
    assert corners == {(0.05, 0.05), (0.05, -0.05), (-0.05, 0.05), (-0.05, -0.05)}
    for spot in found:
        np.testing.assert_array_equal(spot.normal, [0, 0, 1])
        assert spot.gap == pytest.approx(gap, abs=1e-12)


def test_each_corner_of_a_tilted_face_has_its_own_gap():
    tilt = Rotation.from_euler("y", 5e-4).as_matrix()
    found = spots(place(CUBE, z=0.1 + 1e-4, rotation=tilt), place(Shape(box=(0.3, 0.3, 0.1))))
    assert len(found) == 4
    for spot in found:
        lower = 0.1 + 1e-4 - 0.05 * np.cos(5e-4) - np.tan(5e-4) * spot.point[0]
        assert spot.gap == pytest.approx(lower - 0.05, abs=1e-7)


@every("other", [(0.1, 0.1, 0.04), (0.1, 0.3, 0.2)])
def test_faces_tilted_by_a_microradian_touch_at_four_corners_in_one_order(other):
    rng = np.random.default_rng(3)
    upright = spots(place(CUBE), place(Shape(box=other), z=-0.05 - other[2] / 2))
    for size in 10.0 ** rng.uniform(-16, -6, 200):
        turn = Rotation.from_rotvec(size * rng.normal(size=3)).as_matrix()
        found = spots(place(CUBE), place(Shape(box=other), z=-0.05 - other[2] / 2, rotation=turn))
        assert len(found) == 4
        for spot, same in zip(found, upright, strict=True):
            np.testing.assert_allclose(spot.point, same.point, atol=1e-5)


def test_balls_touch_on_the_line_between_their_centres():
    (spot,) = spots(place(BALL, x=0.06, y=0.08), place(BALL))
    np.testing.assert_allclose(spot.normal, [0.6, 0.8, 0], atol=1e-12)
    np.testing.assert_allclose(spot.point, [0.03, 0.04, 0], atol=1e-12)
    assert spot.gap == pytest.approx(0.0, abs=1e-12)
    assert spots(place(BALL, x=0.111), place(BALL)) == []


@every("gap", [-1e-4, 1e-4])
def test_a_lying_cylinder_touches_along_a_line(gap):
    found = spots(place(CAN, z=0.1 + gap, rotation=LYING), place(Shape(box=(0.3, 0.3, 0.1))), edge=2)
    assert sorted(round(float(s.point[1]), 6) for s in found) == [-0.05, 0.0, 0.05]
    assert [s.gap for s in found] == pytest.approx([gap] * 3, abs=1e-9)
    assert all(np.abs(s.normal - [0, 0, 1]).max() < 1e-12 for s in found)


def scene(*bodies, **settings):
    base = {"about": "", "engines": ("lcp",), "dt": 1e-3, "duration": 1.0}
    return check_scene(SceneSettings(body=bodies, **base | settings))


def touching(settings):
    model = SceneModel(settings)
    return Geometry(model).touching(model.start.q)


@every(
    ("shape", "turn", "count"),
    [
        (CUBE, (0, 0, 0), 4),
        (CUBE, (np.pi / 4, 0, 0), 2),
        (BALL, (1, 2, 3), 1),
        (CAN, (0, 0, 0), 4),
        (CAN, (np.pi / 2, 0, 0), 2),
    ],
)
def test_bodies_touch_the_ground_at_their_lowest_points(shape, turn, count):
    height = 0.05 * (np.sqrt(2) if turn[0] == np.pi / 4 else 1)
    body = BodySettings(name="a", shape=shape, mass=1.0, turn=turn, position=(0.3, 0.2, height))
    found = touching(scene(body, ground=GroundSettings())).contacts
    assert len(found) == count
    np.testing.assert_allclose(found.gaps, 0, atol=1e-12)
    np.testing.assert_allclose(found.points.mean(axis=0), [0.3, 0.2, 0.0], atol=1e-9)


def test_bodies_joined_by_a_joint_do_not_touch_and_others_do():
    base = BodySettings(name="base", shape=CUBE, joint="fixed")
    arm = BodySettings(name="arm", shape=CUBE, mass=1.0, joint=(JointSettings(kind="hinge", axis=(0, 0, 1)),))
    child = msgspec.structs.replace(arm, name="child", parent="arm")
    loose = BodySettings(name="loose", shape=CUBE, mass=1.0, position=(0.0, 0.0, 0.1))
    keys = touching(scene(base, arm, child, loose)).contacts.keys
    assert {tuple(key.split()[:2]) for key in keys} == {
        ("base", "arm"), ("base", "child"), ("base", "loose"), ("arm", "loose"), ("child", "loose"),
    }  # fmt: skip


def test_two_surfaces_combine_as_springs_in_series_with_the_smaller_friction():
    both = combined(Material(mu=0.3, stiffness=1e4, dissipation=0.01), Material(mu=0.9, stiffness=3e4, dissipation=0.05))
    assert (both.mu, both.stiffness) == (0.3, pytest.approx(7.5e3))
    assert both.dissipation == pytest.approx((0.01 * 3 + 0.05) / 4)
    hard = combined(Material(), Material(stiffness=1e4, dissipation=0.02))
    assert (hard.stiffness, hard.dissipation) == pytest.approx((1e4, 0.02))
    assert np.isinf(combined(Material(), Material()).stiffness)
    body = BodySettings(name="a", shape=CUBE, mass=1.0, position=(0.0, 0.0, 0.05), material=Material(stiffness=1e4))
    for edge in (1, 4):
        found = touching(scene(body, ground=GroundSettings(), shared=True, edge=edge))
        assert found.stiffness.sum() == pytest.approx(1e4)
        assert len(found.contacts) == 4 * edge


BOX = (0.2, 0.3, 0.1)
CORNERS = tuple((x * 0.1, y * 0.15, z * 0.05) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0))
CASE, HULL = Shape(box=BOX), Shape(hull=CORNERS)


def test_a_hull_of_box_corners_equals_a_box_and_touches_boxes_and_balls():
    assert volume(HULL) == pytest.approx(volume(CASE), rel=1e-12)
    np.testing.assert_allclose(tensor(HULL), np.diag(inertia(CASE)), atol=1e-15)
    hull = hull_of(CORNERS)
    np.testing.assert_allclose(hull.centre, 0.0, atol=1e-15)
    assert len(hull.planes) == len(hull.faces) == 6
    assert all(len(face) == 4 for face in hull.faces)
    assert len(hull.edges) == 3
    on_box = spots(PlacedShape(HULL, np.eye(3), np.array([0.0, 0.0, 0.1])), PlacedShape(CASE, np.eye(3), np.zeros(3)))
    assert len(on_box) == 4
    (spot,) = spots(
        PlacedShape(Shape(sphere=0.05), np.eye(3), np.array([0.0, 0.0, 0.101])), PlacedShape(HULL, np.eye(3), np.zeros(3))
    )
    assert spot.gap == pytest.approx(1e-3, abs=1e-9)
    np.testing.assert_allclose(spot.normal, [0.0, 0.0, 1.0], atol=1e-6)


def test_a_tetrahedron_has_its_closed_form_inertia():
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) - 0.25
    hull = hull_of(tuple(map(tuple, corners.tolist())))
    assert hull.volume == pytest.approx(1 / 6)
    second = corners.T @ corners / 20  # ∫ x xᵀ of a solid of 1 kg about its centre
    np.testing.assert_allclose(hull.tensor, np.trace(second) * np.eye(3) - second, atol=1e-15)


@every("gap", [-1e-3, -1e-7, 0.0, 1e-9, 5e-3])
@every("seed", range(3))
def test_two_hulls_touch_at_the_corners_of_their_common_face(gap, seed):
    rotation = Rotation.random(random_state=seed).as_matrix()
    shift = rotation @ np.array([0.05, 0.03, 0.1 + gap])
    found = spots(PlacedShape(HULL, rotation, shift), PlacedShape(HULL, rotation, np.zeros(3)))
    assert len(found) == 4
    corners = np.array([(x, y, 0.05 + gap / 2) for x in (-0.05, 0.1) for y in (-0.12, 0.15)])
    for spot in found:
        assert np.linalg.norm(rotation.T @ spot.point - corners, axis=1).min() < 1e-12
        np.testing.assert_allclose(spot.normal, rotation[:, 2], atol=1e-12)
        assert spot.gap == pytest.approx(gap, abs=1e-12)


def test_slightly_tilted_hulls_touch_at_four_corners_and_crossed_edges_at_one_point():
    """With coal's own patches of hulls these are three, six or eight."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        lean = Rotation.from_rotvec(1e-5 * rng.normal(size=3)).as_matrix()
        found = spots(
            PlacedShape(HULL, lean, np.array([0.0, 0.0, 0.1 + 1e-6 * rng.normal()])), PlacedShape(HULL, np.eye(3), np.zeros(3))
        )
        assert len(found) == 4
        assert max(abs(spot.gap) for spot in found) < 2e-5
    up, down = (Rotation.from_euler("x", np.pi / 4).as_matrix(), Rotation.from_euler("y", np.pi / 4).as_matrix())
    cube = Shape(hull=tuple((x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)))
    height = 0.2 * np.sqrt(2)
    for gap in (-1e-3, 1e-3):
        (spot,) = spots(PlacedShape(cube, up, np.array([0.0, 0.0, height + gap])), PlacedShape(cube, down, np.zeros(3)))
        np.testing.assert_allclose(spot.point, [0.0, 0.0, height / 2 + gap / 2], atol=1e-9)
        np.testing.assert_allclose(spot.normal, [0.0, 0.0, 1.0], atol=1e-12)
        assert spot.gap == pytest.approx(gap, abs=1e-12)
    assert spots(PlacedShape(cube, up, np.array([0.0, 0.0, height + 0.02])), PlacedShape(cube, down, np.zeros(3))) == []


def test_hulls_without_volume_or_beside_their_centre_of_mass_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="enclose a volume"):
        hull_of(((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, 0.0)))
    path = tmp_path / "off.toml"
    path.write_text(
        'about = ""\nengines = ["lcp"]\ndt = 0.001\nduration = 0.01\n[[body]]\nname = "a"\nmass = 1.0\n'
        "shape = { hull = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]] }\n"
    )
    with pytest.raises(ConfigError, match=r"body\[0\].shape.hull.*centre of mass"):
        load_scene(str(path))


ARCH = ArchSettings(name="a", blocks=20, span=4.0, rise=2.0, thickness=(0.25, 0.5), width=0.5, density=800.0)


def test_arches_have_no_gaps_copies_are_chained_and_foundations_have_points_in_their_cells():
    blocks = blocks_of(ARCH)
    assert [block.joint for block in blocks] == ["fixed", *["free"] * 20, "fixed"]
    masses = [mass_of(block) for block in blocks]
    np.testing.assert_allclose(masses, masses[::-1], rtol=1e-12)
    for block, following in pairwise(blocks):
        found = spots(*(PlacedShape(b.shape, np.eye(3), np.array(b.position)) for b in (block, following)))
        assert len(found) == 4
        assert max(abs(spot.gap) for spot in found) < 1e-12
    tops = [np.array(b.shape.hull)[:, 2].max() + b.position[2] for b in blocks]
    assert max(tops) == pytest.approx(2.0 + 0.125, abs=0.01)
    joint = JointSettings(kind="hinge", axis=(0, 1, 0), anchor=(0.0, 0.0, 0.0))
    link = BodySettings(
        name="l", shape=CASE, mass=1.0, position=(0.1, 0, 0), joint=(joint,), copies=3, chained=True, apart=(0.2, 0, 0)
    )
    chain = copies_of(link)
    assert [body.parent for body in chain] == ["", "l-0", "l-1"]
    np.testing.assert_allclose([body.joint[0].anchor[0] for body in chain], [0.0, 0.2, 0.4])
    points = face_points(np.array([0.5, 0.5, 0.5]), 10)
    low = points[points[:, 2] == -0.5]
    assert len(points) == 600
    assert len(low) == 100
    assert sorted(set(low[:, 0].round(12))) == pytest.approx(np.arange(-0.45, 0.5, 0.1))


@full
def test_the_view_draws_every_block_of_an_arch(tmp_path):
    settings = load_scene("arch", 0.02)
    run = run_scene(settings, engine_named(settings, "first-order"))
    save_run(tmp_path / "arch", settings, run, outcome_of("arch", "first-order", settings, run))
    kept = read(tmp_path / "arch")
    assert kept.settings == settings
    page = scene_page("arch", [kept])
    first, *movable, last = SceneModel(settings).names  # the ends are part of the ground
    assert (first, last, len(movable)) == ("block-0", "block-21", 20)
    assert set(re.findall(r"block-\d+", page)) == set(movable)
