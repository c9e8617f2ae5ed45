"""Faults of files: robots, settings and logs that no server and no tool may accept."""

import os
import re
import socket
from pathlib import Path

import pytest
from cli import fails
from fast import every, every_row, full
from faults import told
from hostile import GB, chunk, zstd_of_zeros

from controllers.config.loading import find, load
from idyn import Robot, load_controller, load_robot
from idyn.errors import IdynError, ModelError
from sim_harness.commands.main import main
from transport.log.provenance import attachments, metadata
from transport.log.recorder import CONTINUES, LogPart
from transport.server.settings import ServerSettings
from transport.startup.serve import serve

SOURCE = find("robots", "quadruped")
URDF = (SOURCE.parent / "quadruped.urdf").read_text(encoding="utf-8")
NESTED = "<body>" * 20_000 + "</body>" * 20_000
TOOLS = (["export", "{}"], ["export", "{}", "--messages"], ["replay", "{}"], ["view", "{}"], ["check", "{}"], ["compare", "{}"])
"""Commands that read a log."""


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


def test_the_unchanged_robot_is_accepted(tmp_path):
    (tmp_path / "robot.urdf").write_text(URDF, encoding="utf-8")
    (tmp_path / "robot.toml").write_text('urdf = "robot.urdf"\n', encoding="utf-8")
    assert load_robot(str(tmp_path / "robot.toml"))[0].na == 12


RANGE = r"-1\.5708 to 1\.5708 rad"  # of LF_X_1
REFUSED: dict[str, tuple[str, list[tuple[dict, str]]]] = {
    "a URDF whose trunk has a mass of NaN, inf or −0.3 kg, or none": (
        "link and value",
        [
            ({"urdf": (r'mass value="3.6"', f'mass value="{mass}"')}, ", link BODY0: mass: expected")
            for mass in ("nan", "inf", "-0.3", "")
        ],
    ),
    "a URDF with a moment of inertia that is NaN, negative or missing": (
        "link and value",
        [({"urdf": (r'ixx="[^"]*"', by)}, ", link BODY0: inertia ixx: ") for by in ('ixx="nan"', 'ixx="-0.1"', "")],
    ),
    "a URDF with a joint whose lower limit is above the upper one, or whose axis is 0": (
        "joint and value",
        [
            ({"urdf": (r'lower="[^"]*"', 'lower="9"')}, ", joint LF_X_1: "),
            ({"urdf": (r'axis xyz="[^"]*"', 'axis xyz="0 0 0"')}, ", joint LF_X_1: "),
        ],
    ),
    "a URDF whose links repeat a name, have two parents or form a ring": (
        "link",
        [
            ({"urdf": ('link name="LF_FOOT"', 'link name="RF_FOOT"')}, "RF_FOOT: expected each link once, got 2"),
            ({"urdf": ('child link="LF_FOOT"', 'child link="RF_FOOT"')}, "RF_FOOT: the link is the child of 2 joints"),
            ({"urdf": ('parent link="BODY0"', 'parent link="LF_FOOT"')}, "LF_LEG_1: the link is not connected to the root"),
        ],
    ),
    "a stance with a joint at 99 rad": (
        "joint, limits and value",
        [({"robot": "LF_X_1 = 99.0"}, rf"^robot\.standing\.LF_X_1: expected {RANGE} \(or m\), as in the URDF, got 99$")],
    ),
    "gains of 1e300, joint speeds up to 0, steps of 1e-9 s or 1e9 m": (
        "setting, bounds and unit",
        [
            ({"controller": setting}, r"^controllers\.controller\.[\w.]+: expected \S+ to \S+ ")
            for setting in (
                "[feedback]\nkp = 1e300",
                "[safety]\nmax_joint_speed = 0.0",
                '[reference]\nkind = "gait"\ngait.period = 1e-9',
                '[reference]\nkind = "gait"\ngait.step_height = 1e9',
            )
        ],
    ),
    "`deadline_us` or `max_state_age_ms` of inf, port 99999": (
        "setting, bounds and unit",
        [
            ({"server": setting}, r"^server\.[\w.]+: expected .* to ")
            for setting in ("deadline_us = inf", "max_state_age_ms = inf", 'endpoint = "tcp://127.0.0.1:99999"')
        ],
    ),
}
"""Fault → what the error names, and for each case what is changed in the files, and the pattern of the error."""


@every(("files", "says"), [case for _, cases in REFUSED.values() for case in cases])
def test_robots_and_settings_are_refused(tmp_path, files, says):
    changes = {name: changed(*value) if name == "urdf" else value for name, value in files.items()}
    assert re.search(says, refuses(tmp_path, **changes))


for fault, (named, _) in REFUSED.items():
    told(fault, f"refuses to start: {named}", "–")(test_robots_and_settings_are_refused)


