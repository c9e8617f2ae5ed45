"""Contacts between bodies: a sphere and a box by region and against brute force, and their rows in a contact set."""

import numpy as np
import pytest
from fast import every
from scenes import walker
from scipy.optimize import minimize

from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry, contacts_from_points
from idyn.contact.ground import Ground
from idyn.contact.terrain import Flat
from idyn.errors import FrameNotFound, InputError
from idyn.model.description import Description
from idyn.model.robot import Robot
from idyn.model.shapes import Box, sphere_against_box
from idyn.terms.dynamics import evaluate
from idyn.types import State

HALF = np.array([0.3, 0.2, 0.1])
BELOW = Flat(-0.2)


def gap(centre, radius=0.05):
    normal = np.empty(3)
    return sphere_against_box(np.array(centre, dtype=float), radius, HALF, normal), normal


@every(
    ("region", "centre", "distance", "normal"),
    [
        ("face", (0.1, -0.1, 0.25), 0.15, (0, 0, 1)),
        ("face, below", (0.1, -0.1, -0.11), 0.01, (0, 0, -1)),
        ("face, touching", (-0.35, 0.0, 0.0), 0.05, (-1, 0, 0)),
        ("edge", (0.33, 0.24, 0.05), 0.05, (0.6, 0.8, 0)),
        ("corner", (0.32, -0.21, -0.12), 0.03, (2 / 3, -1 / 3, -2 / 3)),
        ("inside, under a face", (0.1, 0.1, 0.08), -0.02, (0, 0, 1)),
        ("inside, beside a face", (0.1, -0.17, 0.0), -0.03, (0, -1, 0)),
        ("on the surface", (0.1, 0.1, -0.1), 0.0, (0, 0, -1)),
        ("in the middle", (0.0, 0.0, 0.0), -0.1, (0, 0, 1)),
    ],
)
def test_distance_and_normal_in_each_region_of_a_box(region, centre, distance, normal):
    found, direction = gap(centre)
    assert found == pytest.approx(distance - 0.05, abs=1e-15)
    np.testing.assert_allclose(direction, normal, atol=1e-12)


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


def test_the_normal_is_the_gradient_of_the_gap():
    rng = np.random.default_rng(1)
    e = 1e-7
    for centre in rng.uniform(-0.5, 0.5, (200, 3)):
        _, normal = gap(centre)
        gradient = [(gap(centre + d)[0] - gap(centre - d)[0]) / (2 * e) for d in e * np.eye(3)]
        if (np.abs(centre) > HALF).any():  # inside, the gap has ridges
            np.testing.assert_allclose(normal, gradient, atol=1e-5)


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
def test_the_contact_jacobian_is_the_relative_velocity_of_the_two_bodies(seed):
    """Finite differences of two material points, one on each body, that coincide at the contact."""
    robot, q = grasp(seed)
    v = np.random.default_rng(seed + 10).normal(size=robot.nv)
    c = contacts_from_geometry(robot, q, BELOW, margin=0.1)
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


@every("seed", range(5))
def test_gaps_change_as_the_normal_rows_say(seed):
    robot, q = grasp(seed)
    v = np.random.default_rng(seed + 20).normal(size=robot.nv)
    c = contacts_from_geometry(robot, q, BELOW, margin=1.0)
    rate = (evaluate(robot, State(q=q, v=v), c, dt=1e-3, ground=Ground.rigid()).dynamics.J @ v)[2::3]
    e = 1e-6
    after, before = (contacts_from_geometry(robot, robot.integrate(q, s * v), BELOW, margin=2.0) for s in (e, -e))
    assert after.keys == before.keys == c.keys
    np.testing.assert_allclose(rate, (after.gaps - before.gaps) / (2 * e), atol=1e-7)


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
    slippery = Robot(
        Description(
            urdf=robot.description.urdf,
            base="fixed",
            contact=robot.description.contact,
            box=(Box(frame="BOX", size=(1, 1, 1), mu=0.2),),
        )
    )
    assert (contacts_from_geometry(slippery, q, BELOW, margin=1.0).mu[-4:] == 0.2).all()


def test_a_box_may_be_rotated_and_offset_in_its_frame():
    """Twelve random placements against the same box written with its offset moved into the sphere."""
    robot, q = grasp(5)
    box = Box(frame="BOX", size=(0.02, 0.04, 0.06), offset=(0.01, -0.02, 0.03))
    shifted = Robot(Description(urdf=robot.description.urdf, base="fixed", contact=robot.description.contact, box=(box,)))
    c = contacts_from_geometry(shifted, q, BELOW, margin=np.inf)
    rotations, origins = shifted.place(q)
    joint = shifted.joint_of_frame("BOX")
    half = 0.5 * np.array(box.size)
    for key, point, normal, distance in zip(c.keys, c.points, c.normals, c.gaps, strict=True):
        if "/" in key:
            centre = point + 0.01 * normal
            local = rotations[joint].T @ (centre - origins[joint]) - np.array(box.offset)
            assert distance == pytest.approx(np.linalg.norm(local - np.clip(local, -half, half)) - 0.01, abs=1e-12)


def test_robots_without_boxes_have_no_contact_pairs():
    robot, _ = walker("quadruped")
    assert robot.boxes.pair_keys == ()


def test_faulty_boxes_are_refused_by_name():
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
    assert robot.total_mass == pytest.approx(1.1 + 6000 * 0.05071**3, abs=1e-6)
    assert (robot.na, robot.nu) == (11, 6)
    assert not robot.inspect()
