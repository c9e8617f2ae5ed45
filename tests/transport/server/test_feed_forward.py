"""The feed-forward torque of a reply keeps the limits and the rate of the torque, so that a drive may apply it."""

import msgspec
import numpy as np
import pytest
from rig import Rig

from idyn.types import Array
from transport.protocol.messages.hello import ClientLimits
from transport.protocol.messages.state import Flags
from transport.protocol.messages.torque import TorqueMessage


def ask(rig: Rig, seq: int, tau_ff: float, **changes: object) -> tuple[Array, Array, Array, bool]:
    """Return tau, tau_ff, tau_fb and ff_limited of a reply to a state for which the controller computes this tau_ff [N·m]."""
    answer = rig.controller.__class__.answer

    def with_feed_forward(state, contacts, inputs):  # type: ignore[no-untyped-def]
        command = answer(rig.controller, state, contacts, inputs)
        wanted = 0.0 if inputs.estop else tau_ff
        return msgspec.structs.replace(command, tau_ff=np.full(rig.robot.na, wanted))

    rig.controller.answer = with_feed_forward  # type: ignore[method-assign]
    reply = rig.tick(seq, **changes)
    assert isinstance(reply, TorqueMessage), reply
    tau, ff, fb = (np.frombuffer(each) for each in (reply.tau, reply.tau_ff, reply.tau_fb))  # type: ignore[arg-type]
    return tau, ff, fb, reply.ff_limited


@pytest.mark.parametrize("wanted", [1e11, -1e11, np.inf])
def test_it_keeps_the_torque_limits(rig: Rig, wanted: float) -> None:
    rig.greet(limits=ClientLimits(tau_max=[2.0] * 12))
    tau, ff, fb, limited = ask(rig, 1, wanted)
    assert limited
    np.testing.assert_array_equal(ff, 0.0 if np.isinf(wanted) else 2.0 * np.sign(wanted))
    np.testing.assert_allclose(ff + fb, tau, atol=1e-12)


def test_it_keeps_the_rate_from_its_last_value(rig: Rig) -> None:
    rig.greet(limits=ClientLimits(dtau_max=[100.0] * 12))
    *_, limited = ask(rig, 1, 0.5)
    assert not limited
    _, ff, _, limited = ask(rig, 2, 2.0)
    np.testing.assert_allclose(ff, 0.6)
    assert limited


def test_a_stopped_robot_has_none_at_once(rig: Rig) -> None:
    rig.greet(limits=ClientLimits(dtau_max=[100.0] * 12))
    ask(rig, 1, 0.5)
    _, ff, _, _ = ask(rig, 2, 0.5, flags=Flags(estop=True))
    assert not ff.any()
