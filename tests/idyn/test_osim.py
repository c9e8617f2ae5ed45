"""OpenSim models: the robot moves as the file says, and files that are wrong are refused by line."""

import pickle

import numpy as np
import pytest
from fast import full
from measured import measured
from osim_models import LINEAR, body, coordinate, joint, model, offset, pendulum, person, transform

from idyn import ContactPoint, Flat, State, contacts_from_geometry, make_law, predict
from idyn.errors import InputError, ModelError
from idyn.model.osim.coordinates import Coordinates
from idyn.model.robot import Robot
from sim_harness.commands.main import main

G = 9.80665


def load(tmp_path, text):
    path = tmp_path / "model.osim"
    path.write_text(text)
    return Robot.from_osim(path), Coordinates(text)


def refused(tmp_path, text):
    with pytest.raises(ModelError) as error:
        load(tmp_path, text)
    return str(error.value)


def test_a_pendulum_has_the_torque_of_the_formula(tmp_path):
    """(I + m l²) α + m g l sin θ, and gravity is the file's, not Pinocchio's."""
    robot, coordinates = load(tmp_path, pendulum())
    assert coordinates.names == ("angle",)
    tau = robot.inverse_dynamics(np.array([0.3]), np.array([1.0]), np.array([2.0]))
    assert tau[0] == pytest.approx((0.1 + 2 * 0.25) * 2.0 + 2 * G * 0.5 * np.sin(0.3), rel=1e-12)
    assert robot.bodies.gravity.tolist() == [0.0, 0.0, -G]


def test_ground_turns_up_to_z(tmp_path):
    """x stays, y (up) becomes z, z (right) becomes −y."""
    _, coordinates = load(tmp_path, pendulum())
    assert (coordinates.ground @ [1.0, 2.0, 3.0]).tolist() == [1.0, -3.0, 2.0]


def slider(spline: str) -> str:
    """A body that turns about z, and is lifted along y by a function of the angle, scaled by 2."""
    lift = f'<MultiplierFunction name="function"><function>{spline}</function><scale>2</scale></MultiplierFunction>'
    moves = transform(rotation1=("angle", "0 0 1", LINEAR), translation2=("angle", "0 1 0", lift))
    return model(body("bob", centre="0 0 0"), joint("CustomJoint", "cam", ("ground", "bob"), coordinate("angle"), "", moves))


POLYNOMIAL = "<PolynomialFunction><coefficients>0.25 0 0.5</coefficients></PolynomialFunction>"  # 0.25 θ² + 0.5


def test_a_driven_translation_moves_and_loads_its_coordinate(tmp_path):
    """y = 0.5 θ² + 1: Lagrange's equation of one coordinate gives (I + m θ²) α + m θ ω² + m g θ."""
    robot, coordinates = load(tmp_path, slider(POLYNOMIAL))
    assert robot.nv == 2
    assert coordinates.names == ("angle",)
    c, w, a = 0.7, 1.3, -0.4
    q, v, acceleration = coordinates.joint_motion(*(np.array([[x]]) for x in (c, w, a)))
    assert robot.center_of_mass(q[0])[2] == pytest.approx(0.5 * c**2 + 1.0)
    tau = robot.inverse_dynamics(q[0], v[0], acceleration[0])
    moment = coordinates.moments(np.array([[c]]), tau[None])
    assert moment[0, 0] == pytest.approx((0.1 + 2 * c**2) * a + 2 * c * w**2 + 2 * G * c, rel=1e-12)


