"""The sources: the order of imports, who may import third parties, what kernels may contain, stack buffers."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from fast import every

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("idyn", "controllers", "transport", "sim_harness")  # each may import itself and those before it

GROUPS = {  # inside a package: each group may import itself and those before it
    "idyn": "errors siblings status types < library < solvers < model < contact < options < terms < certificate < laws"
    " < selection < prediction < differentiation < tasks < batch"
    " < library.c.header library.build.back library.build.__main__ < __main__",
    "controllers": "config < robot < command < estimation < contact < planners < feedback grip < monitor"
    " < settings feedforward controller build floors",
    "sim_harness": "engines < shapes < world < measure < mujoco < world.worlds < robot < run < report < view < export < new"
    " < compare < judge < demo < fleet < doctor < studies < gamepad < conform"
    " < commands __main__ studies.commands studies.scenes.commands",
}

TRANSPORT = {
    "protocol": "",
    "keys": "",
    "robot": "protocol keys",
    "log": "protocol",
    "server.process": "",
    "server.settings": "server.process",
    "server.sessions": "protocol server.settings",
    "server": "protocol log server.settings server.sessions",
    "server.sockets": "protocol keys server.process server.settings server.sessions server",
    "startup.loopback": "protocol robot server",
    "startup.warm_up": "protocol robot server.settings server startup.loopback",
    "startup.serve": "protocol server.process log server.settings server.sessions server server.sockets startup.warm_up",
    "log.replay": "protocol log server.process server.settings server startup.warm_up",
    "bridges": "",
    "bridges.dds": "",
    "bridges.unitree": "protocol robot bridges.dds",
    "bridges.ros2": "protocol keys robot bridges.dds",
}
"""Inside `transport`: each group, and which others it may import. The robot's side and the server never import one another, and
reading and writing of logs imports neither."""

IMPORTERS = {  # third parties and the only modules that may import them
    "pinocchio": {
        "idyn.model.build",
        "idyn.model.collisions",
        "idyn.model.urdf",
        "idyn.model.frames",
        "idyn.model.mjcf",
        "idyn.model.robot",
        "idyn.solvers.qp",  # contact solvers
        "sim_harness.shapes",  # geometry
        "sim_harness.studies.peers.tsid_controller",  # in an environment of its own
    },
    "tsid": {"sim_harness.studies.peers.tsid_controller"},
    "placo": {"sim_harness.studies.peers.placo_controller"},
    "coal": {"sim_harness.studies.scenes.contacts"},
    "qpsolvers": {"idyn.solvers.qp"},
    "daqp": {"idyn.solvers.qp"},
    "zmq": {
        "transport.server.sockets.port",
        "transport.server.sockets.router",
        "transport.server.sockets.access_control",
        "transport.robot.client",
        "transport.robot.planner",
        "transport.keys",
        "sim_harness.doctor",  # measures a bare echo
        "sim_harness.conform.probe",  # sends what no client would
    },
    "mcap": {"transport.log.reader", "transport.log.export", "transport.log.recorder", "transport.bridges.unitree.messages"},
    "zstandard": {"transport.log.reader"},
    "lz4": {"transport.log.reader"},
    "mujoco": {"idyn.model.mjcf", "sim_harness.mujoco.door"},
    "pydrake": {"sim_harness.studies.toss_drake"},
    "pygame": {"sim_harness.gamepad"},
    "cyclonedds": {"transport.bridges.dds"},
    "rosbags": {"transport.bridges.ros2.bridge"},
    "prometheus_client": {"transport.startup.serve"},
    "shtab": {"sim_harness.commands.tools"},
    "trimesh": {"sim_harness.shapes"},
    "foxglove": {"sim_harness.export.files"},
    "rerun": {"sim_harness.export.files"},
    "pyarrow": {"sim_harness.export.files"},
    "av": {"sim_harness.view.video"},
    "playwright": {"sim_harness.view.video"},
    "PIL": {"sim_harness.view.video"},
}

BUILD_ONLY = ("numba", "llvmlite")  # third parties that only the build of the library imports
KERNEL = {"compiled"}  # decorators
BLAS = {"dot", "vdot", "inner", "outer", "matmul", "linalg"}  # attributes
SOURCES = [p for name in PACKAGES for p in sorted((ROOT / name).rglob("*.py")) if "stack_array(" in p.read_text("utf-8")]


def modules():
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def nodes(block):
    """All statements that run: imports for type checkers do not count."""
    for child in block:
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from nodes(getattr(child, part, ()))


def imports(path):
    """Modules that a file imports, at any place: `from a.b import c` counts as a.b and as a.b.c."""
    for node in nodes(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import in line {node.lineno}"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name, prefixes):
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


MODULES = modules()


@cache
def graph():
    return {name: set(imports(path)) for name, path in MODULES.items()}


@cache
def ours():
    return {name: {i for i in found if within(i, PACKAGES)} for name, found in graph().items()}


def level(name, groups):
    """Number of the group with the longest prefix of a name; None without one."""
    fitting = [(len(prefix), number) for number, group in enumerate(groups) for prefix in group if within(name, [prefix])]
    return max(fitting)[1] if fitting else None


def reached(name, seen=None):
    """All own modules that a module imports, directly or not."""
    seen = set() if seen is None else seen
    for other in ours()[name]:
        module = other if other in MODULES else other.rpartition(".")[0]
        if module in MODULES and module not in seen:
            seen.add(module)
            reached(module, seen)
    return seen


def test_the_import_graph_is_complete():
    assert len(MODULES) > 200
    assert "idyn.terms.reduction" in reached("idyn.prediction.predict")


def test_packages_import_to_the_left():
    for name, found in ours().items():
        allowed = PACKAGES[: PACKAGES.index(name.split(".")[0]) + 1]
        assert {i for i in found if not within(i, allowed)} == set(), name


@every("package", GROUPS)
def test_groups_import_downwards(package):
    groups = [[f"{package}.{name}" for name in group.split()] for group in GROUPS[package].split(" < ")]
    for name, found in ours().items():
        if not name.startswith(package + "."):
            continue
        own = level(name, groups)
        folder = MODULES[name].name == "__init__.py"
        assert own is not None or folder, f"{name} has no group"
        if own is None:
            continue
        above = {i for i in found if within(i, [package]) and (level(i, groups) or 0) > own}
        assert above == set(), name


def test_scripts_for_other_environments_import_nothing_of_ours():
    scripts = [name for name in MODULES if within(name, ["sim_harness.studies.peers"])]
    assert len(scripts) > 2
    assert {name for name in scripts if ours()[name]} == set()


def test_only_studies_import_studies():
    """A wheel leaves them out."""
    users = {name for name, found in ours().items() if any(within(i, ["sim_harness.studies"]) for i in found)}
    assert {name for name in users if not within(name, ["sim_harness.studies"])} == set()


def test_no_import_cycles():
    for name in MODULES:
        assert name not in reached(name), name


def test_files_have_at_most_400_lines():
    """Studies, one file each, have at most 600."""
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: n for name, n in lines.items() if n > (600 if within(name, ["sim_harness.studies"]) else 400)} == {}


def test_laws_see_only_numbers():
    """They import neither the robot nor modules with clocks, files or sockets."""
    for name in MODULES:
        if within(name, ["idyn.laws"]):
            assert not {i for i in graph()[name] if within(i, ["idyn.model", "idyn.contact.contacts", "pinocchio"])}, name
            assert not {i.split(".")[0] for i in graph()[name]} & {"time", "os", "pathlib", "socket", "zmq"}, name


def test_the_certificate_is_independent():
    """It shares no code with the computation of answers, not indirectly either."""
    computing = ["idyn.terms", "idyn.laws", "idyn.selection", "idyn.solvers", "idyn.prediction"]  # but for the stages' types
    for name in MODULES:
        if within(name, ["idyn.certificate"]):
            assert {i for i in reached(name) if within(i, computing)} <= {"idyn.terms.stages"}, name


def test_engines_do_not_use_the_laws_they_judge():
    """Engines may share solvers with predictions and nothing else."""
    predicting = ["idyn.laws", "idyn.terms.reduction", "idyn.selection", "idyn.certificate", "idyn.prediction"]
    for name in MODULES:
        if within(name, ["sim_harness.engines"]):
            assert {i for i in reached(name) if within(i, predicting)} == set(), name


def test_third_parties_are_imported_by_their_modules_only():
    for party, importers in IMPORTERS.items():
        assert {name for name, found in graph().items() if party in {i.split(".")[0] for i in found}} == importers, party
    for party in BUILD_ONLY:
        users = {name for name, found in graph().items() if party in {i.split(".")[0] for i in found}}
        assert users
        assert {name for name in users if not within(name, ["idyn.library.build"])} == set(), party


def test_the_library_reads_no_clock():
    """Algorithms, protocol and sessions get the time as an argument."""
    timeless = ["idyn.prediction", "idyn.solvers", "idyn.laws", "idyn.terms", "idyn.selection", "idyn.certificate"]
    timeless += ["controllers.controller", "transport.protocol", "transport.server.sessions"]
    for name in MODULES:
        if within(name, timeless):
            assert not {i for i in graph()[name] if within(i, ["time", "datetime", "threading", "socket"])}, name


def group_of(name):
    """The innermost group of `transport` that contains a module or name."""
    return max((group for group in TRANSPORT if within(name, [f"transport.{group}"])), key=len, default=None)


def test_groups_of_the_transport_import_downwards():
    for name in MODULES:
        if not name.startswith("transport."):
            continue
        group = group_of(name)
        assert group is not None, f"{name} has no group"
        allowed = [group, *TRANSPORT[group].split()]
        outside = {i for i in ours()[name] if within(i, ["transport"]) and group_of(i) not in allowed}
        assert outside == set(), name


def test_protocol_and_sessions_reach_no_socket():
    for name in MODULES:
        if within(name, ["transport.protocol", "transport.server.sessions"]):
            assert not {i for module in {name, *reached(name)} for i in graph()[module] if within(i, ["zmq", "mcap"])}, name


FIRST_TICK = """
import sys
import numpy as np
import idyn
robot, q = idyn.load_robot("quadruped")
state, contacts = idyn.State(q=q, v=np.zeros(robot.nv)), idyn.contacts_from_geometry(robot, q, idyn.Flat(), margin=0.002)
idyn.predict(robot, state, contacts, np.zeros(robot.na), law=idyn.make_law("coulomb"), dt=0.001)
from controllers.build import load_controller
load_controller("quadruped")
print([name for name in ("scipy", "qpsolvers", "zmq", "matplotlib", "mujoco", "numba") if name in sys.modules])
"""


def test_a_prediction_and_a_controller_import_no_splines_sockets_or_pictures():
    done = subprocess.run([sys.executable, "-c", FIRST_TICK], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "[]"


def kernels(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and KERNEL & {
            each.id for each in node.decorator_list if isinstance(each, ast.Name)
        }:
            yield node


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """The places that a node assigns to, of tuples each one."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]


