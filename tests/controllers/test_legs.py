"""Planners of legs: inverse kinematics against Pinocchio, the MPC's program against one with states, the gait of two legs."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import qpsolvers
from fast import every, every_row, first_is_fast, full
from many_hinges import quadruped_of
from msgspec.structs import replace
from rigs import Walker
from scipy.integrate import solve_ivp
from scipy.sparse import csc_matrix
from scipy.spatial.transform import Rotation

from controllers.command import GaitChange, Steering
from controllers.config.loading import parse
from controllers.contact.source import with_whole_soles
from controllers.planners import legs as planner
from controllers.planners.gait import GaitSettings
from controllers.planners.legs import Legs
from controllers.planners.locomotion import Locomotion
from controllers.planners.mpc import MpcPlanner, MpcSettings
from controllers.planners.path import PathSettings
from controllers.planners.rigid_body import Body, Horizon, Weights, planned_motion
from controllers.planners.two_legs.feet import (
    Feet,
    Pose,
    feet_of,
    fill_corners,
    nearest_inside,
    nearest_on_edge,
    point,
    pose_of,
)
from controllers.planners.two_legs.reach import followed
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
from controllers.planners.two_legs.walker import TwoLegsSettings
from controllers.robot.kinematics import close_chains, contact_places
from idyn import ConfigError, Flat, InputError, Robot, contacts_of_places, load_robot
from idyn.model.description import Closure, ContactPoint
from idyn.tasks import ComTask, ForceTask, TaskStack
from idyn.types import Array, State

Velocities = tuple[float, float, float]

ROBOTS = ("quadruped", "solo12", "a1", "go2")
BUILDS = [(4, 4), (5, 5), (6, 6), (7, 7), (4, 7)]  # hinges of the front and the hind legs
FEET = ("LF", "RF", "LH", "RH")
WAY = 0.02 * np.array([[1, 2, 1], [-1, 1, 0.5], [0.3, -1, 1], [2, 0.2, -1]])
ALL, FLAT = np.ones(3), np.array([1.0, 0.0, 1.0])
FINE, COARSE = (1e-8, 1e-7), (1e-6, 1e-6)
G, T, N = 9.81, 0.03, 6
HIPS = np.array([[0.2, 0.15, 0.0], [0.2, -0.15, 0.0], [-0.2, 0.15, 0.0], [-0.2, -0.15, 0.0]])
BODY = Body(14.0, np.array([[0.11, 0.002, 0.0], [0.002, 0.25, 0.01], [0.0, 0.01, 0.3]]))
WEIGHTS = Weights(np.array([10.0, 10.0, 5.0, 20.0, 20.0, 100.0, 0.1, 0.1, 0.3, 10.0, 10.0, 5.0]), 1e-4, 0.5, 250.0)
OMEGA, STILL = 3.6, Velocity(0j, 0.0)
SPANS = (0.2, 0.1j, 0.1 - 0.1j), (0.5, 0.1 - 0.1j, 0.1 - 0.1j), (0.3, 0.1 - 0.1j, 0.3 + 0.1j)  # duration, start, end


class Rig:
    """A robot's legs, and the same robot with a fixed base in Pinocchio."""

    def __init__(self, robot, stance, ends):
        """ends: frames that reach the feet, per foot"""
        self.robot, self.legs, self.ends = robot, Legs(robot, stance), ends
        self.angles = self.legs.angles(stance)
        self.model = pin.buildModelFromXML(robot.description.urdf)
        self.data = self.model.createData()
        passive = np.setdiff1d(np.arange(6, robot.nv), robot.tree.a)
        self.order = np.concatenate([robot.tree.a, passive]) - 6

    def solve(self, x, v, a, guess=None):
        motion = (self.angles if guess is None else guess).copy(), np.zeros(len(self.angles)), np.zeros(len(self.angles))
        return *motion, planner.solve(self.legs, (x, v, a), motion)

    def in_pinocchio(self, angles):
        full = np.zeros(self.model.nv)
        full[self.order] = angles
        return full

    def motion_of(self, frame, q, v, a):
        """Position, velocity and acceleration of a frame in the base frame, by Pinocchio."""
        pin.forwardKinematics(self.model, self.data, *map(self.in_pinocchio, (q, v, a)))
        pin.updateFramePlacements(self.model, self.data)
        at = self.model.getFrameId(frame), pin.LOCAL_WORLD_ALIGNED
        motion = (get(self.model, self.data, *at).linear for get in (pin.getFrameVelocity, pin.getFrameClassicalAcceleration))
        return self.data.oMf[at[0]].translation, *motion


