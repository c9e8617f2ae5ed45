"""The shipped scenes with each of their engines against known figures; errors in scene files; scenes on the command line."""

import json
import sys
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cli import fails
from disk import written
from fast import every, full

from controllers.config.loading import files, load
from controllers.config.tables import kind_of
from idyn.errors import ConfigError, InputError
from sim_harness.commands.main import main
from sim_harness.compare.studies import BODY_TABLES, is_scene, scene_runs
from sim_harness.studies.engines import engines_figure, engines_table, jobs_of, run_jobs, write_engine_report
from sim_harness.studies.scenes.load import engine_named, load_scene
from sim_harness.studies.scenes.measures import outcome_of, read
from sim_harness.studies.scenes.page import film_of_scene
from sim_harness.studies.scenes.recording import run_scene
from sim_harness.studies.scenes.scene_model import SceneModel
from sim_harness.studies.scenes.world import build_scene

SCENES = [name for name in sorted(files("experiments")) if is_scene(name)]
LISTED = {name: load("experiments", name, dict)["engines"] for name in SCENES}
CLAIMS = [(name, each if type(each) is str else each["kind"]) for name in SCENES for each in LISTED[name]]
LONG = {"arch", "clutter", "crank-rocker", "dual-arm"}
FAST = {  # A scene of each engine
    ("elastic-foundation", "first-order"),
    ("grasp-lift", "sap"),
    ("heavy-stack", "dissipation"),
    ("heavy-stack", "newton"),
    ("heavy-stack", "no-slip"),
    ("ramp-friction", "lcp"),
    ("rolls", "mujoco"),
    ("rolls", "penalty"),
}

SCENE = """
about = "a ball"
engines = ["lcp"]
dt = 0.001
duration = 0.01
[ground]
[[body]]
name = "ball"
shape = { sphere = 0.05 }
mass = 1.0
position = [0.0, 0.0, 0.05]
"""
SLIDE = 'joint = [{ kind = "slide", axis = [0, 0, 1], start = 0.1 }]'


def claims():
    assert set(CLAIMS) >= FAST
    marks = {claim: pytest.mark.long if claim[0] in LONG else full for claim in CLAIMS if claim not in FAST}
    return [pytest.param(*claim, marks=marks.get(claim, ())) for claim in CLAIMS]


@pytest.mark.parametrize(("name", "engine"), claims())
def test_each_scene_matches_its_known_figures(name, engine):
    settings = load_scene(name)
    outcome = outcome_of(name, engine, settings, run_scene(settings, engine_named(settings, engine)))
    assert outcome.good, outcome
    if name in LONG and outcome.e_m is not None:  # solved as loosely as the paper does
        assert outcome.e_m <= engine_named(settings, engine).tolerance
    else:
        assert outcome.residuals["momentum"] < (1e-8 if engine != "mujoco" else 1e-6)  # whose own solver stops there
    if engine not in ("no-slip", "viscous"):  # whose friction has no limit
        assert outcome.residuals["cone"] < 1e-8


def test_scenes_are_shipped_and_told_apart_from_comparisons():
    assert {"sliding-block", "ramp-sticks", "ramp-slides", "drop"} <= set(SCENES)
    for path in (Path(__file__).parents[3] / "configs/experiments").rglob("*.toml"):
        data = tomllib.loads(path.read_text())
        scene, runs = not BODY_TABLES.isdisjoint(data), "server" in data or "experiment" in data
        assert scene + ("title" in data) + runs >= 1
        assert not (scene and ("title" in data or runs))


@pytest.fixture
def scene(tmp_path):
    """Writes a scene with some text replaced and more at its end."""

    def write(old="", new="", more=""):
        path = tmp_path / "scene.toml"
        assert old in SCENE
        path.write_text(SCENE.replace(old, new) + more)
        tomllib.loads(path.read_text())
        return str(path)

    return write


