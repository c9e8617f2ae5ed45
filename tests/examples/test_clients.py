"""The clients of docs/examples/clients, built and run against a server in a process of its own."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from controllers.config.loading import load
from idyn import RobotClient, hello_for, load_robot
from sim_harness.commands.main import main
from sim_harness.run.server_process import ServerProcess
from transport.server.settings import ServerSettings

pytestmark = pytest.mark.clients

CLIENTS = Path(__file__).parents[2] / "docs" / "examples" / "clients"

NAMES = ("cpp", "node", "python")
PATIENCE_S = 60.0


def built(name: str, folder: Path) -> list[str]:
    """Build a client in a folder and return the command that runs it, without the endpoint. Skips where a tool is missing."""
    if name == "python":
        return [sys.executable, str(CLIENTS / "python" / "stand.py")]
    tools = {"cpp": ("cmake", "c++", "pkg-config"), "node": ("node", "npm")}[name]
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"the {name} client needs {', '.join(missing)}")
    return _cpp(folder) if name == "cpp" else _node(folder)


def _cpp(folder: Path) -> list[str]:
    if subprocess.run(["pkg-config", "--exists", "libzmq"], check=False).returncode:
        pytest.skip("the C++ client needs libzmq and msgpack-cxx (libzmq3-dev, libmsgpack-cxx-dev)")
    _run("cmake", "-S", str(CLIENTS / "cpp"), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-Werror")
    _run("cmake", "--build", str(folder))
    return [str(folder / "stand")]


def _node(folder: Path) -> list[str]:
    for path in (CLIENTS / "node").iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    _run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(folder), cwd=folder)
    return ["node", str(folder / "stand.js")]


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    address = f"ipc://{tmp_path_factory.mktemp('server')}/s"
    settings = load("server", "quadruped", ServerSettings)
    settings = msgspec.structs.replace(settings, endpoint=address, estops=("button",), max_state_age_ms=100.0)
    with ServerProcess(settings) as server:
        yield server.endpoint


@pytest.fixture(scope="module", params=NAMES)
def command(request, tmp_path_factory):
    return built(request.param, tmp_path_factory.mktemp(request.param))


def lines(process: "subprocess.Popen[str]", until: str) -> list[str]:
    """The lines that a client prints up to one that matches; all of them if none does."""
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line.strip())
        if re.search(until, line):
            break
    return seen


@contextmanager
def started(command: list[str], endpoint: str, seconds: float = 100.0) -> Iterator["subprocess.Popen[str]"]:
    """A client that is asked to end by SIGTERM, and does."""
    with subprocess.Popen([*command, endpoint, str(seconds)], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def control(endpoint: str) -> RobotClient:
    robot, _ = load_robot("quadruped")
    return RobotClient(endpoint, hello_for(robot, 0.002, kind="sim"), connect_ms=10_000)


def test_a_client_gets_torques_and_gives_control_back(command, endpoint):
    with started(command, endpoint, 1.5) as process:
        seen = lines(process, "states")
        assert process.wait(PATIENCE_S) == 0
    assert any(re.match(r"running ok", line) for line in seen), seen
    found = re.match(r"states (\d+), last answered (\d+), largest torque ([\d.]+) N·m", seen[-1])
    assert found, seen
    assert int(found[2]) > 100
    assert 0.4 < float(found[3]) < 2.0  # knees that carry 4.8 kg, of 7.3 N·m
    with control(endpoint) as client:
        assert client.hello().mode == "ok"


def test_a_client_says_why_it_is_refused_and_tries_again(command, endpoint):
    with control(endpoint) as other:
        other.hello()
        with started(command, endpoint) as process:
            assert lines(process, "not_controlling")[-1].startswith("absent")
            other.close()
            assert lines(process, "running ok")[-1].startswith("running ok")


def test_a_client_conforms_to_the_protocol(command, capsys):
    good = main(["conform", "--robot", f"{shlex.join(command)} {{}}"]) == 0
    assert " 0 wrong, 0 not seen" in (said := capsys.readouterr().out), said
    assert good