@lru_cache(maxsize=16)
def rig_of(build):
    """Of a shipped robot, or of a quadruped with so many hinges."""
    if isinstance(build, tuple):
        return Rig(*quadruped_of(*build), [(f"{foot}_foot",) for foot in FEET])
    return Rig(*load_robot(build), [(f"{foot}_front_end", f"{foot}_hind_end") for foot in FEET])


@every("name", [*ROBOTS, "solo8"])
def test_foot_positions_match_pinocchio(name):
    rig, rng = rig_of(name), np.random.default_rng(0)
    for _ in range(20):
        there = rig.angles + 0.3 * rng.normal(size=rig.robot.na)
        expected = contact_places(rig.robot, rig.robot.with_joint_angles(rig.robot.neutral(), there))
        np.testing.assert_allclose(rig.legs.feet(there), expected, atol=1e-14)


@every("name", ROBOTS)
def test_inverse_kinematics_inverts_forward_kinematics(name):
    """From angles 0.1 rad off the solution, which is the only one nearby."""
    rig, rng, zero = rig_of(name), np.random.default_rng(1), np.zeros((4, 3))
    for _ in range(20):
        there = rig.angles + 0.1 * rng.normal(size=rig.robot.na)
        q, v, a, reached = rig.solve(rig.legs.feet(there), zero, zero)
        assert reached
        np.testing.assert_allclose(q, there, atol=1e-9)
        assert not v.any()
        assert not a.any()


@every(("build", "along", "tolerance"), first_is_fast([("fivebar", FLAT, 1e-9), *((build, ALL, 1e-7) for build in BUILDS)], 2))
def test_feet_move_as_wanted(build, along, tolerance):
    rig, rng = rig_of(build), np.random.default_rng(0)
    home = rig.legs.feet(rig.angles)
    for _ in range(20):
        x, (v, a) = home + along * rng.uniform(-0.04, 0.04, (4, 3)), along * rng.normal(size=(2, 4, 3))
        *motion, reached = rig.solve(x, v, a)
        assert reached
        for i, frames in enumerate(rig.ends):
            for frame in frames:
                for one, wanted in zip(rig.motion_of(frame, *motion), (x[i], v[i], a[i]), strict=True):
                    np.testing.assert_allclose(one, wanted, atol=tolerance * max(1.0, np.abs(wanted).max()))


@every_row(*((name, ALL, FINE) for name in (*ROBOTS, "solo8")), *((b, ALL, COARSE) for b in BUILDS), ("fivebar", FLAT, COARSE))
def test_joint_speeds_and_accelerations_match_finite_differences(build, along, tolerances):
    """With more hinges than the foot needs, too."""
    rig, way, e = rig_of(build), WAY * along, 1e-5
    home = rig.legs.feet(rig.angles)

    def solve(t):
        return rig.solve(home + way * np.sin(3 * t), way * 3 * np.cos(3 * t), -way * 9 * np.sin(3 * t))

    before, now, after = solve(0.4 - e), solve(0.4), solve(0.4 + e)
    for k, tolerance in enumerate(tolerances):
        np.testing.assert_allclose(now[k + 1], (after[k] - before[k]) / (2 * e), atol=tolerance)


@every("build", [*ROBOTS, *BUILDS])
def test_targets_out_of_reach_are_reported(build):
    """A metre below the base: stretched legs, finite numbers, and False."""
    rig = rig_of(build)
    q, v, a, reached = rig.solve(rig.legs.feet(rig.angles) - [0.0, 0.0, 1.0], np.ones((4, 3)), np.ones((4, 3)))
    assert not reached
    assert np.isfinite(np.concatenate([q, v, a])).all()


@every("build", BUILDS)
def test_the_posture_is_the_nearest_to_the_stance(build):
    """θ − θ₀ has no part in the null space of the Jacobian, by Pinocchio, and does not depend on the guess."""
    rig = rig_of(build)
    rng, home, zero = np.random.default_rng(3), rig.legs.feet(rig.angles), np.zeros((4, 3))
    x = home + rng.uniform(-0.04, 0.04, (4, 3))
    q, _, _, reached = rig.solve(x, zero, zero)
    assert reached
    away = rig.in_pinocchio(q - rig.angles)
    for (frame,) in rig.ends:
        end = rig.model.getFrameId(frame)
        full = pin.computeFrameJacobian(rig.model, rig.data, rig.in_pinocchio(q), end, pin.LOCAL_WORLD_ALIGNED)
        J, of_leg = full[:3], np.abs(full).max(axis=0) > 0
        pull = np.linalg.lstsq(J[:, of_leg].T, away[of_leg], rcond=None)[0]
        np.testing.assert_allclose(J[:, of_leg].T @ pull, away[of_leg], atol=1e-7)
    assert np.abs(away).max() > 0.01
    other = rig.solve(x, zero, zero, rig.angles + 0.02 * rng.normal(size=len(q)))
    assert other[3]
    np.testing.assert_allclose(other[0], q, atol=1e-7)


