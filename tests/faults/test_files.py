"""Faults of files: robots, settings and logs that no server and no tool may accept."""

import re
from pathlib import Path

import pytest
from fast import full
from faults import told
from hostile import GB, chunk, zstd_of_zeros

from controllers.build import load_controller
from controllers.config.loading import find, load
from controllers.robot.load import load_robot
from idyn.errors import IdynError
from sim_harness.commands.main import main
from transport.log.part import CONTINUES, LogPart
from transport.log.provenance import attachments, metadata
from transport.serve import serve
from transport.server.settings import ServerSettings

SOURCE = find("robots", "quadruped")
URDF = (SOURCE.parent / "quadruped.urdf").read_text(encoding="utf-8")


def refuses(folder: Path, *, urdf: str = URDF, robot: str = "", controller: str = "", server: str = "") -> str:
    """The error with which a server of these files refuses to start; `idyn check` gives the same."""
    stance = SOURCE.read_text(encoding="utf-8").partition("[standing]")[2]
    texts = {
        "robot.toml": f'urdf = "robot.urdf"\ncontact = [{{ frame = "LF_FOOT" }}]\n[standing]\n{robot or stance}',
        "controller.toml": f'robot = "robot.toml"\n{controller}',
        "server.toml": f'controller = "controller.toml"\n{server}',
        "robot.urdf": urdf,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(IdynError) as refused:
        serve(load("server", str(folder / "server.toml"), ServerSettings))
    assert main(["check", str(folder / "server.toml")]) == 2
    return str(refused.value)


def changed(pattern: str, by: str) -> str:
    text, n = re.subn(pattern, by, URDF, count=1)
    assert n == 1
    return text


def test_the_unchanged_robot_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(URDF, encoding="utf-8")
    (tmp_path / "robot.toml").write_text('urdf = "robot.urdf"\n', encoding="utf-8")
    assert load_robot(str(tmp_path / "robot.toml"))[0].na == 12


@pytest.mark.parametrize("mass", ["nan", "inf", "-0.3", ""])
@told("a URDF whose trunk has a mass of NaN, inf or −0.3 kg, or none", "refuses to start: link and value", "–")
def test_a_mass_that_is_none(tmp_path: Path, mass: str) -> None:
    assert ", link BODY0: mass: expected" in refuses(tmp_path, urdf=changed(r'mass value="3.6"', f'mass value="{mass}"'))


@pytest.mark.parametrize("inertia", ['ixx="nan"', 'ixx="-0.1"', ""])
@told("a URDF with a moment of inertia that is NaN, negative or missing", "refuses to start: link and value", "–")
def test_an_inertia_that_is_none(tmp_path: Path, inertia: str) -> None:
    assert ", link BODY0: inertia ixx: " in refuses(tmp_path, urdf=changed(r'ixx="[^"]*"', inertia))


@pytest.mark.parametrize(("pattern", "by"), [(r'lower="[^"]*"', 'lower="9"'), (r'axis xyz="[^"]*"', 'axis xyz="0 0 0"')])
@told(
    "a URDF with a joint whose lower limit is above the upper one, or whose axis is 0", "refuses to start: joint and value", "–"
)
def test_a_joint_that_cannot_move(tmp_path: Path, pattern: str, by: str) -> None:
    assert ", joint LF_X_1: " in refuses(tmp_path, urdf=changed(pattern, by))


@pytest.mark.parametrize(
    ("pattern", "by", "says"),
    [
        (r'link name="LF_FOOT"', 'link name="RF_FOOT"', "RF_FOOT: expected each link once, got 2"),
        (r'child link="LF_FOOT"', 'child link="RF_FOOT"', "RF_FOOT: the link is the child of 2 joints"),
        (r'parent link="BODY0"', 'parent link="LF_FOOT"', "LF_LEG_1: the link is not connected to the root"),
    ],
)
@told("a URDF whose links repeat a name, have two parents or form a ring", "refuses to start: link", "–")
def test_a_tree_that_is_none(tmp_path: Path, pattern: str, by: str, says: str) -> None:
    assert says in refuses(tmp_path, urdf=changed(pattern, by))


@full
@told("a URDF of 50 000 links", "refuses to start: their number", "–")
def test_too_many_links(tmp_path: Path) -> None:
    chain = "".join(
        f'<link name="l{i}"/><joint name="j{i}" type="fixed"><parent link="{f"l{i - 1}" if i else "BODY0"}"/>'
        f'<child link="l{i}"/></joint>'
        for i in range(50_000)
    )
    says = refuses(tmp_path, urdf=URDF.replace("</robot>", f"{chain}</robot>"))
    assert "robot: expected at most 2000 links" in says


@told("a stance with a joint at 99 rad", "refuses to start: joint, limits and value", "–")
def test_a_stance_beyond_the_limits(tmp_path: Path) -> None:
    says = refuses(tmp_path, robot="LF_X_1 = 99.0")
    assert says == "robot.standing.LF_X_1: expected -1.5708 to 1.5708 rad (or m), as in the URDF, got 99"


@pytest.mark.parametrize(
    "controller",
    [
        "[feedback]\nkp = 1e300",
        "[safety]\nmax_joint_speed = 0.0",
        '[reference]\nkind = "gait"\ngait.period = 1e-9',
        '[reference]\nkind = "gait"\ngait.step_height = 1e9',
    ],
)
@told("gains of 1e300, joint speeds up to 0, steps of 1e-9 s or 1e9 m", "refuses to start: setting, bounds and unit", "–")
def test_settings_beyond_their_bounds(tmp_path: Path, controller: str) -> None:
    assert re.match(r"controllers\.controller\.[\w.]+: expected \S+ to \S+ ", refuses(tmp_path, controller=controller))


@pytest.mark.parametrize("server", ["deadline_us = inf", "max_state_age_ms = inf", 'endpoint = "tcp://127.0.0.1:99999"'])
@told("`deadline_us` or `max_state_age_ms` of inf, port 99999", "refuses to start: setting, bounds and unit", "–")
def test_server_settings_beyond_their_bounds(tmp_path: Path, server: str) -> None:
    assert re.match(r"server\.[\w.]+: expected .* to ", refuses(tmp_path, server=server))


def cut_log(folder: Path, following: bytes = b"") -> Path:
    path = folder / "log.mcap"
    LogPart(path, [], {}).close()
    path.write_bytes(path.read_bytes() + following)
    return path


@told("a log of 98 kB with a chunk that declares 3 GB", "`idyn export` and `idyn replay` end: an error names the file", "–")
def test_a_chunk_that_fills_the_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = cut_log(tmp_path, chunk(zstd_of_zeros(GB // 4, GB // 4), 3 * GB, "zstd"))
    for command in (["export", str(path), "--out", str(tmp_path / "out.mcap")], ["replay", str(path)]):
        assert main(command) == 2
        assert f"{path}: expected chunks of at most 16777216 bytes, got one that declares 3221225472" in capsys.readouterr().err


@told(
    "a log that continues in itself or in another folder", "`idyn export` and `idyn replay` end: an error names the file", "–"
)
def test_a_log_without_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.mcap"
    controller = load_controller("quadruped")
    part = LogPart(
        path, attachments(controller.snapshot(), ServerSettings(controller="quadruped")), metadata(controller.robot, None)
    )
    part.finish(path)
    part.close()
    for more in ([], ["--messages"]):
        assert main(["export", str(path), "--out", str(tmp_path / "out.mcap"), *more]) == 2
        assert f"{path}: {CONTINUES}: expected another file in the same folder, got 'log.mcap'" in capsys.readouterr().err
