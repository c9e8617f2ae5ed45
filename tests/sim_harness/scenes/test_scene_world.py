"""Worlds of bodies: motion, closures, elastic bodies; where bodies touch; the same bodies in MuJoCo."""

import re
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from fast import every, every_row, full
from scipy.spatial.transform import Rotation

from idyn.errors import ConfigError
from sim_harness.engines.engine import ForceTimes, ForwardProblem, ForwardSolution
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.studies.scenes import scene_settings
from sim_harness.studies.scenes.contacts import ContactFinder, Geometry, PlacedShape, combined, face_points
from sim_harness.studies.scenes.load import blocks_of, check_scene, copies_of, engine_named, load_scene
from sim_harness.studies.scenes.measures import outcome_of, read, save_run
from sim_harness.studies.scenes.page import scene_page
from sim_harness.studies.scenes.polyhedra import hull_of
from sim_harness.studies.scenes.recording import Diverged, residuals_of, run_scene
from sim_harness.studies.scenes.scene import Closure, force_now, where_now
from sim_harness.studies.scenes.scene_model import SceneModel, inertia, mass_of, tensor, volume
from sim_harness.studies.scenes.scene_settings import BodySettings, ForceSettings, JointSettings, Material, Shape
from sim_harness.studies.scenes.world import build_scene

CUBE = Shape(box=(0.1, 0.2, 0.3))
LOAD = scene_settings.MeasureSettings(quantity="load", body="block", known="nothing")
SMALL, BAR = Shape(box=(0.1, 0.1, 0.1)), Shape(box=(0.3, 0.02, 0.02))
STIFF = MujocoSettings(ground="stiff")
SLIDES = tuple(JointSettings(kind="slide", axis=axis) for axis in ((1, 0, 0), (0, 0, 1)))
BLOCKY, BALL, CAN = Shape(box=(0.1, 0.1, 0.1)), Shape(sphere=0.05), Shape(cylinder=(0.05, 0.1))
LYING = Rotation.from_euler("x", np.pi / 2).as_matrix()
E = np.eye(3)
LEVEL, ON_EDGE = (0, 0, 0), (np.pi / 4, 0, 0)
BOX = (0.2, 0.3, 0.1)
CORNERS = tuple((x * 0.1, y * 0.15, z * 0.05) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0))
CASE, HULL = Shape(box=BOX), Shape(hull=CORNERS)
ARCH = scene_settings.ArchSettings(name="a", blocks=20, span=4.0, rise=2.0, thickness=(0.25, 0.5), width=0.5, density=800.0)
MOMENTS, CENTRE, MASS = (1e-3, 1.5e-3, 2e-3), (0.004, -0.002, 0.006), 0.37
MATTER = {"mass": MASS, "inertia": MOMENTS, "mass_centre": CENTRE}
MOTION = {"position": (0.0, 0.0, 1.0), "turn": (0.3, 0.2, 0.1), "velocity": (1.0, 0.5, 0.2), "spin": (3.0, -2.0, 4.0)}
BLOCK = BodySettings(name="block", shape=Shape(box=(0.1, 0.1, 0.1)), **MATTER, **MOTION)


def scene(*bodies, **settings):
    base = {"about": "", "engines": ("lcp",), "dt": 1e-3, "duration": 0.3}
    return check_scene(scene_settings.SceneSettings(body=bodies, **base | settings))


def test_a_spinning_body_in_free_flight_moves_straight():
    ball = BodySettings(name="a", shape=Shape(sphere=0.1), mass=1.0, velocity=(1.0, -2.0, 0.5), spin=(5.0, 20.0, 3.0))
    settings = scene(ball, gravity=0.0)
    run = run_scene(settings, engine_named(settings, "lcp"))
    np.testing.assert_allclose(run.centres[-1, 0], 0.3 * np.array(ball.velocity), atol=1e-12)
    np.testing.assert_allclose(run.spins[:, 0], np.broadcast_to(ball.spin, (301, 3)), atol=1e-10)
    np.testing.assert_allclose(run.energy, run.energy[0], rtol=1e-12)


