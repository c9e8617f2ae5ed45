"""The gait of two legs: commands, velocities that are followed, hands, and the tasks of each phase."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.spatial.transform import Rotation

from controllers.command import GaitChange, Inputs, Mode, Steering
from controllers.config.loading import parse
from controllers.planners.two_legs.feet import (
    Feet,
    Pose,
    feet_of,
    nearest_on_edge,
)
from controllers.planners.two_legs.knees import bent_knees
from controllers.planners.two_legs.reach import followed
from controllers.planners.two_legs.settings import StepSettings
from controllers.planners.two_legs.steps import (
    Steps,
    Velocity,
    next_step,
)
from controllers.planners.two_legs.walker import TwoLegsSettings
from idyn import ConfigError, Flat, InputError, Robot, contacts_of_places, load_controller, load_robot
from idyn.model.description import ContactPoint
from idyn.tasks import ComTask, ForceTask, PostureTask, TaskStack, predict_tasks
from idyn.types import Array, State

Velocities = tuple[float, float, float]

OMEGA = 3.6


def test_commands_and_refused_steering() -> None:
    table = {"kind": "two-legs", "start": 1.0, "commands": [[2.0, 0.3, 0.0, 0.0], [1.0, 0.0, 0.0, 0.5]]}
    settings = parse(table, TwoLegsSettings, "reference")
    assert np.allclose(settings.goal(10.0), [0.6, 0.0, 0.5])
    assert np.allclose(settings.goal(2.0), [0.3, 0.0, 0.0])
    robot, stance = load_robot("g1")
    gait = settings.build(robot, stance, 0.002)
    with pytest.raises(InputError, match="gait"):
        gait.check(Steering(gait=GaitChange(pattern="trot")))
    with pytest.raises(InputError, match="height"):
        gait.check(Steering(height=0.01))
    with pytest.raises(ConfigError, match=r"commands\[1\]: .* keep a reserve, such as 89 % of this one, got \[0\.5, "):
        TwoLegsSettings(commands=((1.0, 0.4, 0.0, 0.0), (1.0, 0.5, 0.0, 0.0))).build(robot, stance, 0.002)
    edges = robot.variant(contact=tuple(place for k, place in enumerate(robot.description.contact) if k % 4 < 2))  # across
    with pytest.raises(InputError, match="velocity"):
        TwoLegsSettings().build(edges, stance, 0.002).check(Steering(velocity=(0.1, 0.0, 0.0)))


@pytest.mark.parametrize(
    ("name", "hip", "ankle"),
    [
        ("g1", "left_hip_pitch_joint", "left_ankle_pitch_joint"),
        ("talos", "leg_left_1_joint", "leg_left_5_joint"),
        ("bolt", "FL_HAA", "FL_ANKLE"),
    ],
)
def test_knees_stay_bent(name: str, hip: str, ankle: str) -> None:
    """At its bound a leg is 0.1 to 1 % shorter than straight, and from there on it only becomes shorter."""
    robot, stance = load_robot(name)
    angles = robot.joint_angles(stance)
    (joint, least, largest), other = bent_knees(robot, stance, feet_of(robot, stance))
    k, bound, way = robot.joint_names.index(joint), *((least, 1.0) if np.isfinite(least) else (largest, -1.0))
    assert other[1:] == pytest.approx((least, largest), abs=1e-3)
    assert least < angles[k] < largest

    def length(angle: float) -> float:
        angles[k] = angle
        q = robot.with_joint_angles(stance, angles)
        return float(np.linalg.norm(np.subtract(*(robot.frames.placement(end, q).translation for end in (hip, ankle)))))

    straight = max(map(length, np.linspace(bound - 0.5, bound + 0.5, 1001)))
    assert 1e-3 < 1.0 - length(bound) / straight < 1e-2
    assert all(length(x) > length(y) for x, y in pairwise(np.linspace(bound, bound + way, 20)))


@pytest.mark.parametrize("bend", [0.3, 0.05, 0.0])
def test_knees_of_a_stance_that_is_nearly_straight_still_bend(bend: float) -> None:
    robot, stance = load_robot("g1")
    k, angles = robot.joint_names.index("left_knee_joint"), robot.joint_angles(stance)
    angles[k] = bend
    (_, least, largest), _ = bent_knees(robot, robot.with_joint_angles(stance, angles), feet_of(robot, stance))
    assert least == pytest.approx(min(0.2, bend / 2.0), abs=1e-3)
    assert largest == np.inf


@pytest.mark.parametrize("joint", ["waist_roll_joint", "left_ankle_roll_joint", "right_shoulder_roll_joint"])
def test_noise_of_a_speed_shakes_no_joint_at_the_end_of_its_range(joint: str) -> None:
    """Within the gait's limits an error of a speed changes an acceleration by less than a fifth of what corrects it in 1 ms."""
    robot, stance = load_robot("g1")
    gait, contacts = TwoLegsSettings().build(robot, stance, 1e-3), contacts_of_places(robot, stance, Flat(), robot.spheres.keys)
    tasks = gait.at(0.0, State(q=stance, v=np.zeros(robot.nv)), contacts).tasks
    assert tasks is not None
    k, angles, found, noise = robot.joint_names.index(joint), robot.joint_angles(stance), [], 0.05
    angles[k] = robot.limits.q_max[k]
    pushed = TaskStack(tasks=[PostureTask(joints=[joint], acceleration=[5000.0])], limits=replace(tasks.limits, torque=np.inf))
    for error in (-noise, noise):
        state = State(q=robot.with_joint_angles(stance, angles), v=np.zeros(robot.nv))
        state.v[robot.tree.a[k]] = error
        in_the_air = contacts.take(np.zeros(len(contacts), np.bool_))
        found.append(predict_tasks(robot, state, in_the_air, pushed, law="coulomb", dt=1e-3).q_ddot[k])
    assert 0.0 < found[0] - found[1] < 2.0 * noise / 5e-3


