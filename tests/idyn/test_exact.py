"""Exact checks: Newton–Euler, weight, slip onset, zero forces; a moving robot against Pinocchio's constrained dynamics."""

import msgspec
import numpy as np
import pinocchio as pin
import pytest
import urdf
from fast import every, every_row, fast
from scenes import DT, LITERAL, each_walker, limitless, predict_scene, random_scenes, standing_scene, turned, walker

from controllers.robot.load import load_robot
from idyn import LAWS, Consistency, Flat, Ground, InputError, Options, Robot, Status, contacts_from_geometry, make_law, predict
from idyn.certificate.certify import CERTIFIED, Conditions
from idyn.contact.contacts import contacts_from_points
from idyn.model.description import ContactPoint, Description
from idyn.terms.dynamics import contact_jacobian
from idyn.types import Selection, State

CLAIM_NOTHING = (Conditions.FREE, Conditions.GIVEN)
RIGID_LAWS = [law for law in LAWS if make_law(law).conditions not in (*CLAIM_NOTHING, Conditions.COMPLIANT, Conditions.SOFT)]
OPTIONS = Options.paper(ground=LITERAL)
ROBOTS = ("go2", "a1", "solo12", "quadruped", "talos")
SPEEDS = (0.4, 1.0, 1.5)
OFF = {"consistency": Consistency.OFF}
DRIVE = urdf.joint("drive", "body", "shoe", axis="1 0 0", kind="prismatic", limits=(-1, 1, 1e6, 100))
SLED = urdf.robot("sled", urdf.link("body", 30.0, 1.0), urdf.link("shoe", 2.0, 0.1), DRIVE)
"""A body on four feet, joined to them by a motor along x; both centres of mass are in one plane, just above the ground."""


def solve(scene, law, options=OPTIONS, *, settings=None, **more):
    return predict_scene(scene, make_law(law, **(settings or {})), options, **more)


@every("law", fast(LAWS, "coulomb", "cone", "sap", "contact-free"))
@each_walker
def test_recursive_newton_euler_with_contact_forces_gives_the_torque(name, law):
    """RNEA at the predicted acceleration, with armature and less the contact forces: τ on the joints, zero on the base."""
    for scene in random_scenes(name, 20):
        answer = solve(scene, law)
        robot, q, v = scene.robot, scene.state.q, scene.state.v
        acceleration = (answer.v_plus - v) / DT
        needed = robot.inverse_dynamics(q, v, acceleration)
        model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
        data = model.createData()
        pin.forwardKinematics(model, data, q)
        wrenches = pin.StdVec_Force()
        wrenches.extend([pin.Force.Zero() for _ in range(model.njoints)])
        for i, body in enumerate(scene.contacts.bodies):
            point, force = scene.contacts.points[i], answer.force[i]
            wrenches[int(body)] += data.oMi[int(body)].actInv(pin.Force(force, np.cross(point, force)))
        with_forces = pin.rnea(model, data, q, v, acceleration, wrenches)
        rotors = [robot.description.armature.get(name, 0.0) for name in robot.joint_names]
        with_forces[robot.tree.a] += rotors * acceleration[robot.tree.a]
        scale = 1 + np.abs(needed).max() + np.abs(answer.force).max(initial=0)
        np.testing.assert_allclose(with_forces[robot.tree.a], answer.tau, atol=1e-9 * scale)
        np.testing.assert_allclose(with_forces[robot.tree.u], 0, atol=1e-9 * scale)


@every("selection", Selection)
@every("law", RIGID_LAWS)
@each_walker
def test_at_rest_the_feet_carry_the_weight(name, law, selection):
    scene = standing_scene(name)
    answer = solve(scene, law, Options.paper(selection=selection, ground=LITERAL))
    assert answer.normal_force.sum() == pytest.approx(scene.robot.total_mass * 9.81, rel=1e-9)
    np.testing.assert_allclose(answer.force.sum(axis=0), [0, 0, scene.robot.total_mass * 9.81], atol=1e-7)
    com = scene.robot.center_of_mass(scene.state.q)
    moment = np.cross(scene.contacts.points - com, answer.force).sum(axis=0)
    np.testing.assert_allclose(moment, 0, atol=1e-7)
    np.testing.assert_allclose(answer.v_plus, 0, atol=1e-10)


