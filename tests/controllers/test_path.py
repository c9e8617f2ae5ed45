"""References: paths, trajectories, drive gains, and getting up. Without a world."""

import math
from typing import Any

import numpy as np
import pytest
from fast import every, every_row, first_is_fast, full
from rigs import at_rest, controller

from controllers.build import build_controller
from controllers.command import Inputs, Reference
from controllers.config.loading import load, parse
from controllers.contact.ground import SlopeSettings
from controllers.planners.getting_up import GetUp, GetUpSettings, Phase
from controllers.planners.path import DONE, NEXT, Path, PathSettings, command
from controllers.planners.trajectory import AnyTrajectory
from controllers.robot.damping import DriveSettings, drive_gains
from controllers.robot.kinematics import contact_places, resting
from controllers.settings import ControllerSettings
from idyn import ConfigError, Description, Flat, Robot, State, contacts_from_geometry, load_robot

TASK = ((0.0, 0.0), (0.25, 0.0), (0.0, 0.25), (0.0, -0.25), (-0.25, 0.0))
LYING = ("go2", "a1", "solo12", "quadruped")
DT = 1e-3
NO_CONTACTS: Any = None  # the plan does not use them


def go(path, t, x, y, yaw):
    """The command at time t with the base at that pose (3)."""
    return np.array(command(path, t, (x, y, yaw)))


def drive(path, seconds, dt=0.01):
    """Poses (n, 3) and commands (n, 3) of a point that follows the command at once."""
    pose, poses, commands = np.zeros(3), [], []
    for k in range(round(seconds / dt)):
        u = go(path, k * dt, *pose)
        c, s = math.cos(pose[2]), math.sin(pose[2])
        pose = pose + dt * np.array([c * u[0] - s * u[1], s * u[0] + c * u[1], u[2]])
        poses.append(pose)
        commands.append(u)
    return np.array(poses), np.array(commands)


def test_waypoints_are_visited_in_order():
    poses, _ = drive(Path(PathSettings(waypoints=TASK, repeat=False)), 30)
    reached = [np.flatnonzero(np.hypot(*(poses[:, :2] - np.array(point)).T) < 0.031) for point in TASK]
    firsts = [reached[0][0]]
    for visits in reached[1:]:
        later = visits[visits > firsts[-1]]
        assert len(later)
        firsts.append(later[0])
    assert np.hypot(*(poses[-1, :2] - np.array(TASK[-1]))) < 0.031


def test_a_repeated_path_does_not_end_and_keeps_its_limits():
    path = Path(PathSettings(waypoints=TASK, repeat=True))
    drive(path, 60)
    assert not path.progress[DONE]
    _, commands = drive(Path(PathSettings(waypoints=TASK, repeat=True, speed=0.2, turn=0.7)), 30)
    assert commands[:, 0].max() == pytest.approx(0.2, rel=1e-3)
    assert commands[:, 0].min() >= 0.0
    assert np.abs(commands[:, 2]).max() <= 0.7
    assert not commands[:, 1].any()


def test_the_command_turns_in_place_towards_a_waypoint_behind():
    path = Path(PathSettings(waypoints=((-1.0, 0.1),)))
    forward, _, turn = go(path, 0.0, 0.0, 0.0, 0.0)
    assert forward == 0.0
    assert turn > 0.0
    assert go(path, 0.0, 0.0, 0.0, 2.9)[0] > 0.0


@every("yaw", [3.0, -3.0])
def test_the_command_turns_the_short_way(yaw):
    turn = go(Path(PathSettings(waypoints=((-1.0, 0.0),))), 0.0, 0.0, 0.0, yaw)[2]
    assert np.sign(turn) == np.sign(yaw)


