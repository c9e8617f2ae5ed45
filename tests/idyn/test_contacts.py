"""Contact sets: those found by geometry, refusals of given ones by field, flat feet, and feet that separate."""

import msgspec
import numpy as np
import pytest
import urdf
from conditions import allowance, cone_error, coulomb_error, no_slip_error
from fast import every, every_row, first_is_fast
from oracles import full
from scenes import DT, LITERAL, PLAIN, Scene, each_walker, feet, fingers_scene, standing_scene, walker

from idyn import ContactPoint, Description, Flat, Options, Robot, Sole, State, make_law, predict
from idyn.contact import contacts as search
from idyn.contact.contacts import contacts_from_geometry, contacts_from_points, first_tangents, sphere_centres
from idyn.errors import FrameNotFound, InputError

UP = np.array([[0.0, 0.0, 1.0]])


def build(**changes):
    """One contact of the first foot, with some arguments replaced."""
    robot, _ = walker("solo12")
    given = {"keys": ("FL_FOOT",), "points": np.zeros((1, 3)), "normals": UP, "mu": np.ones(1), "gaps": np.zeros(1)}
    return contacts_from_points(robot, **{**given, **changes})


@every_row(
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
)
def test_malformed_contacts_are_refused_by_field(field, changes):
    with pytest.raises(InputError) as caught:
        build(**changes)
    assert caught.value.field == field
    assert str(caught.value).startswith(field + ": ")


def test_duplicate_contacts_and_unknown_frames_are_refused_with_the_nearest_names():
    twice = {"points": np.zeros((2, 3)), "normals": np.vstack([UP, UP]), "mu": np.ones(2), "gaps": np.zeros(2)}
    with pytest.raises(InputError, match="got 'FL_FOOT' twice"):
        build(keys=("FL_FOOT", "FL_FOOT"), **twice)
    with pytest.raises(InputError, match="FL_FOOT"):
        build(keys=("FL_FOO",))


def test_infinite_friction_nearly_unit_normals_and_empty_sets_are_accepted():
    assert np.isinf(build(mu=np.array([np.inf])).mu[0])
    assert build(mu=np.zeros(1)).mu[0] == 0
    contacts = build(normals=UP * (1 + 5e-7))
    assert np.linalg.norm(contacts.normals[0]) == pytest.approx(1, abs=1e-15)
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


def test_contact_points_lie_below_the_spheres_and_within_the_margin():
    robot, q = walker("solo12")
    q = robot.integrate(q, np.r_[0, 0, 0.01, 0.1, -0.05, 0, np.zeros(12)])
    contacts = contacts_from_geometry(robot, q, Flat(0.003), margin=1.0)
    robot.place(q)
    centres = sphere_centres(robot.placements, robot.spheres.joints, robot.spheres.offsets)
    np.testing.assert_allclose(contacts.points, centres - [0, 0, 0.016], atol=1e-15)
    np.testing.assert_allclose(contacts.gaps, centres[:, 2] - 0.016 - 0.003, atol=1e-15)
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
    told = search.contacts_of_places(robot, q, Flat(), tuple(robot.spheres.keys[i] for i in rows), mu=mu)
    for field in found.__struct_fields__:
        expected = [0.0 if field == "gaps" else getattr(found, field)[i] for i in rows]
        np.testing.assert_array_equal(getattr(told, field), np.reshape(expected, np.shape(getattr(told, field))))


def test_a_link_and_a_joint_with_one_name_are_one_frame():
    """URDF allows it; Pinocchio then has two frames with that name."""
    robot = fingers_scene((0, 0)).robot
    assert robot.joint_of_frame("left") != robot.joint_of_frame("right")
    contacts = contacts_from_points(robot, ("left",), np.zeros((1, 3)), UP, np.ones(1), np.zeros(1))
    assert contacts.bodies[0] == robot.joint_of_frame("left")


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


# -- flat feet ---------------------------------------------------------------------------------------------------------


