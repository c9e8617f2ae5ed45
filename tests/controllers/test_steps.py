"""Steps on two legs: footsteps, swings, the divergent component of motion and what corrects it."""

import numpy as np
import pytest
from fast import every, first_is_fast
from scipy.integrate import solve_ivp

from controllers.contact.source import with_whole_soles
from controllers.planners.two_legs.feet import (
    Feet,
    Pose,
    feet_of,
    fill_corners,
    nearest_inside,
    point,
    pose_of,
)
from controllers.planners.two_legs.settings import StepSettings
from controllers.planners.two_legs.steps import (
    NONE,
    PARTS,
    Steps,
    Velocity,
    abreast,
    advance,
    fill_plan,
    middle,
    next_step,
    reference,
    stand,
    within_reach,
)
from controllers.planners.two_legs.swing import ANY, Spans, Swing, aim, lift, move, planned_dcm
from idyn import ConfigError, load_robot

OMEGA, STILL = 3.6, Velocity(0j, 0.0)
SPANS = (0.2, 0.1j, 0.1 - 0.1j), (0.5, 0.1 - 0.1j, 0.1 - 0.1j), (0.3, 0.1 - 0.1j, 0.3 + 0.1j)  # duration, start, end


def test_the_planned_dcm_ends_above_the_last_centre_of_pressure() -> None:
    dcm = planned_dcm(Spans(*map(np.array, zip(*SPANS, strict=True))), 0, len(SPANS), OMEGA)
    for lasts, start, end in SPANS:  # ξ̇ = ω (ξ − p), integrated forwards

        def slope(t: float, x: np.ndarray, span: tuple[float, complex, complex] = (lasts, start, end)) -> np.ndarray:
            return OMEGA * (x - span[1] - (span[2] - span[1]) * t / span[0])

        dcm = solve_ivp(slope, (0.0, lasts), [dcm], rtol=1e-10, atol=1e-12).y[0, -1]
    assert np.allclose(dcm, SPANS[-1][2], atol=1e-7)


