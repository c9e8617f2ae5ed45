"""The README is true: its Python runs, its client talks to a real server, its configuration is one."""

import json
import re
import textwrap
import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pytest

from controllers.build import build_controller
from controllers.command import Inputs
from controllers.config.loading import load, parse
from controllers.config.tables import kind_of
from controllers.contact.ground import AnyGround
from controllers.contact.source import AnySource
from controllers.contact.terrain import AnyTerrain
from controllers.feedback.grip import AnyGrip
from controllers.planners.trajectory import AnyTrajectory
from controllers.robot.load import RobotSettings
from controllers.settings import AnyControlLaw, ControllerSettings
from idyn.types import State
from sim_harness.commands.main import build_parser, main
from sim_harness.compare.controllers import CONTROLLERS
from sim_harness.compare.settings import load_comparison, plan_of
from sim_harness.run.server_process import ServerProcess
from sim_harness.world.worlds import AnyEngine
from transport.server.settings import ServerSettings

BARE = ("contact-free", "enumeration", "pid", "geometry", "sensed", "planner", "flat", "hold")
"""Kinds without settings of their own; the others of a family that share theirs stand before the one that has them."""

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return [textwrap.dedent(block) for block in re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)]


def test_the_library_example_runs():
    single, many, _ = blocks("python")
    exec(compile(single + many, "README.md", "exec"), {})


def test_the_client_written_by_hand_gets_a_torque(tmp_path):
    namespace: dict = {}
    exec(compile(blocks("python")[2], "README.md", "exec"), namespace)
    settings = msgspec.structs.replace(load("server", "quadruped", ServerSettings), endpoint=f"ipc://{tmp_path}/server")
    with ServerProcess(settings) as server:
        status, tau = namespace["talk"](server.endpoint)
    assert status == "ok"
    assert tau.shape == (12,)
    assert np.abs(tau).max() > 0.1


def test_the_robot_example_is_a_valid_configuration():
    parse(tomllib.loads(blocks("toml")[4]), RobotSettings, "README")


def test_the_gait_example_is_a_valid_configuration():
    """Put into a shipped controller, the robot walks by it."""
    settings = parse({"robot": "quadruped"} | tomllib.loads(blocks("toml")[0]), ControllerSettings, "README")
    controller = build_controller(settings)
    state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
    commands = [controller.step(state, controller.contacts(state.q), Inputs(dt=0.001)) for _ in range(20)]
    assert not commands[-1].reference.schedule.stance.all()


def test_a_robot_of_ones_own_walks_in_mujoco(tmp_path, monkeypatch):
    """The four files as they stand there, by the command that is named there."""
    monkeypatch.chdir(tmp_path)
    for block in blocks("toml"):
        if (name := re.match(r"# (my_(?:robot|controller|walk)\.toml)\n", block)) and not Path(name[1]).exists():
            Path(name[1]).write_text(block, encoding="utf-8")
    Path("my_server.toml").write_text('controller = "my_controller.toml"\n', encoding="utf-8")
    assert main(["check", "my_robot.toml"]) == 1  # one link of that file has a placeholder for its inertia, which is said
    assert main(["simulate", "my_walk.toml", "--seconds", "1.5", "--json", "figures.json"]) == 0
    (figures,) = json.loads(Path("figures.json").read_text())
    assert figures["upright"]
    assert figures["tracking"] < 0.005
    assert figures["force_error_relative"] < 0.05
    assert figures["modes"] == {"ok": 1.0}


def test_the_scene_example_is_a_valid_controller():
    settings = parse(
        {"robot": "quadruped", **tomllib.loads(next(block for block in blocks("toml") if "[contact.terrain]" in block))},
        ControllerSettings,
        "README",
    )
    controller = build_controller(settings)
    contacts = controller.contacts(controller.stance)
    assert len(contacts) == 4
    assert (contacts.mu == 0.1).all()


FAMILIES = {
    "law": AnyControlLaw,
    "contact.source": AnySource,
    "contact.terrain": AnyTerrain,
    "ground": AnyGround,
    "reference": AnyTrajectory,
    "grip": AnyGrip,
    "engine": AnyEngine,
}


def test_the_table_of_kinds_has_them_all_with_all_their_settings():
    rows = README[README.index("<!-- kinds -->") : README.index("<!-- /kinds -->")].splitlines()[3:]
    assert len(rows) == len(FAMILIES)
    for row, family in zip(rows, FAMILIES.values(), strict=True):
        first, kinds = row.strip("| ").split(" | ")
        assert FAMILIES[re.findall(r"`([a-z.]+)`", first)[0]] is family
        kinds, _, shared = kinds.partition("; all: ")
        found, waiting = {}, []
        for kind, settings in re.findall(r"`([a-z-]+)`(?: \(([^)]*)\))?", kinds):
            waiting.append(kind)
            if settings or kind in BARE:
                found |= {key: {*filter(None, settings.split(", ")), *filter(None, shared.split(", "))} for key in waiting}
                waiting = []
        assert not waiting
        assert found == {kind_of(each): set(each.__struct_fields__) for each in get_args(family)}


def test_the_kinds_example_is_a_valid_configuration():
    text = next(block for block in blocks("toml") if "[contact.source]" in block)
    settings = parse({"robot": "quadruped"} | tomllib.loads(text), ControllerSettings, "README")
    assert (settings.law.edges, settings.contact.source.early, kind_of(settings.reference)) == (8, 0.02, "hold")


def test_the_comparison_example_can_be_run(tmp_path):
    path = tmp_path / "my_comparison.toml"
    path.write_text(next(block for block in blocks("toml") if "[[scene]]" in block))
    comparison = load_comparison(str(path))
    for controller in comparison.controllers:
        assert plan_of(comparison, comparison.scene[0], controller).controller.contact.mu == 0.1


def test_the_controllers_of_the_table_are_all_there_are():
    section = README[README.index("| controller | is |") :].split("\n\n")[0]
    named = [cell for row in section.splitlines()[2:] for cell in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(CONTROLLERS)


def test_every_command_of_the_table_exists():
    for command in re.findall(r"^\| `idyn (\w+)", README, flags=re.MULTILINE):
        with pytest.raises(SystemExit) as end:
            build_parser().parse_args([command, "--help"])
        assert end.value.code == 0


def test_two_shell_commands_and_a_marked_test_command():
    demo, tests = blocks("sh")
    assert demo.strip().endswith("idyn demo")
    assert README.index("<!-- test command -->") < README.index(tests.strip())
