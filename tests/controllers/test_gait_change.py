"""Commanded gaits and tasks beside them: when they begin, what they change, and what is refused."""

import numpy as np
import pytest
from fast import every, every_row, first_is_fast, full
from rigs import DT, Walker, at_rest, controller, stances
from scipy.spatial.transform import Rotation

from controllers.command import GaitChange, Inputs, Steering
from controllers.planners.gait import FastSettings, GaitSettings
from controllers.planners.targets import STRETCH, TargetMotion, exponential, left_jacobian, logarithm
from idyn.errors import InputError
from idyn.tasks import AngularMomentumTask, CenterOfPressureTask, ComTask, ForceTask, FrameTask, PostureTask, TaskStack

TROT = GaitSettings(period=0.4, duty=0.7)
FORWARD = np.array([0.2, 0.0, 0.0])
HAND, FOOT = "left_wrist_yaw_link", "left_ankle_roll_link"
WALKS = Steering(velocity=np.array([0.2, 0.0, 0.0]))
PLACE = np.array([0.2, 0.2, 0.9])


def walking(seconds=1.0, **gait):
    walker = Walker(gait=TROT, start=0.0)
    walker.plan.steer(Steering(velocity=FORWARD, gait=GaitChange(**gait) if gait else None))
    return walker, walker.run(seconds)


def lift_offs(stance):
    """Ticks at which each foot lifts."""
    return [np.flatnonzero(one[:-1] & ~one[1:]) + 1 for one in stance.T]


def command(walker, seconds, **fields):
    walker.plan.steer(Steering(**fields))
    return walker.run(seconds)


@full
@every("when", first_is_fast([0.05, 0.2, 0.0, 0.1, 0.15, 0.33], 2))
def test_the_gait_changes_when_all_feet_stand_and_soon(when):
    walker, _ = walking(1.0 + when)
    before = walker.angles.copy()
    references = command(walker, 2.5, velocity=FORWARD, gait=GaitChange(pattern="walk", period=0.8, duty=0.8))
    stance = stances(references)
    assert (stance.sum(axis=1) >= 2).all()
    together = np.flatnonzero(stance.all(axis=1))[0]
    assert together * DT <= 0.3 * 0.4 + 0.05  # at the latest after the present swing
    assert (stance[together + 1 :].sum(axis=1) >= 3).all()  # a walk lifts one foot at a time
    for lifts in lift_offs(stance[together + 1 :]):
        np.testing.assert_allclose(np.diff(lifts) * DT, 0.8, atol=2 * DT)
    q = np.array([before, *(reference.q for reference in references)])
    assert np.abs(np.diff(q, axis=0)).max() < 0.03  # no joint jumps: 30 rad/s
    assert not any(reference.problem for reference in references)


@full
@every(("pattern", "pairs"), [("trot", [(0, 3), (1, 2)]), ("pace", [(0, 2), (1, 3)]), ("bound", [(0, 1), (2, 3)])])
def test_pairs_of_feet_lift_together_half_a_period_after_the_others(pattern, pairs):
    walker, _ = walking()
    stance = stances(command(walker, 3.0, velocity=FORWARD, gait=GaitChange(pattern=pattern, period=0.4, duty=0.6)))[1200:]
    lifts = lift_offs(stance)
    for one, other in pairs:  # left front, right front, left hind, right hind
        np.testing.assert_allclose(lifts[one], lifts[other], atol=1)
    first, second = (lifts[pair[0]] for pair in pairs)
    np.testing.assert_allclose((second[0] - first[0]) * DT % 0.4, 0.2, atol=2 * DT)


def test_period_duty_and_step_height_are_as_commanded_and_then_as_configured():
    walker, _ = walking()
    references = command(walker, 3.0, velocity=FORWARD, gait=GaitChange(period=0.6, duty=0.6, step_height=0.03))
    stance = stances(references)[1200:]
    np.testing.assert_allclose(stance.mean(axis=0), 0.6, atol=0.03)
    for lifts in lift_offs(stance):
        np.testing.assert_allclose(np.diff(lifts) * DT, 0.6, atol=2 * DT)
    heights = np.array([walker.plan.legs.feet(reference.q)[:, 2] for reference in references[1200:]])
    assert np.ptp(heights, axis=0) == pytest.approx(0.03, abs=0.002)
    walker, _ = walking(2.0, period=0.8, duty=0.8)
    stance = stances(command(walker, 2.0, velocity=FORWARD))[800:]
    for lifts in lift_offs(stance):
        np.testing.assert_allclose(np.diff(lifts) * DT, TROT.period, atol=2 * DT)