@every("seed", range(5))
def test_the_nearest_point_of_a_polygon(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners, place = rng.normal(size=(8, 2)), 3.0 * rng.normal(size=2)
    nearest = nearest_inside(complex(*place), corners @ [1.0, 1.0j])
    found = np.array([nearest.real, nearest.imag])
    weights = rng.dirichlet(np.full(8, 0.3), size=20000)
    inside = np.concatenate([weights @ corners, corners])
    # the obtuse angle at the nearest point: (place − found) · (x − found) ≤ 0 for all x inside
    assert ((inside - found) @ (place - found)).max() < 1e-9
    assert np.linalg.norm(inside - found, axis=1).min() < 0.2


def test_a_point_inside_and_degenerate_polygons_stay() -> None:
    square = np.array([0j, 1 + 0j, 1 + 1j, 1j])
    assert nearest_inside(0.3 + 0.6j, square) == 0.3 + 0.6j
    assert nearest_inside(2.0 + 0.5j, square[:1]) == 0.0
    assert nearest_inside(0.4 + 2.0j, square[:2]) == pytest.approx(0.4)


@every("velocity", [(0.3, 0.0, 0.0), (0.0, 0.1, 0.0), (0.2, -0.05, 0.4)])
def test_footsteps_move_at_the_commanded_velocity(velocity: tuple[float, float, float]) -> None:
    period, width, feet = 0.5, 0.2, [Pose(0.1j, 0.0, 0.0, 0.0), Pose(-0.1j, 0.0, 0.0, 0.0)]
    middles = []
    for k in range(40):
        foot = k % 2
        feet[foot] = next_step(feet[1 - foot], foot, Velocity(complex(*velocity[:2]), velocity[2]), width, period)
        middles.append(0.5 * (feet[0].place + feet[1].place))
    headings = 0.5 * (feet[0].yaw + feet[1].yaw)
    assert headings == pytest.approx(velocity[2] * 39.5 * period)
    speed = np.abs(np.array(middles[2:]) - middles[:-2]) / (2 * period)
    assert np.allclose(speed, np.hypot(*velocity[:2]), rtol=0.03)


def test_steps_stay_within_reach() -> None:
    stands = Pose(1.0 + 2.0j, 0.0, 0.5 * np.pi, 0.0)
    steps = Steps(StepSettings(longest=0.3, narrowest=0.8, widest=1.5), 0.2, 1.0, OMEGA, True, 0j)
    place = within_reach(steps, 1.4 + 2.9j, stands, 0)
    # ahead is +y, left is −x: the left foot crossed the right one by 0.4 m
    assert place == pytest.approx(1.0 - 0.16 + 2.3j)
    assert abreast(next_step(stands, 0, STILL, 0.2, 0.7), stands, 0.2) < 1e-12


def test_a_swing_is_smooth_when_its_goal_moves() -> None:
    start, goal = np.zeros(4), np.array([0.3, 0.0, 0.0, 0.2])
    swing, dt, track = Swing(), 1e-3, []
    lift(swing, start, goal, 0.5, 0.05)
    for k in range(501):
        if k == 200:
            aim(swing, goal + np.array([0.05, 0.02, 0.0, 0.0]), k * dt, ANY)
        move(swing, k * dt)
        track.append(np.array([swing.x, swing.v, swing.a]))
    x, v, a = np.array(track).transpose(1, 0, 2)
    assert np.allclose(np.gradient(x, dt, axis=0)[1:-1], v[1:-1], atol=2e-3)
    assert np.allclose(np.gradient(v, dt, axis=0)[1:-1], a[1:-1], atol=0.2)
    assert np.allclose(x[-1], [0.35, 0.02, 0.0, 0.2])
    assert np.allclose(v[-1], 0.0, atol=1e-9)
    assert x[:, 2].max() == pytest.approx(0.05, abs=1e-6)


def test_feet_of_g1_are_whole_soles_and_others_have_none() -> None:
    robot, stance = load_robot("g1")
    left, right = feet_of(robot, stance)
    assert (left.frame, right.frame) == ("left_ankle_roll_link", "right_ankle_roll_link")
    assert left.flat
    assert np.allclose(left.half, [0.085, 0.0275])
    poses = Feet(robot, (left, right)).measured(robot.terms(stance, np.zeros(robot.nv)).placements)
    assert poses[0, 2] == pytest.approx(0.0, abs=1e-9)
    quadruped, stands = load_robot("quadruped")
    with pytest.raises(ConfigError, match="two links"):
        feet_of(quadruped, stands)
    robot, _ = load_robot("g1")
    left = robot.spheres.keys[:4]
    assert with_whole_soles(robot, left[2:3]) == left
    assert with_whole_soles(robot, ()) == ()


def test_point_feet_are_spheres_on_the_ground() -> None:
    robot, stance = load_robot("bolt")
    left, right = feet_of(robot, stance)
    assert (left.frame, right.frame) == ("FL_FOOT", "FR_FOOT")
    assert not left.flat
    q = stance.copy()
    q[robot.tree.q_index] += 0.3  # the lower legs tilt
    feet, corners = Feet(robot, (left, right)), np.empty(4, np.complex128)
    poses, centre = (
        feet.measured(robot.terms(q, np.zeros(robot.nv)).placements),
        robot.frames.placement("FL_FOOT", q).translation,
    )
    assert np.allclose(poses[0, :3], centre - [0.0, 0.0, 0.016])
    fill_corners(feet.halves[0], pose_of(poses[0]), 0.01, corners)
    assert np.allclose(corners, point(poses[0]))


def standing_at(steps: Steps, aside: float) -> Steps:
    """Let the feet stand so far to the side [m]."""
    steps.measured[:] = 0.0
    steps.measured[:, 1] = aside, -aside
    stand(steps, 0j)
    return steps


def see(steps: Steps) -> None:
    """Measure the feet where they are planned."""
    steps.measured[:] = steps.planted
    if steps.swinging != NONE:
        steps.measured[steps.swinging, :4] = steps.swing.x


def point_feet(period: float = 0.25) -> Steps:
    """Return steps of point feet 0.1 m apart, that stand."""
    settings = StepSettings(period=period, double_support=0.1, longest=0.3, narrowest=0.4, widest=3.0)
    return standing_at(Steps(settings, 0.1, 1.0, OMEGA, False, 0j), 0.05)


def test_point_feet_that_land_early_keep_the_time_of_the_plan() -> None:
    steps, dt, lifts = point_feet(), 0.005, []
    for k in range(400):
        before = steps.swinging
        steps.measured[:] = steps.planted
        advance(steps, k * dt, STILL, before != NONE and steps.swing.x[2] < 0.002, 0j)
        reference(steps, k * dt, STILL, middle(steps.planted))
        if before == NONE and steps.swinging != NONE:
            lifts.append(k * dt)
    assert len(lifts) > 5
    assert np.allclose(np.diff(lifts), 0.25, atol=dt + 1e-9)


@every("bias", first_is_fast([-0.003, 0.003]))
def test_point_feet_walk_at_the_commanded_speed_though_the_centre_of_pressure_is_off(bias: float) -> None:
    steps, dt, dcm, at = point_feet(), 0.005, 0j, {}
    for k in range(4000):
        see(steps)
        advance(steps, k * dt, Velocity(0.2 + 0j, 0.0), False, 0j)
        p, _ = reference(steps, k * dt, Velocity(0.2 + point(steps.correction), 0.0), dcm)
        dcm += dt * OMEGA * (dcm - p - bias)  # ξ̇ = ω (ξ − p)
        at[k] = middle(steps.planted).real
    assert (at[3999] - at[1999]) / (2000 * dt) == pytest.approx(0.2, rel=0.05)


def test_feet_without_width_learn_where_they_press_and_stop_as_far_apart_as_they_land() -> None:
    """A sole that leans outwards with its leg presses 12 mm outside its line: steps become wider until the plan knows it."""
    steps, dt, dcm, outside, aside = Steps(StepSettings(), 0.25, 1.0, OMEGA, True, 0.05 + 0j), 0.005, 0j, 0.012, []
    standing_at(steps, 0.125)
    for k in range(8000):
        t, before = k * dt, steps.swinging
        see(steps)
        velocity = Velocity(0.2 + 0j if t < 30.0 else 0j, 0.0)
        advance(steps, t, velocity, False, 0j)
        p, planned = reference(steps, t, Velocity(velocity.plane + point(steps.correction), 0.0), dcm)
        if before != NONE and steps.swinging == NONE:
            aside.append(steps.planted[0, 1] - steps.planted[1, 1])
        if steps.swinging == NONE:
            ends = np.array([point(pose) + ahead for pose in steps.planted for ahead in (-0.07, 0.07)])
            p = nearest_inside(p + 2.0 * (dcm - planned), ends)
        else:
            p = point(steps.planted[1 - steps.swinging]) + outside * (1j if steps.swinging else -1j)
        dcm += dt * OMEGA * (dcm - p)
    assert min(aside[:2]) > 0.3
    np.testing.assert_allclose(aside[-8:-4], 0.25, atol=0.02)
    assert steps.standing
    assert abs(dcm - middle(steps.planted)) < 0.01


@pytest.mark.parametrize("ahead", [1.0, -1.0])
def test_feet_that_stand_step_where_the_dcm_leaves_them_as_fast_as_they_can_and_come_abreast(ahead: float) -> None:
    steps, dt, dcm, landed = Steps(StepSettings(), 0.2, 1.0, OMEGA, True, 0.05 + 0.03j), 0.005, ahead * 0.052 + 0.01j, []
    standing_at(steps, 0.1)
    for k in range(600):
        swung = steps.swinging
        see(steps)
        stands = [point(pose) for foot, pose in enumerate(steps.measured) if foot != swung]
        soles = np.array([place + complex(x, y) for place in stands for x in (-0.05, 0.05) for y in (-0.03, 0.03)])
        outside = dcm - nearest_inside(dcm, soles) if steps.standing else 0j
        advance(steps, k * dt, STILL, False, outside)
        landed += [k * dt] * (swung != NONE and steps.swinging == NONE)
        p, planned = reference(steps, k * dt, STILL, dcm)
        dcm += dt * OMEGA * (dcm - nearest_inside(p + 2.0 * (dcm - planned), soles))
    assert len(landed) == 2
    assert landed[0] == pytest.approx(0.35, abs=0.01)  # 0.1 s on both feet, 0.25 s in the air
    assert steps.standing
    assert abreast(*map(pose_of, steps.planted), 0.2) < 0.03
    assert abs(dcm - middle(steps.planted)) < 0.01


def test_a_foot_whose_place_is_out_of_reach_lands_sooner() -> None:
    lasted = []
    for push in (0.0, 0.02j, -0.08j):  # of the DCM to the side of the foot in the air, the left one, or away from it [m]
        steps, times, velocity = Steps(StepSettings(), 0.2, 1.0, OMEGA, True, 0.01 + 0.01j), [], Velocity(0.2 + 0j, 0.0)
        standing_at(steps, 0.1)
        for k in range(300):  # the first swing, and before the next one of this foot
            spans = Spans(np.empty(PARTS), *np.empty((2, PARTS), np.complex128))
            steps.measured[:] = steps.planted
            advance(steps, 0.005 * k, velocity, False, 0j)
            ideal = planned_dcm(spans, 0, fill_plan(steps, 0.005 * k, velocity, spans), OMEGA)
            reference(steps, 0.005 * k, velocity, ideal + push * (steps.swinging == 0))
            times += [0.005 * k] * (steps.swinging == 0)
        lasted.append(times[-1] - times[0])
    assert lasted[0] == pytest.approx(0.525, abs=0.01)
    assert lasted[1] == pytest.approx(lasted[0])  # within reach
    assert 0.2 < lasted[2] < 0.4