@every("law", LAWS)
@each_walker
def test_without_weight_motion_and_demand_all_forces_are_zero(name, law):
    for n in (0, 4):
        scene = standing_scene(name, n=n)
        weight = scene.robot.terms(scene.state.q, np.zeros(scene.robot.nv)).h.copy()
        answer = solve(scene, law, applied=weight)
        assert answer.status.certified
        assert n or (answer.law, answer.status) == (law, Status.SOLVED)
        for nothing in (answer.tau, answer.p, answer.v_plus):
            np.testing.assert_allclose(nothing, 0, atol=1e-14)


@each_walker
def test_in_flight_every_law_gives_free_fall(name):
    scene = standing_scene(name)
    v = np.zeros(18)
    v[2] = 0.1
    far = msgspec.structs.replace(scene.contacts, gaps=np.full(4, 0.002))
    free = solve(scene, "contact-free", state=State(q=scene.state.q, v=v))
    for law in LAWS:
        answer = solve(scene, law, state=State(q=scene.state.q, v=v), contacts=far)
        np.testing.assert_allclose(answer.p, 0, atol=CERTIFIED)
        np.testing.assert_allclose(answer.tau, free.tau, atol=CERTIFIED / DT)  # levers are shorter than a metre
    assert free.v_plus[2] == pytest.approx(0.1 - 9.81 * DT, abs=1e-12)


def sled_scene(demand, mu, law, **settings):
    """Body and foot move relative to one another: the shoe, on the ground, is to accelerate by `demand` against the body."""
    robot = Robot(Description(urdf=SLED, contact=(ContactPoint(frame="shoe"),)))
    corners = np.array([[x, y, 0.0] for x in (-0.5, 0.5) for y in (-0.4, 0.4)])
    q = robot.neutral()
    one = contacts_from_points(robot, ("shoe",), corners[:1], np.array([[0, 0, 1.0]]), np.array([mu]), np.zeros(1))
    names = "bodies", "others", "normals", "tangents", "mu", "gaps", "radii"
    fields = {name: np.repeat(getattr(one, name), 4, axis=0) for name in names}
    contacts = msgspec.structs.replace(one, **fields, points=corners, keys=tuple("abcd"))
    state = State(q=q, v=np.zeros(robot.nv))
    return predict(robot, state, contacts, np.array([demand]), law=make_law(law, **settings), dt=DT, options=OPTIONS)


@every("edges", [4, 8])
@every("mu", [0.1, 0.6])
def test_slip_onset_of_the_accelerating_block(edges, mu):
    """The motor throws a body of M = 30 kg backwards off a shoe of m = 2 kg with relative acceleration a. While the shoe
    sticks, friction M a ≤ μ (M + m) g; beyond a* = μ (M + m) g / M it slips, and friction stays at its limit."""
    M, m, g = 30.0, 2.0, 9.81
    onset = mu * (M + m) * g / M
    for a in (0.5 * onset, 0.999 * onset, 1.001 * onset, 2 * onset):
        answer = sled_scene(a, mu, "coulomb", edges=edges)
        assert answer.status.ok
        np.testing.assert_allclose(answer.normal_force.sum(), (M + m) * g, rtol=1e-9)
        friction, body = answer.force[:, 0].sum(), answer.v_plus[0] / DT
        shoe = body + a
        if a < onset:
            np.testing.assert_allclose([shoe, body], [0, -a], atol=1e-6)
            assert friction == pytest.approx(-M * a, rel=1e-6)
        else:
            assert friction == pytest.approx(-mu * (M + m) * g, rel=1e-6)
            assert shoe == pytest.approx((M * a + friction) / (M + m), rel=1e-6)
            assert shoe > 0
        assert answer.tau[0] == pytest.approx(m * shoe - friction, rel=1e-6)


def test_without_a_limit_the_block_never_slips_and_the_convex_law_gives_no_traction():
    """Least kinetic energy with the joint's motion prescribed is the momentum the system had: none, so no friction, and the
    shoe slips at any acceleration. That is the law's own error, not the program's."""
    answer = sled_scene(100.0, 0.1, "no-slip")
    assert (answer.v_plus[0] / DT, answer.force[:, 0].sum()) == (pytest.approx(-100.0), pytest.approx(-3000.0))
    for a in (0.1, 1.0, 10.0):
        answer = sled_scene(a, 0.6, "convex")
        assert answer.status.ok
        np.testing.assert_allclose(answer.v_plus[0] / DT, -2 * a / 32, rtol=1e-6)
        assert abs(answer.force[:, 0].sum()) < 1e-5
        np.testing.assert_allclose(answer.normal_force.sum(), 32 * 9.81, rtol=1e-9)