ARCH = '[[arch]]\nname = "a"\nblocks = 5\nrise = 1.0\nthickness = [1.0, 1.0]\nwidth = 0.5\ndensity = 1.0\n'
FLAT = "[[-1, -1, 0], [1, -1, 0], [-1, 1, 0], [1, 1, 0]]"
HINGE = 'kind = "hinge", axis = [0, 1, 0]'
CLOSURE = '[[closure]]\nkind = "pin"\nbodies = ["ball", ""]\nat = [0.0, 0.0, 0.0]\n'
BAD = [
    ("dt = 0.001", "dt = -0.001", "", "dt"),
    ("dt = 0.001", "dt = nan", "", "dt"),
    ("duration = 0.01", "duration = 0.0001", "", "duration"),
    ("mass = 1.0", "mass = -1.0", "", r"^scene.body\[0\].mass"),
    ("mass = 1.0", "", "", r"body\[0\].mass"),
    ("mass = 1.0", "mass = 1.0\ndensity = 1.0", "", r"body\[0\].mass"),
    ("mass = 1.0", "mass = 1.0\nmaterial = { mu = -0.1 }", "", r"material.mu"),
    ("mass = 1.0", "mass = 1.0\nmaterial = { stiffness = -1.0 }", "", r"material.stiffness"),
    ("0.05]", "nan]", "", r"body\[0\].position"),
    ("mass = 1.0", "mass = 1.0\nspin = [inf, 0.0, 0.0]", "", r"body\[0\].spin"),
    ("{ sphere = 0.05 }", "{ sphere = 0.05, box = [1.0, 1.0, 1.0] }", "", r"body\[0\].shape"),
    ("{ sphere = 0.05 }", "{}", "", r"body\[0\].shape"),
    ("{ sphere = 0.05 }", "{ sphere = inf }", "", r"^scene.body\[0\].shape.sphere: expected a finite number, got inf"),
    ("{ sphere = 0.05 }", "{ hull = [] }", "", r"^scene.body\[0\].shape.hull: expected at least 4 corners, got 0"),
    ("{ sphere = 0.05 }", f"{{ hull = {FLAT} }}", "", r"^scene.body\[0\].shape.hull: expected corners that enclose a volume"),
    ("{ sphere = 0.05 }", "{ hull = [[nan, 0, 0]] }", "", r"hull: expected finite numbers, got \(\(nan, 0.0, 0.0\),\)"),
    ("mass = 1.0", "mass = inf", "", r"^scene.body\[0\].mass: expected a finite number"),
    ("mass = 1.0", "mass = 1.0\nmaterial = { dissipation = inf }", "", r"^scene.body\[0\].material.dissipation"),
    ("mass = 1.0", f"mass = 1.0\njoint = [{{{HINGE}, stop_dissipation = inf}}]", "", r"body\[0\].joint\[0\].stop_dissipation"),
    ("[ground]", "[ground]\nmaterial = { dissipation = inf }", "", r"^scene.ground.material.dissipation"),
    ("", "", f"{CLOSURE}dissipation = inf", r"^scene.closure\[0\].dissipation"),
    ("mass = 1.0", "mass = 1.0\njoint = []", "", r"body\[0\].joint"),
    ("mass = 1.0", 'mass = 1.0\njoint = [{ kind = "hinge", axis = [0, 0, 0] }]', "", r"joint\[0\].axis"),
    ("mass = 1.0", f"mass = 1.0\njoint = [{{ {HINGE}, stiffness = -1.0 }}]", "", "stiffness"),
    ("mass = 1.0", f"mass = 1.0\njoint = [{{ {HINGE}, stop = [1.0, -1.0] }}]", "", "stop"),
    ("mass = 1.0", 'mass = 1.0\nparent = "bal"', "", r"body\[0\].parent"),
    ('["lcp"]', '["lpc"]', "", "engines"),
    ('["lcp"]', '[{ kind = "penalty", kp = -1.0 }]', "", "kp"),
    ("", "", '[[force]]\nbody = "bal"\nforce = [1.0, 0.0, 0.0]', r"force\[0\].body"),
    ("", "", f"{ARCH}span = inf", r"^scene.arch\[0\].span: expected a finite number, got inf"),
    ("", "", f"{ARCH}span = 2.0\nmaterial = {{ dissipation = inf }}", r"^scene.arch\[0\].material.dissipation"),
    ("", "", f"{ARCH}span = 0.5", r"arch 'a'.thickness"),
    ("mass = 1.0", 'mass = 1.0\njoint = [{ kind = "hinge", axis = [0, 1, 0], stop_stiffness = 0.0 }]', "", "stop_stiffness"),
    ("", "", '[[force]]\nbody = "ball"\nforce = [1.0, 0.0, 0.0]\norbit = nan', r"force\[0\]"),
    ("", "", '[[measure]]\nquantity = "rise"\nknown = "hinges"', "'hinges'.*one hinge"),
    ("", "", '[[measure]]\nquantity = "hight"', r"measure\[0\].quantity"),
    ("", "", '[[measure]]\nquantity = "rise"\nknown = "noting"', r"measure\[0\].known"),
    ("", "", '[[measure]]\nquantity = "rise"\nengines = ["sap"]', r"measure\[0\].engines"),
    ("", "", '[[measure]]\nquantity = "rise"\nknown = "reading"', "'reading'.*expected a slide"),
    ("", "", '[[measure]]\nquantity = "rise"\nknown = "viscous-way"', "'viscous-way'.*coefficient"),
    ("", "", '[[closure]]\nkind = "pin"\nbodies = ["ball", "ball"]\nat = [0.0, 0.0, 0.0]', r"closure\[0\].bodies"),
]


