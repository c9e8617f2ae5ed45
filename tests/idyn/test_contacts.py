"""Contact sets: those found by geometry, and refusals of given ones by field."""

import numpy as np
import pytest
from fast import every
from scenes import fingers_scene, walker

from idyn.contact.contacts import (
    contacts_from_geometry,
    contacts_from_points,
    contacts_of_places,
    first_tangents,
    sphere_centres,
)
from idyn.contact.terrain import Flat
from idyn.errors import FrameNotFound, IdynError, InputError

UP = np.array([[0.0, 0.0, 1.0]])


def build(**changes):
    """One contact of the first foot, with some arguments replaced."""
    robot, _ = walker("solo12")
    given = {"keys": ("FL_FOOT",), "points": np.zeros((1, 3)), "normals": UP, "mu": np.ones(1), "gaps": np.zeros(1)}
    return contacts_from_points(robot, **{**given, **changes})


@every(
    ("field", "changes"),
    [
        ("contacts[0].mu", {"mu": np.array([-0.1])}),
        ("contacts[0].mu", {"mu": np.array([np.nan])}),
        ("contacts[0].dist", {"gaps": np.array([np.nan])}),
        ("contacts[0].dist", {"gaps": np.array([-np.inf])}),
        ("contacts[0].p", {"points": np.array([[0, np.inf, 0]])}),
        ("contacts[0].n", {"normals": np.array([[0, 0, 2.0]])}),
        ("contacts[0].n", {"normals": np.array([[0, 0, np.nan]])}),
        ("contacts[0].n", {"normals": np.zeros((1, 3))}),
        ("contacts[0].t1", {"tangents": np.array([[0, 0.6, 0.8]])}),
        ("contacts[0].t1", {"tangents": np.array([[0.5, 0, 0]])}),
        ("contacts[0].t1", {"tangents": np.array([[np.nan, 0, 0]])}),
        ("contacts[0].frame", {"keys": ("FL_FOO",)}),
        ("contacts.n", {"normals": np.zeros((2, 3))}),
        ("contacts.p", {"points": np.zeros(3)}),
        ("contacts.mu", {"mu": np.ones(2)}),
        ("contacts.dist", {"gaps": np.zeros((1, 1))}),
    ],
)
def test_malformed_contacts_are_refused_by_field(field, changes):
    with pytest.raises(InputError) as caught:
        build(**changes)
    assert caught.value.field == field
    assert str(caught.value).startswith(field + ": ")


def test_a_duplicate_contact_is_refused():
    with pytest.raises(InputError, match="got 'FL_FOOT' twice"):
        build(
            keys=("FL_FOOT", "FL_FOOT"),
            points=np.zeros((2, 3)),
            normals=np.vstack([UP, UP]),
            mu=np.ones(2),
            gaps=np.zeros(2),
        )


def test_an_unknown_frame_lists_the_nearest_names():
    with pytest.raises(InputError, match="FL_FOOT"):
        build(keys=("FL_FOO",))
    robot, _ = walker("solo12")
    with pytest.raises(FrameNotFound):
        robot.joint_of_frame("FL_FOO")


def test_infinite_friction_is_accepted():
    assert np.isinf(build(mu=np.array([np.inf])).mu[0])
    assert build(mu=np.zeros(1)).mu[0] == 0


def test_a_nearly_unit_normal_is_normalised():
    contacts = build(normals=UP * (1 + 5e-7))
    assert np.linalg.norm(contacts.normals[0]) == pytest.approx(1, abs=1e-15)


def test_an_empty_contact_set_is_valid():
    contacts = build(keys=(), points=np.zeros((0, 3)), normals=np.zeros((0, 3)), mu=np.zeros(0), gaps=np.zeros(0))
    assert len(contacts) == 0
    assert contacts.tangents.shape == (0, 3)