def test_to_stand_the_base_halts_first_and_the_feet_step_home():
    walker, _ = walking(1.5)
    references = command(walker, 2.5, gait=GaitChange(pattern="stand"))
    stance = stances(references)
    assert stance[-500:].all()
    assert not stance[:500].all()  # it steps while it slows down
    assert np.isinf(references[-1].schedule.time_to_switch).all()
    np.testing.assert_array_equal(walker.plan.plan.u, 0.0)
    assert np.abs(walker.feet - walker.plan.plan.hips).max() < 2e-3
    assert not stances(command(walker, 1.0, velocity=FORWARD)).all()  # and it trots again


def test_a_reset_returns_to_the_configured_gait():
    walker, first = walking(1.0)
    command(walker, 1.0, velocity=FORWARD, gait=GaitChange(pattern="walk", duty=0.8))
    walker.plan.reset()
    again = Walker(gait=TROT, start=0.0)
    again.plan = walker.plan
    walker.plan.steer(Steering(velocity=FORWARD))
    for one, other in zip(again.run(1.0), first, strict=True):
        np.testing.assert_array_equal(one.q, other.q)


@every_row(
    ("gait.period", {"gait": {"period": 0.1}}),
    ("gait.period", {"gait": {"period": float("nan")}}),
    ("gait.period", {"gait": {"period": 0.16, "duty": 0.75}}),
    ("gait.duty", {"gait": {"duty": 0.4}}),
    ("gait.duty", {"gait": {"duty": 0.9}}),  # a swing of 0.04 s
    ("gait.duty", {"gait": {"pattern": "walk"}}),  # 0.7 as configured
    ("gait.step_height", {"gait": {"step_height": 0.0}}),
    ("gait.step_height", {"gait": {"step_height": 0.2}}),
    ("velocity", {"gait": {"pattern": "stand"}, "velocity": FORWARD}),
)
def test_a_gait_that_the_planner_cannot_realise_is_refused_with_its_field(field, steering):
    walker = Walker(gait=TROT)
    asked = Steering(gait=GaitChange(**steering["gait"]), velocity=steering.get("velocity"))
    with pytest.raises(InputError) as refused:
        walker.plan.check(asked)
    assert refused.value.field == field


def test_gaits_within_the_limits_are_accepted():
    walker = Walker(gait=TROT)
    for gait in ({"pattern": "walk", "duty": 0.8}, {"period": 1.0}, {"step_height": 0.04}, {"pattern": "stand"}):
        walker.plan.check(Steering(velocity=np.zeros(3), gait=GaitChange(**gait)))


# -- gaits that follow the speed, and plans that follow a pushed base --------------------------------------------------


FAST = FastSettings(speeds=(0.2, 0.6), period=0.3, duty=0.5, step_height=0.03)
SLOW = GaitSettings(period=0.4, duty=0.7, capture=0.0, fast=FAST)
GRAVITY = 9.81


class Pushed(Walker):
    """A walker whose measured velocity differs from the plan's. pushed: forward, left [m/s], turn [rad/s] (3), or None"""

    pushed = None

    def tick(self):
        at = self.plan.at

        def disturbed(t, state, contacts):
            if self.pushed is not None:
                state.v[[0, 1, 5]] = self.pushed
            return at(t, state, contacts)

        self.plan.at = disturbed
        try:
            return super().tick()
        finally:
            self.plan.at = at


