"""Settings of comparisons; refusals and output of the command."""

import json
from pathlib import Path

import msgspec
import pytest
from fast import every, first_is_fast, full

from controllers.config.tables import kind_of
from idyn.errors import ConfigError
from idyn.laws.settings import SensedSettings
from sim_harness.commands.main import main
from sim_harness.compare.jobs import LOG
from sim_harness.compare.run import Options, all_tasks
from sim_harness.compare.settings import SceneSettings, TimingSettings, load_comparison, plan_of
from sim_harness.compare.timing import timing_tasks
from sim_harness.engines.penalty import Penalty
from sim_harness.run import experiment
from sim_harness.run.plan import load_plan


@every(
    ("old", "new", "named"),
    [
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
    ],
)
def test_unknown_names_are_refused(comparison, tmp_path, old, new, named):
    path, right = tmp_path / "wrong.toml", Path(comparison).read_text()
    assert right.count(old) == 1
    path.write_text(right.replace(old, new))
    with pytest.raises(ConfigError, match=named):
        load_comparison(str(path))


def test_check_accepts_comparisons(comparison, tmp_path, capsys):
    assert main(["check", "figure-18"]) == 0
    assert main(["check", comparison]) == 0
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(Path(comparison).read_text().replace("duration", "duratoin"))
    assert main(["check", str(wrong)]) == 2
    assert "duratoin" in capsys.readouterr().err


def test_comparisons_are_recognised_by_their_keys(comparison, tmp_path):
    """Not by a word in a comment, nor by text before the first bracket."""
    plain = tmp_path / "plain.toml"
    plain.write_text('# the title of this\nserver = "quadruped"\nlaws = ["coulomb"]\nduration = 1.0\n')
    assert main(["check", str(plain)]) == 0
    listed = tmp_path / "listed.toml"
    listed.write_text('notes = ["a bracket"]\n' + Path(comparison).read_text())
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


def test_a_timing_job_depends_on_the_content_of_the_robot(tmp_path):
    shipped = Path(__file__).parents[2] / "configs/robots/quadruped"
    robot, text = tmp_path / "robot.toml", shipped.with_suffix(".toml").read_text()
    settings, digests = TimingSettings(contacts={"id-qp-mu": (1,)}, robot=str(robot)), set()
    for note in ("", "<!-- another -->", "<!-- another -->"):
        (tmp_path / "quadruped.urdf").write_text(shipped.with_suffix(".urdf").read_text() + note)
        robot.write_text(text)
        digests.add(timing_tasks(settings, tmp_path)[0].digest)
    assert len(digests) == 2


def test_a_seed_changes_the_terrain(tmp_path, monkeypatch):
    """The terrain of the controller and of the world alike."""
    plans = []
    monkeypatch.setattr(experiment, "build_controller", lambda settings: [plans.append(settings.contact.terrain), 1 / 0])
    for seed in (0, 3):
        with pytest.raises(ZeroDivisionError):
            experiment.run_in_process(load_plan("trot-heightmap"), "", lambda label, ticks: None, seed=seed)
    assert (plans[1].seed - plans[0].seed, plans[1].friction.seed - plans[0].friction.seed) == (3, 3)


def test_changes_reach_the_plan(comparison):
    settings = load_comparison(comparison)
    scene = SceneSettings(name="s", changes={"engine": "penalty", "controller": {"feedback": {"kp": 5.0}}})
    plan = plan_of(settings, scene, "id-t-2", seconds=0.5)
    assert (plan.settings.engine, plan.settings.duration) == (Penalty(), 0.5)
    assert (plan.controller.feedback.kp, plan.controller.law) == (5.0, SensedSettings(delay=2))
    assert kind_of(plan.controller.reference) == "sway"
    with pytest.raises(ConfigError, match="no such setting"):
        plan_of(settings, SceneSettings(name="s", changes={"engin": "lcp"}), "pid")


def shipped() -> list[str]:
    folder = Path(__file__).parents[2] / "configs/experiments"
    return [path.stem for path in sorted(folder.rglob("*.toml")) if path.stem.startswith(("table-", "figure-", "appendix-"))]


@full
@pytest.mark.parametrize("name", first_is_fast(shipped()))
def test_every_shipped_comparison_makes_plans(name):
    """Every scene and controller makes a plan."""
    comparison = load_comparison(name)
    for scene in comparison.scene:
        for controller in scene.controllers or comparison.controllers:
            plan_of(comparison, scene, controller)


def test_a_scene_may_change_links_and_joints_not_named_in_the_experiment(comparison):
    """Tables by name are empty in an experiment that changes nothing: new names are right, unknown settings are not."""
    robot = {
        "links": {"LF_LEG_3": {"mass_factor": 2.0}},
        "drive": {"armature": {"LF_X_1": 0.01}},
        "ground": {"terrain": "flat"},
    }
    given = load_comparison(comparison)
    plan = plan_of(given, SceneSettings(name="x", changes={"robot": robot}), "pid")
    assert plan.settings.robot.links["LF_LEG_3"].mass_factor == 2.0
    assert plan.settings.robot.drive.armature == {"LF_X_1": 0.01}
    assert plan.settings.robot.ground.terrain is not None
    with pytest.raises(ConfigError, match=r"scene\.x\.changes\.robot\.links.*mass_factr"):
        plan_of(given, SceneSettings(name="x", changes={"robot": {"links": {"LF_LEG_3": {"mass_factr": 2.0}}}}), "pid")
