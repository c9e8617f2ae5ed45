"""The rate of the robot's clock: wrong units are found in the first 100 states."""

import pytest
from rig import Rig
from standin import MS, hello

from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.hello import ClientKind, Welcome
from transport.protocol.messages.torque import TorqueMessage

UNITS = {"µs": 1_000, "ms": 1_000_000}


def run(rig: Rig, kind: ClientKind, *, robot_ns: float, server_ns: float, dt: float = 1e-3) -> tuple[int, str]:
    """Send 200 states with so much time between them on each clock. Return the seq of the first refusal and its text."""
    welcome = rig.send(hello(rig.robot, kind=kind, dt_nominal=dt))
    assert isinstance(welcome, Welcome)
    rig.session = welcome.session
    for seq in range(1, 201):
        rig.now = round(seq * server_ns)
        reply = rig.send(rig.state(seq, t_robot=10**9 + round(seq * robot_ns), t_send=None))
        if isinstance(reply, ErrorMessage):
            assert reply.code is Code.LATCHED_FAULT
            return seq, reply.message
        assert isinstance(reply, TorqueMessage)
    return 0, ""


@pytest.mark.parametrize("kind", ["robot", "sim"])
@pytest.mark.parametrize("unit", UNITS)
def test_wrong_units_are_found_and_named(rig: Rig, kind: ClientKind, unit: str) -> None:
    seq, text = run(rig, kind, robot_ns=MS / UNITS[unit], server_ns=MS)
    assert 0 < seq <= 100
    assert "t_robot: expected ns" in text
    assert text.count(f"it appears to be in {unit}") == 1


@pytest.mark.parametrize(
    ("kind", "robot_ms", "server_ms"),
    [
        ("robot", 1.0, 1.0),
        ("robot", 1.0, 1e-3),  # the server has a backlog
        ("robot", 1.0, 90.0),  # a busy machine
        ("robot", 1.3, 1.3),
        ("sim", 1.0, 1e-3),
        ("sim", 0.1, 1.0),
        ("sim", 20.0, 1.0),
    ],
)
def test_other_rates_are_no_errors_of_units(rig: Rig, kind: ClientKind, robot_ms: float, server_ms: float) -> None:
    assert run(rig, kind, robot_ns=robot_ms * MS, server_ns=server_ms * MS) == (0, "")


@pytest.mark.parametrize(("dt", "measured"), [(1e-4, "0.001"), (5e-3, "0.001")])
def test_a_period_that_differs_from_dt_nominal_is_named(rig: Rig, dt: float, measured: str) -> None:
    seq, text = run(rig, "robot", robot_ns=MS, server_ns=MS, dt=dt)
    assert seq == 100
    assert f"dt_nominal: expected about the measured period of {measured} s, got {dt:g} s" in text