@every(("law", "turn"), [("coulomb", np.pi / 2), ("convex", np.pi / 2), ("convex-infinite", 1.0)])
@each_walker
def test_turned_tangents_give_the_same_motion(name, law, turn):
    """Quarter turns map the square of directions to itself; without a cone any turn keeps v⁺."""
    rng = np.random.default_rng(0)
    for scene in random_scenes(name, 40):
        contacts = turned(scene.contacts, turn * rng.integers(0, 7, len(scene.contacts)))
        expected, found = solve(scene, law).v_plus, solve(scene, law, contacts=contacts).v_plus
        np.testing.assert_allclose(found, expected, atol=1e-7 if "convex" in law else 1e-9)


def test_robots_do_not_share_work_arrays():
    robot, q = walker("solo12")
    M = robot.terms(q, np.zeros(18)).M.copy()
    limitless("solo12").terms(robot.neutral(), np.zeros(18))
    np.testing.assert_array_equal(robot.terms(q, np.zeros(18)).M, M)


def constrained(robot):
    """Model, data, and Pinocchio's point contacts of all contact places, with which their points do not accelerate."""
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    model.armature = np.array([robot.description.armature.get(name, 0.0) for name in robot.tree.dof_names])
    found = []
    for joint, offset in zip(robot.spheres.joints.tolist(), robot.spheres.offsets, strict=True):
        place = pin.SE3(np.eye(3), offset)
        found.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, joint, place, 0, pin.SE3.Identity()))
    data, parts = model.createData(), [each.createData() for each in found]
    pin.initConstraintDynamics(model, data, found, parts)
    return model, data, found, parts


def passing(robot, stance, speed, rng):
    """A random state whose contact points rest while the base moves at `speed` [m/s], and the contacts."""
    step = np.r_[np.zeros(6), 0.05 * rng.normal(size=robot.nv - 6)]
    q = robot.integrate(stance, step)
    contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
    contacts = msgspec.structs.replace(contacts, gaps=np.zeros(len(contacts)), mu=np.full(len(contacts), np.inf))
    J = contact_jacobian(robot, robot.terms(q, np.zeros(robot.nv)), contacts)
    v = rng.normal(size=robot.nv) * np.r_[np.ones(3), 0.5 * np.ones(robot.nv - 3)]
    v -= np.linalg.pinv(J, rcond=1e-8) @ (J @ v)
    return State(q=q, v=v * speed / np.linalg.norm(v[:3])), contacts


def forces_of(judge, robot, state, rng):
    """Joint accelerations [rad/s²] (na), whether every foot presses, and Σ f_N [N], of Pinocchio under random torques."""
    model, data, contacts, parts = judge
    tau = np.r_[np.zeros(6), rng.normal(size=robot.na)]
    tau[6:] += pin.rnea(model, data, state.q, state.v, np.zeros(robot.nv))[6:]
    proximal = pin.ProximalSettings(1e-12, 1e-10, 50)
    motion = np.array(pin.constraintDynamics(model, data, state.q, state.v, tau, contacts, parts, proximal))
    rotations = [data.oMi[each.joint1_id].rotation for each in contacts]
    forces = [R @ each.contact_force.linear for R, each in zip(rotations, parts, strict=True)]
    feet = np.bincount(robot.spheres.joints, [f[2] for f in forces])[np.unique(robot.spheres.joints)]
    return motion[robot.tree.a], feet.min() > 0.0, float(feet.sum())


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.long)])
@every("name", fast(ROBOTS, ROBOTS[0]))
def test_forces_are_those_of_pinocchios_constrained_dynamics(name, count):
    """Σ f_N at each speed; without the drift the error is a part of the weight. Points replace the spheres of the feet,
    below their centres: Pinocchio has no rolling contact."""
    robot, stance = load_robot(name)
    places = [(point, np.array(point.offset) - [0.0, 0.0, point.radius]) for point in robot.description.contact]
    robot = robot.variant(contact=tuple(msgspec.structs.replace(p, radius=0.0, offset=tuple(lowest)) for p, lowest in places))
    judge, rng = constrained(robot), np.random.default_rng(0)
    print()
    for speed in SPEEDS:
        errors, literal, tried, others = [], [], 0, 0
        while len(errors) < count // 3:
            tried += 1
            assert tried < 100 * count
            state, contacts = passing(robot, stance, speed, rng)
            demand, presses, total = forces_of(judge, robot, state, rng)
            if not presses:
                continue
            asked = {"law": "no-slip", "dt": 1e-3}
            answer = predict(robot, state, contacts, demand, options=Options(**OFF), **asked)
            if answer.law != "no-slip":  # a corner of a sole would have to pull, or rounding
                others += 1
                continue
            errors.append(abs(answer.normal_force.sum() - total) / robot.weight)
            old = predict(robot, state, contacts, demand, options=Options(**OFF, ground=Ground(drift=False)), **asked)
            literal.append(abs(old.normal_force.sum() - total) / robot.weight)
        median, most = np.median(literal), np.quantile(literal, 0.95)
        print(f"{name} {speed} m/s, {len(errors)} states: error of Σ f_N at most {max(errors):.1e} of the weight; ", end="")
        print(f"at J v⁺ {median:.1%}, 95 %: {most:.1%}")
        assert max(errors) < (1e-3 if name == "talos" else 1e-9)  # the rows of soles depend on each other
        assert name == "talos" or others <= 0.02 * len(errors)
        assert median > {0.4: 0.004, 1.0: 0.05, 1.5: 0.1}[speed]


