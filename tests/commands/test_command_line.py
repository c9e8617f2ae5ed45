"""The command line: success returns 0 and figures, an error returns one line that names its cause."""

import json
from pathlib import Path

import pytest
from fast import full

from sim_harness.commands.main import main


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("idyn: ")
    assert error.count("\n") == 1
    return error


def test_version_option_prints_the_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("idyn 0.")


def test_check_finds_no_fault_in_the_shipped_robot(capsys, tmp_path):
    findings = tmp_path / "findings.json"
    assert main(["check", "quadruped", "--json", str(findings)]) == 0
    assert "4.8 kg" in capsys.readouterr().out
    assert json.loads(findings.read_text()) == []


def test_check_lists_all_settings_with_their_defaults(capsys, tmp_path):
    """Of every kind of file, including nested tables, tuples and unions; each struct once."""
    listing = tmp_path / "settings.json"
    assert main(["check", "--settings", "--json", str(listing)]) == 0
    printed, written = capsys.readouterr().out.splitlines(), json.loads(listing.read_text())
    assert printed[-1] == f"{written['settings']} settings in {written['structs']} structs"
    tables = written["defaults"]
    assert (len(tables), sum(map(len, tables.values()))) == (written["structs"], written["settings"])
    assert tables["controllers.drive.DriveSettings"] == {"kp": "0.0", "kd": "0.0"}
    assert tables["idyn.laws.settings.CoulombSettings"]["edges"] == "4"
    controller = tables["controllers.settings.ControllerSettings"]
    assert (controller["robot"], controller["law"], controller["grip"]) == ("required", "CoulombSettings", "None")
    assert {"transport.server.settings.ClientKey", "sim_harness.engines.lcp.PolygonLcp", "idyn.model.shapes.Box"} <= set(tables)
    assert "    deadline_us = 600.0" in printed


def test_check_without_an_argument_is_refused(capsys):
    assert "expected a configuration, a URDF, a log, or --settings" in fails(capsys, "check")


@pytest.mark.parametrize("name", ["solo12", "a1", "go2"])
def test_check_accepts_the_other_shipped_robots(name):
    assert main(["check", name]) == 0


def test_check_finds_an_impossible_inertia_in_a_urdf(capsys, tmp_path):
    source = Path(__file__).parents[2] / "configs/robots/quadruped.urdf"
    broken = tmp_path / "broken.urdf"
    broken.write_text(source.read_text().replace('izz="1.275e-4"', 'izz="1.275e-3"'))
    assert main(["check", str(broken)]) == 1
    printed = capsys.readouterr().out
    assert "warning: quadruped.LF_LEG_2: inertia: principal moments" in printed
    assert "triangle inequality" in printed


def test_check_refuses_a_urdf_with_the_link_and_the_value(capsys, tmp_path):
    source = Path(__file__).parents[2] / "configs/robots/quadruped.urdf"
    broken = tmp_path / "broken.urdf"
    broken.write_text(source.read_text().replace('<mass value="3.6"/>', '<mass value="nan"/>'))
    assert "BODY0: mass: expected a finite number, got 'nan'" in fails(capsys, "check", str(broken))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('robot = "quadruped"\nlaw = "colomb"', "law: no kind named 'colomb' (nearest: coulomb, cone)"),
        ('robot = "quadruped"\nlow = "coulomb"', "low: no such setting (nearest: law)"),
        ('robot = "quadruped"\n[feedback]\nkp = "stiff"', "feedback.kp"),
        ('robot = "quadrupet"', "robots.quadrupet: no such configuration (nearest: quadruped)"),
        ('robot = "quadruped"\nperiod = 0.0', "period: expected a finite number > 0"),
        ("robot = ", "not valid TOML"),
    ],
)
def test_an_invalid_controller_is_refused_with_the_path_of_the_setting(capsys, tmp_path, text, named):
    controller, server = tmp_path / "controller.toml", tmp_path / "server.toml"
    controller.write_text(text)
    server.write_text(f'controller = "{controller}"')
    assert named in fails(capsys, "serve", str(server))