def test_a_spline_is_smooth_and_straight_beyond_its_ends(tmp_path):
    """Through its points; value, slope and curvature agree with differences; no curvature outside."""
    spline = "<SimmSpline><x>-1 0 0.5 2</x><y>0 0.3 0.1 0.4</y></SimmSpline>"
    _, coordinates = load(tmp_path, slider(spline))
    h = 1e-5

    def lift(c):
        return coordinates.joint_motion(c[:, None], np.ones((len(c), 1)), np.zeros((len(c), 1)))

    k = coordinates.joints.index("cam.translation2")
    at = np.array([-1.0, 0.0, 0.5, 2.0])
    np.testing.assert_allclose(lift(at)[0][:, k], 2 * np.array([0.0, 0.3, 0.1, 0.4]), atol=1e-14)
    c = np.array([-1.5, -0.6, 0.2, 1.7, 2.5])
    q, v, a = (each[:, k] for each in lift(c))
    before, after = lift(c - h)[0][:, k], lift(c + h)[0][:, k]
    np.testing.assert_allclose(v, (after - before) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(a, (after - 2 * q + before) / h**2, atol=1e-4)
    assert a[0] == a[-1] == 0.0


def test_a_spline_through_four_points_is_their_cubic_and_through_three_their_parabola(tmp_path):
    """As OpenSim's SimmSpline; a natural spline is not."""
    for x, y in (([-1, 0, 0.5, 2], [0, 0.3, 0.1, 0.4]), ([-1, 0, 2], [0, 0.3, 0.1]), ([-1, 2], [0.5, 1])):
        words = (" ".join(map(str, each)) for each in (x, y))
        _, coordinates = load(tmp_path, slider("<SimmSpline><x>{}</x><y>{}</y></SimmSpline>".format(*words)))
        c = np.linspace(-1, 2, 9)
        wanted = np.polyval(np.polyfit(x, y, len(x) - 1), c)
        found = coordinates.joint_motion(*(each[:, None] for each in (c, c, c)))[0]
        np.testing.assert_allclose(found[:, coordinates.joints.index("cam.translation2")], 2 * wanted, atol=1e-12)


def test_a_long_spline_has_the_third_derivative_of_its_end_points(tmp_path):
    x, y = np.array([-1, -0.3, 0.1, 0.7, 1.4, 2.0]), np.array([0, 0.3, 0.1, 0.4, -0.2, 0.1])
    words = (" ".join(map(str, each)) for each in (x, y))
    _, coordinates = load(tmp_path, slider("<SimmSpline><x>{}</x><y>{}</y></SimmSpline>".format(*words)))
    k = coordinates.joints.index("cam.translation2")

    def curvature(c):
        one = np.ones((2, 1))
        return coordinates.joint_motion(np.array([[c], [c + 0.1]]), one, 0 * one)[2][:, k]

    for ends, at in ((slice(0, 4), -0.9), (slice(2, 6), 1.6)):
        third = np.diff(curvature(at))[0] / 0.1
        assert third == pytest.approx(2 * 6 * np.polyfit(x[ends], y[ends], 3)[0])


def chain(constraints: str = "", locked: str = "false") -> str:
    """Two links; the second hangs 1 m below the first."""
    frames = offset("hook", "/bodyset/upper", "0 -1 0")
    joints = joint("PinJoint", "top", ("/ground", "/bodyset/upper"), coordinate("first"))
    joints += joint("PinJoint", "middle", ("hook", "/bodyset/lower"), coordinate("second", locked, "0.4"), frames)
    return model(body("upper") + body("lower"), joints, constraints)


COUPLER = (
    '<CoordinateCouplerConstraint name="coupler"><isEnforced>{}</isEnforced>'
    "<coupled_coordinates_function>{}</coupled_coordinates_function>"
    "<independent_coordinate_names>first</independent_coordinate_names>"
    "<dependent_coordinate_name>second</dependent_coordinate_name></CoordinateCouplerConstraint>"
)


def test_a_locked_coordinate_is_welded_at_its_value(tmp_path):
    robot, coordinates = load(tmp_path, chain(locked="true"))
    free, _ = load(tmp_path, chain())
    assert (robot.nv, coordinates.names) == (1, ("first",))
    np.testing.assert_allclose(robot.center_of_mass(np.array([0.2])), free.center_of_mass(np.array([0.2, 0.4])), atol=1e-14)
    columns = {"first": np.zeros(3), "second": np.full(3, 0.4)}
    assert coordinates.take(columns).shape == (3, 1)
    with pytest.raises(InputError, match=r"motion\.second: .* lock"):
        coordinates.take(columns | {"second": np.full(3, 0.5)})


def test_a_coupled_coordinate_follows_and_loads_its_leader(tmp_path):
    """second = −0.5 first: the power of both joints is the power of the one coordinate."""
    linear = '<LinearFunction name="function"><coefficients>-0.5 0.1</coefficients></LinearFunction>'
    robot, coordinates = load(tmp_path, chain(COUPLER.format("true", linear)))
    assert (robot.nv, coordinates.names) == (2, ("first",))
    q, v, a = coordinates.joint_motion(*(np.array([[x]]) for x in (0.3, 1.1, -2.0)))
    np.testing.assert_allclose([q[0], v[0], a[0]], [[0.3, -0.05], [1.1, -0.55], [-2.0, 1.0]], atol=1e-15)
    tau = robot.inverse_dynamics(q[0], v[0], a[0])
    moment = coordinates.moments(np.array([[0.3]]), tau[None])
    assert moment[0, 0] * 1.1 == pytest.approx(tau @ v[0])
    off, names = load(tmp_path, chain(COUPLER.format("false", linear)))
    assert names.names == ("first", "second")
    assert off.nv == 2


def test_long_chains_of_couplers_and_entities_that_grow_are_refused(tmp_path):
    """Neither takes long or fills the memory."""
    square = "<PolynomialFunction><coefficients>1 0.5 0</coefficients></PolynomialFunction>"
    joints, couplers = "", ""
    for k in range(60):
        sockets = ("/ground" if k == 0 else f"/bodyset/b{k - 1}"), f"/bodyset/b{k}"
        joints += joint("PinJoint", f"j{k}", sockets, coordinate(f"c{k}"))
        if k:
            coupler = COUPLER.format("true", square).replace(">first<", f">c{k - 1}<").replace(">second<", f">c{k}<")
            couplers += coupler.replace('"coupler"', f'"coupler{k}"')
    assert "over 20 couplers" in refused(tmp_path, model("".join(body(f"b{k}") for k in range(60)), joints, couplers))
    grow = "".join(f'<!ENTITY e{k + 1} "{f"&e{k};" * 12}">' for k in range(9))
    bomb = (
        pendulum().replace("<OpenSim", f'<!DOCTYPE x [<!ENTITY e0 "2">{grow}]>\n<OpenSim', 1).replace("<mass>2", "<mass>&e9;")
    )
    assert "not XML" in refused(tmp_path, bomb)


def test_offsets_and_welds_place_bodies(tmp_path):
    """A weld turned by 90° about z, then shifted along the turned x: the body is 0.2 m above its parent."""
    frames = offset("turned", "/bodyset/bob", "0 0 0", "0 0 1.5707963267948966") + offset("shift", "/bodyset/hand", "-0.2 0 0")
    joints = joint("PinJoint", "pin", ("/ground", "/bodyset/bob"), coordinate("angle"))
    joints += joint("WeldJoint", "weld", ("turned", "shift"), "", frames)
    robot, _ = load(tmp_path, model(body("bob", "1", "0 0 0") + body("hand", "3", "0 0 0"), joints))
    np.testing.assert_allclose(robot.center_of_mass(np.zeros(1)), [0.0, 0.0, 0.15], atol=1e-12)


BREAKS = {
    "no XML": (lambda t: t[:-30], "not XML"),
    "old": (lambda t: t.replace("40000", "10905"), r"line 2, OpenSimDocument: expected Version ≥ 20000"),
    "no version": (lambda t: t.replace('"40000"', '"forty"'), "expected a number as Version"),
    "no model": (lambda t: t.replace("Model", "Muddle"), "expected one element 'Model'"),
    "negative mass": (lambda t: t.replace("<mass>2<", "<mass>-2<"), r"line 6, Body bob: mass: expected a number ≥ 0"),
    "mass not finite": (lambda t: t.replace("<mass>2<", "<mass>nan<"), r"line 6, mass: expected finite numbers"),
    "no number": (lambda t: t.replace("<mass>2<", "<mass>two<"), r"line 6, mass: expected numbers, got 'two'"),
    "inertia": (lambda t: t.replace("0.1 0.02 0.1", "0.1 -2 0.1"), "inertia: expected a positive semidefinite tensor"),
    "short": (lambda t: t.replace("0 -0.5 0", "0 -0.5"), "mass_center: expected 3 numbers, got 2"),
    "joint kind": (lambda t: t.replace("PinJoint", "ScrewJoint"), r"line 9, ScrewJoint pin: expected a joint of the kinds"),
    "socket": (lambda t: t.replace("/ground", "/nowhere"), r"socket_parent_frame: expected a body, .* got '/nowhere'"),
    "lost body": (lambda t: t.replace("\n</objects></BodySet>", body("lost") + "</objects></BodySet>"), "body 'lost'"),
    "flag": (lambda t: t.replace("<locked>false", "<locked>maybe"), "locked: expected 'true' or 'false', got 'maybe'"),
    "entity": (lambda t: t.replace("<mass>2<", "<mass>&two;<"), "not XML"),
    "deep": (lambda t: t.replace("<mass>2<", "<a>" * 80 + "</a>" * 80 + "<mass>2<"), "nested"),
    "many numbers": (lambda t: t.replace("<mass>2<", f"<mass>{'2 ' * 20_000}<"), "at most 10000 numbers"),
}


@pytest.mark.parametrize("fault", BREAKS)
def test_wrong_files_are_refused_by_line(tmp_path, fault):
    change, message = BREAKS[fault]
    assert change(pendulum()) != pendulum()
    with pytest.raises(ModelError, match=message):
        load(tmp_path, change(pendulum()))


def test_wrong_structures_are_refused(tmp_path):
    double = "<SimmSpline><x>0 0 1</x><y>0 1 2</y></SimmSpline>"
    assert "SimmSpline: expected increasing x" in refused(tmp_path, slider(double))
    assert "as many x as y, at least 2, got 3 and 2" in refused(tmp_path, slider(double.replace("<y>0 1 2", "<y>0 1")))
    other = "<StepFunction><value>1</value></StepFunction>"
    assert "StepFunction: expected a function of the kinds" in refused(tmp_path, slider(other))
    assert "length 2" in refused(tmp_path, slider(POLYNOMIAL).replace("<axis>0 1 0</axis><Mult", "<axis>0 2 0</axis><Mult"))
    loop = chain().replace("<JointSet><objects>", "<JointSet><objects>" + joint("WeldJoint", "x", ("ground", "lower"), ""))
    assert "closed chains are not supported" in refused(tmp_path, loop)
    linear = '<LinearFunction name="function"><coefficients>1 0</coefficients></LinearFunction>'
    himself = COUPLER.format("true", linear).replace("<dependent_coordinate_name>second", "<dependent_coordinate_name>first")
    assert "CoordinateCouplerConstraint coupler" in refused(tmp_path, chain(himself))
    both = COUPLER.format("true", linear)
    back = both.replace("first<", "§<").replace("second<", "first<").replace("§<", "second<").replace("coupler", "back")
    assert "depends on itself" in refused(tmp_path, chain(both + back))
    weld = '<PointConstraint name="p"><isEnforced>true</isEnforced></PointConstraint>'
    assert "other enforced constraints" in refused(tmp_path, chain(weld))
    with pytest.raises(InputError, match="base: expected 'fixed' for an OpenSim model"):
        load(tmp_path, pendulum())[0].variant(base="free_flyer")


def older(mass: str = "2") -> str:
    """`slider` with a coupled second joint, as OpenSim 3 writes it: the joint is in the body."""
    inertia = "".join(f"<inertia_{axes}>{value}</inertia_{axes}>" for axes, value in zip(AXES, INERTIA, strict=True))
    axes = transform(rotation1=("angle", "0 0 1", LINEAR), translation2=("angle", "0 1 0", POLYNOMIAL))
    axes = axes.replace("</axis>", "</axis><function>").replace("</TransformAxis>", "</function></TransformAxis>")
    places = "<location_in_parent>0.1 0.2 0.3</location_in_parent><orientation_in_parent>0.3 0 0</orientation_in_parent>"
    places += "<location>0 0.1 0</location><orientation>0 0.2 0</orientation>"
    joint = (
        f'<CustomJoint name="cam"><parent_body>ground</parent_body>{places}<CoordinateSet><objects>{coordinate("angle")}'
        f"</objects></CoordinateSet><reverse>false</reverse>{axes}</CustomJoint>"
    )
    bob = f'<Body name="bob"><mass>{mass}</mass><mass_center>0 -0.5 0</mass_center>{inertia}\n<Joint>{joint}</Joint></Body>'
    return model(f'<Body name="ground"><mass>0</mass></Body>\n{bob}', "", "", "30000").replace(NO_JOINTS, "")


AXES, INERTIA = ("xx", "yy", "zz", "xy", "xz", "yz"), (0.1, 0.02, 0.1, 0, 0, 0)
NO_JOINTS = "<JointSet><objects>\n\n</objects></JointSet>\n"


def test_a_file_of_opensim_3_is_the_same_robot_as_one_of_opensim_4(tmp_path):
    frames = offset("from", "/ground", "0.1 0.2 0.3", "0.3 0 0") + offset("to", "/bodyset/bob", "0 0.1 0", "0 0.2 0")
    axes = transform(rotation1=("angle", "0 0 1", LINEAR), translation2=("angle", "0 1 0", POLYNOMIAL))
    newer = model(body("bob"), joint("CustomJoint", "cam", ("from", "to"), coordinate("angle"), frames, axes))
    one, other = load(tmp_path, newer), load(tmp_path, older())
    assert one[1].joints == other[1].joints
    motion = one[1].joint_motion(*(np.array([[x]]) for x in (0.4, -1.0, 2.0)))
    np.testing.assert_array_equal(motion, other[1].joint_motion(*(np.array([[x]]) for x in (0.4, -1.0, 2.0))))
    tau = [robot.inverse_dynamics(*(each[0] for each in motion)) for robot, _ in (one, other)]
    np.testing.assert_allclose(tau[0], tau[1], atol=1e-14)


def test_wrong_files_of_opensim_3_are_refused_by_line(tmp_path):
    assert "line 7, mass: expected numbers, got 'two'" in refused(tmp_path, older("two"))
    reversed_joint = older().replace("<reverse>false", "<reverse>true")
    assert "line 8, CustomJoint cam: reverse" in refused(tmp_path, reversed_joint)
    lost = older().replace("<parent_body>ground", "<parent_body>moon")
    assert "line 8, CustomJoint cam: socket_parent_frame: expected a body" in refused(tmp_path, lost)
    short = older().replace("<location>0 0.1 0", "<location>0 0.1")
    assert "line 8, translation: expected 3 numbers, got 2" in refused(tmp_path, short)
    assert "line 7, Body bob: expected one element 'inertia'" in refused(tmp_path, older().replace("inertia_xx", "inertia_x"))


def test_the_walker_is_read_whole():
    """72.6 kg, 23 coordinates, and the four translations of the knees as joints of their own."""
    robot = Robot.from_osim(measured("human-walk") / "subject01.osim")
    assert robot.total_mass == pytest.approx(72.6, abs=2e-3)
    assert (robot.nv, len(robot.tree.u)) == (27, 6)
    assert len(Coordinates(robot.description.urdf).names) == 23


def test_check_reads_an_osim_and_other_readers_point_to_its_own(tmp_path, capsys):
    path = tmp_path / "model.osim"
    path.write_text(pendulum())
    assert main(["check", str(path)]) == 0
    assert "2 kg" in capsys.readouterr().out
    with pytest.raises(ModelError, match=r"got an OSIM: use `Robot\.from_osim`"):
        Robot.from_urdf(path)
    path.write_text(pendulum().replace("<mass>2", "<mass>-2"))
    assert main(["check", str(path)]) == 2
    assert "line 6, Body bob: mass" in capsys.readouterr().err


@full
def test_a_person_is_a_robot_that_laws_predict_and_that_is_pickled(tmp_path):
    """Standing on four points: the weight, under a law of contact, with joint accelerations 0."""
    path = tmp_path / "person.osim"
    path.write_text(person())
    places = [(x, -0.054, z) for x in (0.0, 0.2) for z in (-0.04, 0.04)]
    feet = tuple(ContactPoint(frame=f"calcn_{side}", offset=place) for side in "rl" for place in places)
    robot = pickle.loads(pickle.dumps(Robot.from_osim(path, contact=feet)))
    q = robot.neutral()
    q[1] = 0.954
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1e-3)
    assert len(contacts) == 8
    state = State(q=q, v=np.zeros(robot.nv))
    found = predict(robot, state, contacts, np.zeros(robot.na), law=make_law("coulomb"), dt=0.001)
    np.testing.assert_allclose(found.force.sum(axis=0), [0.0, 0.0, robot.weight], atol=1e-6)


def test_the_file_says_which_way_is_up(tmp_path):
    path = tmp_path / "person.osim"
    path.write_text(person())
    with pytest.raises(InputError, match="gravity: expected none for an OpenSim model"):
        Robot.from_osim(path, gravity=(0.0, 0.0, -1.62))


@full
def test_a_file_cut_anywhere_is_refused_in_a_sentence():
    text = (measured("human-walk") / "subject01.osim").read_text()
    for end in range(0, len(text), len(text) // 40):
        with pytest.raises(ModelError):
            Coordinates(text[:end])