def test_the_command_slows_down_before_the_last_waypoint_and_a_constant_one_lasts_for_its_duration():
    """v² = 2 a d: from there it can stop."""
    path = Path(PathSettings(waypoints=((1.0, 0.0),), speed=0.5, acceleration=0.5))
    assert go(path, 0.0, 0.0, 0.0, 0.0)[0] == pytest.approx(0.5)
    assert go(path, 0.0, 0.96, 0.0, 0.0)[0] == pytest.approx(math.sqrt(2 * 0.5 * 0.04))
    assert not path.progress[DONE]
    assert not go(path, 0.0, 0.98, 0.0, 0.0).any()
    assert path.progress[DONE]
    path = Path(PathSettings(velocity=(0.1, 0.2, 0.3), duration=1.0))
    np.testing.assert_array_equal(go(path, 0.9, 5.0, 5.0, 1.0), [0.1, 0.2, 0.3])
    assert not go(path, 1.0, 0.0, 0.0, 0.0).any()


def test_integers_are_accepted_and_waypoints_within_tolerance_do_not_loop_forever():
    path = Path(PathSettings(waypoints=((1, 0),), velocity=(1, 0, 0)))
    assert go(path, 0.0, 0.0, 0.0, 0.0)[0] > 0.0
    np.testing.assert_array_equal(go(Path(PathSettings(velocity=(1, 0, 0))), 0.0, 0.0, 0.0, 0.0), [1.0, 0.0, 0.0])
    path = Path(PathSettings(waypoints=((0.0, 0.0), (0.01, 0.0)), repeat=True, tolerance=0.1))
    assert np.isfinite(go(path, 0.0, 0.0, 0.0, 0.0)).all()
    assert path.progress[NEXT] == 0


# -- trajectories ------------------------------------------------------------------------------------------------------


ROBOTS = ("quadruped", "solo12", "a1", "go2")
MOTIONS = [*((name, kind) for name in ROBOTS for kind in ("sway", "squat")), ("arm", "sinusoid"), ("quadruped", "sinusoid")]


class Timed:
    """A trajectory that depends on time only."""

    def __init__(self, motion, robot, stance):
        self.motion = motion
        self.state = State(q=stance, v=np.zeros(robot.nv))
        self.contacts = contacts_from_geometry(robot, stance, Flat(), margin=0.002)

    def at(self, t):
        return self.motion.at(t, self.state, self.contacts)


def motion(kind, **settings):
    return parse({"kind": kind, **settings}, AnyTrajectory, "reference")


def trajectory(name, kind, **settings):
    robot, stance = load_robot(name)
    return robot, stance, Timed(motion(kind, **settings).build(robot, stance, 0.001), robot, stance)


@every(("name", "kind"), first_is_fast(MOTIONS, 2))
def test_trajectories_begin_at_rest_and_velocities_and_accelerations_are_derivatives(name, kind):
    """By central differences, over the ramp, across its end, and in the steady motion."""
    robot, stance, motion = trajectory(name, kind, start=0.2)
    for t in (0.0, 0.1, 0.2):
        reference = motion.at(t)
        np.testing.assert_allclose(reference.q, robot.joint_angles(stance), atol=1e-9)
        np.testing.assert_allclose(reference.v, 0, atol=1e-12)
        np.testing.assert_allclose(reference.a, 0, atol=1e-9)
    _, _, motion = trajectory(name, kind, start=0.1)
    e = 1e-5
    for t in (0.05, 0.11, 0.3, 0.59, 0.6 - 3e-5, 0.6 + 3e-5, 0.77, 2.3):
        before, now, after = motion.at(t - e), motion.at(t), motion.at(t + e)
        np.testing.assert_allclose(now.v, (after.q - before.q) / (2 * e), atol=1e-6)
        np.testing.assert_allclose(now.a, (after.v - before.v) / (2 * e), atol=1e-4)