# -- two hinges: solo8 has no hip abduction, all hinges are parallel to y -------------------------------------------------


def test_two_hinges_leave_the_sideways_motion_out_and_report_targets_far_to_the_side():
    """The angles are those of the targets without their y, and so are speeds and accelerations."""
    rig, zero = rig_of("solo8"), np.zeros((4, 3))
    there = rig.angles + 0.1 * np.random.default_rng(1).normal(size=rig.robot.na)
    v, a = np.random.default_rng(2).normal(size=(2, 4, 3))
    expected = rig.solve(rig.legs.feet(there), v * FLAT, a * FLAT)
    found = rig.solve(rig.legs.feet(there) + np.array([0.0, 0.02, 0.0]), v, a)
    assert found[3]
    np.testing.assert_allclose(found[0], there, atol=1e-9)
    for one, other in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert not rig.solve(rig.legs.feet(rig.angles) + np.array([0.0, 0.05, 0.0]), zero, zero)[3]


@every("k", [1, 2])
def test_a_robot_on_two_hinges_refuses_to_step_sideways_and_to_turn(k):
    plan = Locomotion(*load_robot("solo8"), 0.0, GaitSettings(), PathSettings(), 2e-3)
    velocity = np.array([0.3, 0.0, 0.0])
    plan.check(Steering(velocity=velocity))
    velocity[k] = 0.1
    with pytest.raises(InputError) as refused:
        plan.check(Steering(velocity=velocity))
    assert refused.value.field == f"velocity[{k}]"


@every("name", ["solo8", "fivebar"])
def test_legs_of_two_hinges_reach_further_forwards_than_sideways(name):
    """Sideways, a foot may be 3 cm from the plane of its leg. Both robots have legs of 0.3 m."""
    plan = Locomotion(*load_robot(name), 0.0, GaitSettings(), PathSettings(), 2e-3)
    forward, aside = plan.reach.strides
    assert 0.08 < forward < 0.25
    assert aside == pytest.approx(0.03, abs=0.002)
    assert plan.plan.slender == pytest.approx(forward / aside)


# -- closed legs -----------------------------------------------------------------------------------------------------------


@full
def test_closed_legs_walk_in_the_plan():
    walker = Walker("fivebar", velocity=(0.2, 0.0, 0.0))
    robot, moved, last = walker.robot, [], None
    for k in range(1500):
        reference = walker.tick()
        assert not reference.problem
        assert len(reference.q) == robot.na
        q = close_chains(robot, walker.q)
        walker.stance = q
        turns, origins = (each[robot.spheres.joints] for each in robot.place(q))
        feet = origins + np.einsum("nij,nj->ni", turns, robot.spheres.offsets)
        if last is not None and k > 300:
            both = reference.schedule.stance & last[1]
            moved.append(np.abs(feet - last[0])[both, 0].max())
        last = feet, reference.schedule.stance
    assert np.max(moved) < 2e-6
    assert walker.plan.plan.pose[0] > 0.2


@every("second", ["LF_front_knee", "LF_hind_knee"])
def test_legs_that_close_elsewhere_are_refused(second):
    robot, stance = load_robot("fivebar")
    frames = {"LF_front_knee": "RF_hind_shank", "LF_hind_knee": "RF_front_shank"}
    closures = (*robot.description.closure, Closure(first="LF_hind_thigh", second=frames[second]))
    other = robot.variant(closure=closures)
    with pytest.raises(ConfigError, match="centre of a foot"):
        Legs(other, stance)


def test_an_open_leg_with_a_joint_without_motor_is_refused():
    robot, stance = quadruped_of(4, 4)
    other = robot.variant(unactuated=("LF_3",))
    with pytest.raises(ConfigError, match="LF_3"):
        Legs(other, stance)