def test_a_hand_is_no_foot_and_its_force_moves_the_balance() -> None:
    """By b = Σ (z f − (x − c) f_z)/W, of what tasks ask of f. The feedback k of c + b accelerates the robot by −ω k b."""
    robot, stance = load_robot("g1")
    robot = robot.variant(contact=(ContactPoint(frame="right_rubber_hand"), *robot.description.contact))
    (hand, *soles), settings = robot.spheres.keys, TwoLegsSettings()
    assert [foot.rows.tolist() for foot in feet_of(robot, stance)] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    normal, vector = ForceTask(contacts=hand, normal=5.0), ForceTask(contacts=hand, force=[-5.0, 2.0, 3.0])
    gait = settings.build(robot, stance, 0.01)
    gait.check(Steering(), TaskStack(tasks=[normal], modes={hand: "slide"}))
    for refused, field in (({"contacts": soles[0]}, "kind"), ({"level": 1}, "level"), ({"name": "load"}, "name")):
        with pytest.raises(InputError, match=field):
            gait.check(Steering(), TaskStack(tasks=[replace(normal, **refused)]))
    with pytest.raises(InputError, match="modes"):
        gait.check(Steering(), TaskStack(tasks=[normal], modes={soles[0]: "slide"}))
    contacts = contacts_of_places(robot, stance, Flat(), robot.spheres.keys)
    contacts.normals[0], force, state = [-1.0, 0.0, 0.0], np.zeros((9, 3)), State(q=stance, v=np.zeros(robot.nv))
    force[0], c = [-5.0, 2.0, 3.0], robot.center_of_mass(stance)

    def asked(task: ForceTask | None, gap: float) -> tuple[Array, bool]:
        """Acceleration of the centre of mass after a second, and whether the hand counts as closed."""
        gait, now = settings.build(robot, stance, 0.01), replace(contacts, gaps=np.array([gap, *np.zeros(8)]))
        for k in range(100):
            reference = gait.at(0.01 * k, state, now)
            gait.expect(now, force, TaskStack(tasks=[task]) if task else None)
        assert reference.schedule is not None
        (centre,) = (each for each in reference.tasks.tasks if isinstance(each, ComTask))
        return centre.acceleration[:2].copy(), bool(reference.schedule.stance[0])

    free, closed = asked(None, 0.1)
    assert not closed
    omega, (arm_x, arm_y, z) = np.sqrt(9.81 / (c[2] - 0.03)), contacts.points[0] - [c[0], c[1], 0.0]
    moments = {"normal": [-5.0 * z, 0.0], "vector": [-5.0 * z - 3.0 * arm_x, 2.0 * z - 3.0 * arm_y]}
    for task, moment in ((normal, moments["normal"]), (vector, moments["vector"])):
        found, closed = asked(task, 0.0)
        assert closed
        np.testing.assert_allclose(found - free, -omega * settings.balance.gain * np.array(moment) / robot.weight, atol=1e-6)
    np.testing.assert_array_equal(asked(None, 0.0)[0], free)


