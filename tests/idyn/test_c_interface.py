"""The C interface of the library, called past Python: answers are those of `predict`, malformed input is named."""

import ctypes
import itertools
import re

import mujoco
import numpy as np
import pinocchio as pin
from fast import every, first_is_fast
from scenes import DT, WALKERS, many_points, predict_scene, random_scenes, turned, walker, with_contacts

from idyn import Options, make_law
from idyn.library.kernels import FOLDER, LIBRARY_FILE
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import bodies_of

TEXT = (FOLDER / "c" / "idyn.h").read_text("utf-8")
LIBRARY = ctypes.CDLL(str(LIBRARY_FILE))
LIBRARY.idyn_workspace.restype = ctypes.c_int64
LIBRARY.idyn_text.restype = ctypes.c_char_p
LAW_NAMES = ("coulomb", "no-slip", "sap", "contact-free")
CODES = {name: int(value) for name, value in re.findall(r"\b(IDYN_[A-Z_]+) = (-?\d+)", TEXT)}
C_TYPES = {"int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "double": ctypes.c_double}


class Residuals(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("dynamics", "demand", "complementarity", "cone", "penetration", "slip")]


def struct_of(name):
    body = re.sub(r"/\*.*?\*/", "", re.search(rf"typedef struct \{{([^}}]*)\}} {name};", TEXT).group(1), flags=re.DOTALL)
    fields = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, names = re.fullmatch(r"(?:const )?(\w+) (.*)", declaration, re.DOTALL).groups()
        for each in names.split(","):
            pointer = each.strip().startswith("*")
            one = ctypes.c_void_p if pointer else C_TYPES.get(kind, Residuals)
            fields.append((each.strip().lstrip("*"), one))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


Robot, COptions, Input, Output = (struct_of(f"idyn_{name}") for name in ("robot", "options", "input", "output"))


class Solver:
    """A prepared solver, and the arrays that its calls use. by_rows: whether contacts are given by rows"""

    def __init__(self, robot, most, law, *, by_rows=False, **changes):
        tree = robot.tree
        self.robot, self.kept = robot, []
        self.given = Robot(robot.nv, 0 if by_rows else len(tree.parents), robot.na, weight=robot.weight)
        numbers = {} if by_rows else {"parent": tree.parents, "joint": tree.dof_joint}
        for field, value in (numbers | {"motor": tree.a}).items():
            setattr(self.given, field, self.address(value, np.int64))
        self.given.torque_limit = self.address(robot.limits.tau_max)
        self.options = COptions()
        LIBRARY.idyn_defaults(ctypes.byref(self.options))
        self.options.law = LAW_NAMES.index(law)
        for field, value in changes.items():
            setattr(self.options, field, value)
        size = LIBRARY.idyn_workspace(ctypes.byref(self.given), ctypes.c_int64(most))
        room = np.zeros(size + 64 + 4096, np.uint8)
        begin = -room.ctypes.data % 64
        room[begin + size :] = 0xA5
        self.room, self.tail, self.solver = room, room[begin + size :], ctypes.c_void_p()
        memory, self.size = ctypes.c_void_p(room.ctypes.data + begin), ctypes.c_int64(size)
        self.arguments = memory, self.size, ctypes.byref(self.given), ctypes.byref(self.options), ctypes.c_int64(most)
        self.prepared = LIBRARY.idyn_prepare(*self.arguments, ctypes.byref(self.solver))

    def address(self, values, kind=np.float64):
        """Keep an array of these values; return its address."""
        self.kept.append(np.ascontiguousarray(values, dtype=kind))
        return self.kept[-1].ctypes.data

    def input_of(self, scene):
        """Return the input for a scene."""
        robot, c, n = self.robot, scene.contacts, len(scene.contacts.keys)
        terms = robot.terms(scene.state.q, scene.state.v)
        given = Input(contacts=n)
        numbers = {"v": scene.state.v, "M": terms.M, "h": terms.h, "axes": terms.axes, "acceleration": scene.q_ddot}
        numbers |= {"point": c.points - robot.origin, "normal": c.normals, "tangent": c.tangents}
        numbers |= {"friction": c.mu, "gap": c.gaps, "radius": c.radii}
        for field, value in numbers.items():
            setattr(given, field, self.address(value))
        key = [hash(each) & 0x7FFFFFFF for each in c.keys]
        for field, value in (("body", c.bodies), ("other", c.others), ("key", key)):
            setattr(given, field, self.address(value, np.int64))
        return given

    def input_of_rows(self, scene, J, J_dot_v, **others):
        """Return the input for a scene with contact rows. others: v, M and h in other coordinates"""
        c, terms = scene.contacts, self.robot.terms(scene.state.q, scene.state.v)
        given = Input(contacts=len(c.keys), key=self.address([hash(each) & 0x7FFFFFFF for each in c.keys], np.int64))
        numbers = {"v": scene.state.v, "M": terms.M, "h": terms.h, "acceleration": scene.q_ddot, "J": J, "J_dot_v": J_dot_v}
        for field, value in (numbers | {"friction": c.mu, "gap": c.gaps} | others).items():
            setattr(given, field, self.address(value))
        return given

    def solve(self, given, function=LIBRARY.idyn_solve, answer=None):
        """Return the result, the output and its arrays (force, impulse, velocity, torque)."""
        n, robot = given.contacts, self.robot
        arrays = np.zeros((max(n, 0), 3)), np.zeros(3 * max(n, 0)), np.zeros(robot.nv), np.zeros(robot.na)
        if answer is not None:
            arrays = tuple(map(np.array, answer))
        out = Output(*(each.ctypes.data for each in arrays))
        last = (None,) if function is LIBRARY.idyn_certify else ()
        code = function(self.solver, ctypes.byref(given), *last, ctypes.byref(out))
        assert (self.tail == 0xA5).all()
        return code, out, arrays


def text_of(code):
    return LIBRARY.idyn_text(code).decode()


@every(("law", "name"), itertools.product(LAW_NAMES, WALKERS))
def test_answers_have_the_bits_of_predict(law, name):
    """Forty periods with contacts that come and go, the warm start and the memory of the ground."""
    guess, solved, solver = None, 0, Solver(walker(name)[0], 4, law)
    of_python = {rung.name for rung in make_law(law).rungs if rung.kernel is None}  # the library does not contain these
    assert solver.prepared == 0
    for scene in random_scenes(name, 40):
        expected = predict_scene(scene, law, Options(bounded=False), guess)
        code, out, (force, impulse, velocity, torque) = solver.solve(solver.input_of(scene))
        if code:
            assert code in (CODES["IDYN_NOT_CERTIFIED"], CODES["IDYN_NO_SOLUTION"]), text_of(code)
            assert not expected.status.ok or expected.rung in of_python
            guess = None
            continue
        guess, solved = expected.guess, solved + 1
        assert (force.tobytes(), impulse.tobytes()) == (expected.force.tobytes(), expected.p.tobytes())
        assert (velocity.tobytes(), torque.tobytes()) == (expected.v_plus.tobytes(), expected.tau.tobytes())
        figures = expected.iterations, expected.torque_excess, expected.demand_change
        assert (out.iterations, out.torque_excess, out.change) == figures
        assert out.heap == 0
    assert solved >= 30


def certified(solver, given):
    """Return the solution of a first period, or None. The certificate accepts it, and refutes it with any part changed."""
    LIBRARY.idyn_forget(solver.solver)
    code, out, answer = solver.solve(given)
    if code:
        return None
    assert out.heap == 0
    code, out, again = solver.solve(given, LIBRARY.idyn_certify, answer)
    assert code == CODES["IDYN_CERTIFIED"], text_of(code)
    assert max(getattr(out.residuals, name) for name, _ in Residuals._fields_) <= 1e-8
    np.testing.assert_allclose(again[0], answer[0], rtol=1e-12, atol=1e-12)
    for k, change in ((1, 1e-4), (2, 1e-5), (3, 1e-2)):
        spoiled = list(map(np.array, answer))
        spoiled[k][-1] += change
        assert solver.solve(given, LIBRARY.idyn_certify, spoiled)[0] == CODES["IDYN_REFUTED"]
    return answer


@every("law", LAW_NAMES[:3])
def test_the_certificate_accepts_solutions_and_refutes_others(law):
    solver = Solver(walker("solo12")[0], 4, law)
    answers = [certified(solver, solver.input_of(scene)) for scene in random_scenes("solo12", 10)]
    assert sum(each is not None for each in answers) >= 8


FLAWS = {
    "contacts": ([-1, 5], "contacts: "),
    "v": ([None], "a pointer that is needed is NULL"),
    "body": ([0, 99, -1], "body, other"),
    "normal": ([0.5, np.nan], "normal: "),
    "tangent": ([0.5, np.nan], "tangent: "),
    "friction": ([-0.1, np.nan], "friction: "),
    "gap": ([np.nan, np.inf], "gap: "),
    "radius": ([-1.0, np.inf], "radius: "),
    "point": ([np.nan], "point: "),
    "key": ([], "key: "),
    "M": ([np.nan], "M, h, axes"),
    "h": ([np.inf], "M, h, axes"),
    "axes": ([np.nan], "M, h, axes"),
    "acceleration": ([np.inf], "acceleration: "),
    "applied": ([np.nan], "applied: "),
    "preferred": ([2e9, np.nan], "preferred: "),
}
"""Field of the input → wrong values of its last element, and the text that names them."""


def test_each_malformed_input_is_refused_and_named_and_the_next_period_is_answered():
    robot, _ = walker("solo12")
    scene = next(scene for scene in random_scenes("solo12", 20, n=4))
    solver = Solver(robot, 4, "coulomb")
    good = solver.solve(solver.input_of(scene))[0]
    assert good == 0
    for field, (values, words) in FLAWS.items():
        for value in values or [None]:
            given = solver.input_of(scene)
            if field == "contacts":
                given.contacts = value
            elif field == "v":
                given.v = None
            elif field == "key":
                given.key = solver.address([7, 8, 7, 9], np.int64)
            else:
                sizes = {"M": robot.nv**2, "h": robot.nv, "axes": 6 * robot.nv, "acceleration": robot.na, "applied": robot.nv}
                count = sizes.get(field, 12 if field in ("point", "normal", "tangent", "preferred") else 4)
                kind = np.int64 if field == "body" else np.float64
                known = getattr(given, field)
                old = (ctypes.c_int64 if kind is np.int64 else ctypes.c_double) * count
                array = np.array(old.from_address(known)) if known else np.zeros(count)
                array[-1] = value
                setattr(given, field, solver.address(array, kind))
            for function in (LIBRARY.idyn_solve, LIBRARY.idyn_certify):
                code, *_ = solver.solve(given, function)
                assert code < 0, (field, value)
                assert words in text_of(code), (field, value, text_of(code))
            assert solver.solve(solver.input_of(scene))[0] == 0


def test_malformed_robots_options_and_memory_are_refused_and_named():
    solver = Solver(walker("solo12")[0], 4, "coulomb")
    memory, size, robot, options, most = solver.arguments
    found = ctypes.c_void_p()

    def prepared(robot=robot, options=options, memory=memory, size=size, most=most):
        return text_of(LIBRARY.idyn_prepare(memory, size, robot, options, most, ctypes.byref(found)))

    def changed(struct, changes):
        other = type(struct).from_buffer_copy(struct)
        for field, value in changes.items():
            setattr(other, field, value)
        return ctypes.byref(other)

    assert prepared() == "certified"
    assert "memory" in prepared(size=ctypes.c_int64(size.value - 1))
    assert "memory" in prepared(memory=ctypes.c_void_p(memory.value + 8))
    assert "NULL" in prepared(robot=None)
    assert "sizes" in prepared(most=ctypes.c_int64(-1))
    for changes, words in (
        ({"nv": 0}, "sizes"),
        ({"joints": 10**9}, "sizes"),
        ({"joints": 1}, "sizes"),
        ({"joint": None}, "NULL"),
        ({"actuated": 100}, "sizes"),
        ({"parent": solver.address(range(20), np.int64)}, "parents before children"),
        ({"joint": solver.address(range(40, 0, -1), np.int64)}, "ascending joints"),
        ({"motor": solver.address([3] * 20, np.int64)}, "ascending velocities"),
        ({"torque_limit": solver.address([np.nan] * 20)}, "limits"),
        ({"weight": 0.0}, "weight"),
    ):
        assert words in prepared(robot=changed(solver.given, changes)), changes
    for changes in ({"law": 9}, {"selection": -1}, {"dt": 0.0}, {"dt": np.nan}, {"memory": np.inf}, {"force_limit": -1.0}):
        assert "options" in prepared(options=changed(solver.options, changes)), changes
    assert found.value is None
    nothing = ctypes.create_string_buffer(4096)
    given, out = Input(), Output()
    assert "not prepared" in text_of(LIBRARY.idyn_solve(nothing, ctypes.byref(given), ctypes.byref(out)))


def test_every_code_has_a_text_of_its_own():
    texts = [text_of(code) for code in CODES.values()]
    assert len(set(texts)) == len(CODES) >= 29
    assert "unknown result" not in texts
    assert text_of(-1000) == text_of(1000) == "unknown result"


def rows_by_pinocchio(robot, scene):
    """Return J (3n, nv) and J̇ v (3n) of points below the centres of spheres, by Pinocchio's frames at the centres."""
    model, q, v, c = robot._model.copy(), scene.state.q, scene.state.v, scene.contacts
    data = model.createData()
    pin.forwardKinematics(model, data, q)
    ids = []
    for i, joint in enumerate(c.bodies.tolist()):
        centre = data.oMi[joint].actInv(c.points[i] + c.radii[i] * c.normals[i])
        ids.append(model.addFrame(pin.Frame(f"contact {i}", joint, 0, pin.SE3(np.eye(3), centre), pin.FrameType.OP_FRAME)))
    data = model.createData()
    pin.computeJointJacobians(model, data, q)
    pin.forwardKinematics(model, data, q, v, np.zeros(model.nv))
    pin.updateFramePlacements(model, data)
    J, J_dot_v = np.zeros((3 * len(ids), model.nv)), np.zeros(3 * len(ids))
    for i, each in enumerate(ids):
        rows = pin.getFrameJacobian(model, data, each, pin.LOCAL_WORLD_ALIGNED)
        rate = pin.getFrameClassicalAcceleration(model, data, each, pin.LOCAL_WORLD_ALIGNED)
        J[3 * i : 3 * i + 3] = below(c, i) @ rows
        J_dot_v[3 * i : 3 * i + 3] = below(c, i) @ rate.vector
    return J, J_dot_v


def axes_of(contacts, i):
    """Return s, t and n of a contact, one each row."""
    s, n = contacts.tangents[i], contacts.normals[i]
    return np.array([s, np.cross(n, s), n])


def below(contacts, i):
    """Return the matrix (3, 6) from the motion of a sphere's centre to that of the contact in its rows: x − centre = −r n."""
    return axes_of(contacts, i) @ np.hstack([np.eye(3), contacts.radii[i] * pin.skew(contacts.normals[i])])


def in_world(contacts, force):
    """Return forces along s, t, n (n, 3) in the world."""
    return np.array([axes_of(contacts, i).T @ force[i] for i in range(len(force))]).reshape(-1, 3)


@every(("law", "name"), first_is_fast(itertools.product(LAW_NAMES, WALKERS), 4))
def test_answers_from_rows_are_those_from_axes(law, name):
    """Rows by Pinocchio of moving robots with turned tangents. Without J̇ v torques are others."""
    robot, rng, solved, moved = walker(name)[0], np.random.default_rng(0), 0, 0
    by_axes, by_rows = Solver(robot, 4, law), Solver(robot, 4, law, by_rows=True)
    still = Solver(robot, 4, law, by_rows=True)
    assert by_rows.prepared == 0
    for known in random_scenes(name, 20):
        scene = with_contacts(known, tangents=turned(known.contacts, rng.uniform(-3.0, 3.0)).tangents)
        for each in (by_axes, by_rows, still):
            LIBRARY.idyn_forget(each.solver)
        J, J_dot_v = rows_by_pinocchio(robot, scene)
        for _ in range(2):  # the second time with the forces of the first
            code, _, (force, impulse, velocity, torque) = by_axes.solve(by_axes.input_of(scene))
            again, out, answer = by_rows.solve(by_rows.input_of_rows(scene, J, J_dot_v))
            assert (again, out.heap) == (code, 0), text_of(again)
            if code:
                continue
            solved += 1
            np.testing.assert_allclose(in_world(scene.contacts, answer[0]), force, rtol=1e-10, atol=1e-9)
            np.testing.assert_allclose(answer[0], answer[1].reshape(-1, 3) / DT, rtol=1e-12)
            for one, other in zip(answer[1:], (impulse, velocity, torque), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        *_, (_, _, _, first) = still.solve(still.input_of_rows(scene, J, J_dot_v))
        LIBRARY.idyn_forget(still.solver)
        *_, (_, _, _, zeroed) = still.solve(still.input_of_rows(scene, J, np.zeros_like(J_dot_v)))
        moved += np.abs(zeroed - first).max() > 1e-6
    assert solved >= 30
    assert moved >= 6


def rows_by_mujoco(model, scene):
    """Return v, M, h, J and J̇ v of a scene in MuJoCo's coordinates: the base moves along the axes of the world."""
    q, v, c, data = scene.state.q, scene.state.v, scene.contacts, mujoco.MjData(model)
    turn = pin.Quaternion(q[3:7]).toRotationMatrix()
    data.qpos = np.r_[q[:3], q[6], q[3:6], q[7:]]
    data.qvel = np.r_[turn @ v[:3], v[3:]]
    mujoco.mj_forward(model, data)
    M, J, J_dot_v = np.zeros((model.nv, model.nv)), np.zeros((3 * len(c), model.nv)), np.zeros(3 * len(c))
    for column, unit in zip(M, np.eye(model.nv), strict=True):
        mujoco.mj_mulM(model, data, column, unit)
    for i, body in enumerate(c.bodies.tolist()):
        centre, found = c.points[i] + c.radii[i] * c.normals[i], np.zeros((4, 3, model.nv))
        mujoco.mj_jac(model, data, found[0], found[1], centre, body)
        mujoco.mj_jacDot(model, data, found[2], found[3], centre, body)
        J[3 * i : 3 * i + 3] = below(c, i) @ np.vstack(found[:2])
        J_dot_v[3 * i : 3 * i + 3] = below(c, i) @ np.vstack(found[2:]) @ data.qvel
    return {"v": data.qvel, "M": M, "h": data.qfrc_bias, "J": J, "J_dot_v": J_dot_v}


@every("law", LAW_NAMES[:3])
def test_terms_of_mujoco_in_its_own_coordinates_give_the_same_torques(law):
    """A small weight of the projection depends on the coordinates of the base: without it the torques are equal."""
    robot, solved = walker("solo12")[0], 0
    model = bodies_of(robot, MujocoSettings()).compile()
    for consistency, error in ((0, 1e-10), (2, 1e-5)):
        settings = {"by_rows": True, "consistency": consistency}
        by_axes, by_rows = Solver(robot, 4, law, consistency=consistency), Solver(robot, 4, law, **settings)
        for scene in random_scenes("solo12", 10):
            for each in (by_axes, by_rows):
                LIBRARY.idyn_forget(each.solver)
            code, _, expected = by_axes.solve(by_axes.input_of(scene))
            again, _, answer = by_rows.solve(by_rows.input_of_rows(scene, **rows_by_mujoco(model, scene)))
            assert again == code, text_of(again)
            if code == 0:
                solved += 1
                np.testing.assert_allclose(in_world(scene.contacts, answer[0]), expected[0], rtol=error, atol=error)
                np.testing.assert_allclose(answer[3], expected[3], rtol=error, atol=error)
    assert solved >= 12


@every("law", LAW_NAMES[:3])
def test_the_certificate_accepts_own_solutions_from_rows_and_refutes_others(law):
    """Also those of three points of each foot, whose rows depend on each other."""
    robot, solved, loaded = walker("solo12")[0], 0, 0
    solver = Solver(robot, 12, law, by_rows=True)
    scenes = list(random_scenes("solo12", 10, touching=1.0))
    for scene in [*scenes, *(many_points(scene, 3) for scene in scenes)]:
        J, J_dot_v = rows_by_pinocchio(robot, scene)
        answer = certified(solver, solver.input_of_rows(scene, J, J_dot_v))
        if answer is None:
            continue
        solved += 1
        for rows in ((J + 1e-2, J_dot_v), (J, J_dot_v + 1e-2)) if answer[0].any() else ():
            loaded += 1
            assert solver.solve(solver.input_of_rows(scene, *rows), LIBRARY.idyn_certify, answer)[0] == CODES["IDYN_REFUTED"]
    assert min(solved, loaded) >= 16


def test_malformed_rows_are_refused_and_named():
    robot = walker("solo12")[0]
    scene = next(random_scenes("solo12", 20, n=4))
    J, J_dot_v = rows_by_pinocchio(robot, scene)
    by_axes, by_rows = Solver(robot, 4, "coulomb"), Solver(robot, 4, "coulomb", by_rows=True)
    steady = Solver(robot, 4, "coulomb", by_rows=True, drift=0)

    def spoiled(values, value):
        values = values.copy()
        values.flat[-1] = value
        return by_rows.address(values)

    given = by_axes.input_of(scene)
    axes = {field: getattr(given, field) for field in ("axes", "body", "other", "point", "normal", "tangent", "radius")}
    one_form, missing = "J, axes: ", "a pointer that is needed is NULL"
    wrong = [
        (by_rows, {"contacts": -1}, "contacts: "),
        (by_rows, {"contacts": 5}, "contacts: "),
        (by_rows, {"J": None}, missing),
        (by_rows, {"J_dot_v": None}, "J_dot_v: expected with J"),
        *((by_rows, {"J": spoiled(J, value)}, "J, J_dot_v: ") for value in (np.nan, np.inf)),
        *((by_rows, {"J_dot_v": spoiled(J_dot_v, value)}, "J, J_dot_v: ") for value in (np.nan, -np.inf)),
        *((by_rows, {field: value}, one_form) for field, value in axes.items()),
        (by_rows, {"J": None, "J_dot_v": None} | axes, one_form),
        (by_rows, {"key": by_rows.address([7, 8, 7, 9], np.int64)}, "key: "),
        (by_rows, {"gap": by_rows.address([0.0, 0.0, 0.0, np.nan])}, "gap: "),
        (by_rows, {"friction": by_rows.address([1.0, 1.0, 1.0, -1.0])}, "friction: "),
        (by_rows, {"M": None}, missing),
        (by_axes, {}, one_form),
        (steady, {"J_dot_v": by_rows.address(np.full(12, np.nan))}, "J, J_dot_v: "),
    ]
    for solver, changes, words in wrong:
        given = solver.input_of_rows(scene, J, J_dot_v)
        for field, value in changes.items():
            setattr(given, field, value)
        for function in (LIBRARY.idyn_solve, LIBRARY.idyn_certify):
            code, *_ = solver.solve(given, function)
            assert code < 0, (changes, words)
            assert text_of(code).startswith(words), (changes, text_of(code))
        assert by_rows.solve(by_rows.input_of_rows(scene, J, J_dot_v))[0] == 0
    both = by_axes.input_of(scene)
    both.J_dot_v = by_axes.address(J_dot_v)
    assert text_of(by_axes.solve(both)[0]).startswith(one_form)
    given = steady.input_of_rows(scene, J, J_dot_v)
    given.J_dot_v = None
    assert steady.solve(given)[0] == 0