def horizon(stands, yaw=0.7):
    wanted = np.zeros((N, 12))
    wanted[:, 2], wanted[:, 5], wanted[:, 9] = yaw, 0.3, 0.4
    wanted[:, 3] = 0.4 * T * np.arange(1, N + 1)
    return Horizon(T, wanted, stands, np.tile(HIPS @ Rotation.from_euler("z", yaw).as_matrix().T, (N, 1, 1)))


def explicit(start, plan):
    """The same program with states and forces as variables, by another solver: min over (x₁, f₀, x₂, f₁, …) with equations."""
    feet, size = len(HIPS), 12 + 3 * len(HIPS)
    P, q = np.zeros((N * size, N * size)), np.zeros(N * size)
    A, b, Gs, h = np.zeros((N * 12, N * size)), np.zeros(N * 12), [], []
    for k in range(N):
        x, f = slice(k * size, k * size + 12), slice(k * size + 12, (k + 1) * size)
        P[x, x] = np.diag(WEIGHTS.state)
        q[x] = -WEIGHTS.state * plan.wanted[k]
        standing = plan.stands[k].sum()
        P[f, f] = WEIGHTS.force * np.eye(3 * feet)
        q[f][2::3] = -WEIGHTS.force * BODY.mass * G / standing * plan.stands[k]
        R = Rotation.from_euler("z", plan.wanted[k, 2]).as_matrix()
        inverse = np.linalg.inv(R @ BODY.inertia @ R.T)
        step, push, fall = np.eye(12), np.zeros((12, 3 * feet)), np.zeros(12)
        step[:3, 6:9], step[3:6, 9:12] = T * R.T, T * np.eye(3)
        fall[5], fall[11] = -0.5 * T * T * G, -T * G
        for i in range(feet):
            arm = plan.places[k, i] - plan.wanted[k, 3:6]
            turn = inverse @ np.column_stack([np.cross(arm, e) for e in np.eye(3)])
            c = slice(3 * i, 3 * i + 3)
            push[6:9, c], push[:3, c] = T * turn, 0.5 * T * T * R.T @ turn
            push[9:, c], push[3:6, c] = T / BODY.mass * np.eye(3), 0.5 * T * T / BODY.mass * np.eye(3)
            most, mu = (WEIGHTS.most, WEIGHTS.friction) if plan.stands[k, i] else (0.0, 0.0)
            for row, bound in (([1, 0, -mu], 0), ([-1, 0, -mu], 0), ([0, 1, -mu], 0), ([0, -1, -mu], 0), ([0, 0, -1], 0)):
                Gs.append(np.zeros(N * size))
                Gs[-1][k * size + 12 + 3 * i : k * size + 15 + 3 * i] = row
                h.append(bound)
            Gs.append(np.zeros(N * size))
            Gs[-1][k * size + 14 + 3 * i] = 1.0
            h.append(most)
        rows = slice(12 * k, 12 * k + 12)
        A[rows, x], A[rows, f], b[rows] = np.eye(12), -push, fall
        if k:
            A[rows, (k - 1) * size : (k - 1) * size + 12] = -step
        else:
            b[rows] += step @ start
    problem = qpsolvers.Problem(csc_matrix(P), q, csc_matrix(np.array(Gs)), np.array(h, float), csc_matrix(A), b)
    found = qpsolvers.solve_problem(problem, solver="piqp", eps_abs=1e-10, eps_rel=1e-10).x.reshape(N, size)
    return found[:, :12], found[:, 12:].reshape(N, feet, 3)


@every("seed", range(4))
def test_the_motion_is_that_of_the_program_with_explicit_states(seed):
    rng = np.random.default_rng(seed)
    stands = np.tile([True, False, False, True], (N, 1)) if seed % 2 else rng.uniform(size=(N, 4)) < 0.7
    stands[:, 0] |= ~stands.any(axis=1)
    start = np.concatenate([rng.normal((0.0, 0.0, 0.7), 0.05), [0.0, 0.0, 0.29], rng.normal(0.0, 0.3, 6)])
    plan = horizon(stands)
    motion = planned_motion(BODY, start, plan, WEIGHTS)
    states, forces = explicit(start, plan)
    np.testing.assert_allclose(motion.forces, forces, atol=2e-4 * BODY.mass * G)
    np.testing.assert_allclose(motion.states, states, atol=1e-5)
    assert (motion.forces[~stands] == 0.0).all()
    normal, along = motion.forces[..., 2], np.abs(motion.forces[..., :2])
    assert normal.min() > -1e-6
    assert (along <= WEIGHTS.friction * normal[..., None] + 1e-6).all()


