"""Foot switches that flicker are named and count as closed; those of a gait are left alone."""

import pytest

from transport.protocol.contact_input import FootSwitches
from transport.server.sessions.plausibility import SwitchDebounce

DT = 1e-3


def run(closed, ticks):
    """Return the last (switches, text) and the first tick with a text. closed: tick → names"""
    debounce, first = SwitchDebounce(), None
    for tick in range(ticks):
        switches, text = debounce.debounced(FootSwitches(keys=closed(tick), mu=None), DT)
        if text and first is None:
            first = tick
    return switches, text, first


@pytest.mark.parametrize(("half", "most"), [(1, 50), (2, 130)])
def test_a_flickering_switch_is_named_and_counts_as_closed(half, most):
    switches, text, first = run(lambda tick: ("A", "B") if tick // half % 2 else ("A",), 200 * half)
    assert first is not None
    assert first < most
    assert text == "foot switches flicker: B"
    assert switches.keys == ("A", "B")


def test_a_gait_with_bouncing_landings_is_left_alone():
    def gait(tick):
        phase = tick % 300
        stands = phase > 100 and not (phase < 116 and phase % 2)
        return ("A", "B") if stands else ("A",)

    assert run(gait, 1500)[2] is None


def test_a_switch_that_is_quiet_again_counts_as_it_is():
    switches, text, first = run(lambda tick: ("A", "B") if tick < 300 and tick % 2 else ("A",), 1000)
    assert first is not None
    assert text == ""
    assert switches.keys == ("A",)


def test_friction_of_switches_is_kept():
    debounce = SwitchDebounce()
    for tick in range(100):
        keys, mu = (("A", "B"), (0.5, 0.6)) if tick % 2 else (("B",), (0.6,))
        switches, _ = debounce.debounced(FootSwitches(keys=keys, mu=mu), DT)
    closed = dict(zip(switches.keys, switches.mu, strict=True))
    assert closed["B"] == 0.6
    assert set(closed) == {"A", "B"}


def test_measured_contacts_are_left_alone():
    assert SwitchDebounce().debounced(None, DT) == (None, "")