@every(("speed", "period", "duty"), first_is_fast([(0.4, 0.35, 0.6), (0.8, 0.3, 0.5), (0.1, 0.4, 0.7), (0.6, 0.3, 0.5)], 2))
def test_period_and_duty_are_between_those_of_the_two_gaits(speed, period, duty):
    walker = Walker(gait=SLOW, velocity=(speed, 0.0, 0.0), acceleration=2.0)
    references = walker.run(2.2)
    assert not any(r.problem for r in references)
    stance = stances(references)[800:]
    for one in stance.T:
        lifts = np.flatnonzero(one[:-1] & ~one[1:])
        np.testing.assert_allclose(np.diff(lifts) * DT, period, atol=2 * DT)
        assert one[lifts[0] : lifts[-1]].mean() == pytest.approx(duty, abs=0.02)


def test_a_turn_in_place_counts_by_the_speed_of_the_hips():
    walker = Walker(gait=SLOW, velocity=(0.0, 0.0, 2.0))
    speed = 2.0 * np.linalg.norm(walker.plan.plan.hips[:, :2], axis=1).max()
    share = np.clip((speed - 0.2) / 0.4, 0.0, 1.0)
    lifts = stances(walker.run(3.0))[1500:, 0].astype(int)
    np.testing.assert_allclose(np.diff(np.flatnonzero(np.diff(lifts) < 0)) * DT, 0.4 - 0.1 * share, atol=2 * DT)


def test_the_gait_changes_without_a_jump():
    """Speeding up and slowing down: diagonals stay together, no foot waits, and no swing is cut short."""
    walker = Walker(gait=SLOW, velocity=(0.7, 0.0, 0.0), duration=1.5, acceleration=2.0)
    references = walker.run(2.0)
    stance = stances(references)
    np.testing.assert_array_equal(stance[:, 0], stance[:, 3])
    assert (stance.sum(axis=1) >= 2).all()
    edges = np.flatnonzero(np.diff(stance[:, 0].astype(int)))
    lengths, swings = np.diff(edges) * DT, ~stance[edges[:-1] + 1, 0]
    assert lengths[swings].min() > 0.095  # the first one begins at 3/4 of the period
    assert lengths.max() < 0.3
    assert np.abs(np.diff([r.q for r in references], axis=0)).max() < 0.04  # 40 rad/s


def test_a_foothold_after_a_push_stops_an_inverted_pendulum():
    walker = Pushed(gait=GaitSettings(period=0.3, duty=0.5, capture=1.0))
    walker.run(0.3)
    walker.pushed = np.array([0.0, 0.6, 0.0])
    offsets = []
    for _ in range(700):
        swinging = walker.plan.plan.swinging.copy()
        before = walker.plan.plan.pose[1]
        walker.tick()
        landed = swinging & ~walker.plan.plan.swinging
        speed = (walker.plan.plan.pose[1] - before) / DT
        offsets += [(walker.feet[i, 1] - walker.plan.plan.hips[i, 1], speed) for i in np.flatnonzero(landed)]
    assert len(offsets) >= 6
    offset, speed = offsets[-1]
    assert speed > 0.2
    # x'' = g/h (x − foot) from x = 0 at this speed: it comes to rest above the foot; without a step it falls
    height, x, v, dt = np.abs(walker.plan.plan.hips[:, 2]).mean(), 0.0, speed, 1e-4
    for _ in range(round(1.5 * np.sqrt(height / GRAVITY) / dt)):
        v += dt * GRAVITY / height * (x - offset)
        x += dt * v
    assert abs(v) < 0.4 * speed
    assert x == pytest.approx(offset, rel=0.4)


def test_the_sway_of_a_trot_changes_nothing():
    calm, swaying = (Pushed(gait=GaitSettings(capture=1.0), waypoints=((9.0, 0.0),)) for _ in range(2))
    swaying.pushed = np.array([0.1, -0.1, 0.3])
    for one, other in zip(calm.run(0.5), swaying.run(0.5), strict=True):
        np.testing.assert_array_equal(one.q, other.q)