def test_a_standing_body_is_carried_in_equal_shares_and_one_in_flight_falls():
    plan = horizon(np.ones((N, 4), bool), yaw=0.0)
    plan.wanted[:, 3], plan.wanted[:, 9] = 0.0, 0.0
    start = plan.wanted[0]
    motion = planned_motion(BODY, start, plan, WEIGHTS)
    np.testing.assert_allclose(motion.forces, np.broadcast_to([0.0, 0.0, BODY.mass * G / 4], (N, 4, 3)), atol=1e-6)
    np.testing.assert_allclose(motion.states, plan.wanted, atol=1e-9)
    start = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.5, 0.4, 0.0, 1.0])
    motion = planned_motion(BODY, start, horizon(np.zeros((N, 4), bool), yaw=0.0), WEIGHTS)
    t = T * np.arange(1, N + 1)
    np.testing.assert_allclose(motion.states[:, 5], 0.3 + t - 0.5 * G * t * t, atol=1e-12)
    np.testing.assert_allclose(motion.states[:, 11], 1.0 - G * t, atol=1e-12)
    np.testing.assert_allclose(motion.states[:, 2], 0.5 * t, atol=1e-12)


def mpc_planner(pattern="trot", name="quadruped"):
    robot, stance = load_robot(name)
    settings = MpcSettings(gait=GaitSettings(pattern=pattern, period=0.4, duty=0.6, step_height=0.02))
    return MpcPlanner(robot, stance, settings), robot, State(q=stance, v=np.zeros(robot.nv))


@every_row(("trot", {(0, 3), (1, 2), ()}), ("pace", {(0, 2), (1, 3), ()}), ("bound", {(0, 1), (2, 3), ()}), ("stand", {()}))
def test_feet_swing_in_the_groups_of_the_gait_and_the_others_get_forces(pattern, groups):
    plan, robot, state = mpc_planner(pattern)
    keys, found = robot.spheres.keys, set()
    for k in range(40):
        asked = plan.plan(0.01 * k, state)
        names = [task.label() for task in asked.tasks]
        swings = tuple(i for i, key in enumerate(keys) if f"swing {key}" in names)
        found.add(swings)
        assert asked.problem == ""
        assert [f"force {key}" in names for key in keys] == [i not in swings for i in range(len(keys))]
        assert all(asked.modes[key] == "stick" for i, key in enumerate(keys) if i not in swings)
    assert found == groups


def test_a_swinging_foot_rises_to_the_step_height_and_lands_by_the_capture_point():
    """The robot of this test does not move, although it is told to: its feet shall land behind the hips."""
    plan, robot, state = mpc_planner()
    plan.path.steer(np.array([0.2, 0.0, 0.0]))
    highest, ends = np.zeros(4), np.zeros((4, 3))
    for k in range(120):
        tasks = {task.label(): task for task in plan.plan(0.01 * k, state).tasks}
        for i, place in enumerate(robot.description.contact):
            if (task := tasks.get(f"swing {robot.spheres.keys[i]}")) is not None:
                ends[i] = task.position - robot.frames.placement(place.frame, state.q).translation
                highest[i] = max(highest[i], ends[i, 2])
    np.testing.assert_allclose(highest, 0.02, atol=0.002)
    # half a stance of the commanded velocity ahead, and √(h/g) of the missing one behind; the correction of the path is 0.05
    # + 0.05 m/s at most; the stance is off the middle of the hips by some millimetres
    height = robot.center_of_mass(state.q)[2]
    ahead = np.array([0.5 * 0.6 * 0.4 - np.sqrt(height / G)]) * [0.2, 0.3]
    offsets = contact_places(robot, state.q) - robot.center_of_mass(state.q)
    landing = ends[:, 0] + offsets[:, :2].mean(axis=0)[0]
    assert (landing < max(ahead) + 2e-3).all()
    assert (landing > min(ahead) - 2e-3).all()


def test_settings_that_are_no_gait_of_the_robot_are_refused():
    robot, stance = load_robot("quadruped")
    with pytest.raises(ConfigError, match="phases"):
        MpcPlanner(robot, stance, MpcSettings(gait=GaitSettings(pattern="table", touchdown=(0.0, 0.5))))


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
def test_feet_that_stand_step_where_the_dcm_leaves_them_and_rest_there(ahead: float) -> None:
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
    assert len(landed) == 1
    assert landed[0] < 0.8
    assert steps.standing
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