def test_initial_state_and_gravity_are_those_of_the_settings():
    motion = {"velocity": (1, 2, 3), "spin": (4, 5, 6)}
    box = BodySettings(name="a", shape=CUBE, mass=1.0, position=(1.0, 2.0, 3.0), turn=(0.3, 0.2, 0.1), **motion)
    model = SceneModel(scene(box))
    velocities, spins = model.motions(model.start.q, model.start.v)
    np.testing.assert_allclose(model.place(model.start.q)[1][0], box.position, atol=1e-14)
    np.testing.assert_allclose(velocities[0], box.velocity, atol=1e-14)
    np.testing.assert_allclose(spins[0], box.spin, atol=1e-14)
    settings = load_scene("ramp-slides")
    model = SceneModel(settings)
    M, h, _ = model.terms(model.start.q, np.zeros(6))
    angle = settings.ground.slope
    np.testing.assert_allclose(h[:3], M[0, 0] * 9.81 * np.array([np.sin(angle), 0.0, np.cos(angle)]), atol=1e-12)


@every("kind", ["pin", "weld"])
def test_closure_rows_are_derivatives_of_the_gap(kind):
    hinge = JointSettings(kind="hinge", axis=(1, 2, 3))
    bar = BodySettings(name="bar", shape=CUBE, mass=1.0, position=(0.1, 0.2, 0.3), joint=(hinge,))
    free = BodySettings(name="free", shape=CUBE, mass=1.0, position=(0.3, 0.1, 0.2), turn=(0.3, 0.2, 0.1))
    model = SceneModel(scene(bar, free))
    closure = Closure(model, scene_settings.ClosureSettings(kind=kind, bodies=("free", "bar"), at=(0.2, 0.2, 0.2)))
    step, q = np.random.default_rng(1).normal(size=model.robot.nv), model.reference
    assert np.abs(closure.rows(q, model.terms(q, step)[2])[1]).max() < 1e-12
    for size in (0.0, 1e-3):  # of what is open, a weld's rows are exact at 0 only
        at = model.robot.integrate(q, size * step)
        ends = [model.robot.integrate(at, sign * 1e-6 * step) for sign in (1, -1)]
        ahead, behind = (closure.rows(x, model.terms(x, step)[2])[1] for x in ends)
        G = closure.rows(at, model.terms(at, step)[2])[0]
        np.testing.assert_allclose(G @ step, (ahead - behind) / 2e-6, atol=1e-7 if size == 0.0 or kind == "pin" else 1e-2)


def test_square_waves_repeat_and_rotating_forces_follow_the_axis_of_their_body():
    wave = ForceSettings(body="a", force=(2, 0, 0), otherwise=(1, 0, 0), start=1.0, duration=0.5, every=2.0)
    values = [force_now(wave, t)[0] for t in (0.5, 1.25, 1.75, 3.25, 3.75)]
    assert values == [1, 2, 1, 2, 1]
    force = ForceSettings(body="a", force=(0.0, 0.0, -1.0), at=(0.5, 0.0, 0.2), orbit=10.0)
    np.testing.assert_allclose(where_now(force, np.pi / 20), [0.0, 0.5, 0.2], atol=1e-12)


def test_a_spring_of_any_stiffness_is_stable_and_a_diverged_world_reports_it():
    """`sap` takes the forces of joint springs at the beginning of the step."""
    joint = JointSettings(kind="slide", axis=(1, 0, 0), start=0.1, stiffness=1e9)
    settings = scene(BodySettings(name="a", shape=CUBE, mass=1.0, joint=(joint,)), dt=0.01)
    assert np.abs(run_scene(settings, engine_named(settings, "lcp")).q).max() <= 0.1
    with pytest.raises(Diverged, match="diverged at t = "):
        run_scene(settings, engine_named(settings, "sap"))


def test_the_checker_finds_wrong_answers():
    settings = load_scene("sliding-block")
    world = build_scene(settings, engine_named(settings, "lcp"))
    step = world.step()
    good, problem, effects = step.solution, step.problem, world.bodies.effects
    replace, stretch = msgspec.structs.replace, np.zeros(6)

    def found(solution: ForwardSolution, asked: ForwardProblem = problem):
        return residuals_of(asked, solution, effects, stretch, ForceTimes())

    assert max(found(good).momentum, found(good).cone, found(good).gap_work, found(good).power) < 1e-12
    assert found(replace(good, v_plus=good.v_plus + 0.01)).momentum == pytest.approx(0.01)
    assert found(replace(good, p=good.p * [1.1, 1.1, 1.0])).cone > 1e-5
    assert found(replace(good, p=-good.p)).cone > 1e-3
    assert found(replace(good, p=good.p * [-1.0, 1.0, 1.0])).power > 1.0
    assert found(good, replace(problem, gaps=problem.gaps + 0.01)).gap_work == pytest.approx(0.01 * 9.81)


