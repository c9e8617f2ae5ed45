"""The torque gate: no torque passes beyond a limit, and permitted torques are unchanged."""

import numpy as np
import pytest
from fast import every
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rig import Rig
from wire import expect

from controllers.command import LimitedBy
from idyn.errors import InputError
from transport.protocol.messages.requests import ClientLimits
from transport.protocol.messages.state import TorqueMessage
from transport.protocol.torque_gate import Gate, TorqueLimits

NA = 4
ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)
FINITE = st.floats(-1e3, 1e3)
POSITIVE = st.one_of(st.just(np.inf), st.floats(1e-3, 1e3))


def vectors(elements: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, NA, elements=elements)


@st.composite
def limits(draw: st.DrawFn) -> TorqueLimits:
    low = draw(vectors(st.one_of(st.just(-np.inf), FINITE)))
    high = np.where(np.isfinite(low), low, 0.0) + draw(vectors(POSITIVE))
    others = {name: draw(vectors(POSITIVE)) for name in ("tau_max", "dtau_max", "v_max", "tau0", "v0")}
    return TorqueLimits(q_min=low, q_max=high, **others)


@given(limits(), vectors(ANY), vectors(FINITE), vectors(FINITE), st.one_of(st.none(), vectors(ANY)), st.floats(0, 0.1))
def test_no_torque_passes_beyond_a_limit(limit, tau, angles, speeds, before, dt):
    passed, bits, changed = Gate(limit).apply(tau, angles, speeds, before, dt)
    assert np.isfinite(passed).all()
    assert (np.abs(passed) <= limit.tau_max).all()
    finite = np.isfinite(limit.tau0)
    share = np.maximum(0.0, 1.0 - np.abs(speeds) / limit.v0)
    assert (np.abs(passed)[finite] <= limit.tau0[finite] * share[finite]).all()
    assert (passed[angles >= limit.q_max] <= 0).all()
    assert (passed[angles <= limit.q_min] >= 0).all()
    assert (passed[speeds >= limit.v_max] <= 0).all()
    assert (passed[speeds <= -limit.v_max] >= 0).all()
    assert changed == (passed != tau).any()  # NaN differs from everything
    assert (bits[passed != tau] != 0).all()
    assert (passed[bits == 0] == tau[bits == 0]).all()
    if before is not None and dt > 0:  # the rate gives way to the hard limits only
        was = np.clip(np.where(np.isfinite(before), before, 0.0), -limit.tau_max, limit.tau_max)
        soft = (bits & ~int(LimitedBy.RATE)) == 0
        step = limit.dtau_max[soft] * dt
        assert (np.abs(passed - was)[soft] <= step + 1e-12 * (np.abs(was[soft]) + step)).all()


@every("short", range(5))
def test_vectors_of_wrong_length_are_refused(short):
    limit = TorqueLimits(**dict.fromkeys(TorqueLimits.__struct_fields__, np.ones(NA)))
    tau, angles, speeds, before, bits = (np.zeros(NA - 1 if k == short else NA) for k in range(5))
    with pytest.raises(InputError, match=r"torque gate: expected arrays of 4 motors .*, got .*3"):
        Gate(limit).apply(tau, angles, speeds, before, 1e-3, bits.astype(np.int64))


@every("applied", [7.0, 13.0, 100.0, 1e300])
def test_an_applied_torque_beyond_the_limit_does_not_raise_it(robot, applied):
    rig = Rig(robot)
    rig.greet(limits=ClientLimits(tau_max=[2.0] * robot.na, dtau_max=[100.0] * robot.na))
    rig.tick(1)
    reply = expect(TorqueMessage, rig.tick(2, tau_applied=[applied] * robot.na))
    assert np.abs(np.frombuffer(reply.tau)).max() <= 2.0
    believed = applied <= 2 * robot.limits.tau_max[0]
    assert ("tau_applied ignored" in reply.message) is not believed