def test_tasks_that_have_ended_leave_those_of_the_gait() -> None:
    """As a command of a force alone leaves none when it expires."""
    controller = load_controller("g1-walk")
    state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
    command = controller.step(state, controller.contacts(state), Inputs(dt=0.001, tasks=TaskStack()))
    assert command.mode is Mode.OK


@pytest.mark.parametrize("roll", [-0.2, -1.5])
def test_shoulders_swing_and_the_waist_does_not(roll: float) -> None:
    """Also in a stance with one arm to the side, whose weight the waist could balance."""
    robot, stance = load_robot("g1")
    angles = robot.joint_angles(stance)
    angles[robot.joint_names.index("right_shoulder_roll_joint")] = roll
    gait = TwoLegsSettings(commands=((9.0, 0.3, 0.0, 0.0),)).build(robot, robot.with_joint_angles(stance, angles), 0.01)
    state, contacts = State(q=stance, v=np.zeros(robot.nv)), contacts_of_places(robot, stance, Flat(), robot.spheres.keys)
    swings = np.ptp([gait.at(0.01 * k, state, contacts).q for k in range(200, 500)], axis=0)
    above = [k for k, name in enumerate(robot.joint_names) if not any(part in name for part in ("hip", "knee", "ankle"))]
    assert {robot.joint_names[k] for k in above if swings[k] > 0.02} == {
        "left_shoulder_pitch_joint",
        "right_shoulder_pitch_joint",
    }


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        ("g1", (0.4, 0.05, 0.1), (0.4, 0.05, 0.1)),
        ("g1", (2.0, 0.0, 0.0), (0.45, 0.0, 0.0)),  # 0.9 of the longest step of 0.35 m in each period of 0.7 s
        ("g1", (-2.0, 0.0, 0.0), (-0.45, 0.0, 0.0)),
        ("g1", (0.0, 0.0, 5.0), (0.0, 0.0, 0.9 / 0.7)),
        ("talos", (0.0, 0.0, -5.0), (0.0, 0.0, -0.9 * 2 * 0.349065850399 / 0.7)),  # its legs turn by 0.349 rad to the inside
    ],
)
def test_a_velocity_is_followed_as_far_as_steps_keep_a_reserve(name: str, asked: Velocities, expected: Velocities) -> None:
    """As a stick at its end asks for it."""
    robot, stance = load_robot(name)
    gait, state = TwoLegsSettings().build(robot, stance, 0.01), State(q=stance, v=np.zeros(robot.nv))
    contacts = contacts_of_places(robot, stance, Flat(), robot.spheres.keys)
    steering = Steering(velocity=np.array(asked))
    gait.check(steering)
    gait.steer(steering)
    for k in range(500):
        reference = gait.at(0.01 * k, state, contacts)
    np.testing.assert_allclose(reference.base, expected, atol=1e-8)


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_a_velocity_arrives_at_the_same_wherever_it_comes_from_and_changes_by_the_acceleration(name: str) -> None:
    """Also where its parts on their own would leave the reserve of the steps on the way."""
    robot, stance = load_robot(name)
    state, contacts = State(q=stance, v=np.zeros(robot.nv)), contacts_of_places(robot, stance, Flat(), robot.spheres.keys)
    sticks = np.random.default_rng(1).uniform(-1.0, 1.0, (12, 3)) * [0.5, 0.3, 1.5]
    for first, second in pairwise([*sticks, np.array([-0.1, -0.17, -0.5])]):
        ends = []
        for way in ([first, second], [second]):
            gait, t, last = TwoLegsSettings().build(robot, stance, 0.02), 0.0, np.zeros(3)
            for stick in way:
                gait.steer(Steering(velocity=stick))
                for _ in range(500):
                    velocity, t = gait.at(t, state, contacts).base, t + 0.02
                    assert np.abs(velocity - last).max() <= StepSettings().acceleration * 0.02 + 1e-12
                    last = velocity
            ends.append(last)
        np.testing.assert_allclose(*ends, atol=1e-6)
        assert (ends[0] * second >= 0.0).all()