@every(("old", "new", "more", "field"), BAD)
def test_errors_in_a_scene_are_named(scene, old, new, more, field):
    with pytest.raises(ConfigError, match=field):
        load_scene(scene(old, new, more))


@every(("joint", "what"), [(SLIDE, "an error of 0.1"), (SLIDE.replace("start", "speed"), "a velocity of 0.1")])
def test_a_closure_that_contradicts_a_joint_is_refused(scene, joint, what):
    closure = '[[closure]]\nkind = "pin"\nbodies = ["ball", ""]\nat = [0.0, 0.0, 0.05]'
    with pytest.raises(ConfigError, match=rf"closure\[0\].*{what}"):
        load_scene(scene("mass = 1.0", f"mass = 1.0\n{joint}", closure))


def test_a_malformed_state_is_refused(scene):
    settings = load_scene(scene())
    world = build_scene(settings, engine_named(settings, "lcp"))
    q, v = world.state.q, world.state.v
    for field, bad in (("q", (np.full_like(q, np.nan), v)), ("v", (q, np.full_like(v, np.inf)))):
        with pytest.raises(InputError, match=field):
            world.reset(*bad)


def test_an_engine_that_the_scene_does_not_name_has_its_defaults_and_an_unknown_one_is_refused(scene):
    with pytest.raises(ConfigError, match="no kind named 'bullet'"):
        engine_named(load_scene(scene()), "bullet")
    assert kind_of(engine_named(load_scene(scene()), "penalty")) == "penalty"


def test_equal_scenes_give_identical_results():
    settings = load_scene("sliding-block", 0.05)
    runs = [run_scene(settings, engine_named(settings, "lcp")) for _ in range(2)]
    assert (runs[0].q == runs[1].q).all()
    assert (runs[0].force == runs[1].force).all()


@full
def test_a_patch_sinks_as_one_spring_and_resists_turning():
    settings = load_scene("patches")
    for edge in (1, 2, 4):
        one = msgspec.structs.replace(settings, edge=edge, duration=0.6)
        run = run_scene(one, engine_named(one, "sap"))
        assert -run.gap[-1, 0] == pytest.approx(9.81 / 1e4, rel=1e-3)
    body = msgspec.structs.replace(settings.body[0], spin=(0.0, 0.0, 3.0))
    spun = msgspec.structs.replace(settings, body=(body,), duration=0.4)
    run = run_scene(spun, engine_named(spun, "sap"))
    assert run.spins[0, 0, 2] == 3.0
    assert abs(run.spins[-1, 0, 2]) < 1e-3


BURSTS = """
about = "a spring that is too stiff for forces at the beginning of the step"
engines = ["sap"]
dt = 0.01
duration = 0.3
[[body]]
name = "a"
shape = { sphere = 0.1 }
mass = 1.0
joint = [{ kind = "slide", axis = [1, 0, 0], start = 0.1, stiffness = 1e9 }]
"""


