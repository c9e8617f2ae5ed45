"""Bases far from the world's origin, as in UTM coordinates: answers are those near it, but for the rounding of contact points,
0.5 nm at 5500 km; up to a kilometre nothing changes."""

import pickle
from functools import lru_cache

import msgspec
import numpy as np
import pinocchio as pin
import pytest
import urdf
from fast import every, first_is_fast
from scenes import WALKERS, Scene, batch_of, walker
from scipy.spatial.transform import Rotation

import idyn
from idyn import ContactSet, Description, Flat, Options, Robot, Selection, State, contacts_from_geometry, load_robot, predict
from idyn.errors import FrameNotFound, InputError, ModelError
from idyn.model.frames import FAR, nearby
from idyn.model.urdf import with_counted_turns
from idyn.tasks import AngularMomentumTask, ComTask, FrameTask, TaskStack, predict_tasks
from idyn.terms.dynamics import contact_jacobian

DT = 1e-3
ORIGIN, UTM = np.zeros(3), np.array([4.5e5, 5.5e6, 2e3])
SAME = 1e-6
"""Largest difference of forces in weights, and of torques in weights at a metre. Points are off by 0.5 nm, levers by as much:
5e-10 of a weight for each weight of force, and at 1 rad/s 5e-10 m/s, a change of 5e-8 of gravity in a period of 1 ms."""

CASES = [("g1", "coulomb"), ("talos", "coulomb"), ("fivebar", "coulomb"), ("g1", "exact-cone"), ("talos", "convex")]
CASES += [("go2", law) for law in ("no-slip", "sap", "mujoco")] + [("fivebar", "no-slip")]

PARTS = ("q_ddot", "q", "v", "mu", "preferred")


def tick(name="go2", seed=0, speed=1.0, demand=20.0):
    """Robot with its feet near flat ground at a random state, with a random demand."""
    robot, stance = load_robot(name)
    rng = np.random.default_rng(seed)
    q = robot.integrate(stance, 0.02 * rng.normal(size=robot.nv))
    contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
    contacts = msgspec.structs.replace(contacts, gaps=np.abs(contacts.gaps) * (rng.uniform(size=len(contacts)) < 0.3))
    return robot, State(q=q, v=speed * rng.normal(size=robot.nv)), contacts, demand * rng.normal(size=robot.na)


def moved(state: State, contacts: ContactSet, offset) -> tuple[State, ContactSet]:
    """The same state and contacts at another place."""
    q = state.q.copy()
    q[:3] += offset
    return State(q=q, v=state.v), msgspec.structs.replace(contacts, points=contacts.points + offset)


@lru_cache(maxsize=8)
def unmoved(name="go2"):
    """A robot whose terms are computed where it is, as before there was a limit."""
    robot = load_robot(name)[0].twin()
    robot.floating = False
    return robot


def assert_same(one, other, weight):
    assert (one.status, one.law, one.rung) == (other.status, other.law, other.rung)
    np.testing.assert_allclose(one.force, other.force, rtol=0.0, atol=SAME * weight)
    np.testing.assert_allclose(one.tau, other.tau, rtol=0.0, atol=SAME * weight)
    assert one.residuals.worst < 2.0 * other.residuals.worst + 1e-11


def assert_equal(one, other):
    """To the last bit."""
    for field in ("tau", "force", "v_plus", "p"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert one.residuals == other.residuals


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "law"), first_is_fast(CASES))
def test_predictions_are_those_at_the_origin(name, law):
    """Without go2's state 6: there 1e-15 of the demand decides whether `no-slip` or its fallback answers, here as there."""
    for seed in (*range(6), *range(7, 11)):
        robot, state, contacts, q_ddot = tick(name, seed)
        here = predict(robot, state, contacts, q_ddot, law=law, dt=DT)
        there = predict(robot, *moved(state, contacts, UTM), q_ddot, law=law, dt=DT)
        assert_same(there, here, robot.weight)