def test_feet_of_a_followed_velocity_keep_the_reserve_and_its_path() -> None:
    steps, rng = Steps(StepSettings(), 0.24, 1.0, OMEGA, True, 0j), np.random.default_rng(0)
    limited = 0
    for plane, turn in zip(rng.normal(size=(300, 2)), rng.normal(size=300), strict=True):
        asked = Velocity(complex(*plane), float(turn))
        found = followed(steps, asked)
        limited += found != asked
        assert abs(found.turn) <= 0.9 / 0.7 + 1e-9
        assert abs((found.plane * asked.plane.conjugate()).imag) < 1e-12  # the same direction
        feet = [Pose(0.12j, 0.0, 0.0, 0.0), Pose(-0.12j, 0.0, 0.0, 0.0)]
        for k in range(6):
            stands, foot = feet[1 - k % 2], k % 2
            feet[foot] = next_step(stands, foot, found, 0.24, 0.7)
            way = (feet[foot].place - stands.place) * np.exp(-1j * stands.yaw)
            assert abs(way.real) <= 0.315 + 1e-6
            assert 0.132 - 1e-6 <= (1 - 2 * foot) * way.imag <= 0.4128 + 1e-6
    assert 50 < limited < 300


def test_gaps_are_as_many_as_contacts_and_of_any_type_of_numbers() -> None:
    robot, stance = load_robot("g1")
    state, contacts = State(q=stance, v=np.zeros(robot.nv)), contacts_of_places(robot, stance, Flat(), robot.spheres.keys)
    for gaps in (np.zeros(7), np.zeros(9)):
        with pytest.raises(InputError, match=r"contacts\.gaps: expected 8"):
            TwoLegsSettings().build(robot, stance, 0.01).at(0.0, state, replace(contacts, gaps=gaps))
    for gaps in (np.zeros(8, np.float32), np.zeros(16)[::2]):
        reference = TwoLegsSettings().build(robot, stance, 0.01).at(0.0, state, replace(contacts, gaps=gaps))
        assert [task.label() for task in reference.tasks.tasks][:2] == ["trunk", "centre of mass"]


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
            ((less,),) = [task.normal for label, task in tasks.items() if label.startswith("load")]
            assert 0.0 <= less <= 0.5 * robot.weight  # the rest is the other foot's
    assert len(swung) == 2


def test_without_contact_nothing_is_asked_of_the_centre_of_mass_and_the_loads() -> None:
    robot, stance = load_robot("g1")
    gait, state = TwoLegsSettings().build(robot, stance, 0.01), State(q=stance, v=np.zeros(robot.nv))
    nothing = contacts_of_places(robot, stance, Flat(), robot.spheres.keys).take(np.zeros(8, np.bool_))
    reference = gait.at(0.0, state, nothing)
    assert reference.tasks is not None
    labels = {task.label() for task in reference.tasks.tasks}
    assert labels == {"landing left_ankle_roll_link", "landing right_ankle_roll_link"}