def pendulum(radius=0.1, length=0.3, place=True):
    """A two-wheeled pendulum; its centre of mass is `length` above the axle."""
    parts = [urdf.link("body", 5.0, (0.1, 0.08, 0.05), length)]
    for side, y in (("left", 0.2), ("right", -0.2)):
        wheel, limits = f"{side}_wheel", (-9, 9, 20, 50)
        parts.append(urdf.link(wheel, 0.5, (0.0015, 0.002, 0.0015)))
        parts.append(urdf.joint(side, "body", wheel, axis="0 1 0", at=(0, y, 0), kind="continuous", limits=limits))
    contact = [ContactPoint(frame=f"{side}_wheel", radius=radius, mu=1.0) for side in ("left", "right")] if place else []
    return Robot(Description(urdf=urdf.robot("pendulum", *parts), contact=tuple(contact)))


@every("dt", [1e-3, 1e-5])
@every_row((0.0, 1.0, 2.0, 0.0), (0.1, 1.0, 2.0, 10.0), (0.1, -1.0, 2.0, 10.0), (0.1, 2.0, 4.0, 0.0))
def test_a_two_wheeled_pendulum_presses_as_lagranges_equations_say(tilt, rate, speed, demand, dt):
    """Wheels roll: their contact point moves on with the axle. [M + m + J/r², M l cos θ; …] by hand."""
    r, height, mass, wheels, spin, inertia, g = 0.1, 0.3, 5.0, 1.0, 0.004, 0.08, 9.81
    robot = pendulum()
    q, v = robot.neutral(), np.zeros(robot.nv)
    q[2], q[3:7] = r, [0.0, np.sin(tilt / 2), 0.0, np.cos(tilt / 2)]
    v[:3] = pin.rpy.rpyToMatrix(0.0, tilt, 0.0).T @ [speed, 0.0, 0.0]
    v[4], v[6:] = rate, speed / r - rate
    contacts = contacts_from_geometry(robot, q, Flat(), margin=0.002)
    answer = predict(robot, State(q=q, v=v), contacts, np.full(2, demand), law="coulomb", dt=dt)
    coupled = mass * height * np.cos(tilt)
    rolling, turning = mass + wheels + spin / r**2, inertia + mass * height**2
    A = np.array([[rolling, coupled, -1.0 / r], [coupled, turning, 1.0], [1.0 / r, -1.0, 0.0]])
    swing = mass * height * np.sin(tilt)
    _, turn, torque = np.linalg.solve(A, [swing * rate**2, g * swing, demand])
    pressed = (mass + wheels) * g - mass * height * (np.cos(tilt) * rate**2 + np.sin(tilt) * turn)
    assert answer.normal_force.sum() == pytest.approx(pressed, rel=1e-7)
    assert answer.tau.sum() == pytest.approx(torque, abs=1e-7)


def test_a_wheel_is_told_by_its_place_and_refused_as_a_frame():
    """A frame has no radius, and a rolling wheel without one loses its load."""
    robot, bare = pendulum(), pendulum(place=False)
    points, normals = np.array([[0.0, 0.2, 0.0]]), np.array([[0.0, 0.0, 1.0]])
    told = points, normals, np.ones(1), np.zeros(1)
    assert contacts_from_points(robot, ["left_wheel"], *told).radii.tolist() == [0.1]
    assert contacts_from_points(bare, ["body"], *told).radii.tolist() == [0.0]
    assert bare.wheel_frames == {"left", "right", "left_wheel", "right_wheel"}
    with pytest.raises(InputError, match=r"frame: expected a contact place of the robot, which has a radius: 'left_wheel'"):
        contacts_from_points(bare, ["left_wheel"], *told)
