"""`idyn compare`: jobs that resume, settings, claims, tables, logs and the user's own robots."""

import json
import math
import re
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import pytest
import urdf
from cli import fails, prints
from disk import written
from fast import every, every_row, fast, full
from hypothesis import given, settings
from hypothesis import strategies as st
from stands import quiet

from controllers.command import Inputs, Mode
from controllers.config.tables import kind_of
from idyn import ConfigError, State, load_controller
from idyn.laws import SensedSettings
from sim_harness.commands.main import main
from sim_harness.compare import jobs
from sim_harness.compare.executors import run_tasks
from sim_harness.compare.jobs import LOG, RESULT, finished, run_task
from sim_harness.compare.results import Options, Runs, statistic
from sim_harness.engines.penalty import Penalty
from sim_harness.measure.metrics import QUANTITIES, Summary, normal_forces
from sim_harness.measure.trace import Trace
from sim_harness.measure.verdict import Ending
from sim_harness.measure.verdict import verdict as judged
from sim_harness.report.report import Report
from sim_harness.report.tables import FIRST, REST, WIDTH, table, text_summary, text_table
from sim_harness.run import experiment
from sim_harness.run.experiment import CONTROLLER, SUMMARY, TRACE
from sim_harness.run.logs import summarise_log
from sim_harness.run.plan import load_plan
from sim_harness.studies import own_robots, paper
from sim_harness.studies.ambiguity import Ambiguities, Ambiguity, ambiguities, ambiguities_text
from sim_harness.studies.controllers import CONTROLLERS
from sim_harness.studies.paper import ComparisonSettings, SceneSettings, all_tasks, load_comparison, plan_of, run_comparisons

FIGURES = Summary(**dict.fromkeys(Summary.__struct_fields__, 1.0) | {
    "label": "", "engine": "lcp", "verdict": judged(Ending.STOOD, "stood 1.0 s"), "modes": {"ok": 0.75}, "risen": math.nan,
    "path_error": math.nan, "substituted": 0.125, "told": 0.75, "force_error_relative": 0.01, "late": 0,
    **dict.fromkeys(("step_p50", "step_p99", "step_max", "round_trip_p50", "round_trip_p99")),
})  # fmt: skip
FELL = judged(Ending.FELL, "fell at 0.50 s", 0.5)
CELL = st.text("abcdefgh 0123456789.", max_size=30).map(lambda text: " ".join(text.split()))
HINGE = urdf.joint("j", "base", "upper", axis="0 1 0", at=0.2, limits=(-1, 1, 30, 5))
ARM = urdf.robot("arm", *[urdf.link(name, 1.0, 0.01, at=0.1) for name in ("base", "upper")], HINGE)


def runs(*values, verdict=FIGURES.verdict, field="tracking"):
    return Runs(folders=[], summaries=[msgspec.structs.replace(FIGURES, verdict=verdict, **{field: v}) for v in values])


def claim(results, **check):
    scenes = tuple(SceneSettings(name=name) for name in dict.fromkeys(scene for scene, _ in results))
    settings = ComparisonSettings(title="", scene=scenes)
    return paper.decide(paper.CheckSettings(claim="c", quantity=check.pop("quantity", "tracking"), **check), settings, results)


def test_mean_and_spread_leave_out_falls():
    both = Runs(folders=[], summaries=[*runs(1.0, 3.0).summaries, *runs(100.0, verdict=FELL).summaries])
    figures = statistic(both, "tracking")
    assert (figures.mean, figures.cut_short, figures.runs) == (2.0, ("fell",), 3)
    assert figures.spread == pytest.approx(math.sqrt(2))
    assert math.isnan(statistic(runs(1.0, verdict=FELL), "tracking").mean)
    assert (QUANTITIES["substituted"].value(FIGURES), QUANTITIES["told"].value(FIGURES)) == (12.5, 75.0)