@full
def test_given_moments_and_centre_give_the_mass_matrix_and_the_centre_flies_on_a_parabola():
    settings = scene(BLOCK, dt=1e-4, duration=0.1)
    model = SceneModel(settings)
    M = model.terms(model.start.q, model.start.v)[0]
    cross = np.array([[0, -CENTRE[2], CENTRE[1]], [CENTRE[2], 0, -CENTRE[0]], [-CENTRE[1], CENTRE[0], 0]])
    steiner = np.diag(MOMENTS) - MASS * cross @ cross
    np.testing.assert_allclose(M, np.block([[MASS * np.eye(3), -MASS * cross], [MASS * cross, steiner]]), atol=1e-15)
    run = run_scene(settings, engine_named(settings, "lcp"))
    first, last = (model.mass_centres(q)[0] for q in (run.q[0], run.q[-1]))
    away = first - np.array(BLOCK.position)
    start = np.array(BLOCK.velocity) + np.cross(BLOCK.spin, away)
    expected = first + 0.1 * start - np.array([0.0, 0.0, 0.5 * 9.81 * 0.1**2])
    np.testing.assert_allclose(last, expected, atol=2e-4)  # dt / 2 times an acceleration of 3 m/s² for 0.1 s, and g
    assert np.ptp(run.energy) < 1e-3


def test_mujoco_has_the_same_body_and_gravity_and_forces_act_alike():
    """The same direction and acceleration along a slope, while MuJoCo's softer ground takes the cylinder in."""
    pytest.importorskip("mujoco")
    settings = scene(BLOCK, dt=1e-5, duration=1e-4)
    ends = []
    for engine in (engine_named(settings, "lcp"), MujocoSettings(timestep=1e-5)):
        world = build_scene(settings, engine)
        for _ in range(10):
            world.step()
        ends.append(world.v - world.bodies.start.v)
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-3, atol=1e-7)
    ours, theirs = both(load_scene("slips", 0.1))
    np.testing.assert_allclose(theirs.velocities[-1, 0, :2], ours.velocities[-1, 0, :2], atol=5e-3)


@every_row(
    (msgspec.structs.replace(BLOCK, inertia=(1e-3, 1e-3, 3e-3)), {}, "scene.body[0].inertia"),
    (msgspec.structs.replace(BLOCK, mass_centre=(0.0, np.inf, 0.0)), {}, "scene.body[0].mass_centre"),
    (BLOCK, {"measure": (LOAD,)}, "scene.body[0].inertia"),
)
def test_what_no_body_can_have_is_refused(body, more, where):
    with pytest.raises(ConfigError) as caught:
        scene(body, **more)
    assert caught.value.path == where


def both(settings, engine=STIFF):
    return run_scene(settings, PolygonLcp()), run_scene(settings, engine)


@full
@pytest.mark.parametrize("kind", ["pin", "weld"])
def test_two_welded_free_bodies_fly_as_in_our_worlds(kind):
    one = BodySettings(name="one", shape=SMALL, mass=1.0, position=(0.0, 0.2, 0.3), turn=(0.1, 0.2, 0.3))
    other = BodySettings(name="other", shape=SMALL, mass=2.0, position=(0.2, 0.2, 0.3), turn=(0.3, 0.1, 0.2))
    push = ForceSettings(body="other", force=(3.0, 5.0, 2.0), duration=0.1)
    tie = scene_settings.ClosureSettings(kind=kind, bodies=("one", "other"), at=(0.1, 0.2, 0.3))
    ours, theirs = both(scene(one, other, closure=(tie,), force=(push,), gravity=0.0, duration=0.2))
    assert np.linalg.norm(ours.centres[-1] - ours.centres[0], axis=1).min() > 0.003
    np.testing.assert_allclose(theirs.centres[-1], ours.centres[-1], atol=1e-3)
    assert theirs.residuals[:, 0].max() < 1e-10


