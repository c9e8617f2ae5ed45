"""Every fault of the table, over a real socket: the server's reply, the robot's mode, and the torques of its motors."""

from collections import Counter
from collections.abc import Iterator

import pytest
from fast import fast_if, full
from faults import FAULTS, Fault
from log_tools import opened_by_every_tool
from trial import AFTER, BEFORE, Server, Trial, serving

from transport.protocol.messages.requests import Stats, StatsGet


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with serving(folder, log=folder / "log.mcap") as server:
        yield server


@pytest.fixture
def trial(server: Server) -> Iterator[Trial]:
    trial = Trial(server)
    yield trial
    trial.close()


FAST = (
    "NaN in q, once",
    "NaN in q for 150 ms",
    "a joint at 1e300 rad/s",
    "an accelerometer of 1e300 m/s²",
    "quaternion of length 0",
    "unknown contact",
    "old seq",
    "random bytes",
    "front and hind legs exchanged",
    "a joint at 31 rad/s, once",
    "a joint at 31 rad/s, twice",
    "an impossible reference of 1e9 rad/s²",
    "emergency stop",
    "50 % of the answers lost",
    "no answers for 150 ms",
    "no states for 150 ms",
)


def refusals(trial: Trial) -> Counter[str]:
    stats = trial.client.ask(StatsGet())
    assert isinstance(stats, Stats)
    return Counter(stats.refused)


@pytest.mark.parametrize("fault", fast_if(FAULTS, lambda fault: fault.name in FAST), ids=[fault.name for fault in FAULTS])
def test_each_fault_of_the_table(trial: Trial, fault: Fault) -> None:
    client = trial.client
    assert set(trial.run(BEFORE)) == {"ok"}
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
        assert refusal is not None
        assert refusal.field == fault.field
    if fault.says:
        assert any(fault.says in message for message in said), said
    assert max(after, key=lambda mode: after[mode]) == fault.after
    if fault.reset:
        trial.put_back_on_its_feet()
        assert trial.side.reset()
        assert set(trial.run(BEFORE)) == {"ok"}


@full
def test_every_tool_opens_the_log_of_all_these_faults(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.end()
    assert server.recorder is not None
    server.recorder.close()
    for said in opened_by_every_tool(server.recorder.path, caplog):
        assert len([line for line in said if "messages besides states" in line]) <= 1
