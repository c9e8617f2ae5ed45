"""Comparisons: jobs that resume, and results that do not depend on how many ran at once."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast, full

from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.compare import jobs
from sim_harness.compare.executors import run_tasks
from sim_harness.compare.jobs import LOG, RESULT, load_trace, run_task
from sim_harness.compare.run import Options, all_tasks, run_comparisons
from sim_harness.compare.settings import load_comparison
from sim_harness.measure.metrics import Summary
from sim_harness.run.experiment import CONTROLLER, SUMMARY, TRACE


def quiet(done, total, name):
    pass


@full
def test_finished_jobs_are_not_repeated(comparison, here, tmp_path):
    settings = load_comparison(comparison)
    first = run_comparisons([settings], tmp_path / "out", Options(), quiet)
    assert len(here) == 2
    again = run_comparisons([settings, settings], tmp_path / "out", Options(), quiet)
    assert len(here) == 2
    assert again == [*first, *first]
    folder = first[0]["short", "pid"].folders[0]
    assert {path.name for path in folder.iterdir()} == {RESULT, SUMMARY, TRACE, CONTROLLER, LOG}


@full
@pytest.mark.parametrize("damage", first_is_fast(["gone", "cut", "another"]))
def test_interrupted_jobs_run_again(comparison, here, tmp_path, damage):
    """Without a result, with half of one, or with one of other settings; other files in the folder are removed."""
    settings = load_comparison(comparison)
    first = run_comparisons([settings], tmp_path, Options(), quiet)[0]["short", "pid"]
    result = first.folders[0] / RESULT
    text = result.read_text()
    result.write_text({"gone": "", "cut": text[:100], "another": text.replace('"digest": "', '"digest": "0')}[damage])
    (result.parent / "left over").touch()
    again = run_comparisons([settings], tmp_path, Options(), quiet)[0]["short", "pid"]
    assert here[2:] == [first.folders[0].name]
    assert comparable(again.summaries[0]) == comparable(first.summaries[0])
    assert not (result.parent / "left over").exists()


@full
def test_a_job_depends_on_settings_seed_robot_and_code(comparison, tmp_path, monkeypatch):
    def digests(settings, **options):
        tasks = all_tasks(settings, tmp_path, Options(**options))
        return {task.digest for same in tasks.values() for task in same}

    settings = load_comparison(comparison)
    first = digests(settings)
    assert digests(load_comparison(comparison)) == first
    longer = msgspec.structs.replace(settings, changes={"duration": 0.05})
    stiffer = msgspec.structs.replace(settings, changes={**settings.changes, "controller": {"feedback": {"kp": 901.0}}})
    other = msgspec.structs.replace(settings, changes={**settings.changes, "controller": {"robot": "solo12"}})
    for changed in (longer, stiffer, other):
        assert not digests(changed) & first
    assert len(digests(settings, seeds=3)) == 6
    assert digests(settings, seeds=3) > first
    monkeypatch.setattr(jobs, "code_digest", lambda: "other code")
    assert not digests(settings) & first


@full
def test_seeds_differ_and_are_repeatable(comparison, tmp_path):
    settings = msgspec.structs.replace(load_comparison(comparison), seeds=2)
    begins = []
    for root in (tmp_path / "a", tmp_path / "b"):
        for task in all_tasks(settings, root, Options(keep_logs=False))["short", "pid"]:
            run_task(task)
            begins.append(load_trace(task.folder))
    assert not np.array_equal(begins[0].q[0], begins[1].q[0])
    for one, other in ((begins[0], begins[2]), (begins[1], begins[3])):
        for name in ("t", "q", "v", "tau", "q_ref", "predicted", "simulated"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_the_command_writes_tables_pictures_and_a_report(comparison, here, tmp_path, capsys):
    out, claims = tmp_path / "out", tmp_path / "claims.json"
    code = main(["compare", comparison, "--out", str(out), "--json", str(claims)])
    (claim,) = json.loads(claims.read_text())
    assert code == (0 if claim["holds"] else 1)
    shown = capsys.readouterr().out
    assert "ID(t) QP,μ" in shown
    assert "paper: E|θ−θ_des| rad" in shown
    assert "fell" in shown
    html = (out / "report.html").read_text()
    assert html.count("data:image/png") == 4
    assert 'src="http' not in html
    summary = json.loads((out / "summary.json").read_text())
    assert summary["two"]["scenes"]["short"]["pid"]["quantities"]["tracking"]["mean"] > 0


def comparable(summary: Summary) -> dict:
    """A summary without times."""
    data = msgspec.to_builtins(summary)
    for name in ("step_p50", "step_p99", "step_max", "round_trip_p50", "round_trip_p99", "late", "pace", "longest_tick"):
        del data[name]
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in data.items()}


@pytest.mark.long
def test_parallel_jobs_give_identical_results(comparison, tmp_path):
    settings = msgspec.structs.replace(load_comparison(comparison), seeds=2)
    one = run_comparisons([settings], tmp_path / "1", Options(jobs=1), quiet)[0]
    two = run_comparisons([settings], tmp_path / "2", Options(jobs=2), quiet)[0]
    assert one.keys() == two.keys()
    for place in one:
        assert [comparable(s) for s in one[place].summaries] == [comparable(s) for s in two[place].summaries]
        for a, b in zip(one[place].folders, two[place].folders, strict=True):
            with np.load(a / TRACE) as x, np.load(b / TRACE) as y:
                for name in set(x.files) - {"round_trip", "solve_time", "wall"}:
                    np.testing.assert_array_equal(x[name], y[name])


@pytest.mark.long
def test_a_killed_comparison_resumes(comparison, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "sim_harness", "compare", comparison, "--out", str(out), "--seeds", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (done := list((out / "runs").glob(f"*/{RESULT}"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < len(done) < 4
    before = {path: path.stat().st_mtime_ns for path in done}
    assert subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode in (0, 1)
    assert {path: path.stat().st_mtime_ns for path in done} == before
    assert len(list((out / "runs").glob(f"*/{RESULT}"))) == 4


def test_a_failed_job_is_named_and_the_others_run(comparison, tmp_path, monkeypatch, capsys):
    def execute(executor, function, tasks, count):
        yield 0, "the roof came down"
        function(*tasks[1])
        yield 1, None

    monkeypatch.setattr(jobs, "run_tasks", execute)
    assert main(["compare", comparison, "--out", str(tmp_path)]) == 2
    assert "1 of 2 jobs failed" in (error := capsys.readouterr().err)
    assert "the roof came down" in error
    assert len(list((tmp_path / "runs").glob(f"*/{RESULT}"))) == 1


@full
@pytest.mark.parametrize("jobs", [1, 3])
def test_every_task_has_an_outcome(jobs):
    """Whether it ends well, raises, or ends its process; the tasks after it run in the same or in a new process."""
    tasks = {"pass": None, "int('x')": "ValueError: invalid", "import os; os._exit(3)": "EXIT(3)"}
    outcomes = dict(run_tasks("processes", exec, 2 * [(source,) for source in tasks], jobs))
    assert sorted(outcomes) == [0, 1, 2, 3, 4, 5]
    for index, expected in enumerate(2 * list(tasks.values())):
        assert outcomes[index] == expected or expected in outcomes[index]


@every("name", ["dask", "ray"])
def test_an_executor_that_is_not_installed_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"pip install .*{name}"):
        list(run_tasks(name, print, [()], 1))


@full
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_cluster_of_this_machine_runs_tasks(name, own, monkeypatch):
    """One that the executor starts, or Dask's that runs already, at the address in the environment."""
    library = pytest.importorskip({"dask": "distributed", "ray": "ray"}[name])
    tasks = {"pass": None, "int('x')": "ValueError: invalid"}
    with ExitStack() as stack:
        if own and name == "ray":
            pytest.skip("one machine has one cluster of Ray")
        if own:
            cluster = stack.enter_context(library.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0"))
            monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address)
        outcomes = dict(run_tasks(name, exec, 5 * [(source,) for source in tasks], 2))
    assert sorted(outcomes) == list(range(10))
    for index, expected in enumerate(5 * list(tasks.values())):
        assert outcomes[index] == expected or expected in outcomes[index]


def test_an_unknown_executor_and_zero_jobs_are_refused():
    with pytest.raises(ConfigError, match="processes"):
        run_tasks("procesess", print, [], 1)
    with pytest.raises(ConfigError, match="jobs"):
        run_tasks("processes", print, [], 0)