@full
def test_springs_dampers_and_stops_act_as_in_our_worlds():
    joint = JointSettings(kind="hinge", axis=(0, 1, 0), anchor=(0, 0, 0), start=0.2, stiffness=3.0, rest=-0.4, damping=0.1)
    bar = BodySettings(name="bar", shape=BAR, mass=1.0, position=(0.15, 0.0, 0.0), joint=(joint,))
    ours, theirs = both(scene(bar, duration=0.5))
    np.testing.assert_allclose(theirs.q[-1], ours.q[-1], atol=2e-3)
    assert theirs.residuals[:, 0].max() < 1e-10
    stopped = JointSettings(kind="hinge", axis=(0, 1, 0), anchor=(0, 0, 0), stop=(-1.0, 0.2))
    ours, theirs = both(scene(msgspec.structs.replace(bar, joint=(stopped,)), duration=1.0))
    assert ours.q[-1, 0] == pytest.approx(0.2, abs=1e-3)
    assert theirs.q[-1, 0] == pytest.approx(0.2, abs=5e-3)


@every_row(
    ({"material": Material(stiffness=1e4)}, 1e-3, r"body\[0\].material.stiffness"),
    ({}, 5e-3, "engine.timestep"),
    ({"joint": SLIDES}, 1e-3, "'mujoco' cannot compile the model of scene"),
)
def test_unsupported_parts_are_refused_by_name(more, dt, field):
    with pytest.raises(ConfigError, match=field):
        build_scene(scene(BodySettings(name="a", shape=SMALL, mass=1.0, **more), dt=dt), MujocoSettings())


@every(("name", "field"), [("pendulum-soft-stop", "stiffness"), ("arch", "hull"), ("elastic-foundation", "cells")])
def test_scenes_with_unsupported_parts_are_refused(name, field):
    with pytest.raises(ConfigError, match=field):
        build_scene(msgspec.structs.replace(load_scene(name), dt=1e-3), MujocoSettings())


@full
@pytest.mark.parametrize("engine", ["lcp", "sap", "first-order"])
def test_a_closure_that_yields_is_a_spring(engine):
    """A ball on a pin of 500 N/m: it hangs lower by m g / k."""
    pin = scene_settings.ClosureSettings(kind="pin", bodies=("ball", ""), at=(0, 0, 0), stiffness=500.0, dissipation=0.05)
    settings = scene(BodySettings(name="ball", shape=Shape(sphere=0.05), mass=1.0), closure=(pin,), duration=2.0)
    run = run_scene(settings, engine_named(settings, engine))
    assert run.ok.all()
    assert run.centres[-1, 0] == pytest.approx([0.0, 0.0, -9.81 / 500.0], abs=1e-9)


def spots(first, second, margin=0.01, edge=1):
    return list(ContactFinder(margin, edge).between(first, second))


def place(shape, x=0.0, y=0.0, z=0.0, rotation=E):
    return PlacedShape(shape, rotation, np.array([x, y, z]))


@every("gap", [-1e-3, -1e-6, 0.0, 1e-9, 5e-3])
def test_a_cube_on_a_cube_has_four_contacts_with_the_gap_between_the_faces(gap):
    found = spots(place(BLOCKY, z=0.1 + gap), place(BLOCKY))
    corners = {(round(float(s.point[0]), 6), round(float(s.point[1]), 6)) for s in found}
    assert corners == {(0.05, 0.05), (0.05, -0.05), (-0.05, 0.05), (-0.05, -0.05)}
    for spot in found:
        np.testing.assert_array_equal(spot.normal, [0, 0, 1])
        assert spot.gap == pytest.approx(gap, abs=1e-12)


def test_each_corner_of_a_tilted_face_has_its_own_gap():
    tilt = Rotation.from_euler("y", 5e-4).as_matrix()
    found = spots(place(BLOCKY, z=0.1 + 1e-4, rotation=tilt), place(Shape(box=(0.3, 0.3, 0.1))))
    assert len(found) == 4
    for spot in found:
        lower = 0.1 + 1e-4 - 0.05 * np.cos(5e-4) - np.tan(5e-4) * spot.point[0]
        assert spot.gap == pytest.approx(lower - 0.05, abs=1e-7)


@every("other", [(0.1, 0.1, 0.04), (0.1, 0.3, 0.2)])
def test_faces_tilted_by_a_microradian_touch_at_four_corners_in_one_order(other):
    rng = np.random.default_rng(3)
    upright = spots(place(BLOCKY), place(Shape(box=other), z=-0.05 - other[2] / 2))
    for size in 10.0 ** rng.uniform(-16, -6, 200):
        turn = Rotation.from_rotvec(size * rng.normal(size=3)).as_matrix()
        found = spots(place(BLOCKY), place(Shape(box=other), z=-0.05 - other[2] / 2, rotation=turn))
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