def test_the_terms_of_the_caller_are_accepted_and_stay():
    robot, state, contacts, q_ddot = tick()
    state, contacts = moved(state, contacts, UTM)
    plain = predict(robot, state, contacts, q_ddot, law="coulomb", dt=DT)
    at = robot.terms(state.q, state.v)
    before = [np.array(each) for each in (at.M, at.h, at.axes, at.placements)]
    assert_equal(predict(robot, at, contacts, q_ddot, law="coulomb", dt=DT), plain)
    for each, kept in zip((at.M, at.h, at.axes, at.placements), before, strict=True):
        np.testing.assert_array_equal(each, kept)


@every("name", first_is_fast(["go2", "fivebar", "g1"]))
def test_terms_do_not_depend_on_those_before(name):
    """At the same place with another velocity, at one that changed in place, far away and back; against a new robot."""
    robot, state, _, _ = tick(name)
    q, rng = state.q.copy(), np.random.default_rng(1)
    for place, bend in ((0, 0.0), (0, 0.0), (0, 0.1), (1, 0.0), (1, 0.0), (1, 0.1), (0, 0.0), (0, 0.0)):
        q[:3], q[-1] = state.q[:3] + place * UTM, state.q[-1] + bend
        v = rng.normal(size=robot.nv)
        at, fresh = robot.terms(q, v), robot.twin().terms(q.copy(), v)
        for field in ("M", "h", "axes", "placements", "ends"):
            np.testing.assert_array_equal(getattr(at, field), getattr(fresh, field))


@every("wrong", [np.nan, np.inf])
def test_coordinates_that_are_not_finite_are_refused(wrong):
    robot, state, contacts, q_ddot = tick()
    state, contacts = moved(state, contacts, UTM)
    state.q[1] = wrong
    assert nearby(state.q) is state.q
    with pytest.raises(InputError, match=r"q\[1\]"):
        predict(robot, state, contacts, q_ddot, law="coulomb", dt=DT)


def test_members_of_a_batch_are_single_predictions():
    """Far and near ones in turn, each equal to `predict` bit by bit."""
    robot, _, _, _ = tick()
    ticks = [tick(seed=seed) for seed in range(6)]
    placed = [moved(state, contacts, UTM if k % 3 else ORIGIN) for k, (_, state, contacts, _) in enumerate(ticks)]
    demands = [q_ddot for *_, q_ddot in ticks]
    given = zip(placed, demands, strict=True)
    batch = batch_of([Scene(robot=robot, state=at, contacts=contacts, q_ddot=q_ddot) for (at, contacts), q_ddot in given])
    answers = idyn.predict_batch(robot, batch, law="coulomb", dt=DT, threads=1)
    for k, (each, contacts) in enumerate(placed):
        assert_equal(answers.member(k), predict(robot, each, contacts, demands[k], law="coulomb", dt=DT))


@pytest.mark.parametrize("selection", first_is_fast([Selection.FORCE, Selection.TORQUE]))
def test_derivatives_are_those_at_the_origin(selection):
    options = Options(selection=selection)
    for seed in range(4):
        robot, state, contacts, q_ddot = tick(seed=seed, speed=0.05, demand=2.0)
        found = []
        for offset in (ORIGIN, UTM):
            given = robot, *moved(state, contacts, offset), q_ddot
            answer = predict(*given, law="coulomb", dt=DT, options=options)
            found.append(idyn.derivatives(*given, answer, law="coulomb", options=options))
        here, there = found
        assert there.switches == here.switches
        for part in PARTS:
            for field in ("tau", "p", "v_plus"):
                one, other = (getattr(getattr(each, part), field) for each in (there, here))
                np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-6 * max(1.0, np.abs(other).max(initial=0.0)))


def test_tasks_are_those_at_the_origin():
    """Targets of frames and of the centre of mass are moved with the robot."""
    ahead, up = np.array([0.01, 0.0, 0.0]), np.array([0.0, 0.0, 0.02])
    for seed in range(4):
        robot, state, contacts, _ = tick(seed=seed, speed=0.3)
        pose = robot.frames.placement("FL_calf", state.q)
        com = robot.center_of_mass(state.q)
        found = []
        for offset in (ORIGIN, UTM):
            tasks = [
                ComTask(position=com + ahead + offset),
                AngularMomentumTask(),
                FrameTask(frame="FL_calf", position=pose.translation + up + offset, level=1),
            ]
            found.append(predict_tasks(robot, *moved(state, contacts, offset), TaskStack(tasks=tasks), law="coulomb", dt=DT))
        here, there = found
        assert_same(there.prediction, here.prediction, robot.weight)
        np.testing.assert_allclose(there.q_ddot, here.q_ddot, rtol=0.0, atol=1e-4)
        for one, other in zip(there.outcomes, here.outcomes, strict=True):
            assert one.met == other.met
            np.testing.assert_allclose(one.predicted, other.predicted, rtol=0.0, atol=1e-5)