def test_after_a_push_the_robot_steps_home_and_stands():
    walker = Pushed(gait=GaitSettings(capture=1.0))
    walker.plan.steer(Steering(velocity=np.zeros(3)))
    assert stances(walker.run(0.3))[200:].all()
    walker.pushed = np.array([0.3, 0.4, 0.0])
    assert not stances(walker.run(0.5)).all()
    walker.pushed = None
    references = walker.run(2.0)
    assert stances(references)[-300:].all()
    assert np.abs(walker.feet - walker.plan.plan.hips).max() < 2e-3
    np.testing.assert_array_equal(walker.plan.plan.u, 0.0)


@pytest.fixture(scope="module")
def g1():
    return controller("g1-walk")


@every_row(
    FrameTask(frame=HAND, position=PLACE),
    FrameTask(frame="head_link", rotation=np.eye(3)),
    FrameTask(frame="torso_link", rotation=np.eye(3), axes="local", mask=[False] * 5 + [True]),
    PostureTask(joints=["waist_yaw_joint", "left_elbow_joint"], angles=[0.1, 0.2], stiffness=1000.0, damping=100.0),
)
def test_tasks_above_the_legs_are_accepted_and_leave_the_forces_of_the_feet(task, g1):
    stack = TaskStack(tasks=[task])
    g1.check_steering(WALKS, stack)
    g1.check_steering(Steering(), stack)
    forces = []
    for tasks in (None, stack):
        g1.reset()
        command = g1.step(at_rest(g1), g1.contacts(g1.stance), Inputs(dt=0.0, steering=WALKS, tasks=tasks))
        assert command.prediction is not None
        forces.append(command.prediction.force.sum(axis=0))
    np.testing.assert_allclose(*forces, atol=0.1)  # the centre of mass moves as without them
    assert {"centre of mass", "trunk", task.label()} <= {outcome.name for outcome in command.outcomes}


@every_row(
    ("kind", ComTask(position=[0.0] * 3), "the gait decides how the centre of mass"),
    ("kind", AngularMomentumTask(), "the gait decides how the centre of mass"),
    ("kind", ForceTask(contacts="left_ankle_roll_link_0", normal=1.0), "how the feet are loaded"),
    ("kind", CenterOfPressureTask(contacts=["left_ankle_roll_link_0"], point=[0.0] * 3), "how the feet are loaded"),
    ("frame", FrameTask(frame="root_joint", position=[0.0] * 3), "got root_joint"),
    ("frame", FrameTask(frame="pelvis", rotation=np.eye(3)), "got pelvis"),
    ("frame", FrameTask(frame=FOOT, position=[0.0] * 3), f"got {FOOT}"),
    ("frame", FrameTask(frame="right_knee_link", position=[0.0] * 3), "got right_knee_link"),
    ("joints", PostureTask(joints=["left_knee_joint", "left_elbow_joint"], angles=[0.0, 0.0]), "got left_knee_joint$"),
    ("joints", PostureTask(angles=[0.0] * 29), "got left_hip_pitch_joint, left_hip_roll_joint"),
    ("position", FrameTask(frame=HAND, velocity=[0.1] * 6), "expected position or rotation"),
    ("angles", PostureTask(joints=["left_elbow_joint"]), "expected angles"),
    ("stiffness", FrameTask(frame=HAND, position=PLACE, stiffness=1001.0), "at most 1000 beside a gait, got 1001"),
    ("damping", FrameTask(frame=HAND, position=PLACE, damping=1e6), "at most 100 beside"),
    ("level", FrameTask(frame=HAND, position=PLACE, level=1), "expected 0: .* got 1"),
    ("name", FrameTask(frame=HAND, position=PLACE, name="landing pad"), "got 'landing pad'"),
)
def test_tasks_that_contradict_the_gait_are_refused_by_name(field, task, reason, g1):
    with pytest.raises(InputError, match=reason) as refused:
        g1.check_steering(WALKS, TaskStack(tasks=[FrameTask(frame=HAND, position=PLACE), task]))
    assert refused.value.field == f"tasks[1].{field}"


def test_all_contradictions_are_named_at_once(g1):
    tasks = [ComTask(), FrameTask(frame=FOOT, position=[0.0] * 3, level=3)]
    with pytest.raises(InputError) as refused:
        g1.check_steering(Steering(), TaskStack(tasks=tasks, modes={g1.robot.contact_names[0]: "open"}))
    assert refused.value.field == "modes"
    for part in ("which feet stand; tasks[0].kind: ", "; tasks[1].frame: ", f"got {FOOT}; tasks[1].level: "):
        assert part in refused.value.message


