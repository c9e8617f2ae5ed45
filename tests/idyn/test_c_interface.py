"""The C interface of the library, called past Python: answers are those of `predict`, malformed input is named."""

import ctypes
import itertools
import re

import numpy as np
from fast import every
from scenes import WALKERS, predict_scene, random_scenes, walker

from idyn import Options, make_law
from idyn.library.native import FOLDER, LIBRARY_FILE

TEXT = (FOLDER / "c" / "idyn.h").read_text("utf-8")
LIBRARY = ctypes.CDLL(str(LIBRARY_FILE))
LIBRARY.idyn_workspace.restype = ctypes.c_int64
LIBRARY.idyn_text.restype = ctypes.c_char_p
LAW_NAMES = ("coulomb", "no-slip", "sap", "contact-free")
CODES = {name: int(value) for name, value in re.findall(r"\b(IDYN_[A-Z_]+) = (-?\d+)", TEXT)}
C_TYPES = {"int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "double": ctypes.c_double}


class Residuals(ctypes.Structure):
    """The residuals of the header."""

    _fields_ = [(name, ctypes.c_double) for name in ("dynamics", "demand", "complementarity", "cone", "penetration", "slip")]


def struct_of(name):
    """Return the struct of the header as ctypes knows it."""
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
    """A prepared solver, and the arrays that its calls use."""

    def __init__(self, robot, most, law, **changes):
        tree = robot.tree
        self.robot, self.kept = robot, []
        self.given = Robot(robot.nv, len(tree.parents), robot.na, weight=robot.weight)
        for field, value in (("parent", tree.parents), ("joint", tree.dof_joint), ("motor", tree.a)):
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
    guess, solved = None, 0
    solver = Solver(walker(name)[0], 4, law)
    assert solver.prepared == 0
    for scene in random_scenes(name, 40):
        expected = predict_scene(scene, law, Options(bounded=False), guess)
        code, out, (force, impulse, velocity, torque) = solver.solve(solver.input_of(scene))
        if code:
            assert code in (CODES["IDYN_NOT_CERTIFIED"], CODES["IDYN_NO_SOLUTION"]), text_of(code)
            assert not expected.status.ok or expected.rung in of_python(law)
            guess = None
            continue
        guess, solved = expected.guess, solved + 1
        assert (force.tobytes(), impulse.tobytes()) == (expected.force.tobytes(), expected.p.tobytes())
        assert (velocity.tobytes(), torque.tobytes()) == (expected.v_plus.tobytes(), expected.tau.tobytes())
        assert (out.iterations, out.torque_excess, out.change) == (
            expected.iterations,
            expected.torque_excess,
            expected.demand_change,
        )
        assert out.heap == 0
    assert solved >= 30


def of_python(law):
    """Names of the law's solver attempts that the library does not contain."""
    return {rung.name for rung in make_law(law).rungs if rung.kernel is None}


@every("law", LAW_NAMES[:3])
def test_the_certificate_accepts_solutions_and_refutes_others(law):
    """Solutions of a first period: with an impulse, velocity or torque changed they are refuted."""
    solver, solved = Solver(walker("solo12")[0], 4, law), 0
    for scene in random_scenes("solo12", 10):
        given = solver.input_of(scene)
        LIBRARY.idyn_forget(solver.solver)
        code, _, answer = solver.solve(given)
        if code:
            continue
        solved += 1
        code, out, again = solver.solve(given, LIBRARY.idyn_certify, answer)
        assert code == CODES["IDYN_CERTIFIED"], text_of(code)
        assert max(getattr(out.residuals, name) for name, _ in Residuals._fields_) <= 1e-8
        np.testing.assert_allclose(again[0], answer[0], rtol=1e-12, atol=1e-12)
        for k, change in ((1, 1e-4), (2, 1e-5), (3, 1e-2)):
            spoiled = list(map(np.array, answer))
            spoiled[k][-1] += change
            assert solver.solve(given, LIBRARY.idyn_certify, spoiled)[0] == CODES["IDYN_REFUTED"]
    assert solved >= 8


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

    def robot_with(**changes):
        other = Robot.from_buffer_copy(solver.given)
        for field, value in changes.items():
            setattr(other, field, value)
        return ctypes.byref(other)

    def options_with(**changes):
        other = COptions.from_buffer_copy(solver.options)
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
        ({"actuated": 100}, "sizes"),
        ({"parent": solver.address(range(20), np.int64)}, "parents before children"),
        ({"joint": solver.address(range(40, 0, -1), np.int64)}, "ascending joints"),
        ({"motor": solver.address([3] * 20, np.int64)}, "ascending velocities"),
        ({"torque_limit": solver.address([np.nan] * 20)}, "limits"),
        ({"weight": 0.0}, "weight"),
    ):
        assert words in prepared(robot=robot_with(**changes)), changes
    for changes in ({"law": 9}, {"selection": -1}, {"dt": 0.0}, {"dt": np.nan}, {"memory": np.inf}, {"force_limit": -1.0}):
        assert "options" in prepared(options=options_with(**changes)), changes
    assert found.value is None
    nothing = ctypes.create_string_buffer(4096)
    given, out = Input(), Output()
    assert "not prepared" in text_of(LIBRARY.idyn_solve(nothing, ctypes.byref(given), ctypes.byref(out)))


def test_every_code_has_a_text_of_its_own():
    texts = [text_of(code) for code in CODES.values()]
    assert len(set(texts)) == len(CODES) >= 29
    assert "unknown result" not in texts
    assert text_of(-1000) == text_of(1000) == "unknown result"
