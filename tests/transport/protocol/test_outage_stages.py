"""Server and robot agree on the stages of an outage."""

from itertools import pairwise

import pytest

from transport.protocol.messages.torque import WatchdogLevel
from transport.protocol.outage_stages import Stage, stage
from transport.robot.failsafe import FailsafeSettings
from transport.server.sessions.comm_stats import watchdog
from transport.server.settings import WatchdogSettings

MS = 1_000_000


@pytest.mark.parametrize(
    ("silence", "expected"),
    [(0, Stage.FOLLOW), (19, Stage.FOLLOW), (20, Stage.REST), (99, Stage.REST), (100, Stage.STOPPED), (10**6, Stage.STOPPED)],
)
def test_stages_begin_at_their_times(silence: int, expected: Stage) -> None:
    assert stage(silence * MS, 20 * MS, 100 * MS) is expected


def test_a_validity_longer_than_the_latch_ends_at_the_latch() -> None:
    assert stage(100 * MS, 500 * MS, 100 * MS) is Stage.STOPPED


def test_stages_only_advance() -> None:
    passed = [stage(t * MS, 20 * MS, 100 * MS) for t in range(200)]
    assert all(a <= b for a, b in pairwise(passed))
    assert set(passed) == set(Stage)


@pytest.mark.parametrize("silence", range(0, 150, 7))
def test_server_and_robot_agree_on_the_stage(silence: int) -> None:
    said = watchdog(silence * MS, MS, 20 * MS, 100 * MS).state
    levels = {Stage.REST: {WatchdogLevel.HOLD}, Stage.STOPPED: {WatchdogLevel.LATCHED}}
    follow = {WatchdogLevel.OK, WatchdogLevel.WARN, WatchdogLevel.DEGRADED}
    assert said in levels.get(stage(silence * MS, 20 * MS, 100 * MS), follow)


def test_with_shipped_settings_both_sides_stop_at_the_same_time() -> None:
    assert FailsafeSettings().stop == pytest.approx(WatchdogSettings().latch_ms * 1e-3)
