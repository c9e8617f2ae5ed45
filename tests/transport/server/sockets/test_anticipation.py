"""When the server expects the next state of a client."""

import pytest

from transport.server.sockets.anticipation import Anticipation

PERIOD_NS = 1_000_000


def after(*arrivals_ms: float) -> Anticipation:
    """Return an anticipation that polls 0.25 ms ahead, after these arrivals."""
    anticipation = Anticipation(lead_us=250.0)
    for arrival in arrivals_ms:
        anticipation.arrived(round(arrival * 1e6), PERIOD_NS)
    return anticipation


def test_the_server_sleeps_until_a_regular_state_is_due():
    assert after(10.0, 11.0, 12.0).rest_s(12_000_000) == pytest.approx(0.75e-3)


@pytest.mark.parametrize("arrivals", [(10.0, 11.0, 14.0), (10.0, 60.0, 110.0), (10.0, 11.5, 13.0)])
def test_the_server_does_not_sleep_after_irregular_or_late_states(arrivals):
    """Late ones may have waited because the server slept; equal intervals of 50 ms once kept it asleep for 50 ms each."""
    assert after(*arrivals).rest_s(round(arrivals[-1] * 1e6)) == 0.0


def test_a_client_that_was_late_is_regular_again_after_two_periods():
    assert after(10.0, 60.0, 110.0, 111.0, 112.0).rest_s(112_000_000) == pytest.approx(0.75e-3)