ANKLE = urdf.joint("ankle", "body", "foot", axis="0 1 0", at=-0.5, limits=(-1, 1, 100, 10))
HOPPER = urdf.robot("hopper", urdf.link("body", 5.0, 0.1), urdf.link("foot", 1.0, 0.1), ANKLE)
SOLE = Sole(frame="foot", length=0.3, width=0.1, offset=(0.05, 0.01, -0.02), mu=0.7)
ENDS, SIDES = {"front": 0.2, "hind": -0.1}, {"left": 0.06, "right": -0.04}
CORNERS = {f"foot.{end}_{side}": (x, y, -0.02) for end, x in ENDS.items() for side, y in SIDES.items()}


def hopper(*contact):
    return Robot(Description(urdf=HOPPER, contact=contact))


def test_sole_corners_have_names_by_place_and_may_share_a_frame_with_spheres():
    robot = hopper(*SOLE.corners())
    assert robot.spheres.keys == tuple(CORNERS)
    np.testing.assert_allclose(robot.spheres.offsets, list(CORNERS.values()), atol=1e-15)
    np.testing.assert_array_equal(robot.spheres.mu, 0.7)
    np.testing.assert_array_equal(robot.spheres.radii, 0.0)
    assert set(robot.spheres.joints.tolist()) == {robot.joint_of_frame("ankle")}
    robot = hopper(ContactPoint(frame="foot"), *SOLE.corners(), ContactPoint(frame="foot"), ContactPoint(frame="body"))
    assert robot.spheres.keys == ("foot", *CORNERS, "foot.1", "body")
    with pytest.raises(InputError, match=r"contact.foot.name: .*'foot.front_left' twice"):
        hopper(*SOLE.corners(), *SOLE.corners())
    with pytest.raises(InputError, match=r"'foot.1' twice"):
        hopper(ContactPoint(frame="foot"), ContactPoint(frame="foot", name="1"), ContactPoint(frame="foot"))
    with pytest.raises(FrameNotFound, match="fot"):
        hopper(*Sole(frame="fot", length=0.1, width=0.1).corners())


@every("law", ["no-slip", "coulomb", "cone", "convex"])
@every("forward", [-0.05, 0.0, 0.15])
def test_the_centre_of_pressure_is_below_the_centre_of_mass(law, forward):
    """At rest, leaning by the ankle: Σ f_N x / Σ f_N is where the mass is."""
    robot = hopper(*SOLE.corners())
    q = robot.neutral()
    q[2] = 0.52
    lean = np.arcsin(forward * 6.0 / 5.0 / 0.5)
    q[3:7] = [0.0, np.sin(lean / 2), 0.0, np.cos(lean / 2)]
    q[7] = -lean
    q[:3] -= robot.place(q)[1][-1] - [0.0, 0.0, 0.02]
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1e-6)
    assert contacts.keys == tuple(CORNERS)
    state = State(q=q, v=np.zeros(robot.nv))
    answer = predict(robot, state, contacts, np.zeros(1), law=make_law(law), dt=DT, options=Options.paper(ground=LITERAL))
    assert answer.status.ok
    load = answer.normal_force
    assert load.sum() == pytest.approx(6 * 9.81, rel=1e-9)
    centre = load @ contacts.points / load.sum()
    np.testing.assert_allclose(centre[:2], [forward, 0.0], atol=1e-7)
    np.testing.assert_allclose(robot.center_of_mass(q)[:2], [forward, 0.0], atol=1e-12)
    assert (load >= -1e-9).all()


# -- infinite friction, and feet that do not press ---------------------------------------------------------------------


LIFTS = 3  # the foot that slips off the ground


def lifting(name):
    """Four feet on a plane with infinite friction, at rest; the last one is to move away along the plane and upwards."""
    scene = standing_scene(name, mu=np.inf)
    f = full(scene.robot, scene.state, scene.contacts)
    away = np.linalg.pinv(f.J[3 * LIFTS : 3 * LIFTS + 3, f.a]) @ np.array([0.3, -0.2, 0.5])  # m/s²
    return msgspec.structs.replace(scene, q_ddot=away), f