@every(("kind", "axis"), [("sway", 1), ("squat", 2)])
@pytest.mark.parametrize("name", first_is_fast(ROBOTS))
def test_feet_stay_in_place_while_the_base_moves(name, kind, axis):
    """With the base moved along the stroke, the feet are where they were: to a micrometre, at the ends and in between."""
    robot, stance, motion = trajectory(name, kind, amplitude=0.01, ramp=0.1)
    places = contact_places(robot, stance).copy()
    reached = 0.0
    for t in np.linspace(0.1, 1.1, 23):
        shift = np.zeros(robot.nv)
        shift[axis] = 0.01 * np.sin(2 * np.pi * t)
        reached = max(reached, abs(shift[axis]))
        q = robot.with_joint_angles(robot.integrate(stance, shift), motion.at(t).q)
        np.testing.assert_allclose(contact_places(robot, q), places, atol=1e-6)
    assert reached > 0.0099


def test_hold_keeps_the_stance_and_a_sinusoid_returns_to_it():
    robot, stance, motion = trajectory("solo12", "hold")
    for t in (0.0, 1.0, 1e6):
        np.testing.assert_array_equal(motion.at(t).q, robot.joint_angles(stance))
        assert not motion.at(t).v.any()
        assert not motion.at(t).a.any()
    robot, stance, motion = trajectory("arm", "sinusoid", amplitude=0.0846, frequency=3.0, ramp=0.5)
    angles = np.array([motion.at(t).q for t in np.arange(0.5, 3.0, 1e-3)]) - robot.joint_angles(stance)
    np.testing.assert_allclose(angles.max(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(angles.min(axis=0), -0.0846, atol=1e-5)
    np.testing.assert_allclose(motion.at(1.0).q, motion.at(4 / 3).q, atol=1e-12)


@every("kind", ["gait", "sway"])
def test_some_motions_require_a_floating_base(kind):
    robot, _ = load_robot("solo12")
    arm = Robot(Description(urdf=robot.description.urdf, base="fixed"))
    with pytest.raises(ConfigError, match=rf"reference\.kind: '{kind}' needs a floating base"):
        motion(kind).build(arm, arm.neutral(), 0.001)


# -- drive gains -------------------------------------------------------------------------------------------------------


def test_joints_that_follow_the_reference_have_drive_gains_if_these_are_set():
    robot, q = load_robot("quadruped")
    gripping = robot.joint_names[3], robot.joint_names[7]
    gains = drive_gains(DriveSettings(kp=10.0, kd=0.1), robot, q, gripping)
    expected = np.full(robot.na, 10.0)
    expected[[3, 7]] = 0.0
    np.testing.assert_array_equal(gains.kp, expected)
    np.testing.assert_array_equal(gains.kd, expected / 100)
    assert drive_gains(DriveSettings(), robot, robot.neutral(), ()) is None
    assert drive_gains(DriveSettings(kd=0.1), robot, robot.neutral(), ()) is not None


@every("name", ["quadruped", "quadruped-trot", "solo12-trot", "go2-trot", "a1-trot"])
def test_shipped_drive_gains_carry_the_weight(name):
    """Without feed-forward torque the springs alone carry the weight before a joint is a quarter radian off."""
    settings = load("controllers", name, ControllerSettings)
    robot, q = load_robot(settings.robot)
    lever = 0.5 * q[2]  # of a foot's force about a knee, in the worst case
    assert settings.drive.kp * 0.25 > robot.total_mass * 9.81 / len(robot.spheres.keys) * lever


def test_commands_carry_drive_gains_and_their_reference_if_these_are_set():
    c = controller("quadruped")
    command = c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=0.0))
    assert command.reference is not None
    np.testing.assert_array_equal(command.drive.kp, np.full(12, c.settings.drive.kp))
    assert c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=1e-3, estop="emergency stop")).drive is None
    c = build_controller(ControllerSettings(robot="quadruped"))
    assert c.step(at_rest(c), c.contacts(c.stance), Inputs(dt=0.0)).drive is None


def planner(name: str = "go2") -> GetUp:
    c = controller(f"{name}-lying")
    built = c.settings.reference.build(c.robot, c.stance, DT)
    assert isinstance(built, GetUp)
    return built