def test_outcomes_are_those_at_the_origin():
    robot, state, contacts, q_ddot = tick()
    contacts = contacts.take(np.arange(1))
    tau = predict(robot, state, contacts, q_ddot, law="coulomb", dt=DT).tau
    here, there = (idyn.all_outcomes(robot, *moved(state, contacts, offset), tau, DT) for offset in (ORIGIN, UTM))
    assert (len(there.found), there.unique) == (len(here.found), here.unique)
    for one, other in zip(there.found, here.found, strict=True):
        np.testing.assert_allclose(one.v_plus, other.v_plus, rtol=0.0, atol=SAME)


# -- terms -------------------------------------------------------------------------------------------------------------


def test_terms_and_frames_far_away_are_in_the_world():
    """M and h do not depend on the place; axes are about the world's origin, placements and ends are there."""
    robot, state, contacts, _ = tick("fivebar")
    here = {name: np.array(value) for name, value in msgspec.structs.asdict(robot.terms(state.q, state.v)).items()}
    gaps, G = robot.closure_gaps(state.q)
    J = contact_jacobian(robot, robot.terms(state.q, state.v), contacts)
    energy, centroidal = robot.energy(state.q, state.v), robot.frames.centroidal(state.q, state.v)
    far, points = moved(state, contacts, UTM)
    there = robot.terms(far.q, far.v)
    np.testing.assert_allclose(contact_jacobian(robot, there, points), J, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(there.M, here["M"], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(there.h, here["h"], rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(there.ends, here["ends"] + UTM, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(there.placements[1:, 9:], here["placements"][1:, 9:] + UTM, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(there.placements[:, 9:], robot.place(far.q)[1], rtol=0.0, atol=2e-9)
    np.testing.assert_allclose(there.axes[:, :3] - np.cross(UTM, there.axes[:, 3:]), here["axes"][:, :3], rtol=0.0, atol=1e-8)
    for one, other in zip(robot.closure_gaps(far.q), (gaps, G), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    raised = robot.energy(far.q, far.v) - robot.weight * UTM[2]
    assert raised == pytest.approx(energy, abs=1e-6)
    found = robot.frames.centroidal(far.q, far.v)
    np.testing.assert_allclose(found.position, centroidal.position + UTM, rtol=0.0, atol=1e-8)
    for field in ("velocity", "angular", "matrix", "drift"):
        np.testing.assert_allclose(getattr(found, field), getattr(centroidal, field), atol=1e-10)
    robot, state, _, _ = tick()
    far, _ = moved(state, contacts_from_geometry(robot, state.q, Flat(), margin=np.inf), UTM)
    for axes in ("local", "local_world_aligned"):
        one, other = (robot.frames.drift("FL_calf", each.q, each.v, axes=axes) for each in (far, state))
        np.testing.assert_allclose(one, other, atol=1e-10)
    one, other = (robot.frames.momentum_matrix(each.q) for each in (far, state))
    np.testing.assert_allclose(one, other, atol=1e-10)


# -- up to the limit ---------------------------------------------------------------------------------------------------


def test_up_to_the_limit_nothing_changes():
    robot: Robot = load_robot("go2")[0]
    for offset, changes in ((0.0, False), (FAR - 1.0, False), (1.0 - FAR, False), (FAR + 1.0, True)):
        _, state, contacts, q_ddot = tick()
        state, contacts = moved(state, contacts, np.array([0.0, offset, 0.0]))
        assert (nearby(state.q) is not state.q) == changes
        terms = [np.array(each.terms(state.q, state.v).M) for each in (robot, unmoved())]
        assert (terms[0].tobytes() != terms[1].tobytes()) == changes
        if not changes:
            assert_equal(*(predict(each, state, contacts, q_ddot, law="coulomb", dt=DT) for each in (robot, unmoved())))


def test_a_near_state_after_a_far_one_gives_the_same_bits():
    robot, state, contacts, q_ddot = tick()
    first = predict(robot, state, contacts, q_ddot, law="coulomb", dt=DT)
    placements = np.array(robot.terms(state.q, state.v).placements)
    predict(robot, *moved(state, contacts, UTM), q_ddot, law="coulomb", dt=DT)
    assert_equal(predict(robot, state, contacts, q_ddot, law="coulomb", dt=DT), first)
    np.testing.assert_array_equal(robot.terms(state.q, state.v).placements, placements)
    np.testing.assert_array_equal(robot.origin, ORIGIN)


# -- frames, centre of mass and momentum -------------------------------------------------------------------------------


STEP = 1e-6


def moving(name, seed=0):
    robot, stance = walker(name)
    rng = np.random.default_rng(seed)
    return robot, robot.integrate(stance, 0.3 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


def difference(f, robot, q, v):
    """Derivative of f(q) along v."""
    return (f(robot.integrate(q, STEP * v)) - f(robot.integrate(q, -STEP * v))) / (2 * STEP)


@every("name", [*WALKERS, "go2"])
def test_velocities_are_the_derivatives_of_placements(name):
    robot, q, v = moving(name)
    for frame in robot.frames.names[1::7]:
        linear = difference(lambda q, frame=frame: robot.frames.placement(frame, q).translation, robot, q, v)
        ahead, behind = (robot.frames.placement(frame, robot.integrate(q, s * STEP * v)).rotation for s in (1, -1))
        angular = Rotation.from_matrix(ahead @ behind.T).as_rotvec() / (2 * STEP)
        np.testing.assert_allclose(robot.frames.velocity(frame, q, v), [*linear, *angular], atol=1e-7)
        turn, place = robot.frames.placement(frame, q)
        local, world = (robot.frames.velocity(frame, q, v, axes=axes) for axes in ("local", "world"))
        np.testing.assert_allclose([*turn @ local[:3], *turn @ local[3:]], [*linear, *angular], atol=1e-7)
        np.testing.assert_allclose(world, [*(linear + np.cross(place, angular)), *angular], atol=1e-7)


@every("axes", ["local_world_aligned", "local", "world"])
def test_the_drift_is_the_rate_of_the_velocity(axes):
    robot, q, v = moving("quadruped")
    for frame in robot.frames.names[1::7]:
        rate = difference(lambda q, frame=frame: robot.frames.velocity(frame, q, v, axes=axes), robot, q, v)
        np.testing.assert_allclose(robot.frames.drift(frame, q, v, axes=axes), rate, atol=1e-6)


@every("name", [*WALKERS, "go2"])
def test_centre_of_mass_and_momentum(name):
    robot, q, v = moving(name, 1)
    velocity = difference(robot.frames.center_of_mass, robot, q, v)
    np.testing.assert_allclose(robot.frames.center_of_mass_jacobian(q) @ v, velocity, atol=1e-7)
    momentum = robot.frames.momentum(q, v)
    np.testing.assert_allclose(momentum.linear, robot.total_mass * velocity, atol=1e-6)
    # rows of the free flyer in M v: the momentum in the base's frame, about the base's origin
    turn, generalised = Rotation.from_quat(q[3:7]).as_matrix(), (robot.terms(q, v).M @ v)[:6]
    linear, about_base = turn @ generalised[:3], turn @ generalised[3:]
    np.testing.assert_allclose(momentum.linear, linear, atol=1e-9)
    about_centre = about_base - np.cross(robot.frames.center_of_mass(q) - q[:3], linear)
    np.testing.assert_allclose(momentum.angular, about_centre, atol=1e-9)


def test_unknown_frames_and_wrong_sizes_are_named():
    robot, q, v = moving("quadruped")
    with pytest.raises(FrameNotFound, match="LF_FOT"):
        robot.frames.placement("LF_FOT", q)
    with pytest.raises(InputError, match=r"^q: expected an array of shape"):
        robot.frames.placement(robot.frames.names[1], q[:-1])
    with pytest.raises(InputError, match=r"^v: "):
        robot.frames.velocity(robot.frames.names[1], q, v[:-1])
    with pytest.raises(InputError, match=r"^axes: expected one of"):
        robot.frames.jacobian(robot.frames.names[1], q, axes="body")


# -- continuous joints -------------------------------------------------------------------------------------------------


CART = urdf.robot(
    "cart",
    *[
        urdf.link(name, 1.5, (0.02, 0.03, 0.04, 0.001, 0, 0.002), (0.1, 0.02, 0.03))
        for name in ("body", "wheel", "fork", "caster")
    ],
    urdf.joint("axle", "body", "wheel", '<limit effort="5" velocity="40"/>', axis="0 1 0", kind="continuous"),
    urdf.joint("steer", "body", "fork", axis="0 0 1", at=(0.3, 0, 0), limits=(-1, 1, 2, 3)),
    urdf.joint("roll", "fork", "caster", axis="0.6 0.8 0", kind="continuous"),
)


@pytest.fixture(scope="module")
def cart():
    return Robot(Description(urdf=CART))


@every("turns", [0, 1, -7, 1000])
def test_the_dynamics_match_pinocchios_cos_and_sin(cart, turns):
    model = pin.buildModelFromXML(CART, pin.JointModelFreeFlyer())
    assert (model.nq, cart.nq) == (12, 10)
    data, rng = model.createData(), np.random.default_rng(abs(turns))
    q = cart.integrate(cart.neutral(), rng.normal(size=cart.nv))
    q[[7, 9]] += 2 * np.pi * turns
    v = rng.normal(size=cart.nv)
    terms, theirs = cart.terms(q, v), pin.neutral(model)  # q for the text as it is written
    theirs[:7] = q[:7]
    for name, angle in zip(cart.joint_names, cart.joint_angles(q), strict=True):
        joint = model.joints[model.getJointId(name)]
        theirs[joint.idx_q : joint.idx_q + joint.nq] = [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
    np.testing.assert_allclose(terms.M, pin.crba(model, data, theirs, pin.Convention.WORLD), atol=1e-11)
    np.testing.assert_allclose(terms.h, pin.nonLinearEffects(model, data, theirs, v), atol=1e-10)


def test_continuous_angles_count_turns(cart):
    q, step = cart.neutral(), np.zeros(cart.nv)
    step[6] = 0.5
    for k in range(1, 41):
        q = cart.integrate(q, step)
        assert cart.joint_angles(q)[0] == pytest.approx(0.5 * k, rel=1e-14)
    assert cart.difference(cart.neutral(), q)[6] == pytest.approx(20.0)
    angles = np.array([-50.0, 0.3, 7.0])
    np.testing.assert_array_equal(cart.joint_angles(cart.with_joint_angles(q, angles)), angles)


def test_continuous_joints_have_torque_and_speed_limits_only(cart):
    np.testing.assert_array_equal(cart.limits.q_max, [np.inf, 1.0, np.inf])
    np.testing.assert_array_equal(cart.limits.q_min, [-np.inf, -1.0, -np.inf])
    np.testing.assert_array_equal(cart.limits.tau_max, [5.0, 2.0, np.inf])
    np.testing.assert_array_equal(cart.limits.v_max, [40.0, 3.0, np.inf])


def test_urdfs_without_continuous_joints_are_unchanged(cart):
    plain = CART.replace("continuous", "floating")
    assert with_counted_turns(plain, "URDF") is plain
    assert cart.description.urdf is CART
    with pytest.raises(ModelError, match="not XML"):
        Robot(Description(urdf="<robot"))


@every("form", [list, np.float32, lambda q: pickle.loads(pickle.dumps(q))])
@every("name", ["arm", "go2"])
def test_the_centre_of_mass_is_where_it_is_for_arrays_of_other_types(name, form):
    """For arrays that NumPy converts, among them those of another process: their type is equal, but not the same object."""
    robot, stance = load_robot(name)
    q = robot.integrate(stance, np.full(robot.nv, 0.1))
    place = robot.frames.centroidal(form(q), np.zeros(robot.nv)).position
    np.testing.assert_allclose(place, robot.center_of_mass(q), atol=1e-6)
