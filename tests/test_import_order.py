"""Who may import whom: a picture of the architecture that fails when the code no longer looks like it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("idyn", "controllers", "transport", "sim_harness")
"""Each may import itself and those before it."""

COMMANDS = ("idyn.commands", "idyn.__main__")
"""The command line may import everything, and nobody imports it."""

LEAVES = (
    "idyn.errors",
    "idyn.status",
    "idyn.linking",
    "idyn.cache",
    "idyn.compiled",
    "idyn.memory",
    "idyn.crossing",
    "idyn.records",
    "idyn.types",
    "idyn.terrain",
    "idyn.heightmap",
    "idyn.shapes",
    "idyn.urdf",
    "idyn.description",
)
LAYERS = (
    LEAVES,
    ("idyn.solvers",),
    (
        "idyn.robot",
        "idyn.tree",
        "idyn.places",
        "idyn.inspection",
        "idyn.contacts",
        "idyn.closures",
        "idyn.ground",
        "idyn.inputs",
        "idyn.filling",
        "idyn.dynamics",
        "idyn.full_motion",
        "idyn.full_closures",
        "idyn.full_space",
        "idyn.reduction",
        "idyn.residuals",
    ),
    ("idyn.laws",),
    (
        "idyn.consistency",
        "idyn.problem",
        "idyn.selection",
        "idyn.recovery",
        "idyn.ladder",
        "idyn.steady",
        "idyn.inverse_dynamics",
        "idyn.outcomes",
        "idyn.ways",
        "idyn.batch",
        "idyn.batch_arrays",
        "idyn.batch_crew",
        "idyn.batch_members",
    ),
)
"""Inside `idyn`: each layer may import itself and those before it."""

ROOMS = {
    "protocol": (),
    "keys": (),
    "realtime": (),
    "robot": ("protocol", "keys"),
    "log": ("protocol",),
    "server.settings": (),
    "server.sessions": ("protocol", "server.settings"),
    "server": ("protocol", "log", "server.settings", "server.sessions"),
    "server.sockets": ("protocol", "keys", "server.settings", "server.sessions", "server"),
    "kernels": (),
    "loopback": ("protocol", "robot", "server"),
    "warm_up": ("protocol", "robot", "server.settings", "server", "loopback"),
    "serve": ("realtime", "log", "server.settings", "server.sessions", "server", "server.sockets", "kernels", "warm_up"),
    "replay": ("realtime", "protocol", "log", "server.settings", "server", "warm_up"),
}
"""Inside `transport`: each room, and which others it may import. The robot's side and the server never know one another, and a
log knows neither; the last five put them together."""

DOORS = {
    "pinocchio": {"idyn.robot", "idyn.solvers.proximal", "sim_harness.view.shapes"},  # its contact solvers; its geometry
    "coal": {"sim_harness.scenes.touch"},
    "qpsolvers": {"idyn.solvers.qp"},
    "daqp": {"idyn.solvers.qp"},
    # the last measures a bare echo beside them
    "zmq": {
        "transport.server.sockets.connections",
        "transport.server.sockets.router",
        "transport.server.sockets.doorkeeper",
        "transport.robot.client",
        "transport.keys",
        "sim_harness.round_trips",
    },
    "mcap": {"transport.log.export", "transport.log.part", "transport.log.reader"},
    "numba": {"idyn.compiled", "idyn.memory", "idyn.crossing", "idyn.records"},
    "llvmlite": {"idyn.crossing", "idyn.records", "idyn.linking"},
    "mujoco": {"sim_harness.mujoco.door"},
    "trimesh": {"sim_harness.view.meshes"},
}
"""Third parties and the only modules that may import them."""


def modules():
    """Name → path of every module of the packages."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def nodes(tree):
    """All nodes that run: what is imported for type checkers only does not count."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from nodes(child)


def imports(path):
    """Modules that a file imports, wherever in it: `from a.b import c` counts as a.b and as a.b.c."""
    for node in nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import in line {node.lineno}"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name, prefixes):
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


MODULES = modules()
GRAPH = {name: set(imports(path)) for name, path in MODULES.items()}
OURS = {name: {i for i in found if within(i, PACKAGES)} for name, found in GRAPH.items()}
LIBRARY = [name for name in MODULES if not within(name, COMMANDS)]


def test_there_is_something_to_look_at():
    assert len(LIBRARY) > 60
    assert {"idyn.ladder", "controllers.controller", "transport.server.service", "sim_harness.world"} <= set(MODULES)
    assert "idyn.reduction" in GRAPH["idyn.ladder"]


@pytest.mark.parametrize("name", LIBRARY)
def test_packages_look_down_only(name):
    package = name.split(".")[0]
    allowed = PACKAGES[: PACKAGES.index(package) + 1]
    assert {i for i in OURS[name] if not within(i, allowed)} == set()


@pytest.mark.parametrize("name", LIBRARY)
def test_nobody_imports_the_command_line(name):
    assert {i for i in OURS[name] if within(i, COMMANDS)} == set()


@pytest.mark.parametrize("name", [n for n in LIBRARY if within(n, [p for layer in LAYERS for p in layer])])
def test_layers_inside_idyn(name):
    level = next(k for k, layer in enumerate(LAYERS) if within(name, layer))
    allowed = [prefix for layer in LAYERS[: level + 1] for prefix in layer]
    inside = {i for i in OURS[name] if within(i, ["idyn"]) and i != "idyn"}
    assert {i for i in inside if not within(i, allowed)} == set()


def test_every_module_of_idyn_has_a_layer():
    placed = [prefix for layer in LAYERS for prefix in layer]
    assert {n for n in LIBRARY if n.startswith("idyn.") and not within(n, placed)} == set()


def reached(name, seen=None):
    """Everything of ours that a module pulls in, directly or not."""
    seen = set() if seen is None else seen
    for other in OURS[name]:
        module = other if other in MODULES else other.rpartition(".")[0]
        if module in MODULES and module not in seen:
            seen.add(module)
            reached(module, seen)
    return seen


@pytest.mark.parametrize("name", [n for n in LIBRARY if within(n, ["idyn.laws"])])
def test_laws_see_only_numbers(name):
    """They never import the robot, nor anything that knows clocks, files or sockets."""
    assert not {i for i in GRAPH[name] if within(i, ["idyn.robot", "idyn.contacts", "pinocchio"])}
    assert not {i.split(".")[0] for i in GRAPH[name]} & {"time", "os", "pathlib", "socket", "zmq"}


@pytest.mark.parametrize("name", [n for n in LIBRARY if within(n, ["sim_harness.engines"])])
def test_engines_do_not_know_the_laws_they_judge(name):
    """A prediction judged by its own code proves nothing: engines may share solvers, not directly nor by detour more."""
    forbidden = [
        "idyn.laws",
        "idyn.reduction",
        "idyn.selection",
        "idyn.consistency",
        "idyn.ladder",
        "idyn.steady",
        "idyn.residuals",
        "idyn.inverse_dynamics",
    ]
    assert {i for i in reached(name) if within(i, forbidden)} == set()


@pytest.mark.parametrize("party", DOORS)
def test_third_parties_have_one_door(party):
    users = {name for name, found in GRAPH.items() if within(party, {i.split(".")[0] for i in found})}
    assert users == DOORS[party]


def test_there_are_no_circles():
    """Not even through functions: nothing reaches itself."""
    for name in LIBRARY:
        assert name not in reached(name), name


@pytest.mark.parametrize(
    "name",
    ["idyn.ladder", "idyn.solvers.lemke", "idyn.laws", "controllers.controller"]
    + [n for n in LIBRARY if within(n, ["transport.protocol", "transport.server.sessions"])],
)
def test_the_library_knows_no_clock(name):
    """Algorithms, the protocol and sessions are given the time; they never ask for it."""
    assert not {i for i in GRAPH[name] if within(i, ["time", "datetime", "threading", "socket"])}


def room_of(name):
    """The innermost room that a module of `transport`, or a name in it, lives in."""
    rooms = [room for room in ROOMS if within(name, [f"transport.{room}"])]
    return max(rooms, key=len, default=None)


@pytest.mark.parametrize("name", [n for n in LIBRARY if n.startswith("transport.")])
def test_rooms_of_the_transport(name):
    room = room_of(name)
    assert room is not None, "every module has a room"
    assert {i for i in OURS[name] if within(i, ["transport"]) and room_of(i) not in (room, *ROOMS[room])} == set()


@pytest.mark.parametrize("name", [n for n in LIBRARY if within(n, ["transport.protocol", "transport.server.sessions"])])
def test_protocol_and_sessions_reach_no_socket(name):
    assert not {i for module in {name, *reached(name)} for i in GRAPH[module] if within(i, ["zmq", "mcap"])}