def lying(name: str, roll: float) -> State:
    """A robot in its stance, turned about its long axis [rad], at rest."""
    robot, q = load_robot(f"{name}-lying")
    q = q.copy()
    q[3:7] = np.sin(roll / 2), 0.0, 0.0, np.cos(roll / 2)
    return State(q=q, v=np.zeros(robot.nv))


def follow(plan: GetUp, roll: float, seconds: float, name: str = "go2", since: float = 0.0) -> list[Reference]:
    state = lying(name, roll)
    return [plan.at(since + k * DT, state, NO_CONTACTS) for k in range(round(seconds / DT))]


def during(plan: GetUp, phase: Phase, roll: float, seconds: float, name: str = "go2") -> list[Reference]:
    state = lying(name, roll)
    found = [(plan.at(t, state, NO_CONTACTS), plan.phase) for t in np.arange(0.0, seconds, DT)]
    return [reference for reference, now in found if now is phase]


@pytest.mark.parametrize("name", first_is_fast(LYING))
def test_a_reference_is_continuous_and_its_speeds_are_its_derivatives(name):
    """On its back for 7 s, then on its belly: all phases but the end of a roll. No step is larger than the speed allows."""
    plan = planner(name)
    references = follow(plan, np.pi, 7.0, name) + follow(plan, 0.0, 4.0, name, since=7.0)
    assert plan.phase is Phase.STAND
    q, v, a = (np.array([getattr(each, field) for each in references]) for field in "qva")
    speed = plan._settings.speed
    assert np.abs(np.diff(q, axis=0)).max() < 1.01 * speed * DT
    middle = 0.5 * (v[1:] + v[:-1])
    np.testing.assert_allclose(np.diff(q, axis=0) / DT, middle, atol=2e-3 * speed)
    steps = np.abs(np.diff(v, axis=0) / DT - 0.5 * (a[1:] + a[:-1])).max(axis=1)
    assert np.sort(steps)[-8:].max() < 400.0  # only where one motion takes over from another that has not ended
    assert np.sort(steps)[:-8].max() < 5.0
    robot, _ = load_robot(f"{name}-lying")
    assert (q[1:] >= robot.limits.q_min - 1e-9).all()
    assert (q[1:] <= robot.limits.q_max + 1e-9).all()


@pytest.mark.parametrize("name", first_is_fast(LYING, 0))
def test_it_rises_straight_up_over_feet_that_stay(name):
    plan = planner(name)
    robot, stance = load_robot(f"{name}-lying")
    rising = during(plan, Phase.RISE, 0.0, 4.0, name)
    places = np.array([contact_places(robot, robot.with_joint_angles(robot.neutral(), each.q))[:4] for each in rising])
    along = places - places[-1]
    assert np.abs(along[..., :2]).max() < 1e-4
    assert np.abs(along[..., 2] - along[:, :1, 2]).max() < 1e-4
    assert along[0, 0, 2] == pytest.approx(plan._settings.depth, abs=1e-4)
    np.testing.assert_allclose(follow(plan, 0.0, 0.01, name, since=4.0)[-1].q, robot.joint_angles(stance), atol=1e-9)


@full
@every(("roll", "pushing"), first_is_fast([(np.pi - 0.3, "L"), (np.pi / 2, "R"), (np.pi + 0.3, "R"), (-np.pi / 2, "L")], 2))
def test_the_higher_legs_push_from_the_back_and_the_lower_ones_from_a_side(roll, pushing):
    robot, _ = load_robot("go2-lying")
    heights = contact_places(robot, lying("go2", roll).q)[[robot.spheres.keys.index(f"{leg}_thigh") for leg in ("FL", "FR")], 2]
    higher = "L" if heights[0] > heights[1] else "R"
    assert (pushing == higher) is (abs(roll) > 2.0)
    robot, _ = load_robot("go2-lying")
    motion = np.ptp([each.q for each in during(planner(), Phase.SWING, roll, 1.0)], axis=0)
    above = robot.tree.support[robot.spheres.joints[:4]][:, robot.tree.a]
    legs = {key: float(motion[leg].max()) for key, leg in zip(robot.spheres.keys[:4], above, strict=True)}
    assert all((motion > 0.1) is (key[1] == pushing) for key, motion in legs.items())


