"""`idyn compare own-robots` with folders and files of a user."""

import json

import pytest
from fast import every

from sim_harness.commands.main import main
from sim_harness.compare import own_robots

INERTIAL = (
    '<inertial><origin xyz="0 0 0.1"/><mass value="1"/>'
    '<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>'
)
ARM = (
    f'<robot name="arm"><link name="base">{INERTIAL}</link><link name="upper">{INERTIAL}</link><joint name="j" type="revolute">'
    '<parent link="base"/><child link="upper"/><origin xyz="0 0 0.2"/><axis xyz="0 1 0"/>'
    '<limit lower="-1" upper="1" effort="30" velocity="5"/></joint></robot>'
)


@pytest.fixture
def robots(tmp_path):
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    (tmp_path / "mine" / "arm.urdf").write_text(ARM, encoding="utf-8")
    (tmp_path / "mine" / "deep" / "still.urdf").write_text(ARM.replace("revolute", "fixed"), encoding="utf-8")
    (tmp_path / "weak.urdf").write_text(ARM.replace("revolute", "screw"), encoding="utf-8")
    return tmp_path


def test_all_urdfs_below_a_folder_and_single_files_are_simulated(robots, monkeypatch, capsys):
    monkeypatch.setattr(own_robots, "SECONDS", 0.05)
    words = [str(robots / "mine"), str(robots / "weak.urdf")]
    out = robots / "out"
    assert main(["compare", "own-robots", *words, "--out", str(out), "--json", str(robots / "figures.json")]) == 0
    summary, standing, walking = json.loads((robots / "figures.json").read_text(encoding="utf-8"))
    here = robots.name
    assert [row[:2] for row in standing[1:]] == [
        ["mine/arm", "held"], ["mine/deep/still", "refused"], [f"{here}/weak", "refused"]
    ]  # fmt: skip
    assert len(walking) == 1
    held, refused = summary[1:]
    assert held[:2] == ["held", "1"]
    assert float(held[3]) == pytest.approx(float(standing[1][3]))
    assert refused == ["refused", "2", "–", "–"]
    said = " ".join(capsys.readouterr().out.split())
    assert "mine/deep/still: refused; expected at least one joint with a motor" in said
    assert f"{here}/weak: refused; line 1, joint j: type: expected one of" in said
    assert (out / "report.html").is_file()


@every(("word", "message"), [("empty", "expected a folder with URDFs, got none below"), ("no.urdf", "no such file")])
def test_what_has_no_robot_is_refused(tmp_path, monkeypatch, capsys, word, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["compare", "own-robots", word]) == 2
    assert message in capsys.readouterr().err