def test_tangents_are_orthonormal_and_right_handed():
    rng = np.random.default_rng(0)
    normals = np.vstack([rng.normal(size=(200, 3)), np.eye(3), -np.eye(3)])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    s = first_tangents(normals)
    np.testing.assert_allclose(np.linalg.norm(s, axis=1), 1, atol=1e-15)
    np.testing.assert_allclose((s * normals).sum(axis=1), 0, atol=1e-15)
    t = np.cross(normals, s)
    np.testing.assert_allclose(np.cross(s, t), normals, atol=1e-15)


def test_contact_points_lie_below_the_spheres_of_a_tilted_robot():
    robot, q = walker("solo12")
    q = robot.integrate(q, np.r_[0, 0, 0.01, 0.1, -0.05, 0, np.zeros(12)])
    contacts = contacts_from_geometry(robot, q, Flat(0.003), margin=1.0)
    robot.place(q)
    centres = sphere_centres(robot.placements, robot.spheres.joints, robot.spheres.offsets)
    np.testing.assert_allclose(contacts.points, centres - [0, 0, 0.016], atol=1e-15)
    np.testing.assert_allclose(contacts.gaps, centres[:, 2] - 0.016 - 0.003, atol=1e-15)


def test_the_margin_decides_which_contacts_are_included():
    robot, q = walker("quadruped")
    q = robot.integrate(q, np.r_[0, 0, 0.01, 0.05, 0, 0, np.zeros(12)])
    gaps = contacts_from_geometry(robot, q, Flat(), margin=1.0).gaps
    for margin in (gaps.min() - 1e-6, np.sort(gaps)[1] + 1e-9, gaps.max() + 1e-6):
        contacts = contacts_from_geometry(robot, q, Flat(), margin=margin)
        assert contacts.keys == tuple(key for key, gap in zip(robot.spheres.keys, gaps, strict=True) if gap <= margin)


@every("rows", [(0, 1, 2, 3), (2, 0), ()])
def test_contacts_given_by_key_equal_those_of_geometry(rows):
    robot, q = walker("quadruped")
    q = robot.integrate(q, np.r_[0, 0, 0.01, 0.05, 0, 0, np.zeros(12)])
    mu = np.array([0.1, 0.2, 0.3, 0.4])
    found = contacts_from_geometry(robot, q, Flat(), margin=np.inf, mu=mu)
    assert np.abs(found.gaps).min() > 0
    told = contacts_of_places(robot, q, Flat(), tuple(robot.spheres.keys[i] for i in rows), mu=mu)
    for field in found.__struct_fields__:
        expected = [0.0 if field == "gaps" else getattr(found, field)[i] for i in rows]
        np.testing.assert_array_equal(getattr(told, field), np.reshape(expected, np.shape(getattr(told, field))))


def test_a_link_and_a_joint_with_one_name_are_one_frame():
    """URDF allows it; Pinocchio then has two frames with that name."""
    robot = fingers_scene((0, 0)).robot
    assert robot.joint_of_frame("left") != robot.joint_of_frame("right")
    contacts = contacts_from_points(robot, ("left",), np.zeros((1, 3)), UP, np.ones(1), np.zeros(1))
    assert contacts.bodies[0] == robot.joint_of_frame("left")


def test_all_errors_derive_from_idyn_error():
    assert issubclass(InputError, IdynError)
    assert issubclass(FrameNotFound, IdynError)


def test_take_and_join_work_row_by_row():
    robot, q = walker("quadruped")
    contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf, mu=np.array([0.1, 0.2, 0.3, 0.4]))
    assert contacts.take(np.ones(4, dtype=bool)) is contacts
    odd, even = contacts.take(np.array([False, True, False, True])), contacts.take(np.array([2, 0]))
    assert odd.keys == (contacts.keys[1], contacts.keys[3])
    both = even.join(odd)
    assert len(both) == 4
    for field in contacts.__struct_fields__:
        expected = [getattr(contacts, field)[i] for i in (2, 0, 1, 3)]
        np.testing.assert_array_equal(getattr(both, field), expected)
    none = contacts.take(np.zeros(4, dtype=bool))
    assert len(none) == 0
    assert none.points.shape == (0, 3)
    assert none.join(contacts).keys == contacts.keys
