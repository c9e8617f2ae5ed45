"""The programs of docs/examples/library, built by CMake and run without Python; random and malformed calls under sanitizers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fast import every

from idyn import ContactSet, Robot, State, predict
from idyn.library.c.header import header
from idyn.library.kernels import FOLDER

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[2]
PREFIX = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "cmeel.prefix"
URDF = PREFIX / "share" / "example-robot-data" / "robots" / "go2_description" / "urdf" / "go2.urdf"


def ran(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder of the programs that the page's commands build and run. Skips where a tool is missing."""
    if missing := [tool for tool in ("cmake", "cc", "c++") if shutil.which(tool) is None]:
        pytest.skip(f"the examples need {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("examples")
    page = (ROOT / "docs" / "how-to" / "cpp.md").read_text("utf-8")
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    words = {".venv/bin/python": sys.executable, " build": f" {folder}", "\nbuild": f"\n{folder}", " 60 ": " 1 "}
    for word, other in words.items():
        assert word in script
        script = script.replace(word, other)
    if subprocess.run(["pkg-config", "--exists", "eigen3"], check=False).returncode:
        pytest.skip("go2 needs Eigen and the headers of urdfdom (libeigen3-dev, liburdfdom-headers-dev)")
    ran("bash", "-euo", "pipefail", "-c", script)
    return folder


def test_the_corners_of_a_pushed_block_carry_its_weight_and_the_push(programs):
    lines = ran(programs / "block").splitlines()
    forces = np.array([line.split()[2:5] for line in lines if line.startswith("corner")], dtype=float)
    np.testing.assert_allclose(forces.sum(axis=0), [-15.0, 0.0, 98.1], atol=2e-3)
    front, rear = 98.1 / 4 + 15.0 * 0.1 / 0.4 / 2, 98.1 / 4 - 15.0 * 0.1 / 0.4 / 2  # moment of the push about the ground
    np.testing.assert_allclose(forces[:, 2], [front, front, rear, rear], atol=1e-3)
    assert lines[-1] == "again: certified"


def ticks(path, robot):
    """Yield (result, contacts, q, v, demand, torque, velocity, forces) of each recorded tick."""
    numbers = np.fromfile(path)
    sizes = robot.nq, robot.nv, robot.na, robot.na, robot.nv, 12
    while len(numbers):
        (result, count), numbers = numbers[:2], numbers[2:]
        parts = np.split(numbers[: sum(sizes)], np.cumsum(sizes)[:-1])
        numbers = numbers[sum(sizes) :]
        yield int(result), int(count), *parts[:5], parts[5].reshape(4, 3)[: int(count)]


@every("motion", ["squat", "trot"])
def test_torques_of_go2_are_those_of_python(motion, programs, tmp_path):
    """Two seconds of the program's states, told to `predict` in Python with the guess of the tick before."""
    said = ran(programs / "go2", URDF, 2, motion, tmp_path / "record")
    assert said.startswith("2000 ticks, 0 not certified, 0 pieces of memory taken"), said
    robot, guess, largest = Robot.from_urdf(URDF), None, 0.0
    frames = robot.frames
    feet = ["FL_foot", "FR_foot", "RL_foot", "RR_foot"]
    joints, compared, fewest = [robot.joint_of_frame(name) for name in feet], 0, 4
    for result, count, q, v, demand, torque, velocity, force in ticks(tmp_path / "record", robot):
        heights = np.array([frames.placement(name, q).translation for name in feet])
        touching = [k for k in range(4) if heights[k, 2] - 0.022 <= 0.002]
        assert len(touching) == count
        n, fewest = count, min(fewest, count)
        contacts = ContactSet(
            keys=tuple(feet[k] for k in touching),
            bodies=np.array([joints[k] for k in touching], dtype=np.int64),
            others=np.zeros(n, np.int64),
            points=heights[touching] - [0.0, 0.0, 0.022],
            normals=np.tile([0.0, 0.0, 1.0], (n, 1)),
            tangents=np.tile([1.0, 0.0, 0.0], (n, 1)),
            mu=np.full(n, 0.8),
            gaps=heights[touching, 2] - 0.022,
            radii=np.full(n, 0.022),
        )
        answer = predict(robot, State(q=q, v=v), contacts, demand, law="coulomb", dt=1e-3, guess=guess)
        guess, compared = answer.guess, compared + 1
        assert result == 0
        largest = max(largest, np.abs(torque - answer.tau).max(), np.abs(velocity - answer.v_plus).max())
        np.testing.assert_allclose(force, answer.force, rtol=1e-9, atol=1e-8)
    assert compared == 2000
    assert (fewest < 4) == (motion == "trot")
    assert largest < 1e-10, largest


def test_random_and_malformed_calls_are_clean_under_sanitizers(tmp_path):
    (tmp_path / "idyn_kernels.h").write_text(header(), "utf-8")
    sources = FOLDER / "c" / "idyn.c", Path(__file__).with_name("hostile_calls.c")
    flags = "-O1", "-g", "-Wall", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    ran("cc", *flags, f"-I{tmp_path}", f"-I{FOLDER / 'c'}", *sources, "-o", tmp_path / "calls", FOLDER / "libidyn.so", "-lm")
    said = ran(tmp_path / "calls", 20_000, 1000).split()
    answered, refused = int(said[0]), int(said[2])
    assert answered > 10_000, said
    assert refused == 1000, said