def test_a_single_run_has_its_verdict_and_no_spread_and_several_have_counts():
    names, scene = ("pid", "id-qp-mu", "id-t-1"), SceneSettings(name="a")
    comparison = ComparisonSettings(title="", controllers=names, quantities=("tracking",), scene=(scene,))
    results = {("a", "pid"): runs(2.0), ("a", "id-qp-mu"): runs(2.0, 2.0), ("a", "id-t-1"): runs(1.0, verdict=FELL)}
    heading, pid, id_qp_mu, id_t_1 = paper.scene_table(comparison, comparison.scene[0], results)
    assert heading[2] == "verdicts"
    assert pid[1:] == ["2", "stood 1.0 s at 1 N·m/s"]
    assert id_qp_mu[1:] == ["2 ± 0", "2 stood at 1 N·m/s"]
    assert id_t_1[1:] == ["fell", "fell at 0.50 s, torques for 0.8 s"]


def test_an_order_is_decided_by_the_worst_pair():
    results = {("a", "pid"): runs(3.0), ("a", "id-qp-mu"): runs(1.0), ("b", "pid"): runs(2.1), ("b", "id-qp-mu"): runs(1.0)}
    order = {"larger": ("pid",), "smaller": ("id-qp-mu",)}
    outcome = claim(results, **order, factor=2.0)
    assert outcome.holds is True
    assert outcome.measured == "pid over id-qp-mu: 2.1 times (b)"
    assert claim(results, **order, factor=2.5).holds is False
    assert claim(results, **order, factor=2.5, scenes=("a",)).holds is True


def test_a_claim_is_refuted_by_its_own_fall_and_not_decided_by_that_of_the_other():
    fell, stood = runs(0.1, verdict=FELL), runs(1.0)
    order = {"larger": ("pid",), "smaller": ("id-qp-mu",)}
    undecided = claim({("a", "pid"): fell, ("a", "id-qp-mu"): stood}, **order)
    assert (undecided.holds, undecided.measured) == (None, "pid: fell (a)")
    both = {("a", "pid"): fell, ("a", "id-qp-mu"): stood, ("b", "pid"): runs(3.0), ("b", "id-qp-mu"): stood}
    assert (claim(both, **order).holds, claim(both, **order, factor=4.0).holds) == (True, False)
    assert claim({("a", "pid"): stood, ("a", "id-qp-mu"): fell}, **order).holds is False
    assert claim({("a", "pid"): fell, ("a", "id-qp-mu"): fell}, **order).holds is None


def test_a_range_holds_for_all_controllers_and_names_the_one_nearest_to_its_limit():
    results = {("a", "pid"): runs(5.0), ("a", "id-t-1"): runs(9.0), ("b", "pid"): runs(2.0)}
    assert claim(results, controllers=("pid", "id-t-1"), at_most=10.0).measured.startswith("id-t-1: 9")
    assert claim(results, controllers=("pid", "id-t-1"), at_least=1.5, at_most=20.0).measured.startswith("pid: 2")
    results = {("a", name): runs(value, field="force_error_relative") for name, value in (("pid", 0.011), ("id-t-1", 0.03))}
    limits = {"quantity": "force-error-relative", "at_least": 1.0, "at_most": 2.0}
    assert claim(results, **limits, controllers=("pid",)).holds is True
    outcome = claim(results, **limits, controllers=("pid", "id-t-1"))
    assert outcome.holds is False
    assert outcome.measured.startswith("id-t-1: 3")


def test_verdicts_report_falls_stops_and_chatter():
    settings = paper.VerdictSettings(smooth="id-qp-mu", factor=10.0)
    results = {("a", name): runs(rate, field="torque_rate") for name, rate in (("id-qp-mu", 1.0), ("id-lcp-mu", 11.0))}
    results["a", "pid"] = runs(1.0, verdict=FELL)
    assert paper.verdict(settings, "a", "id-qp-mu", results) == "PASS"
    assert paper.verdict(settings, "a", "id-lcp-mu", results) == "FAIL (torque chatter, 11 times id-qp-mu)"
    assert paper.verdict(settings, "a", "pid", results) == "FAIL (fell, 1 of 1)"
    results["a", "id-t-1"] = runs(1.0, verdict=judged(Ending.STOPPED, "was stopped", 0.9))
    assert paper.verdict(settings, "a", "id-t-1", results) == "FAIL (stopped, 1 of 1)"
    without = msgspec.structs.replace(settings, smooth="pid")
    assert paper.verdict(without, "a", "id-lcp-mu", results) == "–"
    assert paper.verdict(without, "a", "pid", results) == "FAIL (fell, 1 of 1)"


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
@pytest.mark.parametrize("damage", ["gone", "cut", "another"])
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
            begins.append(Trace.load_npz(task.folder / TRACE))
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
    data = msgspec.to_builtins(summary)
    for name in (
        "step_p50",
        "step_p99",
        "step_max",
        "round_trip_p50",
        "round_trip_p99",
        "late",
        "punctual",
        "pace",
        "longest_tick",
    ):
        del data[name]
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in data.items()}