@full
def test_simulate_prints_figures_and_writes_a_viewable_run(tmp_path, capsys):
    out, figures = tmp_path / "out", tmp_path / "figures.json"
    assert main(["simulate", "sliding-block", "--engine", "lcp", "--out", str(out), "--json", str(figures)]) == 0
    assert "travel of block" in capsys.readouterr().out
    (found,) = json.loads(figures.read_text())
    assert found["measured"][0]["known"] == pytest.approx(2**2 / (2 * 0.5 * 9.81))
    kept = read(out / "lcp")
    assert kept.recording.steps == found["steps"] == 1000
    assert kept.outcome.measured[0].value == found["measured"][0]["value"]
    assert main(["view", str(out)]) == 0
    assert "block" in (out / "view.html").read_text()


@full
def test_a_scene_outside_its_tolerance_fails_the_command(capsys):
    assert main(["simulate", "drop", "--seconds", "0.5", "--engine", "penalty"]) == 1
    assert "NO" in capsys.readouterr().out


@every("option", [["--connect", "tcp://127.0.0.1:1"], ["--view"]])
def test_server_options_are_refused_for_scenes(option, capsys):
    assert f"{option[0]}: expected an experiment, got a scene" in fails(capsys, "simulate", "drop", *option)


@every(("module", "arguments"), [("mujoco", ["drop", "--engine", "mujoco"]), ("meshcat", ["stand", "--view"])])
def test_a_missing_package_is_asked_for_before_a_folder_is_made(tmp_path, monkeypatch, capsys, module, arguments):
    monkeypatch.setitem(sys.modules, module, None)  # what the import system takes for a module that is not there
    monkeypatch.delitem(sys.modules, "sim_harness.mujoco.door", raising=False)
    if module == "meshcat":
        monkeypatch.setattr("sim_harness.view.page.LIBRARY", "nowhere")
    assert main(["simulate", *arguments, "--seconds", "0.01", "--out", str(tmp_path / "out")]) == 2
    assert f"needs the package {module}, which is not installed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_mixed_comparisons_are_refused(capsys, tmp_path):
    assert "expected names of scenes" in fails(capsys, "compare", "drop", "table-3", "--out", str(tmp_path))


@full
def test_the_film_is_the_recording(tmp_path):
    main(["simulate", "grasp-lift", "--engine", "lcp", "--seconds", "0.1", "--out", str(tmp_path / "out")])
    (kept,) = map(read, scene_runs(tmp_path / "out"))
    model = SceneModel(kept.settings)
    film = film_of_scene(kept, model)
    assert len(film.t) == 6
    np.testing.assert_allclose(film.points[-1], kept.recording.centres[-1], atol=1e-12)
    np.testing.assert_allclose(film.world[0].sum(axis=0), kept.recording.force[0].sum(axis=0))


@full
def test_each_engine_runs_once_and_is_reported(tmp_path, here):
    words = ["sliding-block", "four-bar"]
    jobs = jobs_of(words, tmp_path / "scenes", 0.02)
    cells = run_jobs(jobs, "processes", 1, lambda *_: None)
    assert len(cells) == len(here) == len(jobs)
    assert [cell.kept.outcome.scene for cell in run_jobs(jobs, "processes", 1, lambda *_: None)] == [job.scene for job in jobs]
    assert len(here) == len(jobs)  # nothing was done again
    table = engines_table(cells)
    assert {len(row) for row in table} == {len(table[0])}
    write_engine_report(cells, tmp_path)
    for name in ("engines.html", "engines.png", "summary.json", "sliding-block.html", "four-bar.html"):
        assert (tmp_path / name).stat().st_size > 1000
    assert engines_figure(cells).startswith(b"\x89PNG")


def test_a_changed_scene_is_computed_again(tmp_path):
    first, second = (jobs_of(["drop"], tmp_path, seconds) for seconds in (0.1, 0.2))
    assert not {job.folder for job in first} & {job.folder for job in second}


def test_a_diverged_world_is_listed_in_the_table(tmp_path, here, capsys):
    path = written(tmp_path / "bursts.toml", BURSTS)
    (cell,) = run_jobs(jobs_of([str(path)], tmp_path / "scenes", None), "processes", 1, lambda *_: None)
    assert cell.kept is None
    assert "diverged" in engines_table([cell])[1][2]
    write_engine_report([cell], tmp_path)
    assert main(["compare", str(path), "--out", str(tmp_path / "again")]) == 1