def test_a_gait_of_four_legs_refuses_tasks_beside_a_velocity_only():
    go2, stack = controller("quadruped-trot"), TaskStack(tasks=[ComTask()])
    with pytest.raises(InputError, match="a motion of all their joints") as refused:
        go2.check_steering(WALKS, stack)
    assert refused.value.field == "tasks"
    go2.check_steering(Steering(), stack)
    go2.check_steering(WALKS, None)


def test_targets_of_any_size_and_of_all_joints_above_the_legs_give_a_torque(g1):
    upper = [name for name in g1.robot.joint_names if "hip" not in name and "knee" not in name and "ankle" not in name]
    for task in (FrameTask(frame=HAND, position=[1e200, 0.0, 0.0]), PostureTask(joints=upper, angles=[0.1] * len(upper))):
        g1.reset()
        command = g1.step(at_rest(g1), g1.contacts(g1.stance), Inputs(dt=0.0, tasks=TaskStack(tasks=[task])))
        assert command.prediction is not None, command.message
        assert np.isfinite(command.tau).all()


# -- targets of successive commands ------------------------------------------------------------------------------------


T = 0.02  # interval of the commands [s]


def stream(make, count, interval=T):
    """The target motions of commands make(t), one each interval."""
    motions = [TargetMotion(TaskStack(tasks=[make(0.0)]))]
    for k in range(1, count):
        motions.append(TargetMotion(TaskStack(tasks=[make(k * interval)]), motions[-1], interval))
    return motions


def sampled(motions, field, interval=T, n=20):
    times = np.arange(n) * interval / n
    return np.array([np.copy(getattr(motion.at(t).tasks[0], field)) for motion in motions for t in times])


def path(t):
    return np.array([np.sin(3.0 * t), 0.5 * t, np.cos(2.0 * t)])


def test_positions_along_a_path_are_joined_without_steps_and_with_the_velocity_of_the_path():
    motions = stream(lambda t: ComTask(position=path(t)), 100)
    x, v = sampled(motions[1:], "position"), sampled(motions[1:], "velocity")
    step = T / 20
    raw = np.linalg.norm(path(0.5 + T) - path(0.5))
    rates = np.linalg.norm(np.diff(x[200:], axis=0), axis=1) / step
    assert rates.max() < 4.0  # the path: at most 3.7 m/s
    assert rates.max() * step < 0.1 * raw
    times = T + np.arange(len(x)) * step
    expected = np.array([3.0 * np.cos(3.0 * times), np.full_like(times, 0.5), -2.0 * np.sin(2.0 * times)]).T
    assert np.abs(v[200:] - expected[200:]).max() < 0.5  # late by up to 50 ms, at up to 10 m/s²
    delayed = np.array([path(t - STRETCH * T) for t in times])
    assert np.abs(x[200:] - delayed[200:]).max() < 0.01


def test_a_straight_path_is_exact_but_late_and_a_step_is_reached_without_overshoot():
    motions = stream(lambda t: ComTask(position=t * np.array([1.0, -2.0, 0.5])), 200)
    np.testing.assert_allclose(sampled(motions[150:], "velocity"), np.tile([1.0, -2.0, 0.5], (1000, 1)), atol=1e-6)
    lag = 200 * T - T - motions[-1].at(0.0).tasks[0].position[0]
    assert lag == pytest.approx(STRETCH * T, abs=1e-6)
    motions = stream(lambda t: ComTask(position=[0.1 if t > 0.05 else 0.0, 0.0, 0.0]), 10)
    x, v = sampled(motions[1:], "position")[:, 0], sampled(motions[1:], "velocity")
    assert (np.diff(x) >= 0.0).all()
    assert np.abs(np.diff(x)).max() < 0.1 * 0.12
    assert x[-1] == pytest.approx(0.1, abs=1e-6)
    assert not v.any()
    (first, last) = stream(lambda t: ComTask(position=[t, 0.0, 0.0]), 2)
    np.testing.assert_allclose(last.at(STRETCH * T).tasks[0].position, [T, 0.0, 0.0], atol=1e-15)
    np.testing.assert_array_equal(last.at(1.0).tasks[0].velocity, 0.0)
    np.testing.assert_allclose(last.at_rest(0.01).tasks[0].position, last.at(0.01).tasks[0].position)
    assert first.at(0.0).tasks[0].velocity is None


