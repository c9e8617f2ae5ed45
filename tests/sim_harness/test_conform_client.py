"""`idyn conform --robot CMD`: the example client keeps every rule, and each planted fault is found and named."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from fast import every, full
from faulty_client import FAULTS

from controllers.build import load_controller
from controllers.config.loading import load
from sim_harness.commands.main import main
from sim_harness.conform.client import RULES, try_client
from sim_harness.conform.server import RULES as SERVER_RULES
from sim_harness.conform.server_safety_rules import RULES as SAFETY_RULES
from transport.server.settings import ServerSettings

pytestmark = full

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "clients" / "python" / "stand.py"
FAULTY = Path(__file__).parent / "faulty_client.py"
SETTINGS = load("server", "quadruped", ServerSettings)
CONTROLLER = load_controller("quadruped")


def test_the_example_client_keeps_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    good = main(["conform", "--robot", f"{sys.executable} {EXAMPLE} {{}}"]) == 0
    assert f"{len(RULES)} passed, 0 wrong, 0 not seen" in (said := capsys.readouterr().out), said
    assert good


@every("name", FAULTS)
def test_a_planted_fault_of_a_client_is_found(name: str, tmp_path: Path) -> None:
    _, rule, problem = FAULTS[name]
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
    for rule in (*RULES, *SERVER_RULES, *SAFETY_RULES):
        page, _, anchor = rule.page.partition("#")
        headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}, rule.page
