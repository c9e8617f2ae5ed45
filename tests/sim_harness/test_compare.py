"""Comparisons: jobs that resume, results that do not depend on how many ran at once, claims that the data decide."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import numpy as np
import pytest

from idyn.__main__ import main
from idyn.errors import ConfigError
from sim_harness import experiment
from sim_harness.compare import executors, jobs
from sim_harness.compare.checks import decide, verdict
from sim_harness.compare.executors import run_tasks
from sim_harness.compare.jobs import LOG, RESULT, TRACE, finished, load_trace, run_task
from sim_harness.compare.logs import summarise_log
from sim_harness.compare.quantities import QUANTITIES
from sim_harness.compare.results import Runs, statistic
from sim_harness.compare.run import Options, all_tasks, run_comparisons
from sim_harness.compare.settings import (
    CheckSettings,
    ComparisonSettings,
    SceneSettings,
    TimingSettings,
    VerdictSettings,
    load_comparison,
    plan_of,
)
from sim_harness.compare.timing import timing_tasks
from sim_harness.metrics import Summary, normal_forces

COMPARISON = """
title = "two laws"
experiment = "sway"
controllers = ["id-qp-mu", "pid"]
quantities = ["tracking", "torque-rate"]
figures = ["tracking", "torque-rate", "forces", "path"]
seeds = 1
[changes]
duration = 0.04
[[scene]]
name = "short"
[[check]]
claim = "PID is worse"
quantity = "tracking"
larger = ["pid"]
smaller = ["id-qp-mu"]
[paper.short]
id-qp-mu = [0.5]
pid = "fell"
"""


@pytest.fixture
def comparison(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(COMPARISON)
    return str(path)


@pytest.fixture
def here(monkeypatch):
    """Jobs run in this process: what they are made of is tested, not who runs them."""
    done = []

    def execute(function, tasks, jobs):
        for i, task in enumerate(tasks):
            function(*task)
            done.append(task[0].folder.name)
            yield i, None

    monkeypatch.setitem(executors.EXECUTORS, "processes", execute)
    return done


def quiet(done, total, name):
    pass


def test_what_is_done_is_not_done_again(comparison, here, tmp_path):
    settings = load_comparison(comparison)
    first = run_comparisons([settings], tmp_path / "out", Options(), quiet)
    assert len(here) == 2
    again = run_comparisons([settings, settings], tmp_path / "out", Options(), quiet)
    assert len(here) == 2
    assert again == [*first, *first]
    folder = first[0]["short", "pid"].folders[0]
    assert {path.name for path in folder.iterdir()} == {RESULT, TRACE, LOG}


@pytest.mark.parametrize("damage", ["gone", "cut", "another"])
def test_what_was_interrupted_is_done_again(comparison, here, tmp_path, damage):
    """No result, half of one, or one of other settings; whatever lay in the folder beside it is thrown away."""
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


def test_settings_seed_robot_and_code_make_another_job(comparison, tmp_path, monkeypatch):
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


def test_seeds_begin_elsewhere_and_repeat_themselves(comparison, tmp_path):
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
    for name in ("step_p50", "step_p99", "step_max", "round_trip_p50", "round_trip_p99", "late"):
        del data[name]
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in data.items()}


@pytest.mark.long
def test_two_jobs_at_once_give_the_bits_of_one_at_a_time(comparison, tmp_path):
    settings = msgspec.structs.replace(load_comparison(comparison), seeds=2)
    one = run_comparisons([settings], tmp_path / "1", Options(jobs=1), quiet)[0]
    two = run_comparisons([settings], tmp_path / "2", Options(jobs=2), quiet)[0]
    assert one.keys() == two.keys()
    for place in one:
        assert [comparable(s) for s in one[place].summaries] == [comparable(s) for s in two[place].summaries]
        for a, b in zip(one[place].folders, two[place].folders, strict=True):
            with np.load(a / TRACE) as x, np.load(b / TRACE) as y:
                for name in set(x.files) - {"round_trip", "solve_time"}:
                    np.testing.assert_array_equal(x[name], y[name])


@pytest.mark.long
def test_a_killed_comparison_goes_on_where_it_was(comparison, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "idyn", "compare", comparison, "--out", str(out), "--seeds", "2"]
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


def test_a_job_that_fails_is_named_and_the_others_are_done(comparison, tmp_path, monkeypatch, capsys):
    def execute(function, tasks, jobs):
        yield 0, "the roof came down"
        function(*tasks[1])
        yield 1, None

    monkeypatch.setitem(executors.EXECUTORS, "processes", execute)
    assert main(["compare", comparison, "--out", str(tmp_path)]) == 2
    assert "1 of 2 jobs failed" in (error := capsys.readouterr().err)
    assert "the roof came down" in error
    assert len(list((tmp_path / "runs").glob(f"*/{RESULT}"))) == 1


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_task_has_an_outcome(jobs):
    """Whether it ends well, raises, or takes its process with it; more tasks than processes."""
    for function, argument, said in ((abs, 1, None), (int, "x", "ValueError: invalid"), (os._exit, 3, "exit code 3")):
        outcomes = dict(run_tasks("processes", function, 4 * [(argument,)], jobs))
        assert sorted(outcomes) == [0, 1, 2, 3]
        assert all(outcome == said or said in outcome for outcome in outcomes.values())


@pytest.mark.parametrize("name", ["joblib", "dask", "ray"])
def test_an_executor_that_is_not_installed_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        list(run_tasks(name, print, [()], 1))


class FakeClient:
    """What `_dask` needs of a client, in this process."""

    def __init__(self, **sizes):
        FakeClient.sizes = sizes

    def __enter__(self):
        return self

    def __exit__(self, *error): ...

    def submit(self, function, *arguments, pure):
        return function(*arguments)


@pytest.mark.parametrize("address", [None, "tcp://there:8786"])
def test_a_cluster_that_is_running_is_asked_for_no_size(monkeypatch, address):
    """Dask's own client and ray's init connect to the address in the environment when they are given none."""
    dask, ray, asked = ModuleType("dask.distributed"), ModuleType("ray"), []
    dask.Client, dask.as_completed = FakeClient, lambda futures, with_results: [(None, future) for future in futures]
    ray.init, ray.shutdown, ray.get = lambda **how: asked.append(how), lambda: None, lambda outcome: outcome
    ray.remote = lambda max_calls: lambda function: SimpleNamespace(remote=function)
    ray.wait = lambda waiting: (waiting[:1], waiting[1:])
    for name, module in (("dask.distributed", dask), ("ray", ray)):
        monkeypatch.setitem(sys.modules, name, module)
    for variable in ("DASK_SCHEDULER_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(variable, raising=False)
        if address:
            monkeypatch.setenv(variable, address)
    for name in ("dask", "ray"):
        outcomes = dict(run_tasks(name, int, [("1",), ("x",)], 2))
        assert outcomes[0] is None
        assert "ValueError" in outcomes[1]
    assert FakeClient.sizes == ({} if address else {"n_workers": 2, "threads_per_worker": 1})
    assert asked == [{} if address else {"address": "local", "num_cpus": 2}]


def test_an_unknown_executor_and_no_jobs_are_refused():
    with pytest.raises(ConfigError, match="processes"):
        run_tasks("procesess", print, [], 1)
    with pytest.raises(ConfigError, match="jobs"):
        run_tasks("processes", print, [], 0)


# -- settings -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"pid"]\nquantities', '"pit"]\nquantities', "pid"),
        ('"torque-rate"]\nfigures', '"torque-rat"]\nfigures', "torque-rate"),
        ("[paper.short]", "[paper.shirt]", "short"),
        ("[[scene]]", '[[scene]]\nname = "short"\n[[scene]]', "same name"),
        ('"path"]', '"paths"]', "path"),
        ('larger = ["pid"]', 'larger = ["pi"]', "pid"),
        ('larger = ["pid"]', 'larger = ["id-t-1"]', "not all of id-qp-mu, id-t-1 are run in any scene"),
        ('larger = ["pid"]', "", "expected larger and smaller"),
        ('smaller = ["id-qp-mu"]', "", "expected larger and smaller"),
        ('name = "short"', 'name = "μ = 1/10"', "no '/'"),
        ("seeds = 1", "seeds = 0", "seeds"),
        ("seeds = 1", 'seeds = 1\nverdict = { smooth = "id-t-1" }', "verdict.smooth: there is no 'id-t-1'"),
    ],
)
def test_what_does_not_exist_is_named(tmp_path, old, new, named):
    path = tmp_path / "wrong.toml"
    assert COMPARISON.count(old) == 1
    path.write_text(COMPARISON.replace(old, new))
    with pytest.raises(ConfigError, match=named):
        load_comparison(str(path))


def test_check_reads_a_comparison(comparison, tmp_path, capsys):
    assert main(["check", "figure-18"]) == 0
    assert main(["check", comparison]) == 0
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(COMPARISON.replace("duration", "duratoin"))
    assert main(["check", str(wrong)]) == 2
    assert "duratoin" in capsys.readouterr().err


def test_what_compares_is_told_by_its_keys(tmp_path):
    """Not by the word in a comment, nor by what stands before the first bracket."""
    plain = tmp_path / "plain.toml"
    plain.write_text('# the title of this\nserver = "quadruped"\nlaws = ["coulomb"]\nduration = 1.0\n')
    assert main(["check", str(plain)]) == 0
    listed = tmp_path / "listed.toml"
    listed.write_text('notes = ["a bracket"]\n' + COMPARISON)
    assert main(["check", str(listed)]) == 0


@pytest.mark.parametrize("options", [["--seeds", "0"], ["--json", "nowhere/claims.json"]])
def test_what_cannot_be_done_is_refused_before_the_work(comparison, here, tmp_path, capsys, options):
    assert main(["compare", comparison, "--out", str(tmp_path / "out"), *options]) == 2
    assert here == []
    assert capsys.readouterr().err.count("\n") == 1


def test_json_is_all_there_is_on_stdout_and_has_null_for_no_number(comparison, here, tmp_path, capsys):
    out = tmp_path / "out"
    text = Path(comparison).read_text().replace('["tracking", "torque-rate"]', '["tracking", "path-error"]')
    Path(comparison).write_text(text.replace("id-qp-mu = [0.5]", "id-qp-mu = [0.0]"))
    main(["compare", comparison, "--out", str(out), "--json", "-"])
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)) == 1
    assert "PID is worse" in shown.err
    (log, *_) = (out / "runs").glob(f"*/{LOG}")
    main(["compare", str(log), "--json", "-"])

    def refuse(name):
        raise ValueError(name)

    (figures,) = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert figures["path_error"] is None
    summary = json.loads((out / "summary.json").read_text(), parse_constant=refuse)
    assert summary["two"]["scenes"]["short"]["pid"]["quantities"]["path-error"]["mean"] is None


def test_a_robot_given_by_its_path_stays_in_the_folder(comparison, tmp_path):
    robot = Path(__file__).parents[2] / "configs/robots/quadruped.toml"
    settings = msgspec.structs.replace(load_comparison(comparison), changes={"controller": {"robot": str(robot)}})
    for (task,) in all_tasks(settings, tmp_path, Options()).values():
        assert task.folder.parent == tmp_path
        assert task.folder.name.startswith("quadruped-")


def test_another_robot_of_that_name_makes_other_run_times(tmp_path):
    shipped = Path(__file__).parents[2] / "configs/robots/quadruped"
    robot, text = tmp_path / "robot.toml", shipped.with_suffix(".toml").read_text()
    settings, digests = TimingSettings(contacts={"id-qp-mu": (1,)}, robot=str(robot)), set()
    for note in ("", "<!-- another -->", "<!-- another -->"):
        (tmp_path / "quadruped.urdf").write_text(shipped.with_suffix(".urdf").read_text() + note)
        robot.write_text(text)
        digests.add(timing_tasks(settings, tmp_path)[0].digest)
    assert len(digests) == 2


def test_a_seed_makes_other_ground(tmp_path, monkeypatch):
    """The terrain of the controller and of the world alike."""
    plans = []
    monkeypatch.setattr(experiment, "build_controller", lambda settings: [plans.append(settings.contact.terrain), 1 / 0])
    for seed in (0, 3):
        with pytest.raises(ZeroDivisionError):
            experiment.run_in_process(experiment.load_plan("trot-heightmap"), "", quiet, seed=seed)
    assert (plans[1].seed - plans[0].seed, plans[1].friction.seed - plans[0].friction.seed) == (3, 3)


def test_changes_reach_the_plan(comparison):
    settings = load_comparison(comparison)
    scene = SceneSettings(name="s", changes={"engine": "penalty", "controller": {"feedback": {"kp": 5.0}}})
    plan = plan_of(settings, scene, "id-t-2", seconds=0.5)
    assert (plan.settings.engine, plan.settings.duration) == ("penalty", 0.5)
    assert (plan.controller.feedback.kp, plan.controller.law, plan.controller.sensing_delay) == (5.0, "sensed", 2)
    assert plan.controller.reference.kind == "sway"
    with pytest.raises(ConfigError, match="no such setting"):
        plan_of(settings, SceneSettings(name="s", changes={"engin": "lcp"}), "pid")


# -- claims ---------------------------------------------------------------------------------------------------------------

SUMMARY = Summary(
    label="", engine="lcp", seconds=1.0, upright=True, height=0.1, tilt=0.0, drift=0.0, distance=0.0, tracking=1.0,
    speed_tracking=1.0, torque=1.0, torque_rate=1.0, torque_rate_max=1.0, weight=1.0, force=1.0, force_error=1.0,
    force_error_relative=0.01, contact_force_error=1.0, path_error=math.nan, modes={"ok": 0.75}, step_p50=None, step_p99=None,
    step_max=None, round_trip_p50=None, round_trip_p99=None, late=0,
)  # fmt: skip


def runs(*values, upright=True, field="tracking"):
    return Runs(folders=[], summaries=[msgspec.structs.replace(SUMMARY, upright=upright, **{field: v}) for v in values])


def claim(results, **check):
    scenes = tuple(SceneSettings(name=name) for name in dict.fromkeys(scene for scene, _ in results))
    settings = ComparisonSettings(title="", scene=scenes)
    return decide(CheckSettings(claim="c", quantity=check.pop("quantity", "tracking"), **check), settings, results)


def test_mean_and_spread_are_over_those_that_stayed_up():
    both = Runs(folders=[], summaries=[*runs(1.0, 3.0).summaries, *runs(100.0, upright=False).summaries])
    figures = statistic(both, "tracking")
    assert (figures.mean, figures.fallen, figures.runs) == (2.0, 1, 3)
    assert figures.spread == pytest.approx(math.sqrt(2))
    assert math.isnan(statistic(runs(1.0, upright=False), "tracking").mean)
    assert QUANTITIES["degraded"].value(SUMMARY) == 25.0


def test_an_order_is_decided_by_the_worst_pair():
    results = {("a", "pid"): runs(3.0), ("a", "id-qp-mu"): runs(1.0), ("b", "pid"): runs(2.1), ("b", "id-qp-mu"): runs(1.0)}
    order = {"larger": ("pid",), "smaller": ("id-qp-mu",)}
    outcome = claim(results, **order, factor=2.0)
    assert outcome.holds is True
    assert outcome.measured == "pid over id-qp-mu: 2.1 times (b)"
    assert claim(results, **order, factor=2.5).holds is False
    assert claim(results, **order, factor=2.5, scenes=("a",)).holds is True


def test_who_fell_is_infinitely_worse_and_two_who_fell_are_not_compared():
    fell, stood = runs(0.1, upright=False), runs(1.0)
    order = {"larger": ("pid",), "smaller": ("id-qp-mu",)}
    assert claim({("a", "pid"): fell, ("a", "id-qp-mu"): stood}, **order).holds is True
    assert claim({("a", "pid"): stood, ("a", "id-qp-mu"): fell}, **order).holds is False
    assert claim({("a", "pid"): fell, ("a", "id-qp-mu"): fell}, **order).holds is None


def test_a_fall_lets_no_claim_hold_about_what_it_does_not_show():
    """A robot that lies down has no great torque rate and has not gone far."""
    fell, stood = runs(0.1, upright=False), runs(1.0)
    results = {("a", "pid"): fell, ("a", "id-qp-mu"): stood}
    for quantity in ("torque-rate-max", "distance", "torque"):
        for larger, smaller, holds in (("pid", "id-qp-mu", None), ("id-qp-mu", "pid", False)):
            assert claim(results, quantity=quantity, larger=(larger,), smaller=(smaller,)).holds is holds
    outcome = claim(results, controllers=("pid", "id-qp-mu"), at_least=0.5)
    assert (outcome.holds, outcome.measured) == (False, "pid: fell (a)")
    assert claim(results, controllers=("id-qp-mu",), at_least=0.5).holds is True


def test_a_range_names_whoever_is_nearest_to_its_limit():
    results = {("a", "pid"): runs(5.0), ("a", "id-t-1"): runs(9.0), ("b", "pid"): runs(2.0)}
    assert claim(results, controllers=("pid", "id-t-1"), at_most=10.0).measured.startswith("id-t-1: 9")
    assert claim(results, controllers=("pid", "id-t-1"), at_least=1.5, at_most=20.0).measured.startswith("pid: 2")


def test_a_range_is_kept_by_all_or_not_kept():
    results = {
        ("a", "pid"): runs(0.011, field="force_error_relative"),
        ("a", "id-t-1"): runs(0.03, field="force_error_relative"),
    }
    limits = {"quantity": "force-error-relative", "at_least": 1.0, "at_most": 2.0}
    assert claim(results, **limits, controllers=("pid",)).holds is True
    outcome = claim(results, **limits, controllers=("pid", "id-t-1"))
    assert outcome.holds is False
    assert outcome.measured.startswith("id-t-1: 3")


def test_verdicts():
    settings = VerdictSettings(smooth="id-qp-mu", factor=10.0)
    results = {
        ("a", "id-qp-mu"): runs(1.0, field="torque_rate"),
        ("a", "id-lcp-mu"): runs(11.0, field="torque_rate"),
        ("a", "pid"): runs(1.0, upright=False),
    }
    assert verdict(settings, "a", "id-qp-mu", results) == "PASS"
    assert verdict(settings, "a", "id-lcp-mu", results) == "FAIL (torque chatter, 11 times id-qp-mu)"
    assert verdict(settings, "a", "pid", results) == "FAIL (fell, 1 of 1)"
    without = msgspec.structs.replace(settings, smooth="pid")
    assert verdict(without, "a", "id-lcp-mu", results) == "–"
    assert verdict(without, "a", "pid", results) == "FAIL (fell, 1 of 1)"


# -- logs -----------------------------------------------------------------------------------------------------------------


def test_a_log_has_the_figures_of_the_run_it_recorded(comparison, tmp_path, capsys):
    """All but the last tick's force, which no later state tells, and the clock."""
    settings = load_comparison(comparison)
    for (task,) in all_tasks(settings, tmp_path, Options()).values():
        run_task(task)
        summary = finished(task).summary
        (recorded,) = summarise_log(task.folder / LOG)
        for name in ("seconds", "upright", "height", "tilt", "drift", "distance", "tracking", "speed_tracking", "torque",
                     "torque_rate", "torque_rate_max", "weight"):  # fmt: skip
            assert getattr(recorded, name) == pytest.approx(getattr(summary, name), rel=1e-12)
        assert (recorded.modes, recorded.step_p50) == (summary.modes, pytest.approx(summary.step_p50))
        last = normal_forces(load_trace(task.folder))[1][-1]
        assert recorded.force * 39 + last == pytest.approx(summary.force * 40, rel=1e-9)
        assert main(["compare", str(task.folder / LOG)]) == 0
        assert "log.mcap" in capsys.readouterr().out


