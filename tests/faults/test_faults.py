"""Every fault of the table, over a real socket: the server's reply, the robot's mode, and the torques of its motors.

The other modules add their faults to the table of docs/reference/faults.md.
"""

from collections import Counter

import pytest
import test_clients_and_server  # noqa: F401
import test_connections  # noqa: F401
import test_files  # noqa: F401
import test_processes  # noqa: F401
import test_unitree  # noqa: F401
from documents import DOCUMENTS
from fast import fast_if, full
from faults import COMPANY, FAULTS, OK, table
from log_tools import opened_by_every_tool
from trial import AFTER, Trial, serving
from wire import expect

from transport.protocol.messages.requests import Stats, StatsGet


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with serving(folder, log=folder / "log.mcap") as server:
        yield server


@pytest.fixture
def trial(server):
    trial = Trial(server)
    yield trial
    trial.close()


FAST = (
    "NaN in q for 150 ms",
    "old seq",
    "random bytes",
    "emergency stop",
    "no states for 150 ms",
)


def refusals(trial: Trial) -> Counter[str]:
    stats = expect(Stats, trial.client.ask(StatsGet()))
    return Counter(stats.refused)


@pytest.mark.parametrize("fault", fast_if(FAULTS, lambda fault: fault.name in FAST), ids=[fault.name for fault in FAULTS])
def test_each_fault_of_the_table(trial, fault):
    client = trial.client
    trial.stands()
    before = refusals(trial)
    client.received.clear()
    fault.arrange(trial)
    client.deadline = 0.02 if fault.unheard else client.deadline
    trial.run(fault.ticks)
    said, refusal = [reply.message for reply in client.received], client.error
    client.heal()
    after = trial.run(AFTER)
    codes = {code for code, count in refusals(trial).items() if count > before[code]}
    assert (fault.code in codes) if fault.code else codes <= {fault.perhaps}, codes
    if fault.field:
        assert refusal.field == fault.field
    if fault.says:
        assert any(fault.says in message for message in said), said
    assert max(after, key=lambda mode: after[mode]) == fault.after
    if fault.after != OK:
        trial.recovers()


@full
def test_every_tool_opens_the_log_of_all_these_faults(server, caplog):
    server.end()
    server.recorder.close()
    for said in opened_by_every_tool(server.recorder.path, caplog):
        assert len([line for line in said if "messages besides states" in line]) <= 1


def test_the_documentation_has_the_table():
    document = DOCUMENTS["docs/reference/faults.md"]
    between = document.split("<!-- faults -->\n")[1].split("<!-- /faults -->")[0]
    assert between.strip() == table().strip()
    assert f"The table of faults: {len(FAULTS) + len(COMPANY)} of them" in document
