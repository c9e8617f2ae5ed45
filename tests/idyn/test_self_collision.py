"""Links keep their distance when tasks drive them into each other. MuJoCo reads the same URDF and measures the distances."""

import mujoco
import numpy as np
import pytest
from fast import every, fast

from controllers.robot.load import load_robot, shared_folder
from idyn import Flat, InputError, ModelError, State, contacts_from_geometry
from idyn.tasks import ComTask, FrameTask, PostureTask, SelfCollision, TaskLimits, TaskStack, predict_tasks

DT, DISTANCE = 1e-3, 0.02


class Judge:
    """Distances by MuJoCo between the front legs of `quadruped`, and of these to the body."""

    def __init__(self, robot):
        self.model, self.robot = mujoco.MjModel.from_xml_string(robot.description.urdf), robot
        self.data = mujoco.MjData(self.model)
        self.order = [robot.joint_names.index(self.model.joint(k).name) for k in range(self.model.njnt)]
        bodies = [self.model.body(k).name for k in self.model.geom_bodyid]
        legs = [[g for g, name in enumerate(bodies) if name.startswith(leg)] for leg in ("LF", "RF")]
        self.pairs = [(one, other) for one in legs[0] for other in legs[1]]

    def distance(self, q):
        """Least distance [m], negative in penetration."""
        self.data.qpos[:] = self.robot.joint_angles(q)[self.order]
        mujoco.mj_kinematics(self.model, self.data)
        return min(mujoco.mj_geomDistance(self.model, self.data, i, j, 1.0, None) for i, j in self.pairs)


def walk(robot, q, stack, lifted=(), ticks=600, judge=None):
    """Steps of the predicted motion. Returns the last configuration and answer, and the least distance on the way."""
    v, least, guess = np.zeros(robot.nv), np.inf, None
    for _ in range(ticks):
        contacts = contacts_from_geometry(robot, q, Flat(), margin=0.003)
        contacts = contacts.take(np.array([key not in lifted for key in contacts.keys], np.bool_))
        answer = predict_tasks(robot, State(q=q, v=v), contacts, stack, law="coulomb", dt=DT, guess=guess)
        assert answer.prediction.status.ok
        v, guess = answer.prediction.v_plus, answer.prediction.guess
        q = robot.integrate(q, DT * v)
        least = least if judge is None else min(least, judge.distance(q))
    return q, answer, least


def arms():
    """The quadruped without a floating base, as a robot with four arms, and tasks: its front feet change places."""
    robot, q = load_robot("quadruped")
    robot, q = robot.variant(base="fixed", contact=()), q[7:]
    here, there = (robot.frames.placement(frame, q).translation for frame in ("LF_FOOT", "RF_FOOT"))
    tasks = [FrameTask(frame="LF_FOOT", position=there), FrameTask(frame="RF_FOOT", position=here)]
    return robot, q, [*tasks, PostureTask(angles=q, level=1)]


def legs():
    """The quadruped that stands on three feet, and tasks: hold the centre of mass, move the fourth foot into the leg beside."""
    robot, q = load_robot("quadruped")
    feet = {key: robot.frames.placement(key, q).translation for key in robot.spheres.keys}
    middle = np.mean([place for key, place in feet.items() if key != "LF_FOOT"], axis=0)
    position = [*middle[:2], robot.center_of_mass(q)[2]]
    upright = FrameTask(frame="root_joint", rotation=np.eye(3))
    hold, posture = ComTask(position=position), PostureTask(angles=robot.joint_angles(q), level=2)
    q, _, _ = walk(robot, q, TaskStack(tasks=[hold, upright, posture]))
    into = FrameTask(frame="LF_FOOT", position=feet["RF_FOOT"] + [0.0, 0.0, 0.1], level=1)
    return robot, q, [hold, upright, into, posture]


@pytest.mark.parametrize("scene", fast([arms, legs], arms))
def test_links_stop_at_the_distance_and_collide_without_it(scene):
    """The distance may fall short by 0.2 mm while links turn about each other."""
    robot, q, tasks = scene()
    judge, kept = Judge(robot), SelfCollision(robot, distance=DISTANCE, stance=q)
    free = walk(robot, q, TaskStack(tasks=tasks), ["LF_FOOT"], 1000, judge)
    assert free[2] < 0.0
    assert free[1]["LF_FOOT"].met
    stack = TaskStack(tasks=tasks, limits=TaskLimits(self_collision=kept))
    end, answer, least = walk(robot, q, stack, ["LF_FOOT"], 1000, judge)
    assert least > DISTANCE - 2e-4
    assert abs(judge.distance(end) - DISTANCE) < 1e-4
    assert answer["LF_FOOT"].obstacles[0].startswith("self-collision of LF_FOOT and RF_")
    assert not answer.relaxed