def test_the_log_of_the_arm_has_the_figures_of_its_run(tmp_path):
    """Forces between fingers and box, and the errors of the joints that follow."""
    settings = experiment.load_plan("grasp", 0.3).settings
    plan = experiment.build_plan(msgspec.structs.replace(settings, contacts="message"))
    (task,) = jobs.tasks_of(plan, "lcp-mu-selected", [0], tmp_path, True)
    run_task(task)
    summary, trace = finished(task).summary, load_trace(task.folder)
    (recorded,) = summarise_log(task.folder / LOG)
    assert recorded.tracking == pytest.approx(summary.tracking, rel=1e-12)
    assert recorded.speed_tracking == pytest.approx(summary.speed_tracking, rel=1e-12)
    known = len(trace) - 1  # no later state tells the last force
    assert recorded.force * known + normal_forces(trace)[1][-1] == pytest.approx(summary.force * (known + 1), rel=1e-9)
    assert summary.force > 15.0


def test_logs_and_comparisons_do_not_mix(comparison, capsys):
    assert main(["compare", comparison, "log.mcap"]) == 2
    assert main(["compare"]) == 2
    assert "log.mcap" in capsys.readouterr().err


# -- the paper's set ------------------------------------------------------------------------------------------------------


def shipped() -> list[str]:
    folder = Path(__file__).parents[2] / "configs/experiments"
    return [path.stem for path in sorted(folder.glob("*.toml")) if path.stem.startswith(("table-", "figure-", "appendix-"))]


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_comparison_can_be_run(name):
    """Every scene and controller makes a plan."""
    comparison = load_comparison(name)
    for scene in comparison.scene:
        for controller in scene.controllers or comparison.controllers:
            plan_of(comparison, scene, controller)