@full
@told("a URDF of 50 000 links", "refuses to start: their number", "–")
def test_too_many_links(tmp_path):
    chain = "".join(
        f'<link name="l{i}"/><joint name="j{i}" type="fixed"><parent link="{f"l{i - 1}" if i else "BODY0"}"/>'
        f'<child link="l{i}"/></joint>'
        for i in range(50_000)
    )
    says = refuses(tmp_path, urdf=URDF.replace("</robot>", f"{chain}</robot>"))
    assert "robot: expected at most 2000 links" in says


@told("a URDF or settings with control characters in their names", "tools print them escaped", "–")
def test_names_in_files_cannot_write_to_the_terminal(tmp_path, capsys):
    named = URDF.replace('<robot name="', '<robot name="\x9b31m\u202e', 1)
    refuses(tmp_path, urdf=named, controller='"\\u001b[2J" = 1')
    assert r"\x1b[2J" in (said := capsys.readouterr().err)
    assert "\x1b" not in said
    assert main(["check", str(tmp_path / "robot.urdf")]) != 2
    assert r"\x9b31m\u202e" in (said := capsys.readouterr().out)
    assert all(c.isprintable() or c == "\n" for c in said)


@every_row(
    (f"<mujoco><worldbody>{NESTED}</worldbody></mujoco>", "Element nesting is too deep"),
    (URDF.replace("</robot>", f"{NESTED}</robot>"), "expected at most 100 nested XML elements"),
    (  # it has a joint that gets another name, for which its text is written anew
        URDF.replace('name="LF_TIP"', 'name="root_joint"').replace("</robot>", f"{NESTED}</robot>"),
        "expected at most 100 nested XML elements",
    ),
)
@told("a URDF or an MJCF nested 20 000 deep", "refuses to start: file and reason", "–")
def test_a_file_that_is_nested_too_deeply(text, says, tmp_path):
    assert says in refuses(tmp_path, urdf=text)
    for read in (Robot.from_file, Robot.from_mjcf if "<mujoco>" in text else Robot.from_urdf):
        with pytest.raises(ModelError, match=rf"robot\.urdf: .*{says}"):
            read(tmp_path / "robot.urdf")


def tool_errors(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What each tool says of a log that it refuses."""
    return [fails(capsys, *(word.replace("{}", str(path)) for word in command)) for command in TOOLS]


@every(("kind", "name"), [("pipe", "a pipe"), ("socket", "a socket"), ("folder", "a folder"), ("device", "a device")])
@told("a log that is a pipe, a socket, a folder or a device", "every tool ends at once: an error names file and kind", "–")
def test_a_log_that_is_no_regular_file(tmp_path, capsys, kind, name, monkeypatch):
    monkeypatch.chdir(tmp_path)  # addresses of sockets are short
    path = Path("log.mcap")
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            listener.bind(str(path))
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")
        for said in tool_errors(path, capsys):
            assert said == f"idyn: log.mcap: expected a regular file, got {name}\n"


@full
@every(("record", "says"), [(b"\0" * 9, "a record of type 0"), (b"\x90" + b"\0" * 8, "more than 10000 records in a row")])
@told(
    "a log that begins as one, with 50 MB of zeros or of empty records", "every tool ends at once: an error names the file", "–"
)
def test_a_log_of_nothing(tmp_path, capsys, record, says):
    path = tmp_path / "log.mcap"
    path.write_bytes(b"\x89MCAP0\r\n" + record * (50_000_000 // len(record)))
    for said in tool_errors(path, capsys):
        assert said.startswith(f"idyn: {path}: not a log, or its head is damaged ({says}")


@told("a log of 98 kB with a chunk that declares 3 GB", "`idyn export` and `idyn replay` end: an error names the file", "–")
def test_a_chunk_that_fills_the_memory(tmp_path, capsys):
    path = tmp_path / "log.mcap"
    LogPart(path, [], {}).close()
    path.write_bytes(path.read_bytes() + chunk(zstd_of_zeros(GB // 4, GB // 4), 3 * GB, "zstd"))
    for command in (["export", str(path), "--out", str(tmp_path / "out.mcap")], ["replay", str(path)]):
        assert f"{path}: expected chunks of at most 16777216 bytes, got one that declares 3221225472" in fails(capsys, *command)


@told(
    "a log that continues in itself or in another folder", "`idyn export` and `idyn replay` end: an error names the file", "–"
)
def test_a_log_without_end(tmp_path, capsys):
    path = tmp_path / "log.mcap"
    controller = load_controller("quadruped")
    attached = attachments(controller.snapshot(), ServerSettings(controller="quadruped"))
    part = LogPart(path, attached, metadata(controller.robot, None))
    part.finish(path)
    part.close()
    for more in ([], ["--messages"]):
        assert main(["export", str(path), "--out", str(tmp_path / "out.mcap"), *more]) == 2
        assert f"{path}: {CONTINUES}: expected another file in the same folder, got 'log.mcap'" in capsys.readouterr().err
