"""The failsafe of the robot's side: torques at every age of the last reply, and what ends it."""

import msgspec
import numpy as np
import pytest
from fast import every
from standin import MS

from idyn.errors import InputError
from idyn.model.tree import Limits
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.state import Reference, WatchdogLevel
from transport.protocol.torque_gate import Stage, limits_of, stage
from transport.robot.failsafe import GIVE_WAY, DriveCommand, Failsafe, FailsafeMode, FailsafeSettings, drive_command
from transport.server.sessions.clocks import watchdog
from transport.server.settings import WatchdogSettings

TAU = np.array([1.0, -2.0])
Q, V = np.array([0.3, -0.1]), np.array([0.5, 100.0])
Q_REF, V_REF = np.array([0.31, -0.12]), np.array([2.0, -1.0])
KP, KD = np.array([7.0, 3.0]), np.array([0.02, 0.4])
OWN = np.array([0.2, 0.2])
TAU_MAX, NONE = np.array([5.0, 5.0]), np.full(2, np.inf)
LIMITS = limits_of(Limits(tau_max=TAU_MAX, v_max=NONE, q_min=-NONE, q_max=NONE))
DAMPING = np.array([-0.1, -5.0])  # −0.2 · 100 is beyond what the motor gives
STILL = np.array([0.5, 0.25])


def answer(t_ms: float, posture: bool = True, damps: bool = False, tau: np.ndarray = TAU) -> DriveCommand:
    rows = np.array([Q_REF, V_REF, KP, KD])
    t = round(t_ms * MS)
    return DriveCommand(tau=tau, posture=rows if posture else None, t_ns=t, until_ns=t + 20 * MS, damps=damps)


def damper() -> Failsafe:
    return Failsafe(damping=OWN, limits=LIMITS)


@pytest.fixture
def failsafe():
    return damper()


def at(failsafe: Failsafe, t_ms: float, command: DriveCommand | None = None, v: np.ndarray = V, **told: bool):
    return failsafe.torque(round(t_ms * MS), Q, v, command, **told)


@every("age_ms", [1, 7, 19.9])
def test_before_the_first_answer_the_robot_damps_and_a_short_outage_continues_the_reference(age_ms):
    failsafe = damper()
    tau, mode = at(failsafe, 5)
    assert mode is FailsafeMode.DAMPING
    np.testing.assert_allclose(tau, DAMPING)
    at(failsafe, 7, answer(7))
    tau, mode = at(failsafe, 7 + age_ms, v=STILL)
    assert mode is FailsafeMode.FOLLOW
    ahead = Q_REF + V_REF * age_ms * 1e-3
    np.testing.assert_allclose(tau, TAU + KP * (ahead - Q) + KD * (V_REF - STILL), rtol=1e-12)


@every(("age_ms", "share"), [(20, 1.0), (45, 0.5), (70, 0.0), (99, 0.0), (100, 0.0), (10_000, 0.0)])
def test_a_longer_outage_holds_the_posture_while_the_torque_fades(age_ms, share):
    """With the larger of both dampings for each motor: 0.2 its own, 0.4 the answer's."""
    failsafe = damper()
    at(failsafe, 7, answer(7))
    tau, mode = at(failsafe, 7 + age_ms, v=STILL)
    assert mode is (FailsafeMode.STOPPED if age_ms >= 100 else FailsafeMode.REST)
    where = Q_REF + V_REF * 0.020
    np.testing.assert_allclose(tau, share * TAU + KP * (where - Q) - np.array([0.2, 0.4]) * STILL, rtol=1e-12)


def test_without_gains_the_failsafe_damps_with_current_speeds(failsafe):
    at(failsafe, 0, answer(0, posture=False))
    tau, mode = at(failsafe, 19)
    assert mode is FailsafeMode.FOLLOW
    np.testing.assert_array_equal(tau, TAU)
    for t, v in ((20, V), (60, STILL)):
        tau, mode = at(failsafe, t, v=v)
        assert mode is FailsafeMode.DAMPING
        np.testing.assert_allclose(tau, np.clip(-0.2 * v, -5.0, 5.0))
    tau, mode = at(failsafe, 100, v=STILL)
    assert mode is FailsafeMode.STOPPED
    np.testing.assert_allclose(tau, -0.2 * STILL)


def test_a_reply_ends_a_pause_and_not_the_stop(failsafe):
    at(failsafe, 0, answer(0))
    assert at(failsafe, 50)[1] is FailsafeMode.REST
    assert at(failsafe, 51, answer(51))[1] is FailsafeMode.OK
    assert at(failsafe, 151, answer(151))[1] is FailsafeMode.STOPPED
    assert at(failsafe, 152, answer(152))[1] is FailsafeMode.STOPPED
    assert at(failsafe, 153, fault=True)[1] is FailsafeMode.STOPPED  # it keeps standing when the server reports the outage
    assert failsafe.stopped
    failsafe.reset()
    assert at(failsafe, 154, answer(154))[1] is FailsafeMode.OK


def test_a_fault_damps_with_current_speeds_until_reset(failsafe):
    at(failsafe, 0, answer(0))
    for t, v in ((1, STILL), (2, -STILL), (3, np.zeros(2))):
        tau, mode = at(failsafe, t, answer(t), v=v, fault=t == 1)
        assert mode is FailsafeMode.DAMPING
        np.testing.assert_allclose(tau, -0.2 * v)
    failsafe.reset()
    assert at(failsafe, 4, answer(4))[1] is FailsafeMode.OK