def test_after_pushes_in_vain_the_other_side_pushes_and_the_reply_says_so():
    plan, sides, said = planner(), [], []
    state = lying("go2", np.pi + 0.3)
    for t in np.arange(0.0, 25.0, 0.01):
        before = plan.pushes
        reference = plan.at(t, state, NO_CONTACTS)
        if plan.pushes > before:
            sides.append(plan.left_pushes)
            said.append(reference.problem)
    assert sides[:6] == [False, False, True, True, False, False]
    assert said[0] == ""
    assert said[2] == "getting up: 2 pushes did not roll the robot over"


@full
def test_a_standing_robot_that_tips_begins_anew_and_only_a_lying_one_drags():
    plan = planner()
    follow(plan, 0.0, 4.0)
    assert plan.phase is Phase.STAND
    follow(plan, 0.9, 0.1, since=4.0)
    assert plan.phase is Phase.STAND
    follow(plan, 1.1, 0.1, since=4.1)
    assert plan.phase is Phase.FOLD
    plan = planner()
    assert all(each.drags for each in follow(plan, np.pi, 5.0))
    follow(plan, 0.0, 2.5, since=5.0)
    assert plan.phase in (Phase.RISE, Phase.STAND)
    assert not any(each.drags for each in follow(plan, 0.0, 2.0, since=7.5))


def test_a_demand_that_drags_is_realised_and_another_one_is_changed():
    """All joints are to accelerate at once, which no standing robot can without sliding feet."""
    c = controller("go2-lying")
    state, rng = at_rest(c), np.random.default_rng(0)
    wanted = rng.normal(size=c.robot.na)
    for drags in (True, False):
        c.reset()
        reference = Reference(q=c.robot.joint_angles(state.q), v=np.zeros(c.robot.na), a=wanted, drags=drags)
        prediction = c.answer(state, c.contacts(state), Inputs(dt=0.0, reference=reference)).prediction
        assert prediction is not None
        change = float(np.abs(prediction.v_plus[c.robot.tree.a] - DT * wanted).max())
        assert (change < 1e-9) is drags


@pytest.mark.parametrize("name", first_is_fast(LYING))
def test_places_of_trunk_and_legs_do_not_carry_a_standing_robot(name):
    """On a slope it stands as without them."""
    terrain = SlopeSettings(angle=0.15).build()
    robot, stance = load_robot(f"{name}-lying")
    known, known_stance = load_robot(name)
    np.testing.assert_allclose(stance, known_stance, atol=1e-12)
    np.testing.assert_allclose(resting(robot, stance, terrain), resting(known, known_stance, terrain), atol=1e-9)


@every_row(
    ({"depth": 0.3}, "reference.depth", "legs do not reach|rad of"),
    ({"over": {"FR_calf_joint": -2.0}}, "reference.over.FR_calf_joint", "joint of the left side"),
    ({"over": {"FL_calf": -2.0}}, "reference.over.FL_calf", "nearest: FL_calf_joint"),
    ({"from_back": {"FL_hip_joint": 1.2}}, "reference.from_back", "-1.0472 to 1.0472 rad of FL_hip_joint"),
    ({"tries": 0}, "reference.tries", "at least 1"),
)
def test_wrong_settings_name_what_is_wrong(change, where, says):
    given = {"depth": 0.2, "over": {}, "from_back": {}, "from_side": {}} | change
    robot, stance = load_robot("go2-lying")
    with pytest.raises(ConfigError, match=says) as error:
        GetUpSettings(**given).build(robot, stance, DT)
    assert str(error.value).startswith(where)


def test_a_robot_without_pairs_of_legs_is_refused():
    robot, stance = load_robot("talos")
    with pytest.raises(ConfigError, match="no partner"):
        GetUpSettings(depth=0.05, over={}, from_back={}, from_side={}).build(robot, stance, DT)
