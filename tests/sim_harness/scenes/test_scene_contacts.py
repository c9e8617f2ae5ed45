"""Contact points between bodies of known pose, parameters of two surfaces in contact, and pairs that may touch."""

import msgspec
import numpy as np
import pytest
from fast import every
from scipy.spatial.transform import Rotation

from sim_harness.scenes.contacts import ContactFinder, Geometry, PlacedShape, box_points, combined, with_points_between
from sim_harness.scenes.load import check_scene
from sim_harness.scenes.scene_model import SceneModel
from sim_harness.scenes.scene_settings import BodySettings, GroundSettings, JointSettings, Material, SceneSettings, Shape

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


@every("gap", [-1e-4, 1e-4])
def test_a_lying_cylinder_touches_along_a_line(gap):
    found = spots(place(CAN, z=0.1 + gap, rotation=LYING), place(Shape(box=(0.3, 0.3, 0.1))), edge=2)
    assert sorted(round(float(s.point[1]), 6) for s in found) == [-0.05, 0.0, 0.05]
    assert [s.gap for s in found] == pytest.approx([gap] * 3, abs=1e-9)
    assert all(np.abs(s.normal - [0, 0, 1]).max() < 1e-12 for s in found)


def test_a_ball_far_away_touches_nothing():
    assert spots(place(BALL, x=0.111), place(BALL)) == []


def test_the_number_of_points_per_edge_is_a_setting():
    assert len(spots(place(CUBE, z=0.1), place(CUBE), edge=3)) == 12
    assert len(box_points(np.ones(3), 1)) == 8
    assert len(box_points(np.ones(3), 3)) == 8 + 12 * 2
    assert len(with_points_between([np.zeros(3), np.ones(3)], 4)) == 5


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


def test_points_share_the_stiffness_of_a_face():
    body = BodySettings(name="a", shape=CUBE, mass=1.0, position=(0.0, 0.0, 0.05), material=Material(stiffness=1e4))
    for edge in (1, 4):
        found = touching(scene(body, ground=GroundSettings(), shared=True, edge=edge))
        assert found.stiffness.sum() == pytest.approx(1e4)
        assert len(found.contacts) == 4 * edge
