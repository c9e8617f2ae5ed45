"""The reduction against dense algebra on the full system: D, b, energy, v_free, and the way back to v⁺ and τ."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pinocchio as pin
import pytest
import urdf
from conditions import allowance, coulomb_error, dynamics
from fast import every, every_row, first_is_fast
from oracles import eliminate, full, outcome
from scenes import DT, LITERAL, Scene, fingers_scene, many_points, random_scene, reduced, standing_scene

from controllers.build import controller_from_snapshot, load_controller
from controllers.config.loading import parse
from controllers.grip import released
from controllers.robot.load import RobotSettings, load_robot, urdf_path
from idyn import LAWS, ContactPoint, Description, Flat, Ground, Options, Robot, State, make_law, predict
from idyn.certificate.certify import CERTIFIED
from idyn.contact.contacts import contacts_from_geometry, contacts_from_points
from idyn.errors import ConfigError, InputError, ModelError
from idyn.terms.dynamics import evaluate
from idyn.terms.reduction import recover


def floating(name):
    return lambda seed: many_points(random_scene(name, seed, n=3), 1 + seed % 3)


def panda(seed, *unactuated):
    """The arm on a fixed base has an empty reduced problem. Two points are on slanting surfaces, one against the forearm."""
    path = urdf_path("example-robot-data:panda_description/urdf/panda.urdf", Path())
    robot, rng = Robot.from_urdf(path, base="fixed", unactuated=unactuated), np.random.default_rng(seed)
    q = robot.integrate(robot.neutral(), 0.7 * rng.normal(size=robot.nv))
    normals = rng.normal(size=(3, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    points = rng.normal(size=(3, 3))
    at = contacts_from_points(robot, ("panda_link7", "panda_link5", "panda_hand"), points, normals, np.ones(3), np.zeros(3))
    others = np.array([0, 0, robot.joint_of_frame("panda_link4")])
    contacts = msgspec.structs.replace(at, others=others, gaps=rng.uniform(-1e-4, 1e-3, 3))
    state = State(q=q, v=rng.normal(size=robot.nv))
    return Scene(robot=robot, state=state, contacts=contacts, q_ddot=10 * rng.normal(size=robot.na))


def fingers(seed):
    """Two movable bodies in contact with one another."""
    rng = np.random.default_rng(seed)
    scene = fingers_scene((5.0, -3.0))
    return msgspec.structs.replace(scene, state=State(q=0.01 * rng.normal(size=5), v=rng.normal(size=5)))


def loose_knee(seed):
    """A walker with a floating base and an unactuated knee."""
    scene = random_scene("quadruped", seed, n=4)
    robot = Robot(Description(urdf=scene.robot.description.urdf, unactuated=("LF_Y_3",)))
    return msgspec.structs.replace(scene, robot=robot, q_ddot=scene.q_ddot[:11])


MECHANISMS = {
    "solo12": floating("solo12"),
    "quadruped": floating("quadruped"),
    "panda": panda,
    "panda, loose joints": lambda seed: panda(seed, "panda_joint2", "panda_joint5", "panda_joint7"),
    "fingers": fingers,
    "loose knee": loose_knee,
}
SIZES = {"solo12": (12, 6), "panda": (9, 0), "panda, loose joints": (6, 3), "fingers": (2, 3), "loose knee": (11, 7)}


@every("name", SIZES)
def test_joints_are_split_into_actuated_and_unactuated(name):
    robot = MECHANISMS[name](0).robot
    assert (robot.na, robot.nu) == SIZES[name]
    np.testing.assert_array_equal(np.sort(np.r_[robot.tree.a, robot.tree.u]), np.arange(robot.nv))


@every("name", MECHANISMS)
def test_reduction_matches_elimination_from_the_full_system_and_recover_leads_back(name):
    """M and h; D and b of [ZD Eq. 63], and the motion without impulses; Y = J_u L⁻ᵀ and the energy gradient of MATHEMATICS §2
    and §3.3, with a Cholesky factor of numpy; v⁺ and τ for arbitrary impulses, against one dense solve for both."""
    for seed in range(5):
        scene = MECHANISMS[name](seed)
        robot, v = scene.robot, scene.state.v
        f = full(robot, scene.state, scene.contacts)
        u, a = f.u, f.a
        terms = robot.terms(scene.state.q, v)
        np.testing.assert_allclose(terms.M, f.M, atol=1e-11 * np.abs(f.M).max())
        np.testing.assert_array_equal(terms.M, terms.M.T)
        np.testing.assert_allclose(terms.h, f.h, atol=1e-11 * np.abs(f.h).max())
        D, b, v_free, _ = eliminate(f, scene.q_ddot, DT)
        b[2::3] += allowance(scene.contacts.gaps, DT)
        law, dynamics = reduced(scene)
        np.testing.assert_allclose(law.Y @ law.Y.T, D, atol=1e-10 * max(1, np.abs(D).max()))
        np.testing.assert_allclose(law.b, b, atol=1e-10 * np.abs(b).max())
        np.testing.assert_allclose(dynamics.v_free, v_free, atol=1e-10 * np.abs(v_free).max())
        np.testing.assert_array_equal(law.mu, scene.contacts.mu)
        assert law.Y.shape == (3 * len(scene.contacts), len(u))
        L = np.linalg.cholesky(f.M[np.ix_(u, u)])
        np.testing.assert_allclose(dynamics.L, L, atol=1e-11 * np.abs(L).max(initial=1))
        np.testing.assert_allclose(law.Y, np.linalg.solve(L, f.Ju.T).T, atol=1e-10 * np.abs(law.Y).max(initial=1))
        v_a = f.v[a] + DT * scene.q_ddot
        free = f.v[u] - DT * np.linalg.solve(f.M[np.ix_(u, u)], f.M[np.ix_(u, a)] @ scene.q_ddot + f.h[u])
        energy = f.Ju @ (free + np.linalg.solve(f.M[np.ix_(u, u)], f.M[np.ix_(u, a)] @ v_a))
        np.testing.assert_allclose(law.energy, energy, atol=1e-10 * np.abs(energy).max(initial=1))
        p = np.random.default_rng(seed).normal(size=3 * len(scene.contacts))
        v_plus, tau = np.empty(robot.nv), np.empty(robot.na)
        recover(dynamics, p, v_plus, tau, np.empty(0))
        v_expected, tau_expected = outcome(f, scene.q_ddot, DT, p)
        np.testing.assert_allclose(v_plus, v_expected, atol=1e-10 * np.abs(v_expected).max())
        np.testing.assert_allclose(tau, tau_expected, atol=1e-9 * np.abs(tau_expected).max())
        np.testing.assert_allclose(v_plus[a], v[a] + DT * scene.q_ddot, atol=1e-15)


def test_last_forces_accept_any_dtype_and_need_one_row_per_contact():
    scene = standing_scene("quadruped")
    given = scene.robot, scene.state, scene.contacts
    options = {"dt": DT, "ground": Ground.rigid(relaxation=0.02, memory=0.01)}
    expected = evaluate(*given, **options, last=np.ones((4, 3))).dynamics.given.last.copy()
    np.testing.assert_array_equal(evaluate(*given, **options, last=np.ones((4, 3), ">f8")).dynamics.given.last, expected)
    with pytest.raises(InputError, match=r"^last: expected shape \(4, 3\), got \(3, 3\)"):
        evaluate(*given, **options, last=np.ones((3, 3)))


@every_row(
    (0.0, 0.0, np.inf, 0.0),
    (1e-3, 0.0, 0.05, 1.0),
    (-1e-3, 0.0, np.inf, -1.0),
    (-1e-3, 0.0, 0.05, -0.05),
    (-1e-5, 0.0, 0.05, -0.01),
    (9e-6, 1e-5, 0.05, 0.0),
    (-9e-6, 1e-5, 0.05, 0.0),
    (1.1e-5, 1e-5, 0.05, 0.011),
)
def test_gaps_become_allowed_closing_speeds(gap, noise, recovery, speed):
    """Only the normal row is touched; the noise floor and the recovery speed act as the settings say."""
    scene = random_scene("quadruped", 0, n=1)
    c = scene.contacts
    there, zero = (msgspec.structs.replace(scene, contacts=msgspec.structs.replace(c, gaps=np.array([g]))) for g in (gap, 0.0))
    law, _ = reduced(there, Ground.rigid(noise=noise, recovery_speed=recovery))
    zero, _ = reduced(zero)
    np.testing.assert_allclose(law.b - zero.b, [0, 0, speed], atol=1e-13)


# -- joints with several degrees of freedom and a motor for each -------------------------------------------------------


MASSES = {"top": 4.0, "platform": 1.0, "skid": 1.0, "stick": 0.5}
TABLE = urdf.robot(
    "table",
    *[urdf.link(name, m, (0.02, 0.03, 0.04, 0.001, 0, 0.002), (0.01, 0.02, -0.03)) for name, m in MASSES.items()],
    urdf.joint("hexapod", "top", "platform", kind="floating", at=(0.3, 0, -0.2)),
    urdf.joint("slide", "top", "skid", axis="0 0 1", kind="planar", at=(-0.3, 0.2, -0.2)),
    urdf.joint("hinge", "top", "stick", axis="0 1 0", at=(-0.3, -0.2, -0.2), limits=(-1, 1, 20, 3)),
)
"""A table on three legs, of which one has six motors, one three, and one a single one."""

HEXAPOD, SLIDE = [f"hexapod.{k}" for k in range(6)], [f"slide.{k}" for k in range(3)]


def table(**changes):
    contact = tuple(ContactPoint(frame=frame, offset=(0.0, 0.0, -0.3)) for frame in ("platform", "skid", "stick"))
    return Robot(Description(**{"urdf": TABLE, "contact": contact, "actuated": ("hexapod", "slide")} | changes))


def somewhere(robot, seed, size=0.2):
    rng = np.random.default_rng(seed)
    q = robot.integrate(robot.neutral(), size * rng.normal(size=robot.nv))
    return State(q=q, v=size * rng.normal(size=robot.nv))


def test_degrees_of_freedom_have_names():
    robot = table(tau_max={"hexapod.2": 70.0, "slide.0": 8.0}, armature={"slide.2": 0.01})
    assert set(robot.joint_names) == {*HEXAPOD, *SLIDE, "hinge"}
    assert (robot.nq, robot.nv, robot.na, robot.nu) == (7 + 7 + 4 + 1, 16, 10, 6)
    model = pin.buildModelFromXML(TABLE, pin.JointModelFreeFlyer())
    columns = {name: model.joints[model.getJointId(name)].idx_v for name in ("hexapod", "slide", "hinge")}
    for name, column in zip(robot.joint_names, robot.tree.a, strict=True):
        joint, _, degree = name.partition(".")
        assert column == columns[joint] + int(degree or 0)
    limits = dict(zip(robot.joint_names, robot.limits.tau_max, strict=True))
    assert (limits["hexapod.2"], limits["slide.0"], limits["hinge"], limits["slide.1"]) == (70.0, 8.0, 20.0, np.inf)
    M = table().terms(robot.neutral(), np.zeros(16)).M
    more = robot.terms(robot.neutral(), np.zeros(16)).M - M
    assert more[columns["slide"] + 2, columns["slide"] + 2] == pytest.approx(0.01)
    assert np.count_nonzero(np.abs(more) > 1e-12) == 1


def test_joints_of_several_degrees_are_unactuated_unless_named():
    assert table(actuated=()).joint_names == ("hinge",)
    assert set(table(unactuated=("slide.2", "hinge")).joint_names) == {*HEXAPOD, *SLIDE[:2]}
    assert table(unactuated=("hexapod",)).na == 4


@every_row(
    ({"actuated": ("slid",)}, "actuated: .*'slid'.*slide"),
    ({"actuated": ("hinge",)}, "actuated: no joint of several degrees of freedom named 'hinge'"),
    ({"unactuated": ("slide.3",)}, "unactuated: .*'slide.3'.*slide"),
    ({"tau_max": {"slide": 3.0}}, "tau_max: .*'slide'.*slide.0"),
    ({"armature": {"hexapod": 0.1}}, "armature: .*'hexapod'.*hexapod"),
)
def test_unknown_names_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        table(**changes)


@every("seed", range(10))
def test_joint_errors_are_the_shortest_on_the_manifold(seed):
    robot = table()
    model = pin.buildModelFromXML(TABLE, pin.JointModelFreeFlyer())
    q, wanted = somewhere(robot, seed, 1.0).q, somewhere(robot, seed + 100, 1.0).q
    angles = robot.joint_angles(wanted)
    there = robot.with_joint_angles(q, angles)
    np.testing.assert_allclose(there[:7], q[:7], rtol=0, atol=0)  # what is not actuated stays
    np.testing.assert_allclose(pin.difference(model, wanted, there)[6:], 0, atol=1e-9)
    error = robot.joint_error(robot.joint_angles(q), angles)
    np.testing.assert_allclose(error, pin.difference(model, q, there)[robot.tree.a], atol=1e-9)
    step = np.zeros(robot.nv)
    step[robot.tree.a] = error
    np.testing.assert_allclose(pin.difference(model, robot.integrate(q, step), there), 0, atol=1e-9)
    for axes in (HEXAPOD[3:], SLIDE[2:]):
        assert np.linalg.norm(error[[robot.joint_names.index(name) for name in axes]]) <= np.pi + 1e-9


@every("law", [law for law in LAWS if law != "mujoco"])  # it supports joints with one axis only
@every("seed", first_is_fast(range(5), 2))
def test_predictions_are_certified_and_match_the_full_system(law, seed):
    robot = table(unactuated=("slide.1",) if seed % 2 else ())
    state = somewhere(robot, seed, 0.05)
    contacts = contacts_from_geometry(robot, state.q, Flat(float(robot.place(state.q)[1][:, 2].min()) - 0.3), margin=np.inf)
    contacts = contacts.take(np.arange(2 if law == "enumeration" else 3))
    demand = np.random.default_rng(seed).normal(size=robot.na)
    answer = predict(robot, state, contacts, demand, law=make_law(law), dt=DT, options=Options.paper(ground=LITERAL))
    assert answer.status.certified, answer.status
    assert answer.residuals.worst < CERTIFIED
    f = full(robot, state, contacts)
    scale = 1 + np.abs(answer.p).max(initial=0.0) + np.abs(answer.tau).max()
    assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-10 * scale
    if answer.demand_change == 0.0:
        v_plus, tau = outcome(f, demand, DT, answer.p)
        np.testing.assert_allclose(answer.v_plus, v_plus, atol=1e-9 * scale)
        np.testing.assert_allclose(answer.tau, tau, atol=1e-7 * scale)
    if law == "coulomb":
        assert coulomb_error(f, answer.p, answer.v_plus, contacts.mu, allowance(contacts.gaps, DT)) < 1e-8


def test_a_planar_direction_that_is_not_normalised_is_refused():
    robot = table()
    q = robot.neutral()
    start = int(robot.tree.unit_spans[-1, 0])
    q[start] = 1.1
    with pytest.raises(InputError, match=r"\(cos, sin\)"):
        predict(robot, State(q=q, v=np.zeros(16)), contacts_from_geometry(robot, q, Flat(-9.0), margin=0.0),
                np.zeros(10), law=make_law("coulomb"), dt=DT)  # fmt: skip


@every("axis", ['<axis xyz="1 0 0"/>', ""])
def test_a_planar_joint_about_another_axis_is_refused_by_name(axis):
    """Pinocchio takes every planar joint's axis for z."""
    with pytest.raises(ModelError, match=r"slide: axis: .* xy plane"):
        Robot(Description(urdf=TABLE.replace('<axis xyz="0 0 1"/>', axis)))
    straight = table().terms(table().neutral(), np.zeros(16)).axes
    assert straight[list(table().tree.dof_names).index("slide.2"), 5] == pytest.approx(1.0)


