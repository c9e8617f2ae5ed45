"""MuJoCo by name: in an experiment, on the command line, and where it is not installed."""

import json
import sys

import numpy as np
import pytest
from fast import every

from controllers.config.loading import parse
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.mujoco_world import MujocoWorld
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan
from sim_harness.world.worlds import NAMES, AnyEngine, EngineWorld, build_world

EXPERIMENT = """
server = "quadruped"
laws = ["coulomb"]
duration = 0.05
paced = false
[engine]
kind = "mujoco"
ground = "stiff"
"""


def written(folder, text):
    path = folder / "experiment.toml"
    path.write_text(text)
    return str(path)


@every("name", NAMES)
def test_every_engine_builds_its_world(name):
    robot, q = load_robot("quadruped")
    world = build_world(parse(name, AnyEngine, "engine"), robot, Flat(), q)
    assert isinstance(world, MujocoWorld if name == "mujoco" else EngineWorld)
    assert world.step(np.zeros(robot.na), 1e-3).status.ok
    assert world.t == 1e-3


def test_an_unknown_engine_is_refused():
    with pytest.raises(ConfigError, match=r"engine: no kind named 'mujoko' \(nearest: mujoco"):
        parse("mujoko", AnyEngine, "engine")


@every(
    ("settings", "named"),
    [
        ({"grund": "firm"}, r"engine.grund: no such setting of 'mujoco' \(nearest: ground"),
        ({"ground": "soft"}, "engine.ground"),
        ({"timestep": 0.0}, "engine.timestep"),
        ({"solref": (0.001, 1.0)}, "engine: solref: expected a time constant of at least two time steps of 0.001 s"),
        ({"solref": (-100.0, 1.0)}, "engine: solref: expected two numbers > 0, or"),
        ({"ground": "stiff", "timestep": 0.002}, "solref: expected a time constant of at least two time steps"),
    ],
)
def test_wrong_settings_are_named(settings, named):
    with pytest.raises(ConfigError, match=named):
        parse({"kind": "mujoco"} | settings, AnyEngine, "engine")


def test_grounds_are_chosen_by_name():
    assert MujocoSettings().contact_solref == (0.02, 1.0)
    assert MujocoSettings(ground="firm").contact_solref == (0.005, 1.0)
    assert MujocoSettings(ground="stiff").contact_solref == (0.002, 1.0)
    assert MujocoSettings(solref=(-5e3, -100.0)).contact_solref == (-5e3, -100.0)


def test_an_experiment_runs_in_mujoco(tmp_path):
    plan = load_plan(written(tmp_path, EXPERIMENT))
    run = run_in_process(plan, "coulomb", lambda label, ticks: None)
    assert run.summary.engine == "mujoco"
    assert len(run.trace) == 50
    assert np.isfinite(run.trace.simulated).all()
    assert run.trace.simulated[0, :, 0].sum() > 0


def test_another_engine_has_its_own_settings(tmp_path):
    plan = load_plan(written(tmp_path, EXPERIMENT), engine="lcp")
    assert plan.settings.engine == PolygonLcp()
    plan = load_plan(written(tmp_path, EXPERIMENT), engine="mujoco")
    assert plan.settings.engine == MujocoSettings(ground="stiff")


def test_the_engine_is_a_command_line_option(tmp_path):
    figures = tmp_path / "figures.json"
    assert main(["simulate", "stand", "--engine", "mujoco", "--seconds", "0.02", "--json", str(figures)]) in (0, 1)
    assert {row["engine"] for row in json.loads(figures.read_text())} == {"mujoco"}


def test_the_command_line_names_the_engines(capsys):
    for command in ("simulate", "demo"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert ",".join(NAMES) in "".join(capsys.readouterr().out.split())  # lines may end at a hyphen


def test_without_mujoco_the_package_to_install_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mujoco", None)  # what the import system takes for a module that is not there
    monkeypatch.delitem(sys.modules, "sim_harness.mujoco.door")
    assert main(["simulate", "stand", "--engine", "mujoco"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("idyn: engine: 'mujoco' needs the package mujoco, which is not installed: pip install ")
    assert said.endswith("[mujoco]'\n")