def test_a_missing_urdf_is_named(capsys, tmp_path):
    robot = tmp_path / "robot.toml"
    robot.write_text('urdf = "nowhere.urdf"')
    assert "nowhere.urdf" in fails(capsys, "check", str(robot))


def test_an_unknown_contact_frame_lists_the_nearest(capsys, tmp_path):
    robot = tmp_path / "robot.toml"
    urdf = Path(__file__).parents[2] / "configs/robots/quadruped.urdf"
    robot.write_text(f'urdf = "{urdf}"\n[[contact]]\nframe = "LF_FOOD"')
    assert "LF_FOOT" in fails(capsys, "check", str(robot))


def test_an_unknown_experiment_engine_and_law_are_named(capsys, tmp_path):
    assert "no such configuration" in fails(capsys, "simulate", "demoo")
    experiment = tmp_path / "experiment.toml"
    experiment.write_text('server = "quadruped"\nlaws = ["coulomb"]\nduration = 1.0\nengine = "bullet"')
    assert "bullet" in fails(capsys, "simulate", str(experiment))
    experiment.write_text('server = "quadruped"\nlaws = ["newton"]\nduration = 1.0')
    assert "newton" in fails(capsys, "simulate", str(experiment))


def test_an_unreadable_log_is_named(capsys, tmp_path):
    log = tmp_path / "log.mcap"
    assert "log.mcap" in fails(capsys, "replay", str(log))
    log.write_bytes(b"no log at all")
    assert "log.mcap" in fails(capsys, "replay", str(log))


def test_simulate_writes_a_summary_for_each_law(capsys, tmp_path):
    figures = tmp_path / "figures.json"
    assert main(["simulate", "push", "--seconds", "0.3", "--json", str(figures)]) == 0
    summaries = json.loads(figures.read_text())
    assert [s["label"] for s in summaries] == ["no-slip", "coulomb", "convex"]
    for summary in summaries:
        assert summary["upright"]
        assert summary["force_error_relative"] < 1e-6
        assert summary["modes"] == {"ok": 1.0}


@full
def test_demo_writes_its_report_and_a_log_that_replays_bit_for_bit(capsys, tmp_path):
    experiment = tmp_path / "short.toml"
    experiment.write_text(
        'server = "quadruped"\nlaws = ["coulomb"]\nduration = 0.3\npaced = false\n[controller.reference]\nkind = "sway"\n'
    )
    folder = tmp_path / "demo"
    assert main(["demo", str(experiment), "--out", str(folder)]) == 0
    written = {path.name for path in folder.iterdir()}
    assert {"report.html", "summary.json", "chatter.png", "coulomb"} <= written
    assert 'src="http' not in (folder / "report.html").read_text()
    log = folder / "coulomb" / "log.mcap"
    figures = tmp_path / "replay.json"
    assert main(["replay", str(log), "--json", str(figures)]) == 0
    replayed = json.loads(figures.read_text())
    assert replayed["ticks"] == replayed["identical"] == 300
    assert main(["replay", str(log), "--law", "no-slip", "--json", str(figures)]) == 0
    assert json.loads(figures.read_text())["differences"]["tau_max"] > 0

    cut = tmp_path / "cut.mcap"
    cut.write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3])
    assert main(["replay", str(cut), "--json", str(figures)]) == 0
    recovered = json.loads(figures.read_text())
    assert not recovered["complete"]
    assert recovered["ticks"] == recovered["identical"] > 50


@pytest.mark.parametrize("command", [("simulate", "stand", "--seconds", "0.01"), ("check", "quadruped")])
def test_with_json_on_stdout_all_other_text_is_on_stderr(command, capsys):
    assert main([*command, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) is not None
    assert "quadruped" in err or "coulomb" in err
