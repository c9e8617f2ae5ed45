"""The gait of two legs: DCM plans against an integrator, footsteps, swings, settings, and a robot that steps."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fast import every
from scipy.integrate import solve_ivp

from controllers.command import GaitChange, Steering
from controllers.config.loading import parse
from controllers.contact.source import with_whole_soles
from controllers.planners.two_legs.feet import Pose, Span, Swing, feet_of, nearest_inside, planned_dcm
from controllers.planners.two_legs.steps import Steps, StepSettings, abreast, next_step, within_reach
from controllers.planners.two_legs.walker import TwoLegsSettings
from controllers.robot.load import load_robot
from idyn import ConfigError, Flat, InputError, Robot, contacts_of_places
from idyn.types import Array, State

OMEGA = 3.6
SPANS = (
    Span(0.2, np.array([0.0, 0.1]), np.array([0.1, -0.1])),
    Span(0.5, np.array([0.1, -0.1]), np.array([0.1, -0.1])),
    Span(0.3, np.array([0.1, -0.1]), np.array([0.3, 0.1])),
)


def test_the_planned_dcm_ends_above_the_last_centre_of_pressure() -> None:
    dcm = planned_dcm(SPANS, OMEGA)
    for span in SPANS:  # ξ̇ = ω (ξ − p), integrated forwards

        def slope(t: float, x: np.ndarray, span: Span = span) -> np.ndarray:
            return OMEGA * (x - span.start - (span.end - span.start) * t / span.duration)

        dcm = solve_ivp(slope, (0.0, span.duration), dcm, rtol=1e-10, atol=1e-12).y[:, -1]
    assert np.allclose(dcm, SPANS[-1].end, atol=1e-7)


@every("seed", range(5))
def test_the_nearest_point_of_a_polygon(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners, point = rng.normal(size=(8, 2)), 3.0 * rng.normal(size=2)
    found = nearest_inside(point, corners)
    weights = rng.dirichlet(np.full(8, 0.3), size=20000)
    inside = np.concatenate([weights @ corners, corners])
    # the obtuse angle at the nearest point: (point − found) · (x − found) ≤ 0 for all x inside
    assert ((inside - found) @ (point - found)).max() < 1e-9
    assert np.linalg.norm(inside - found, axis=1).min() < 0.2


def test_a_point_inside_and_degenerate_polygons_stay() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    assert np.array_equal(nearest_inside(np.array([0.3, 0.6]), square), [0.3, 0.6])
    assert np.array_equal(nearest_inside(np.array([2.0, 0.5]), square[:1]), [0.0, 0.0])
    assert np.allclose(nearest_inside(np.array([0.4, 2.0]), square[:2]), [0.4, 0.0])


@every("velocity", [(0.3, 0.0, 0.0), (0.0, 0.1, 0.0), (0.2, -0.05, 0.4)])
def test_footsteps_move_at_the_commanded_velocity(velocity: tuple[float, float, float]) -> None:
    period, width, feet = 0.5, 0.2, [Pose(np.array([0.0, y, 0.0]), 0.0) for y in (0.1, -0.1)]
    middles = []
    for k in range(40):
        foot = k % 2
        feet[foot] = next_step(feet[1 - foot], foot, np.array(velocity), width, period)
        middles.append(0.5 * (feet[0].position + feet[1].position)[:2])
    headings = 0.5 * (feet[0].yaw + feet[1].yaw)
    assert headings == pytest.approx(velocity[2] * 39.5 * period)
    speed = np.linalg.norm(np.array(middles[2:]) - middles[:-2], axis=1) / (2 * period)
    assert np.allclose(speed, np.hypot(*velocity[:2]), rtol=0.03)


def test_steps_stay_within_reach() -> None:
    stands, limits = Pose(np.array([1.0, 2.0, 0.0]), 0.5 * np.pi), StepSettings(longest=0.3, narrowest=0.8, widest=1.5)
    place = within_reach(Pose(np.array([1.4, 2.9, 0.0]), 0.0), stands, 0, 0.2, limits)
    # ahead is +y, left is −x: the left foot crossed the right one by 0.4 m
    assert np.allclose(place.position, [1.0 - 0.16, 2.3, 0.0])
    assert abreast((next_step(stands, 0, np.zeros(3), 0.2, 0.7), stands), 0.2) < 1e-12


def test_a_swing_is_smooth_when_its_goal_moves() -> None:
    start, goal = np.zeros(4), np.array([0.3, 0.0, 0.0, 0.2])
    swing, dt, track = Swing(start, goal, 0.5, 0.05), 1e-3, []
    for k in range(501):
        if k == 200:
            swing.aim(goal + np.array([0.05, 0.02, 0.0, 0.0]), k * dt)
        swing.move(k * dt)
        track.append((swing.x, swing.v, swing.a))
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
    assert left.pose(robot, stance).position[2] == pytest.approx(0.0, abs=1e-9)
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
    centre, place = robot.frames.placement("FL_FOOT", q).translation, left.pose(robot, q).position
    assert np.allclose(place, centre - [0.0, 0.0, 0.016])
    corners = left.corners(left.pose(robot, q), 0.01)
    assert np.allclose(corners, place[:2])


def point_feet(period: float = 0.25) -> Steps:
    """Return steps of point feet 0.1 m apart, that stand."""
    settings = StepSettings(period=period, double_support=0.1, longest=0.3, narrowest=0.4, widest=3.0)
    steps = Steps(settings, 0.1, OMEGA, False, np.zeros(2))
    steps.reset((Pose(np.array([0.0, 0.05, 0.0]), 0.0), Pose(np.array([0.0, -0.05, 0.0]), 0.0)))
    return steps


def test_point_feet_that_land_early_keep_the_time_of_the_plan() -> None:
    steps, dt, lifts = point_feet(), 0.005, []
    for k in range(400):
        feet, before = (steps.planted[0], steps.planted[1]), steps.swinging
        early = steps.swing is not None and steps.swing.x[2] < 0.002
        steps.advance(k * dt, np.zeros(3), feet, early)
        steps.reference(k * dt, np.zeros(3), steps.middle)
        if before is None and steps.swinging is not None:
            lifts.append(k * dt)
    assert len(lifts) > 5
    assert np.allclose(np.diff(lifts), 0.25, atol=dt + 1e-9)


@every("bias", [-0.003, 0.003])
def test_point_feet_walk_at_the_commanded_speed_though_the_centre_of_pressure_is_off(bias: float) -> None:
    steps, dt, velocity, at = point_feet(), 0.005, np.array([0.2, 0.0, 0.0]), {}
    dcm = np.zeros(2)
    for k in range(4000):
        t, feet = k * dt, [steps.planted[0], steps.planted[1]]
        if steps.swinging is not None and steps.swing is not None:
            x = steps.swing.x
            feet[steps.swinging] = Pose(x[:3], float(x[3]))
        steps.advance(t, velocity, (feet[0], feet[1]), False)
        p, _ = steps.reference(t, velocity + steps.correction, dcm)
        dcm = dcm + dt * OMEGA * (dcm - p - [bias, 0.0])  # ξ̇ = ω (ξ − p)
        at[k] = steps.middle[0]
    assert (at[3999] - at[1999]) / (2000 * dt) == pytest.approx(0.2, rel=0.05)


def test_commands_and_refused_steering() -> None:
    settings = parse(
        {"kind": "two-legs", "start": 1.0, "commands": [[2.0, 0.3, 0.0, 0.0], [1.0, 0.0, 0.0, 0.5]]},
        TwoLegsSettings,
        "reference",
    )
    assert np.allclose(settings.goal(10.0), [0.6, 0.0, 0.5])
    assert np.allclose(settings.goal(2.0), [0.3, 0.0, 0.0])
    robot, stance = load_robot("g1")
    gait = settings.build(robot, stance, 0.002)
    with pytest.raises(InputError, match="gait"):
        gait.check(Steering(gait=GaitChange(pattern="trot")))
    with pytest.raises(InputError, match="height"):
        gait.check(Steering(height=0.01))


def planned(name: str, settings: TwoLegsSettings, ticks: int) -> Iterator[tuple[Robot, Array, dict[str, Any]]]:
    """Yield the robot, which contacts are planned in the air (n), and the tasks by label, each 10 ms of a plan."""
    robot, stance = load_robot(name)
    gait, state = settings.build(robot, stance, 0.01), State(q=stance, v=np.zeros(robot.nv))
    contacts = contacts_of_places(robot, stance, Flat(), robot.spheres.keys)
    for k in range(ticks):
        reference = gait.at(0.01 * k, state, contacts)
        assert reference.schedule is not None
        assert reference.tasks is not None
        yield robot, ~reference.schedule.stance, {task.label(): task for task in reference.tasks.tasks}


def test_the_schedule_and_the_tasks_follow_the_phases() -> None:
    swung = set()
    for robot, lifted, tasks in planned("g1", TwoLegsSettings(commands=((5.0, 0.3, 0.0, 0.0),)), 200):
        assert lifted.any() == ("swing" in tasks)
        if lifted.any():
            frames = {robot.description.contact[row].frame for row in np.flatnonzero(lifted)}
            assert lifted.sum() == 4
            assert frames == {tasks["swing"].frame}
            swung |= frames
            assert not any(label.startswith("load") for label in tasks)
        else:
            (less,) = [task.normal for label, task in tasks.items() if label.startswith("load")]  # the rest is the other foot's
            assert 0.0 <= less <= 0.5 * robot.weight
    assert len(swung) == 2


def test_without_contact_nothing_is_asked_of_the_centre_of_mass_and_the_loads() -> None:
    robot, stance = load_robot("g1")
    gait, state = TwoLegsSettings().build(robot, stance, 0.01), State(q=stance, v=np.zeros(robot.nv))
    nothing = contacts_of_places(robot, stance, Flat(), robot.spheres.keys).take(np.zeros(8, np.bool_))
    reference = gait.at(0.0, state, nothing)
    assert reference.tasks is not None
    labels = {task.label() for task in reference.tasks.tasks}
    assert "centre of mass" not in labels
    assert not any(label.startswith("load") for label in labels)
    assert sum(label.startswith("landing") for label in labels) == 2


def test_point_feet_always_step_and_leave_the_centre_of_mass_to_the_steps() -> None:
    swung = set()
    for _, lifted, tasks in planned("bolt", TwoLegsSettings(step=StepSettings(period=0.25)), 100):
        assert not any(tasks["centre of mass"].mask[:2])
        if lifted.any():
            assert lifted.sum() == 1
            assert not tasks["trunk"].mask[5]  # nobody can hold the heading on one point
            swung.add(tasks["swing"].frame)
    assert swung == {"FL_FOOT", "FR_FOOT"}