def is_slice(target: ast.expr) -> bool:
    if not isinstance(target, ast.Subscript):
        return False
    indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return any(isinstance(each, ast.Slice) for each in indices)


def refused(kernel: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """The line and the reason of each construct that a kernel must not contain."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "`@` calls BLAS: use `apply` or `product`"
        elif isinstance(node, ast.Attribute) and node.attr in BLAS:
            yield node.lineno, f"`{node.attr}` calls BLAS or LAPACK: use `idyn.solvers.linalg`"
        elif any(map(is_slice, targets(node))):
            yield node.lineno, "an assignment to a slice formats an error message: use `copy` or `fill`"


def test_kernels_call_no_blas_and_assign_to_no_slices():
    found, bad = 0, []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "studies" in path.parts or not any(f"@{name}" in text for name in KERNEL):
            continue
        for kernel in kernels(ast.parse(text)):
            found += 1
            bad += [f"{path.relative_to(ROOT)}:{line}: {kernel.name}: {why}" for line, why in refused(kernel)]
    assert found > 500
    assert not bad, "\n".join(bad)


def test_each_refused_construct_is_found():
    source = """
@compiled
def kernel(a, b):
    c = a @ b
    c @= b
    c = np.dot(a, b) + a.dot(b)
    c = np.linalg.norm(a)
    a[:] = b
    a[1:3], d = b, 0.0
    a[:, 0] += b
    a[0], a[1, 2] = b[:2]
"""
    (kernel,) = kernels(ast.parse(source))
    assert sorted({line for line, _ in refused(kernel)}) == [4, 5, 6, 7, 8, 9, 10]


def is_local(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "stack_array"


def misuses(source):
    """Names of functions that return a local array, or make one in a loop."""
    found = set()
    for function in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)):
        names = set()
        for node in ast.walk(function):
            if isinstance(node, ast.For | ast.While) and any(map(is_local, ast.walk(node))):
                found.add(function.name)
            if isinstance(node, ast.Assign):
                for target, value in pairs(node.targets[0], node.value):
                    if is_local(value) or (isinstance(value, ast.Name | ast.Subscript) and root(value) in names):
                        names.add(target)
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                if any(root(part) in names or is_local(part) for part in parts):
                    found.add(function.name)
    return found


def pairs(target, value):
    """Pairs of a name and the value bound to it."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [pair for each, part in zip(target.elts, value.elts, strict=True) for pair in pairs(each, part)]
    return [(target.id, value)] if isinstance(target, ast.Name) else []


def root(node):
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_local_arrays_are_not_returned_or_made_in_loops(path):
    assert not misuses(path.read_text(encoding="utf-8"))


def test_the_check_finds_misuse():
    assert misuses("def f(n):\n    x, y = stack_array(n), 1\n    return x") == {"f"}
    assert misuses("def f(n):\n    x = stack_array(n)\n    y = x[1:]\n    return 0, y") == {"f"}
    assert misuses("def f(n):\n    for i in range(n):\n        x = stack_array(n)\n") == {"f"}
    assert misuses("def f(n):\n    x = stack_array(n)\n    return x[0] + 1.0") == set()
