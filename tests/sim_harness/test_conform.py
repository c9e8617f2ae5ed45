"""`idyn conform`: the real server and the example client keep every rule, and each planted fault is found and named."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from altered_server import FAULTS, AlteredServer
from fast import every, full
from faulty_client import FAULTS as FAULTY_CLIENTS

from controllers.build import load_controller
from controllers.config.loading import load
from sim_harness.commands.main import main
from sim_harness.conform.client import RULES, try_client
from sim_harness.conform.probe import Outcome
from sim_harness.conform.server import RULES as SERVER_RULES
from sim_harness.conform.server import try_server
from sim_harness.run.server_process import ServerProcess
from transport.server.settings import ServerSettings

pytestmark = full

CONTROLLER = load_controller("quadruped")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = load("server", "quadruped", ServerSettings)
    settings = msgspec.structs.replace(settings, endpoint=f"ipc://{tmp_path_factory.mktemp('server')}/s")
    with ServerProcess(settings) as process:
        yield process.endpoint


def outcomes(endpoint: str, only: str = "") -> list[Outcome]:
    return list(try_server(endpoint, CONTROLLER.robot, CONTROLLER.stance, only))


def test_the_real_server_keeps_every_rule(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", server]) == 0
    *lines, summary = capsys.readouterr().out.splitlines()
    assert len(lines) > 25
    assert {line.split()[0] for line in lines} == {"passed"}
    assert summary == f"{len(lines)} passed, 0 wrong, 0 not seen"


def test_a_proxy_that_alters_nothing_changes_nothing(server: str, tmp_path: Path) -> None:
    with AlteredServer(server, f"ipc://{tmp_path}/p", lambda answer, memory: answer) as proxy:
        assert [outcome for outcome in outcomes(proxy.endpoint) if outcome.state != "passed"] == []


@every("name", FAULTS)
def test_a_planted_fault_of_a_server_is_found(name: str, server: str, tmp_path: Path) -> None:
    alter, rule, field = FAULTS[name]
    with AlteredServer(server, f"ipc://{tmp_path}/p", alter) as proxy:
        naming = [outcome for outcome in outcomes(proxy.endpoint, rule) if outcome.state == "wrong"]
    assert naming
    assert field in naming[0].problem
    assert "expected" in naming[0].problem


ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "clients" / "python" / "stand.py"
FAULTY = Path(__file__).parent / "faulty_client.py"
SETTINGS = load("server", "quadruped", ServerSettings)


def test_the_example_client_keeps_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    good = main(["conform", "--robot", f"{sys.executable} {EXAMPLE} {{}}"]) == 0
    assert f"{len(RULES)} passed, 0 wrong, 0 not seen" in (said := capsys.readouterr().out), said
    assert good


@every("name", FAULTY_CLIENTS)
def test_a_planted_fault_of_a_client_is_found(name: str, tmp_path: Path) -> None:
    _, rule, problem = FAULTY_CLIENTS[name]
    command = shlex.join([sys.executable, str(FAULTY), name, "{}"])
    outcomes = list(try_client(command, f"ipc://{tmp_path}/s", CONTROLLER, SETTINGS, only=rule))
    found = [outcome for outcome in outcomes if outcome.state == "wrong"]
    naming = [outcome for outcome in found if rule in outcome.rule]
    assert naming, outcomes
    assert problem in naming[0].problem


def test_a_client_that_cannot_be_started_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--robot", "no-such-program {}"]) == 2
    assert main(["conform"]) == 2
    assert "no-such-program" in capsys.readouterr().err


def test_rules_name_anchors_that_exist() -> None:
    for rule in (*RULES, *SERVER_RULES):
        page, _, anchor = rule.page.partition("#")
        headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}, rule.page