def solve(scene, law, contacts=None, guess=None):
    contacts = scene.contacts if contacts is None else contacts
    return predict(scene.robot, scene.state, contacts, scene.q_ddot, law=law, dt=DT, options=PLAIN, guess=guess)


@every(("law", "error"), [("coulomb", coulomb_error), ("cone-infinite", cone_error), ("no-slip", no_slip_error)])
@each_walker
def test_a_separating_foot_carries_no_force(name, law, error):
    """Literally it would be held sideways, at any cost. From any start the answer is that of the robot without this foot."""
    (scene, f), law = lifting(name), make_law(law)
    alone = solve(scene, law, contacts=scene.contacts.take(np.arange(LIFTS)))
    answers = (solve(scene, law), solve(scene, law, guess=alone.guess))
    assert answers[1].rung == "warm"
    for answer in answers:
        assert (answer.law, answer.status.name) == (law.name, "SOLVED")
        assert not answer.p[3 * LIFTS :].any()
        np.testing.assert_allclose(answer.v_plus, alone.v_plus, atol=1e-9)
        assert error(f, answer.p, answer.v_plus, np.full(4, np.inf), allowance(scene.contacts.gaps, DT)) < 1e-8
        slides = np.abs(f.at_end(answer.v_plus)[3 * LIFTS : 3 * LIFTS + 2]).max()
        assert 1e-5 < slides < 1e-3


def uneven(name, seed):
    """Feet that are not quite on one plane, on ground that fits them, with infinite friction; one is to move away."""
    rng = np.random.default_rng(seed)
    robot, stance = walker(name)
    q = robot.integrate(stance, np.r_[np.zeros(3), rng.uniform(-1e-3, 1e-3, robot.nv - 3)])
    state = State(q=q, v=np.zeros(robot.nv))
    contacts = feet(robot, q, mu=np.full(4, np.inf))
    f, foot = full(robot, state, contacts), int(rng.integers(4))
    away = rng.uniform([-0.1, -0.1, 0.05], [0.1, 0.1, 0.3])  # m/s²
    demand = np.linalg.lstsq(f.J[:, f.a], np.r_[np.zeros(3 * foot), away, np.zeros(9 - 3 * foot)], rcond=None)[0]
    return Scene(robot=robot, state=state, contacts=contacts, q_ddot=demand), foot


@every("law", first_is_fast(["coulomb", "cone-infinite"]))
@each_walker
def test_feet_almost_on_one_plane_carry_no_large_internal_forces(name, law):
    """When the robot without the lifting foot has an answer, the whole robot nearly always has the same from a cold start, and
    always from its own basis. By the literal conditions there are kilonewtons instead, or no answer."""
    law, found, expected = make_law(law), 0, 0
    for seed in range(40):
        scene, foot = uneven(name, seed)
        alone = solve(scene, law, contacts=scene.contacts.take(np.delete(np.arange(4), foot)))
        f = full(scene.robot, scene.state, scene.contacts)
        if alone.law != law.name or f.at_end(alone.v_plus)[3 * foot + 2] < 1e-8:
            continue
        expected += 1
        answer = solve(scene, law)
        if answer.law != law.name or np.abs(answer.v_plus - alone.v_plus).max() > 1e-8:
            continue
        found += 1
        assert not answer.p[3 * foot : 3 * foot + 3].any()
        again = solve(scene, law, guess=answer.guess)
        assert again.law == law.name
        np.testing.assert_allclose(again.v_plus, answer.v_plus, atol=1e-9)
    assert expected > 20
    assert found > 0.8 * expected


@each_walker
def test_the_no_slip_motion_does_not_depend_on_the_start(name):
    """Only impulses depend on which rows are taken first."""
    law = make_law("no-slip")
    for seed in range(40):
        scene, _ = uneven(name, seed)
        answer = solve(scene, law)
        again = solve(scene, law, guess=answer.guess)
        np.testing.assert_allclose(again.v_plus, answer.v_plus, atol=1e-8)
