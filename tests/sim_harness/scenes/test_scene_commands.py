"""Scenes on the command line: figures, files of a run, comparison of engines, view."""

import json
import sys

import numpy as np
import pytest
from fast import every, full

from sim_harness.commands.main import main
from sim_harness.scenes.measures import read, saved_runs
from sim_harness.scenes.scene_model import SceneModel
from sim_harness.studies.engines import engines_figure, engines_table, jobs_of, run_job, run_jobs, write_engine_report
from sim_harness.view.bodies import film_of_scene

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
    assert (out / "lcp" / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert main(["view", str(out)]) == 0
    assert "block" in (out / "view.html").read_text()


@full
def test_a_scene_outside_its_tolerance_fails_the_command(capsys):
    assert main(["simulate", "drop", "--seconds", "0.5", "--engine", "penalty"]) == 1
    assert "NO" in capsys.readouterr().out


@every("option", [["--connect", "tcp://127.0.0.1:1"], ["--view"]])
def test_server_options_are_refused_for_scenes(option, capsys):
    assert main(["simulate", "drop", *option]) == 2
    assert f"{option[0]}: expected an experiment, got a scene" in capsys.readouterr().err


@every(
    ("module", "arguments"),
    [
        ("mujoco", ["drop", "--engine", "mujoco"]),
        ("matplotlib", ["drop"]),  # it draws the picture of the run
        ("meshcat", ["stand", "--view"]),
    ],
)
def test_a_missing_package_is_asked_for_before_a_folder_is_made(tmp_path, monkeypatch, capsys, module, arguments):
    monkeypatch.setitem(sys.modules, module, None)  # what the import system takes for a module that is not there
    for door in ("sim_harness.mujoco.door", "sim_harness.report.plots"):
        monkeypatch.delitem(sys.modules, door, raising=False)
    if module == "meshcat":
        monkeypatch.setattr("sim_harness.view.page.LIBRARY", "nowhere")
    assert main(["simulate", *arguments, "--seconds", "0.01", "--out", str(tmp_path / "out")]) == 2
    assert f"needs the package {module}, which is not installed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_engine_without_scenes_and_mixed_comparisons_are_refused(capsys, tmp_path):
    assert main(["simulate", "drop", "--engine", "bullet"]) == 2
    assert "no kind named 'bullet'" in capsys.readouterr().err
    assert main(["compare", "drop", "table-3", "--out", str(tmp_path)]) == 2
    assert "expected names of scenes" in capsys.readouterr().err


def test_check_accepts_scenes(capsys):
    assert main(["check", "four-bar"]) == 0
    assert "experiments.four-bar: valid" in capsys.readouterr().out


@full
def test_the_film_is_the_recording(tmp_path):
    main(["simulate", "grasp-lift", "--engine", "lcp", "--seconds", "0.1", "--out", str(tmp_path / "out")])
    (kept,) = saved_runs(tmp_path / "out")
    model = SceneModel(kept.settings)
    film = film_of_scene(kept, model)
    assert len(film.t) == 6
    np.testing.assert_allclose(film.points[-1], kept.recording.centres[-1], atol=1e-12)
    np.testing.assert_allclose(film.world[0].sum(axis=0), kept.recording.force[0].sum(axis=0))


@pytest.fixture
def here(monkeypatch):
    """Jobs run in this process; which ones did."""
    done = []

    def execute(name, function, tasks, count):
        for i, task in enumerate(tasks):
            function(*task)
            done.append(task[0].folder.name)
            yield i, None

    monkeypatch.setattr("sim_harness.compare.jobs.run_tasks", execute)
    return done


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
    path = tmp_path / "bursts.toml"
    path.write_text(BURSTS)
    (cell,) = run_jobs(jobs_of([str(path)], tmp_path / "scenes", None), "processes", 1, lambda *_: None)
    assert cell.kept is None
    assert "diverged" in engines_table([cell])[1][2]
    write_engine_report([cell], tmp_path)
    assert main(["compare", str(path), "--out", str(tmp_path / "again")]) == 1


@full
def test_an_interrupted_job_runs_again(tmp_path):
    (job,) = [job for job in jobs_of(["drop"], tmp_path, 0.01) if job.engine == "lcp"]
    (tmp_path / f"{job.folder.name}.1.part").mkdir()
    run_job(job)
    assert [path.name for path in tmp_path.iterdir()] == [job.folder.name]