def touching(settings):
    model = SceneModel(settings)
    return Geometry(model).touching(model.start.q)


@every_row((BLOCKY, LEVEL, 4), (BLOCKY, ON_EDGE, 2), (BALL, (1, 2, 3), 1), (CAN, LEVEL, 4), (CAN, (np.pi / 2, 0, 0), 2))
def test_bodies_touch_the_ground_at_their_lowest_points(shape, turn, count):
    height = 0.05 * (np.sqrt(2) if turn[0] == np.pi / 4 else 1)
    body = BodySettings(name="a", shape=shape, mass=1.0, turn=turn, position=(0.3, 0.2, height))
    found = touching(scene(body, ground=scene_settings.GroundSettings())).contacts
    assert len(found) == count
    np.testing.assert_allclose(found.gaps, 0, atol=1e-12)
    np.testing.assert_allclose(found.points.mean(axis=0), [0.3, 0.2, 0.0], atol=1e-9)


def test_bodies_joined_by_a_joint_do_not_touch_and_others_do():
    base = BodySettings(name="base", shape=BLOCKY, joint="fixed")
    arm = BodySettings(name="arm", shape=BLOCKY, mass=1.0, joint=(JointSettings(kind="hinge", axis=(0, 0, 1)),))
    child = msgspec.structs.replace(arm, name="child", parent="arm")
    loose = BodySettings(name="loose", shape=BLOCKY, mass=1.0, position=(0.0, 0.0, 0.1))
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
    body = BodySettings(name="a", shape=BLOCKY, mass=1.0, position=(0.0, 0.0, 0.05), material=Material(stiffness=1e4))
    for edge in (1, 4):
        found = touching(scene(body, ground=scene_settings.GroundSettings(), shared=True, edge=edge))
        assert (found.stiffness.sum(), len(found.contacts)) == (pytest.approx(1e4), 4 * edge)


def test_a_hull_of_box_corners_equals_a_box_and_touches_boxes_and_balls():
    assert volume(HULL) == pytest.approx(volume(CASE), rel=1e-12)
    np.testing.assert_allclose(tensor(HULL), np.diag(inertia(CASE)), atol=1e-15)
    hull = hull_of(CORNERS)
    np.testing.assert_allclose(hull.centre, 0.0, atol=1e-15)
    assert len(hull.planes) == len(hull.faces) == 6
    assert all(len(face) == 4 for face in hull.faces)
    assert len(hull.edges) == 3
    assert len(spots(place(HULL, z=0.1), place(CASE))) == 4
    (spot,) = spots(place(BALL, z=0.101), place(HULL))
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
        found = spots(place(HULL, z=0.1 + 1e-6 * rng.normal(), rotation=lean), place(HULL))
        assert len(found) == 4
        assert max(abs(spot.gap) for spot in found) < 2e-5
    up, down = (Rotation.from_euler("x", np.pi / 4).as_matrix(), Rotation.from_euler("y", np.pi / 4).as_matrix())
    cube = Shape(hull=tuple((x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)))
    height = 0.2 * np.sqrt(2)
    for gap in (-1e-3, 1e-3):
        (spot,) = spots(place(cube, z=height + gap, rotation=up), place(cube, rotation=down))
        np.testing.assert_allclose(spot.point, [0.0, 0.0, height / 2 + gap / 2], atol=1e-9)
        np.testing.assert_allclose(spot.normal, [0.0, 0.0, 1.0], atol=1e-12)
        assert spot.gap == pytest.approx(gap, abs=1e-12)
    assert spots(place(cube, z=height + 0.02, rotation=up), place(cube, rotation=down)) == []


def test_hulls_without_volume_or_beside_their_centre_of_mass_are_refused():
    with pytest.raises(ConfigError, match="enclose a volume"):
        hull_of(((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, 0.0)))
    off = Shape(hull=((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
    with pytest.raises(ConfigError, match=r"body\[0\].shape.hull.*centre of mass"):
        scene(BodySettings(name="a", shape=off, mass=1.0))


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
    link = BodySettings(name="l", shape=CASE, mass=1.0, position=(0.1, 0, 0), joint=(joint,))
    chain = copies_of(msgspec.structs.replace(link, copies=3, chained=True, apart=(0.2, 0, 0)))
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