def test_a_failed_job_is_named_and_the_others_run(comparison, tmp_path, monkeypatch, capsys):
    def execute(executor, function, tasks, count):
        yield 0, "the roof came down"
        function(*tasks[1])
        yield 1, None

    monkeypatch.setattr(jobs, "run_tasks", execute)
    assert "1 of 2 jobs failed" in (error := fails(capsys, "compare", comparison, "--out", str(tmp_path)))
    assert "the roof came down" in error
    assert len(list((tmp_path / "runs").glob(f"*/{RESULT}"))) == 1


MEET = """
import time
from pathlib import Path
Path({mine!r}).touch()
end = time.monotonic() + 60
while not Path({other!r}).exists():
    assert time.monotonic() < end, "alone"
    time.sleep(0.01)
"""
"""A task that ends only beside another one."""


@full
def test_tasks_run_side_by_side_again_after_one_has_ended_its_process(tmp_path):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    slow = "import time; time.sleep(0.5)"  # no other task begins before the dead process is noticed
    tasks = ["import os; os._exit(3)", *[slow] * 3, MEET.format(mine=a, other=b), MEET.format(mine=b, other=a)]
    outcomes = dict(run_tasks("processes", exec, [(source,) for source in tasks], 2))
    assert "EXIT(3)" in outcomes.pop(0)
    assert outcomes == dict.fromkeys(range(1, 6))


@every("name", ["dask", "ray"])
def test_an_executor_that_is_not_installed_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"pip install .*{name}"):
        list(run_tasks(name, print, [()], 1))


@full
@pytest.mark.parametrize("case", [("processes", 1, 0), ("processes", 3, 0), ("dask", 2, 0), ("dask", 2, 1), ("ray", 2, 0)])
def test_every_task_has_an_outcome(case, monkeypatch):
    """It ends well, raises, or ends its process; later tasks run all the same. On a cluster of its own, or a running Dask's."""
    (name, jobs, own), tasks = case, {"pass": None, "int('x')": "ValueError: invalid"}
    if name == "processes":
        tasks["import os; os._exit(3)"] = "EXIT(3)"
    library = pytest.importorskip({"dask": "distributed", "ray": "ray"}.get(name, "multiprocessing"))
    with ExitStack() as stack:
        if own:
            cluster = stack.enter_context(library.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0"))
            monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address)
        outcomes = dict(run_tasks(name, exec, 3 * [(source,) for source in tasks], jobs))
    assert sorted(outcomes) == list(range(3 * len(tasks)))
    for index, expected in enumerate(3 * list(tasks.values())):
        assert outcomes[index] == expected or expected in outcomes[index]


def test_an_unknown_executor_and_zero_jobs_are_refused():
    with pytest.raises(ConfigError, match="processes"):
        run_tasks("procesess", print, [], 1)
    with pytest.raises(ConfigError, match="jobs"):
        run_tasks("processes", print, [], 0)


@every_row(
    ('"pid"]\nquantities', '"pit"]\nquantities', "pid"),
    ('"torque-rate"]\nfigures', '"torque-rat"]\nfigures', "torque-rate"),
    ("[paper.short]", "[paper.shirt]", "short"),
    ("[[scene]]", '[[scene]]\nname = "short"\n[[scene]]', "different names"),
    ('"path"]', '"paths"]', "path"),
    ('larger = ["pid"]', 'larger = ["pi"]', "pid"),
    ('larger = ["pid"]', 'larger = ["id-t-1"]', "expected all of id-qp-mu, id-t-1 in any scene, not all of them run there"),
    ('larger = ["pid"]', "", "expected larger and smaller"),
    ('smaller = ["id-qp-mu"]', "", "expected larger and smaller"),
    ('name = "short"', 'name = "μ = 1/10"', "without '/'"),
    ("seeds = 1", "seeds = 0", "seeds"),
    ("seeds = 1", 'seeds = 1\nverdict = { smooth = "id-t-1" }', "verdict.smooth: unknown name 'id-t-1'"),
)
def test_unknown_names_are_refused(old, new, named, comparison, tmp_path):
    path, right = tmp_path / "wrong.toml", Path(comparison).read_text()
    assert right.count(old) == 1
    path.write_text(right.replace(old, new))
    with pytest.raises(ConfigError, match=named):
        load_comparison(str(path))