def test_links_that_are_too_near_move_apart():
    robot, q, tasks = arms()
    judge = Judge(robot)
    near, _, _ = walk(robot, q, TaskStack(tasks=tasks[:2]), ticks=150)
    while judge.distance(near) > 0.5 * DISTANCE:
        near, _, _ = walk(robot, near, TaskStack(tasks=tasks[:2]), ticks=10)
    stack = TaskStack(tasks=tasks, limits=TaskLimits(self_collision=SelfCollision(robot, distance=DISTANCE, stance=q)))
    end, _, _ = walk(robot, near, stack, ticks=300)
    assert abs(judge.distance(end) - DISTANCE) < 1e-4


@pytest.mark.parametrize("name", fast(["a1", "go2", "quadruped"], "a1"))
def test_rows_are_the_derivatives_of_the_distances(name):
    """Of boxes, cylinders, spheres, and hulls of meshes, against central differences of the distances, which coal computes to
    1e-6 m."""
    robot, stance = load_robot(name)
    kept = SelfCollision(robot, folders=[shared_folder().parents[1]], reach=0.05)
    rng, step, errors = np.random.default_rng(0), 2e-4, []
    for _ in range(20):
        q, way = robot.integrate(stance, 0.5 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)
        here, low, high = (
            kept.near(robot, robot.terms(robot.integrate(q, x * way), np.zeros(robot.nv))) for x in (0.0, -step, step)
        )
        if low.links == here.links == high.links:
            difference = (high.distances - low.distances) / (2 * step)
            errors += np.abs(difference - here.rows @ way)[here.distances > 0.0].tolist()
    assert len(errors) > 30
    assert max(errors) < 1e-2
    assert np.median(errors) < 1e-6


def test_links_that_move_together_or_share_a_joint_are_not_watched():
    robot, stance = load_robot("a1")
    pairs = SelfCollision(robot).pairs
    for links in (("FL_calf", "FL_foot"), ("FL_thigh", "FL_calf"), ("trunk", "FL_hip")):
        assert links not in pairs
        assert links[::-1] not in pairs
    assert ("FL_foot", "FR_foot") in pairs
    srdf = '<robot name="a1"><disable_collisions link1="FR_foot" link2="FL_foot" reason="Never"/></robot>'
    assert set(pairs) - set(SelfCollision(robot, srdf=srdf).pairs) == {("FL_foot", "FR_foot")}
    far = SelfCollision(robot, distance=0.1, stance=stance)
    assert set(far.pairs) < set(pairs)
    assert (far.near(robot, robot.terms(stance, np.zeros(robot.nv))).distances >= 0.1).all()


@every(
    ("field", "changes"),
    [
        ("distance", {"distance": -0.01}),
        ("reach", {"reach": np.inf}),
        ("braking", {"braking": 0.0}),
        ("stance", {"stance": [0.0]}),
        ("srdf", {"srdf": "<robot>"}),
    ],
)
def test_bad_settings_are_named(field, changes):
    with pytest.raises(InputError) as error:
        SelfCollision(load_robot("a1")[0], **changes)
    assert error.value.field == field


def test_robots_without_shapes_missing_meshes_and_other_robots_are_refused():
    with pytest.raises(ModelError, match="the URDF has no collision shapes"):
        SelfCollision(load_robot("arm")[0])
    with pytest.raises(ModelError, match="collision shapes"):
        SelfCollision(load_robot("go2")[0])
    robot, q = load_robot("quadruped")
    contacts, state = contacts_from_geometry(robot, q, Flat(), margin=0.003), State(q=q, v=np.zeros(robot.nv))
    for other in (load_robot("a1")[0], robot.variant(base="fixed")):
        stack = TaskStack(tasks=[ComTask()], limits=TaskLimits(self_collision=SelfCollision(other)))
        with pytest.raises(InputError, match=r"limits\.self_collision"):
            predict_tasks(robot, state, contacts, stack, law="coulomb", dt=DT)
