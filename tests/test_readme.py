"""The documentation is true: code runs, also typed, configurations hold, commands exist, links resolve, tables agree."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from documents import BLOCKS, DOCUMENTS, ROOT, anchors, blocks, inline, links, table, titled, words
from fast import every, every_row, full
from tutorials import TUTORIALS

from controllers.build import build_controller
from controllers.command import Inputs, Mode
from controllers.config.loading import files, has_sections, parse
from controllers.config.tables import kind_of
from controllers.contact.ground import AnyGround, AnyTerrain
from controllers.contact.source import AnySource
from controllers.grip import AnyGrip
from controllers.planners.mpc import MpcSettings
from controllers.robot.load import RobotSettings
from controllers.settings import AnyControlLaw, AnyReference, ControllerSettings
from idyn import Consistency, Residuals, Selection, State, Status
from sim_harness.commands.main import build_parser, main
from sim_harness.commands.options import COMMANDS
from sim_harness.compare.studies import STUDIES
from sim_harness.export.quantities import QUANTITIES
from sim_harness.run.plan import ExperimentSettings
from sim_harness.studies.controllers import CONTROLLERS
from sim_harness.studies.paper import ComparisonSettings, load_comparison, plan_of
from sim_harness.world.worlds import AnyEngine
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import Code
from transport.protocol.messages.state import WatchdogLevel
from transport.robot.failsafe import FailsafeMode
from transport.server.settings import ServerSettings

SETTINGS = "docs/reference/settings.md"
STATUSES = "docs/reference/statuses.md"

CONFIGURATIONS = {  # word in the first line of a TOML block → type of the configuration, and what it requires besides
    "robot": (RobotSettings, {"urdf": "my_robot.urdf"}),
    "controller": (ControllerSettings, {"robot": "quadruped"}),
    "server": (ServerSettings, {"controller": "quadruped"}),
    "experiment": (ExperimentSettings, {"server": "quadruped", "laws": ["coulomb"], "duration": 1.0}),
    "comparison": (ComparisonSettings, {"title": "a title"}),
    "planner": (MpcSettings, {}),
}


BARE = ("contact-free", "enumeration", "pid", "geometry", "sensed", "planner", "flat", "standing", "hold")
"""Kinds without settings of their own; the others of a family that share theirs stand before the one that has them."""

INLINE = [(document, code) for document in DOCUMENTS for code in inline(document)]

FAMILIES = {"law": AnyControlLaw, "contact.source": AnySource, "contact.terrain": AnyTerrain, "ground": AnyGround}
FAMILIES |= {"reference": AnyReference, "grip": AnyGrip, "engine": AnyEngine}
PARSER = build_parser()
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))


def settings_of(block):
    """The configuration of the block, completed by required fields."""
    first = re.search("|".join(CONFIGURATIONS), block.title)
    assert first, f"{block}: expected a first line that names one of {', '.join(CONFIGURATIONS)}"
    kind, required = CONFIGURATIONS[first[0]]
    return parse(required | tomllib.loads(block.text), kind, str(block))


def check_command(words):
    options = vars(PARSER.parse_args(words))
    if words[0] == "list":
        return
    what = list(np.atleast_1d(options.get("what", [])))
    named = [*(what[:1] if what[:1] and what[0] in STUDIES else what), options.get("experiment"), options.get("config")]
    known = {*files("experiments"), *files("robots"), *files("server"), *STUDIES, "paper", "engines"}
    for name in map(str, filter(None, named)):
        own = "/" in name or re.search(r"[A-Z.]", name)  # a path or a placeholder
        assert own or name in known, f"no configuration named {name}"


def test_the_readme_is_short():
    assert len(DOCUMENTS["README.md"].splitlines()) <= 250


def test_the_readme_has_two_commands_the_second_marked_for_the_ci():
    demo, tests, *_ = blocks("sh", "README.md")
    assert demo.text.strip().endswith("idyn demo")
    after = DOCUMENTS["README.md"].split("<!-- test command -->\n")[1]
    assert after.startswith(f"```sh\n{tests.text}```")


def test_code_blocks_are_of_known_languages():
    """`text`, the output of a command, is compared with it in tutorials only."""
    known = {"python", "toml", "sh"}
    others = [block for block in BLOCKS if block.language not in known]
    assert [block for block in others if block.language != "text" or block.document not in TUTORIALS] == []


@pytest.mark.parametrize("document", sorted({block.document for block in blocks("python")} - {*TUTORIALS}))
def test_python_blocks_run(document, monkeypatch, tmp_path):
    """The blocks of a document, one after the other, in a folder of their own. `test_tutorials` runs those of tutorials."""
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for block in blocks("python", document):
        exec(compile(block.text, str(block), "exec"), namespace)


@every("block", blocks("toml"))
def test_toml_is_a_valid_configuration(block):
    data = tomllib.loads(block.text)
    if not has_sections(data):
        settings_of(block)
        return
    for name, section in data.items():
        kind, required = CONFIGURATIONS[name]
        parse(required | section, kind, f"{block}.{name}")


@every("block", blocks("sh"))
def test_shell_blocks_name_existing_commands(block):
    for command in re.split(r"\n|&&", block.text.strip()):
        program, *arguments = shlex.split(command.removesuffix(" &"))
        if Path(program).name == "idyn":
            check_command(arguments)
        elif program == "python":
            assert arguments[0] in {each.title for each in blocks("python", block.document)}
        elif block.document != "docs/how-to/cpp.md":  # tests/examples/test_library_examples.py runs its blocks
            assert Path(program).name in ("python3.11", "pip", "pytest")


@every(("document", "code"), INLINE)
def test_inline_commands_are_valid(document, code):
    if re.fullmatch(r"idyn [a-z]+", code):
        assert code.removeprefix("idyn ") in COMMANDS
    elif code.startswith("pytest "):
        assert all((ROOT / path).exists() for path in code.split() if "/" in path)
    elif re.match(r"idyn [a-z]", code) and not re.search(r"[\[|…]", code):
        check_command(shlex.split(code)[1:])


def test_the_gait_example_makes_a_robot_walk():
    controller = build_controller(settings_of(titled("controller: a gait")))
    state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
    commands = [controller.step(state, controller.contacts(state.q), Inputs(dt=0.001)) for _ in range(20)]
    assert not commands[-1].reference.schedule.stance.all()


@full
def test_the_own_robot_guide_gives_a_robot_that_walks_in_mujoco(tmp_path, monkeypatch):
    """The file of the guide, by the commands that it names."""
    monkeypatch.chdir(tmp_path)
    (block,) = (block for block in blocks("toml", "docs/how-to/own-robot.md") if block.title == "my_robot.toml")
    Path("my_robot.toml").write_text(block.text, encoding="utf-8")
    assert main(["check", "my_robot.toml"]) == 1  # it names the link with a placeholder for its inertia
    assert main(["simulate", "my_robot.toml", "--seconds", "1.5", "--json", "figures.json"]) == 0
    (figures,) = json.loads(Path("figures.json").read_text())
    assert figures["verdict"]["upright"]
    assert figures["tracking"] < 0.005
    assert figures["force_error_relative"] < 0.05
    assert figures["modes"] == {"ok": 1.0}


def test_the_ground_example_sets_ground_and_friction():
    (block,) = (block for block in blocks("toml", SETTINGS) if "[contact.terrain]" in block.text)
    controller = build_controller(settings_of(block))
    contacts = controller.contacts(controller.stance)
    assert len(contacts) == 4
    assert (contacts.mu == 0.1).all()


def test_the_example_of_kinds_sets_them():
    (block,) = (block for block in blocks("toml", SETTINGS) if "[contact.source]" in block.text)
    settings = settings_of(block)
    assert (settings.law.edges, settings.contact.source.early, kind_of(settings.reference)) == (8, 0.02, "hold")


def test_the_comparison_example_can_be_run(tmp_path):
    path = tmp_path / "my_comparison.toml"
    path.write_text(titled("my_comparison.toml").text, encoding="utf-8")
    comparison = load_comparison(str(path))
    for controller in comparison.controllers:
        assert plan_of(comparison, comparison.scene[0], controller).controller.contact.mu == 0.1


@every(("document", "link"), [(document, link) for document in DOCUMENTS for link in links(document)])
def test_relative_links_resolve(document, link):
    target, _, anchor = link.partition("#")
    path = (ROOT / document).parent / target if target else ROOT / document
    assert path.exists()
    assert not anchor or anchor in anchors(path)


def test_the_index_names_every_document():
    listed = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in links("docs/README.md")}
    assert {ROOT / document for document in DOCUMENTS} - listed == {ROOT / "docs/README.md"}


@every(("document", "code"), INLINE)
def test_names_of_modules_and_files_exist(document, code):
    if re.fullmatch(r"(idyn|controllers|transport|sim_harness)(\.\w+)+", code):
        home, _, name = code.rpartition(".")
        assert hasattr(import_module(home), name) or import_module(code)
    elif re.fullmatch(r"(idyn|controllers|transport|sim_harness|configs|docs|tests)/[\w/.-]*", code):
        assert (ROOT / code).exists() or re.search(r"name|[A-Z]{4}", code)  # or with a placeholder


def test_the_table_of_kinds_is_complete_with_all_settings():
    rows = table(SETTINGS, "kinds")
    assert len(rows) == len(FAMILIES)
    for (first, second), family in zip(rows, FAMILIES.values(), strict=True):
        assert FAMILIES[words(first)[0]] is family
        kinds, _, shared = second.partition("; all: ")
        found, waiting = {}, []
        for kind, settings in re.findall(r"`([a-z-]+)`(?: \(([^)]*)\))?", kinds):
            waiting.append(kind)
            if settings or kind in BARE:
                found |= {key: {*filter(None, settings.split(", ")), *filter(None, shared.split(", "))} for key in waiting}
                waiting = []
        assert not waiting
        assert found == {kind_of(each): set(each.__struct_fields__) for each in get_args(family)}


@every_row(
    ("docs/concepts/contact-laws.md", "laws", [kind_of(each) for each in get_args(AnyControlLaw)]),
    ("docs/concepts/selection.md", "selections", list(Selection)),
    ("docs/concepts/feasible-demands.md", "consistencies", list(Consistency)),
    ("docs/concepts/certificate-and-fallbacks.md", "residuals", Residuals.__struct_fields__),
    ("docs/reference/controllers.md", "controllers", CONTROLLERS),
    ("docs/reference/worlds.md", "engines", [kind_of(each) for each in get_args(AnyEngine)]),
    (STATUSES, "statuses", Status.__members__),
    (STATUSES, "modes", list(Mode)),
    (STATUSES, "levels", list(WatchdogLevel)),
    (STATUSES, "failsafe", list(FailsafeMode)),
    (STATUSES, "codes", list(Code)),
)
def test_each_table_of_kinds_is_complete(document, mark, names):
    named = [word for row in table(document, mark) for word in words(row[0])]
    assert sorted(named) == sorted({*names})


def test_the_table_of_exported_quantities_is_that_of_the_code():
    rows = [[f"`{each.topic}`", ", ".join(f"`{name}`" for name in each.fields), each.unit, each.meaning] for each in QUANTITIES]
    assert [list(row) for row in table("docs/how-to/replay-and-logs.md", "quantities")] == rows


def test_the_table_of_error_codes_is_complete():
    for code, _, recoverable in table(STATUSES, "codes"):
        assert ProtocolError(Code(words(code)[0]), None, "").recoverable == (recoverable == "yes")


def test_the_table_of_commands_is_complete():
    named = {words(row[0])[0].split()[1] for row in table("docs/reference/commands.md", "commands")}
    assert named == set(COMMANDS)


def scripts() -> dict[str, str]:
    """Name → text of each script in the documents; a block that continues the block above belongs to that one's script."""
    found: dict[str, str] = {}
    for block in blocks("python"):
        if "continues the block above" in block.title:
            last = next(reversed(found))
            assert last.startswith(module(block.document)), f"{block} continues a block of another document"
            found[last] += block.text
        else:
            found[f"{module(block.document)}_{block.line}"] = block.text
    return found


def module(document: str) -> str:
    return document.removesuffix(".md").replace("/", "_").replace("-", "_")


def errors(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@full
def test_examples_are_typed(tmp_path):
    for name, text in scripts().items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    files = list((ROOT / "docs" / "examples").rglob("*.py"))
    for path in files:
        shutil.copy(path, tmp_path)
    assert len(files) >= 2
    assert len(scripts()) > 15
    assert errors(tmp_path) == []


def name(path):
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_is_kept_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_runs(path, tmp_path):
    """A process of its own, as Jupyter's packages warn of much; it fails at the first cell that raises."""
    code = "import sys, nbformat, nbclient; nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), timeout=300).execute()"
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