@full
def test_check_accepts_comparisons_and_recognises_them_by_their_keys(comparison, tmp_path, capsys):
    """Not by a word in a comment, nor by text before the first bracket."""
    assert main(["check", "figure-18"]) == 0
    assert main(["check", comparison]) == 0
    wrong = written(tmp_path / "wrong.toml", Path(comparison).read_text().replace("duration", "duratoin"))
    assert "duratoin" in fails(capsys, "check", str(wrong))
    plain = written(tmp_path / "plain.toml", '# the title of this\nserver = "quadruped"\nlaws = ["coulomb"]\nduration = 1.0\n')
    assert main(["check", str(plain)]) == 0
    listed = written(tmp_path / "listed.toml", 'notes = ["a bracket"]\n' + Path(comparison).read_text())
    assert main(["check", str(listed)]) == 0


@every("options", [["--seeds", "0"], ["--json", "nowhere/claims.json"]])
def test_impossible_comparisons_are_refused_before_any_run(comparison, here, tmp_path, capsys, options):
    assert main(["compare", comparison, "--out", str(tmp_path / "out"), *options]) == 2
    assert here == []
    assert capsys.readouterr().err.count("\n") == 1


@full
def test_json_on_stdout_is_alone_and_uses_null_for_nan(comparison, here, tmp_path, capsys):
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


def test_a_robot_given_by_path_gets_a_valid_folder_name(comparison, tmp_path):
    robot = Path(__file__).parents[2] / "configs/robots/quadruped.toml"
    settings = msgspec.structs.replace(load_comparison(comparison), changes={"controller": {"robot": str(robot)}})
    for (task,) in all_tasks(settings, tmp_path, Options()).values():
        assert task.folder.parent == tmp_path
        assert task.folder.name.startswith("quadruped-")


def test_a_seed_changes_the_terrain(tmp_path, monkeypatch):
    plans = []
    monkeypatch.setattr(experiment, "build_controller", lambda settings: [plans.append(settings.contact.terrain), 1 / 0])
    for seed in (0, 3):
        with pytest.raises(ZeroDivisionError):
            experiment.run_in_process(load_plan("trot-heightmap"), "", lambda label, ticks: None, seed=seed)
    assert (plans[1].seed - plans[0].seed, plans[1].friction.seed - plans[0].friction.seed) == (3, 3)


def test_changes_reach_the_plan_also_of_links_and_joints_not_named_in_the_experiment(comparison):
    """Tables by name are empty in an experiment that changes nothing: new names are right, unknown settings are not."""
    settings = load_comparison(comparison)
    scene = SceneSettings(name="s", changes={"engine": "penalty", "controller": {"feedback": {"kp": 5.0}}})
    plan = plan_of(settings, scene, "id-t-2", seconds=0.5)
    assert (plan.settings.engine, plan.settings.duration) == (Penalty(), 0.5)
    assert (plan.controller.feedback.kp, plan.controller.law) == (5.0, SensedSettings(delay=2))
    assert kind_of(plan.controller.reference) == "sway"
    with pytest.raises(ConfigError, match="no such setting"):
        plan_of(settings, SceneSettings(name="s", changes={"engin": "lcp"}), "pid")
    links, drive = {"LF_LEG_3": {"mass_factor": 2.0}}, {"armature": {"LF_X_1": 0.01}}
    changes = {"robot": {"links": links, "drive": drive, "ground": {"terrain": "flat"}}}
    plan = plan_of(settings, SceneSettings(name="x", changes=changes), "pid")
    assert plan.settings.robot.links["LF_LEG_3"].mass_factor == 2.0
    assert plan.settings.robot.drive.armature == {"LF_X_1": 0.01}
    assert plan.settings.robot.ground.terrain is not None
    with pytest.raises(ConfigError, match=r"scene\.x\.changes\.robot\.links.*mass_factr"):
        plan_of(settings, SceneSettings(name="x", changes={"robot": {"links": {"LF_LEG_3": {"mass_factr": 2.0}}}}), "pid")