def test_damping_always_uses_current_speeds(failsafe):
    """A torque −d v of old speeds would drive a joint that has reversed."""
    at(failsafe, 0, answer(0))
    for t, command in ((1, answer(1, damps=True, tau=-0.2 * STILL)), (2, None), (3, None)):
        v = STILL * (-1.0) ** t
        tau, mode = at(failsafe, t, command, v=v)
        assert mode is FailsafeMode.DAMPING
        assert (tau * v < 0).all()
    assert at(failsafe, 4, answer(4))[1] is FailsafeMode.OK


def test_a_joint_displaced_beyond_the_limit_is_damped(failsafe):
    at(failsafe, 0, answer(0))
    assert at(failsafe, 30)[1] is FailsafeMode.REST
    beyond = Q_REF + V_REF * 0.020 + np.array([0.0, GIVE_WAY + 1e-6])
    tau, mode = failsafe.torque(31 * MS, beyond, STILL, None)
    assert mode is FailsafeMode.DAMPING
    np.testing.assert_allclose(tau, -0.2 * STILL)
    assert at(failsafe, 32, answer(32))[1] is FailsafeMode.DAMPING
    assert failsafe.stopped


def test_failsafe_torques_stay_within_the_limits(failsafe):
    rng = np.random.default_rng(3)
    for t in range(300):
        command = answer(t, tau=20.0 * rng.normal(size=2)) if t % 90 < 20 else None
        tau, _ = failsafe.torque(t * MS, Q_REF + rng.normal(size=2), 50.0 * rng.normal(size=2), command)
        assert (np.abs(tau) <= TAU_MAX).all()


def test_failsafe_torques_change_no_faster_than_the_rate_limit():
    rates = np.array([100.0, 400.0])  # N·m/s
    failsafe = Failsafe(damping=OWN, limits=msgspec.structs.replace(LIMITS, dtau_max=rates))
    at(failsafe, 0, answer(0, tau=np.zeros(2)), v=STILL)
    for t_ms, step in ((2, 0.2), (7, 0.7)):  # 2 and 5 ms at 100 N·m/s; the other motor has 0.8 and 2.8 N·m
        tau, mode = at(failsafe, t_ms, answer(t_ms, tau=np.array([4.0, -4.0])), v=STILL)
        assert mode is FailsafeMode.OK
        np.testing.assert_allclose(tau, [step, -4.0 * step])


def test_a_reply_is_converted_to_drive_commands_or_refused(rig):
    ref = Reference(q=Q_REF.tobytes(), v=V_REF.tobytes(), a=TAU.tobytes())
    reply = msgspec.structs.replace(rig.torque(5), tau=TAU.tobytes(), ref=ref, kp=KP.tobytes(), kd=KD.tobytes())

    def converted(**changes: object) -> DriveCommand:
        return drive_command(msgspec.structs.replace(reply, **changes), 2)

    command = converted()
    np.testing.assert_array_equal(command.tau, TAU)
    np.testing.assert_array_equal(command.posture, [Q_REF, V_REF, KP, KD])
    assert (command.t_ns, command.until_ns, command.damps) == (5 * MS, 25 * MS, False)
    assert converted(kp=None).posture is None
    assert converted(status="fault").damps
    assert converted(status="damping").damps
    for field in ("tau", "kp", "kd"):
        for value in (np.array([np.nan, 0.0]).tobytes(), np.zeros(3).tobytes()):
            with pytest.raises(ProtocolError, match="expected"):
                converted(**{field: value})


def test_wrong_shapes_are_refused(failsafe):
    with pytest.raises(InputError, match=r"command\.tau"):
        at(failsafe, 0, answer(0, tau=np.zeros(3)))
    for wrong in ("q", "v"):
        motion = {"q": Q, "v": V} | {wrong: np.zeros(1)}
        with pytest.raises(InputError, match=rf"^{wrong}: expected shape \(2,\), got \(1,\)"):
            failsafe.torque(0, motion["q"], motion["v"], answer(0))
    with pytest.raises(InputError, match="damping"):
        Failsafe(damping=np.zeros(3), limits=LIMITS)


def test_stages_begin_at_their_times_and_only_advance():
    """A validity longer than the latch ends at the latch."""
    expected = [Stage.FOLLOW] * 20 + [Stage.REST] * 80 + [Stage.STOPPED] * 100
    assert [stage(t * MS, 20 * MS, 100 * MS) for t in range(200)] == expected
    assert stage(10**6 * MS, 20 * MS, 100 * MS) is stage(100 * MS, 500 * MS, 100 * MS) is Stage.STOPPED


def test_server_and_robot_agree_on_the_stage():
    levels = {Stage.REST: {WatchdogLevel.HOLD}, Stage.STOPPED: {WatchdogLevel.LATCHED}}
    follow = {WatchdogLevel.OK, WatchdogLevel.WARN, WatchdogLevel.DEGRADED}
    for silence in range(0, 150, 7):
        said = watchdog(silence * MS, MS, 20 * MS, 100 * MS).state
        assert said in levels.get(stage(silence * MS, 20 * MS, 100 * MS), follow), silence
    assert FailsafeSettings().stop == pytest.approx(WatchdogSettings().latch_ms * 1e-3)  # as shipped