@every("axes", ["world", "local"])
def test_rotations_turn_evenly(axes):
    axis = np.array([0.6, 0.0, 0.8])

    def make(t):
        return FrameTask(frame="f", position=[0.0] * 3, rotation=Rotation.from_rotvec(2.0 * t * axis).as_matrix(), axes=axes)

    motions = stream(make, 150)
    R, v = sampled(motions[120:], "rotation"), sampled(motions[120:], "velocity")
    turned = Rotation.from_matrix(R[1:] @ R[:-1].transpose(0, 2, 1)).as_rotvec() / (T / 20)
    np.testing.assert_allclose(turned, np.tile(2.0 * axis, (len(turned), 1)), atol=1e-4)
    np.testing.assert_allclose(v[:, 3:], np.tile(2.0 * axis, (len(v), 1)), atol=1e-4)  # the axis is the same in both frames
    np.testing.assert_array_equal(v[:, :3], 0.0)


@every_row(
    ComTask(position=[1.0, 0.0, 0.0], velocity=[0.0, 1.0, 0.0]),
    ComTask(position=[1.0, 0.0, 0.0], acceleration=[0.0, 1.0, 0.0]),
    FrameTask(frame="f", position=[1.0, 0.0, 0.0], velocity=[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
    PostureTask(angles=[1.0], velocity=[0.0]),
    AngularMomentumTask(momentum=[1.0, 0.0, 0.0], momentum_rate=[0.0, 1.0, 0.0]),
    ForceTask(contacts="a", normal=4.0),
)
def test_targets_with_derivatives_and_forces_are_as_commanded(task):
    before = TargetMotion(TaskStack(tasks=[doubled(task)]))
    after, alone = TargetMotion(TaskStack(tasks=[task]), before, T), TargetMotion(TaskStack(tasks=[task]))
    for t in (0.0, 0.007, 0.5):
        for name in task.__struct_fields__:
            one, other = (getattr(motion.at(t).tasks[0], name) for motion in (after, alone))
            np.testing.assert_array_equal(one, other)


def doubled(task):
    fields = {name: getattr(task, name) for name in task.__struct_fields__}
    return type(task)(**{name: 2.0 * np.array(value) if isinstance(value, list) else value for name, value in fields.items()})


def test_another_task_begins_at_its_target():
    before = TargetMotion(TaskStack(tasks=[ComTask(position=[0.0] * 3), PostureTask(joints=["a"], angles=[0.0])]))
    tasks = [ComTask(position=[1.0] * 3, name="other"), PostureTask(joints=["b"], angles=[1.0])]
    first, second = TargetMotion(TaskStack(tasks=tasks), before, T).at(0.0).tasks
    np.testing.assert_array_equal(first.position, 1.0)
    np.testing.assert_array_equal(second.angles, 1.0)


def test_rotation_vectors_against_scipy():
    rng = np.random.default_rng(3)
    for angle in (0.0, 1e-13, 1e-9, 1e-5, 0.3, 2.0, 3.1, np.pi):
        axis = rng.normal(size=3)
        vector = angle * axis / np.linalg.norm(axis)
        R = Rotation.from_rotvec(vector).as_matrix()
        np.testing.assert_allclose(exponential(vector), R, atol=1e-12)
        found = logarithm(R)
        np.testing.assert_allclose(exponential(found), R, atol=1e-7 if angle > 3.12 else 1e-12)
        change, step = rng.normal(size=3), 1e-6
        moved = Rotation.from_rotvec(vector + step * change) * Rotation.from_rotvec(vector - step * change).inv()
        np.testing.assert_allclose(left_jacobian(vector) @ change, moved.as_rotvec() / (2 * step), atol=1e-6)