def shipped() -> list[str]:
    folder = Path(__file__).parents[2] / "configs/experiments"
    papers = [path for path in sorted(folder.rglob("*.toml")) if path.stem.startswith(("table-", "figure-", "appendix-"))]
    return [path.stem for path in papers if "[[scene]]" in path.read_text("utf-8")]  # figure-19 measures times


@full
@pytest.mark.parametrize("name", shipped())
def test_every_shipped_comparison_makes_plans(name):
    comparison = load_comparison(name)
    for scene in comparison.scene:
        for controller in scene.controllers or comparison.controllers:
            plan_of(comparison, scene, controller)


@full
def test_a_log_gives_the_figures_of_its_run(comparison, tmp_path, capsys):
    """All but the last tick's force, which no later state carries, and the clock."""
    settings = load_comparison(comparison)
    for (task,) in all_tasks(settings, tmp_path, Options()).values():
        run_task(task)
        summary = finished(task).summary
        (recorded,) = summarise_log(task.folder / LOG)
        for name in ("seconds", "height", "tilt", "drift", "distance", "tracking", "speed_tracking", "torque",
                     "torque_rate", "torque_rate_max", "weight"):  # fmt: skip
            assert getattr(recorded, name) == pytest.approx(getattr(summary, name), rel=1e-12)
        assert recorded.verdict == summary.verdict
        assert (recorded.modes, recorded.step_p50) == (summary.modes, pytest.approx(summary.step_p50))
        last = normal_forces(Trace.load_npz(task.folder / TRACE))[1][-1]
        assert recorded.force * 39 + last == pytest.approx(summary.force * 40, rel=1e-9)
        assert "log.mcap" in prints(capsys, "compare", str(task.folder / LOG))


@full
def test_a_log_is_searched_for_other_outcomes(comparison, tmp_path, capsys):
    """Every fourth of 40 states of a stance, which has one outcome."""
    task = next(task for (task,) in all_tasks(load_comparison(comparison), tmp_path, Options()).values())
    run_task(task)
    log = task.folder / LOG
    checks = ambiguities(log, 4, 5, lambda _: None)
    assert (checks.checked, checks.proved, checks.found) == (10, 10, [])
    assert "2 ticks checked, 0 with several outcomes" in prints(capsys, "check", str(log), "--every", "20", "--samples", "2")
    assert "every" in fails(capsys, "check", str(log), "--every", "0")


def test_other_outcomes_are_described():
    found = Ambiguity(seq=7, t_s=0.5, outcomes=2, apart=12.5, pressing=[["LF_FOOT", "RH_FOOT"], []])
    assert ambiguities_text(Ambiguities(checked=9, proved=6, found=[found])).splitlines() == [
        "9 ticks checked, 1 with several outcomes under the same torques",
        "6 proved to have one outcome; 2 with one found, not proved to be the only one",
        "seq 7, 0.500 s: 2 outcomes up to 12.5 apart: LF_FOOT, RH_FOOT press; or no contact presses",
    ]


def test_logs_and_comparisons_cannot_be_mixed(comparison, capsys):
    assert "got both" in fails(capsys, "compare", comparison, "log.mcap")
    assert "log.mcap" in fails(capsys, "compare")


@pytest.mark.parametrize("name", fast(CONTROLLERS, "id-qp-mu", "mindiff", "pid"))
def test_each_compared_controller_answers(name):
    c = load_controller("paper-stand", CONTROLLERS[name].changes)
    state = State(q=c.stance, v=np.zeros(c.robot.nv))
    command = c.step(state, c.contacts(c.stance), Inputs(dt=0.0))
    assert np.isfinite(command.tau).all()
    assert command.mode is (Mode.DEGRADED if name == "mindiff" else Mode.OK)  # four feet are too many for it