# -- armature ----------------------------------------------------------------------------------------------------------


ROBOTS = ("quadruped", "solo12", "a1", "go2")


def some_state(robot, seed=0):
    rng = np.random.default_rng(seed)
    return robot.integrate(robot.neutral(), rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


@every("name", ROBOTS)
def test_armature_adds_to_the_kinetic_energy(name):
    bare = load_robot(name)[0].variant(armature=0.0)
    q, v = some_state(bare, 3)
    more = bare.variant(armature=0.02).energy(q, v) - bare.energy(q, v)
    assert more == pytest.approx(0.5 * 0.02 * (v[bare.tree.a] ** 2).sum(), rel=1e-9)


@every("name", ROBOTS)
def test_mass_matrix_and_recursive_newton_euler_agree(name):
    """M v̇ + h = rnea with rotors: two algorithms that share no code."""
    robot, _ = load_robot(name)
    robot = robot.variant(armature=0.01)
    q, v = some_state(robot, 1)
    acceleration = np.random.default_rng(2).normal(size=robot.nv)
    terms = robot.terms(q, v)
    np.testing.assert_allclose(terms.M @ acceleration + terms.h, robot.inverse_dynamics(q, v, acceleration), atol=1e-11)


def test_energy_is_kinetic_plus_potential():
    robot = load_robot("solo12")[0].variant(armature=0.0)
    q, v = some_state(robot, 4)
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    data = model.createData()
    expected = pin.computeKineticEnergy(model, data, q, v) + pin.computePotentialEnergy(model, data, q)
    assert robot.energy(q, v) == pytest.approx(expected, rel=1e-12)


def test_shipped_robots_their_snapshots_and_released_joints_have_armature():
    assert load_robot("quadruped")[0].description.armature == {}
    assert set(load_robot("solo12")[0].description.armature.values()) == {0.00036207}
    go2 = load_robot("go2")[0].description.armature
    assert (go2["FL_hip_joint"], go2["RR_calf_joint"]) == (0.0045, 0.0165)
    first = load_controller("go2")
    second = controller_from_snapshot(json.loads(json.dumps(first.snapshot())))
    assert second.robot.description.armature == first.robot.description.armature
    q, v = some_state(first.robot)
    assert first.robot.terms(q, v).M.tobytes() == second.robot.terms(q, v).M.tobytes()
    robot = load_robot("quadruped")[0].variant(armature=0.01)
    free = released(robot, ["LF_X_1"])
    assert (free.na, free.description.armature) == (11, robot.description.armature)


def test_invalid_armature_is_refused_by_name():
    robot, _ = load_robot("quadruped")
    with pytest.raises(InputError, match=r"armature: no degree of freedom named 'LF_X1' \(nearest: LF_X_1"):
        robot.variant(armature={"LF_X1": 0.01})
    with pytest.raises(InputError, match=r"armature.LF_X_1: expected a finite number ≥ 0, got inf"):
        robot.variant(armature={"LF_X_1": np.inf})
    with pytest.raises(InputError, match=r"armature"):
        Robot(Description(urdf=robot.description.urdf, armature={"root_joint": 0.1}))
    with pytest.raises(ConfigError, match=r"robots\.x\.armature"):
        parse({"urdf": "x.urdf", "armature": -0.1}, RobotSettings, "robots.x")