def test_straight_knees_go_to_the_stance_before_a_height_is_asked_for() -> None:
    robot, stance = load_robot("g1")
    state = State(q=robot.with_joint_angles(stance, np.zeros(robot.na)), v=np.zeros(robot.nv))
    gait, contacts = (
        TwoLegsSettings().build(robot, stance, 0.01),
        contacts_of_places(robot, state.q, Flat(), robot.spheres.keys),
    )
    seen = [gait.at(0.05 * k, state, contacts) for k in range(60)]
    asked = [task.mask[2] for each in seen for task in each.tasks.tasks if task.label() == "centre of mass"]
    assert (asked[0], asked[-1]) == (False, True)
    np.testing.assert_allclose(seen[0].q, np.zeros(robot.na), atol=1e-9)
    np.testing.assert_allclose(seen[asked.index(True) - 1].q, robot.joint_angles(stance), atol=0.01)


def test_edges_are_not_asked_to_roll_and_one_alone_only_for_its_centre_of_pressure() -> None:
    """As of legs of five joints. Here g1 keeps its joints, and the contact places of one side of each sole."""
    robot, stance = load_robot("g1")
    places = [place for place in robot.description.contact if place.offset[1] > 0.0]
    robot = robot.variant(contact=tuple(places))
    left, _ = feet_of(robot, stance)
    assert (left.edge, left.along) == (True, 0)
    assert np.isclose(nearest_on_edge(np.array(left.half), Pose(1.0 + 2.0j, 0.0, np.pi / 2, 0.0), 1.3 + 2.4j), 1.0 + 2.4j)
    feet, level = Feet(robot, feet_of(robot, stance)), robot.terms(stance, np.zeros(robot.nv)).placements.copy()
    tilted = level.copy()  # the axes by columns
    tilted[:, :9] = (Rotation.from_euler("y", 0.1).as_matrix() @ level[:, :9].reshape(-1, 3, 3).mT).mT.reshape(-1, 9)
    assert np.isclose(feet.measured(tilted)[0, 4], left.half[0] * np.sin(0.1))
    gait, state = (
        TwoLegsSettings(commands=((5.0, 0.3, 0.0, 0.2),)).build(robot, stance, 0.01),
        State(q=stance, v=np.zeros(robot.nv)),
    )
    contacts, alone = contacts_of_places(robot, stance, Flat(), robot.spheres.keys), 0
    for k in range(200):
        reference = gait.at(0.01 * k, state, contacts)
        assert reference.tasks is not None
        tasks = {task.label(): task for task in reference.tasks.tasks}
        swings = "swing" in tasks
        assert tuple(tasks["centre of mass"].mask) == (not swings, not swings, True)
        assert ("pressure" in tasks) == swings
        if swings:
            alone += 1
            assert tuple(tasks["swing attitude"].mask[3:]) == (False, True, True)
            at, stands = tasks["pressure"].point, tasks["pressure"].contacts
            assert len(stands) == 2
            foot = next(side for side, each in enumerate(feet_of(robot, stance)) if each.frame != tasks["swing"].frame)
            assert np.isclose(at[1], feet.measured(level)[foot, 1])
    assert alone > 50


def test_point_feet_always_step_and_leave_the_centre_of_mass_to_the_steps() -> None:
    swung = set()
    for _, lifted, tasks in planned("bolt", TwoLegsSettings(step=StepSettings(period=0.25)), 100):
        assert not any(tasks["centre of mass"].mask[:2])
        if lifted.any():
            assert lifted.sum() == 1
            assert not tasks["trunk"].mask[5]  # nobody can hold the heading on one point
            swung.add(tasks["swing"].frame)
    assert swung == {"FL_FOOT", "FR_FOOT"}