def test_the_papers_controllers_use_the_published_selection():
    changes = {name: row.changes for name, row in CONTROLLERS.items()}
    for name in ("id-lcp-mu", "id-lcp-inf", "id-qp-mu-one-stage"):
        assert changes[name]["selection"] == "off"
    for name in ("id-qp-mu", "id-qp-inf"):
        assert changes[name]["selection"] == "torque"
    assert not changes["id-lcp-mu"]["warm_start"]


def test_a_narrow_table_has_one_line_per_row():
    rows = [["law", "tilt mrad", "verdict"], ["cone", "1.5", "stood 1.0 s"], ["no-slip", "12.0", "fell"]]
    law, cone, no_slip = text_table(rows).splitlines()
    assert (law, cone) == ("law      tilt mrad  verdict", "cone           1.5  stood 1.0 s")
    assert no_slip == "no-slip       12.0  fell"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(CELL, min_size=12, max_size=12), min_size=2, max_size=5))
def test_a_wide_table_is_folded_without_loss(rows):
    """Every line fits; all words are there, those of the first column once for each block."""
    text = text_table(rows)
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    words = sorted(word for row in rows for cell in row[1:] for word in cell.split())
    blocks = text.count("\n\n") + 1 if all(row[0] for row in rows) else None
    found = sorted(text.split())
    if blocks is not None:
        assert found == sorted(words + blocks * [word for row in rows for word in row[0].split()])
    assert not [word for word in words if word not in found]


def test_names_too_long_for_a_line_are_broken():
    rows = [["law", "verdict"], ["x" * 150, "fell"]]
    text = text_table(rows)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.count("x") == 150


@every("label", ["coulomb", "a/long/path/to/a/folder/with/a/run/log.mcap #2"])
def test_the_summary_fits_and_explains_its_headings(label):
    trips = {"round_trip_p50": 1e4, "round_trip_p99": 1e5}
    run = msgspec.structs.replace(FIGURES, label=label, torque_rate_max=1.2345e9, force_error=math.nan, **trips)
    fell = msgspec.structs.replace(run, verdict=FELL)
    text = text_summary([run, fell])
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "nan" not in text
    legend = " ".join(text.split("\n\n")[-1].split())
    explained = {part.split(":")[0] for part in re.split(r"; ", legend)}
    assert explained == {each.name for each in (*FIRST, *REST)} - {"verdict", "max |dτ/dt|"}
    for columns in (FIRST, REST):
        assert all(len(row) == 1 + len(columns) for row in table([run, fell], columns))


def test_paragraphs_of_a_report_are_wrapped_in_the_terminal_only():
    report = Report("title", "lead")
    report.paragraph("word " * 60)
    assert max(map(len, report.text.splitlines())) <= WIDTH
    assert "word " * 60 in report.html


def test_all_urdfs_below_a_folder_and_single_files_are_simulated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(own_robots, "SECONDS", 0.05)
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    written(tmp_path / "mine" / "arm.urdf", ARM)
    written(tmp_path / "mine" / "deep" / "still.urdf", ARM.replace("revolute", "fixed"))
    weak = written(tmp_path / "weak.urdf", ARM.replace("revolute", "screw"))
    here, out, figures = tmp_path.name, tmp_path / "out", tmp_path / "figures.json"
    words = [str(tmp_path / "mine"), str(weak), "--out", str(out), "--json", str(figures)]
    assert main(["compare", "own-robots", *words]) == 0
    summary, standing, walking = json.loads(figures.read_text(encoding="utf-8"))
    assert [row[:2] for row in standing[1:]] == [
        ["mine/arm", "held"], ["mine/deep/still", "refused"], [f"{here}/weak", "refused"]
    ]  # fmt: skip
    assert len(walking) == 1
    held, refused = summary[1:]
    assert (held[:2], float(held[3])) == (["held", "1"], pytest.approx(float(standing[1][3])))
    assert refused == ["refused", "2", "–", "–"]
    said = " ".join(capsys.readouterr().out.split())
    assert "mine/deep/still: refused; expected at least one joint with a motor" in said
    assert f"{here}/weak: refused; line 1, joint j: type: expected one of" in said
    assert (out / "report.html").is_file()
