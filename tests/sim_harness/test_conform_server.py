"""`idyn conform ENDPOINT`: a real server keeps every rule, and each planted fault is found and named."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from altered_server import FAULTS, AlteredServer
from fast import every, full

from controllers.build import load_controller
from controllers.config.loading import load
from sim_harness.commands.main import main
from sim_harness.conform.rules import Outcome
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


def outcomes(endpoint: str) -> list[Outcome]:
    return list(try_server(endpoint, CONTROLLER.robot, CONTROLLER.stance))


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
        found = [outcome for outcome in outcomes(proxy.endpoint) if outcome.state == "wrong"]
    naming = [outcome for outcome in found if rule in outcome.rule]
    assert naming, found
    assert field in naming[0].problem
    assert "expected" in naming[0].problem
