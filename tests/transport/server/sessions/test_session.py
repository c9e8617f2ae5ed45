"""Sessions, through bytes: order, age, period, watchdog, every kind of bad state; faults and stops that outlast them."""

from collections.abc import Callable
from functools import partial

import msgpack
import msgspec
import numpy as np
import pytest
from fast import every, every_row
from rig import Rig, greeted
from standin import FEET, MS, hello, standing, state
from wire import expect

from idyn.model.robot import Robot
from transport.protocol.codec import MAX_BYTES, PARTS, encode
from transport.protocol.messages import Message, requests
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import Estop, EstopAck, Reset, ResetAck, Stop
from transport.protocol.messages.state import Contact, Flags, Imu, Reference, Stance, TorqueMessage, WatchdogLevel
from transport.server.sessions.session import DT_FACTORS, RING

NAN, INF, BASE = float("nan"), float("inf"), "base speeds"
torque, error = partial(expect, TorqueMessage), partial(expect, ErrorMessage)
DRY, LAST = {"flags": Flags(dry_run=True)}, {seq: {"last_applied_seq": seq} for seq in (39, 20, 5)}


def test_the_torque_answers_its_state(rig, robot):
    reply = rig.torque(1, t_robot=123 * MS)
    assert (reply.session, reply.seq, reply.t_robot, reply.valid_until) == (rig.session, 1, 123 * MS, 143 * MS)
    assert reply.deadline_met
    assert not reply.dry_run
    assert (reply.status, reply.message, len(reply.limited_by)) == ("ok", "", robot.na)
    assert [contact.frame for contact in reply.contact_force] == list(robot.spheres.keys)
    weight = sum(contact.fn for contact in reply.contact_force)
    assert weight == pytest.approx(robot.total_mass * 9.81)
    assert (reply.solver.path, reply.solver.n_contacts, reply.solver.warm) == ("springs", 4, False)
    second = rig.torque(2, t_robot=124 * MS)
    assert second.solver.warm


def test_a_missed_deadline_is_reported(robot):
    rig = greeted(robot, deadline_us=500.0)
    rig.times = iter((0, MS))
    reply = torque(rig.send(rig.state(1)))
    assert not reply.deadline_met
    assert reply.solver.time_us == 1000.0
    stats = expect(requests.Stats, rig.send(requests.StatsGet()))
    assert (stats.torques, stats.deadline_misses, stats.step_us_max) == (1, 1, 1000.0)


@every_row(({}, None), (DRY, False), (LAST[39], None), (LAST[20], None), (LAST[5], False))
def test_motors_that_are_not_asked_for_the_torque_are_not_judged_by_it(fields, follows, robot):
    """Those of a client without `t_applied`: in a dry run, while answers are lost, and of a shadow."""
    rig = greeted(robot)
    reply = rig.torque(40, **fields)
    assert rig.controller.last.follows is follows
    assert reply.dry_run is ("flags" in fields)
    rig.session = rig.greet_as(b"s", kind="shadow").session
    assert isinstance(rig.send(rig.state(1), b"s"), TorqueMessage)
    assert rig.shadow.last.follows is False


def test_the_period_is_measured_and_clamped(rig):
    periods = []
    for seq, t in enumerate((0.0, 1.0, 1.2, 3.2, 13.2), start=1):
        rig.torque(seq, t_robot=round(t * MS))
        periods.append(rig.controller.last.dt)
    low, high = DT_FACTORS
    np.testing.assert_allclose(periods, [0.0, 1e-3, low * 1e-3, 2e-3, high * 1e-3])


def test_the_applied_torque_the_reference_and_a_normalised_quaternion_reach_the_controller(moving, robot):
    rig = moving
    rows = np.arange(36.0).reshape(3, 12)
    ref = Reference(q=rows[0].tobytes(), v=rows[1].tolist(), a=rows[2].tobytes())
    rig.torque(1, tau_applied=rows[1].tobytes(), ref=ref)
    seen = rig.controller.last
    assert seen.reference is not None
    np.testing.assert_array_equal(seen.tau_applied, rows[1])
    np.testing.assert_array_equal([seen.reference.q, seen.reference.v, seen.reference.a], rows)
    q = standing(robot)
    q[3:7] = np.array([0.0, 0.6, 0.0, 0.8]) * 1.0009
    rig.greet()
    rig.torque(2, tau_applied=None, q=q.tobytes())
    assert rig.controller.last.tau_applied is None
    np.testing.assert_allclose(rig.controller.seen.q[3:7], [0.0, 0.6, 0.0, 0.8], atol=1e-15)


def foot(**changes: object) -> Contact:
    fields: dict[str, object] = {"frame": "FL_FOOT", "p": [0.1, 0.1, 0.0], "n": [0.0, 0.0, 1.0]}
    return Contact(**(fields | changes))


def with_number(n: int, i: int, value: float) -> list[float]:
    numbers = [0.0] * n
    numbers[i] = value
    return numbers


def stands(frame: str, switch: float = 0.1) -> Stance:
    return Stance(frame=frame, stance=True, time_to_switch=switch)


def test_a_schedule_names_feet_and_the_others_stand(rig, robot):
    lifted = Stance(frame="HL_FOOT", stance=False, time_to_switch=0.2)
    rig.torque(1, schedule=[lifted, stands("FR_FOOT", -0.1)])
    plan = rig.controller.last.schedule
    assert robot.spheres.keys == FEET
    assert plan.stance.tolist() == [True, True, False, True]
    assert plan.time_to_switch.tolist() == [INF, 0.0, 0.2, INF]  # a switch in the past is due now


LEVEL = [0.0, 0.0, 0.0, 1.0]

BAD_STATES = [
    ({"q": [0.0] * 18}, Code.WRONG_LENGTH, "q"),
    ({"vel": np.zeros(19).tobytes()}, Code.WRONG_LENGTH, "vel"),
    ({"tau_applied": [0.0] * 11}, Code.WRONG_LENGTH, "tau_applied"),
    ({"tau_meas": [0.0] * 11}, Code.WRONG_LENGTH, "tau_meas"),
    ({"vel": with_number(18, 4, NAN)}, Code.NON_FINITE, "vel[4]"),
    ({"q": with_number(19, 2, INF)}, Code.NON_FINITE, "q[2]"),
    ({"tau_applied": with_number(12, 11, -INF)}, Code.NON_FINITE, "tau_applied[11]"),
    ({"temp": with_number(12, 0, NAN)}, Code.NON_FINITE, "temp[0]"),
    ({"rtt_us": NAN}, Code.NON_FINITE, "rtt_us"),
    ({"volt": INF}, Code.NON_FINITE, "volt"),
    ({"schedule": [stands("FL_FOOT", NAN)]}, Code.NON_FINITE, "schedule[0].time_to_switch"),
    ({"schedule": [stands("FL_FOOT"), stands("LF_FOOT")]}, Code.CONTACT_UNKNOWN, "schedule[1].frame"),
    ({"imu": Imu(quat=[0.0] * 3, gyro=[0.0] * 3, acc=[0.0] * 3)}, Code.WRONG_LENGTH, "imu.quat"),
    ({"q": with_number(19, 8, -1e300)}, Code.BAD_SCHEMA, "q[8]"),
    ({"q": with_number(19, 1, 2e6)}, Code.BAD_SCHEMA, "q[1]"),
    ({"vel": with_number(18, 17, 1e300)}, Code.BAD_SCHEMA, "vel[17]"),
    ({"vel": with_number(18, 5, 1e4)}, Code.BAD_SCHEMA, "vel[5]"),
    ({"tau_meas": with_number(12, 3, 1e300)}, Code.BAD_SCHEMA, "tau_meas[3]"),
    ({"imu": Imu(quat=LEVEL, gyro=[0.0, -1e300, 0.0], acc=[0.0] * 3)}, Code.BAD_SCHEMA, "imu.gyro[1]"),
    ({"imu": Imu(quat=LEVEL, gyro=[0.0] * 3, acc=[0.0, 0.0, 1e300])}, Code.BAD_SCHEMA, "imu.acc[2]"),
    ({"q": with_number(19, 6, 1.01)}, Code.QUATERNION_NOT_UNIT, "q[3:7]"),
    ({"q": with_number(19, 6, 0.0)}, Code.QUATERNION_NOT_UNIT, "q[3:7]"),
    ({"ref": Reference(q=[0.0], v=[0.0] * 12, a=[0.0] * 12)}, Code.WRONG_LENGTH, "ref.q"),
    ({"contacts": [foot(frame="FL_FOT")]}, Code.CONTACT_UNKNOWN, "contacts[0].frame"),
    ({"contacts": [foot(active=False), foot(mu=-0.1)]}, Code.BAD_SCHEMA, "contacts[1].mu"),
    ({"contacts": [foot(mu=NAN)]}, Code.BAD_SCHEMA, "contacts[0].mu"),
    ({"contacts": [foot(n=[0.0, 0.0, 2.0])]}, Code.BAD_SCHEMA, "contacts[0].n"),
    ({"contacts": [foot(p=[0.0, NAN, 0.0])]}, Code.NON_FINITE, "contacts[0].p[1]"),
    ({"contacts": [foot(p=[0.0, 0.0])]}, Code.WRONG_LENGTH, "contacts[0].p"),
    ({"contacts": [foot(dist=INF)]}, Code.BAD_SCHEMA, "contacts[0].dist"),
    ({"contacts": [foot(t1=[0.0, 0.0, 1.0])]}, Code.BAD_SCHEMA, "contacts[0].t1"),
    ({"contacts": [foot(t1=[1.0, 0, 0], t2=[0.0, -1, 0])]}, Code.BAD_SCHEMA, "contacts[0].t2"),
    ({"contacts": [foot(), foot()]}, Code.BAD_SCHEMA, "contacts.frame"),
    ({"contacts": [foot(frame="base_link")]}, Code.BAD_SCHEMA, "contacts[0].mu"),
    ({"contacts": [foot(p=None)]}, Code.BAD_SCHEMA, "contacts[0].p"),
    ({"contacts": [foot(), foot(frame="FR_FOOT", n=None)]}, Code.BAD_SCHEMA, "contacts[1].n"),
    ({"contacts": [Contact(frame="HL_FOOT"), foot()]}, Code.BAD_SCHEMA, "contacts[0].p"),
    ({"contacts": [Contact(frame="FL_FOT")]}, Code.CONTACT_UNKNOWN, "contacts[0].frame"),
    ({"contacts": [Contact(frame="base_link")]}, Code.CONTACT_UNKNOWN, "contacts[0].p"),
    ({"contacts": [Contact(frame="HL_FOOT"), Contact(frame="FL_FOOT", mu=-1.0)]}, Code.BAD_SCHEMA, "contacts[1].mu"),
    ({"contacts": [Contact(frame="FL_FOOT", dist=0.01)]}, Code.BAD_SCHEMA, "contacts[0].dist"),
    ({"contacts": [Contact(frame="FL_FOOT", t1=[1.0, 0.0, 0.0])]}, Code.BAD_SCHEMA, "contacts[0].t1"),
    ({"contacts": [Contact(frame="FL_FOOT"), Contact(frame="FL_FOOT")]}, Code.BAD_SCHEMA, "contacts[1].frame"),
    ({"seq": 1}, Code.DUPLICATE, "seq"),
    ({"t_robot": MS}, Code.OUT_OF_ORDER, "t_robot"),
]


@every(("change", "code", "field"), BAD_STATES)
def test_an_invalid_state_is_refused_by_field_and_has_no_effect(robot, change, code, field):
    rig = greeted(robot)
    rig.torque(1)
    memory, steps = rig.controller.integral.copy(), rig.controller.steps
    rig.now += MS
    reply = error(rig.send(rig.state(1, t_robot=7) if "seq" in change else rig.state(2, **change)))
    assert (reply.code, reply.field, reply.recoverable, reply.session) == (code, field, True, rig.session)
    np.testing.assert_array_equal(rig.controller.integral, memory)
    assert rig.controller.steps == steps
    assert rig.torque(2).comm.lost == 0  # its seq was not used up


def test_foot_switches_and_measured_contacts_replace_the_geometry(fresh):
    """Only contact names are sent; the server computes their positions, in the order of the message."""
    fresh.greet(contact_frames=["FR_FOOT"])
    assert fresh.refused(1, contacts=[foot()]).field == "contacts[0].frame"
    fresh.greet(mu=0.3)
    assert "FL_FOOT" in fresh.refused(1, contacts=[foot(frame="FL_FOT")]).message  # the nearest name
    sent = [Contact(frame="HR_FOOT", mu=0.7), Contact(frame="FR_FOOT", active=False), Contact(frame="FL_FOOT")]
    fresh.torque(1, contacts=sent)
    geometry, felt = fresh.controller.contacts(standing(fresh.robot)), fresh.controller.felt
    assert felt.keys == ("HR_FOOT", "FL_FOOT")
    np.testing.assert_array_equal(felt.points, geometry.points[[geometry.keys.index(key) for key in felt.keys]])
    np.testing.assert_array_equal(felt.mu, [0.7, 0.3])
    np.testing.assert_array_equal(felt.gaps, 0.0)
    fresh.torque(2, contacts=[Contact(frame="HR_FOOT", active=False)])
    assert len(fresh.controller.felt) == 0
    measured = [foot(t1=[0.0, 1.0, 0.0], t2=[-1.0, 0, 0]), foot(frame="FR_FOOT", active=False)]
    assert [contact.frame for contact in fresh.torque(3, contacts=measured).contact_force] == ["FL_FOOT"]
    assert fresh.torque(4, contacts=[]).contact_force == []


def test_a_duplicate_state_gets_the_same_reply_without_a_step(rig):
    data = encode(rig.state(1))
    first = rig.service.handle(b"a", data, MS).reply
    assert rig.service.handle(b"a", data, 2 * MS).reply == first
    assert rig.controller.steps == 1
    assert rig.torque(2).comm.dup == 1
    for seq in range(3, RING + 2):
        rig.torque(seq)
    assert torque(rig.send(rig.state(2))).seq == 2
    assert error(rig.send(rig.state(1))).code is Code.OUT_OF_ORDER  # only the last replies are repeated


def test_an_older_state_is_refused(rig):
    assert error(rig.send(rig.state(0))).field == "seq"  # it starts at 1
    rig.torque(5)
    reply = error(rig.send(rig.state(3)))
    assert (reply.code, reply.field, reply.seq) == (Code.OUT_OF_ORDER, "seq", 3)
    after = rig.torque(6)
    assert (after.comm.out_of_order, after.comm.lost) == (2, 4)
    assert rig.refused(2**40).code is Code.OUT_OF_ORDER  # far ahead: it does not outdate the following states
    assert rig.torque(7).status == "ok"


def test_overtaken_states_count_as_late(rig):
    rig.torque(1)
    for seq in (3, 4):
        rig.service.overtaken(b"a", encode(rig.state(seq)), 5 * MS)
    comm = rig.torque(5).comm
    assert (comm.late, comm.lost, comm.success_100) == (2, 1, pytest.approx(2 / 5))


def test_an_old_state_is_refused_by_its_age_and_counts_as_received(rig):
    for seq in range(1, 6):
        rig.torque(seq)
    rig.now = 6 * MS + 11 * MS
    reply = error(rig.send(rig.state(6)))
    assert (reply.code, reply.field) == (Code.STALE_STATE, "t_send")
    assert rig.torque(18).comm.age_ms == 0.0
    rig.now = 168 * MS  # a client that waits for every reply sent it just before the server paused for 150 ms
    assert error(rig.send(rig.state(19))).code is Code.STALE_STATE
    rig.torque(169)


@every(("silence_ms", "level"), [(1, "OK"), (2, "WARN"), (6, "DEGRADED"), (20, "HOLD"), (99, "HOLD")])
def test_the_watchdog_reports_the_waiting_time(silence_ms, level, robot):
    rig = greeted(robot)
    rig.now = 10_000 * MS  # the time between hello and the first state does not count
    torque(rig.send(rig.state(1, t_send=None)))
    rig.now += silence_ms * MS
    watchdog = torque(rig.send(rig.state(2, t_send=None, t_robot=(1 + silence_ms) * MS))).watchdog
    assert (watchdog.state, watchdog.misses) == (WatchdogLevel[level], silence_ms - 1)


def test_a_pause_of_the_server_is_not_an_outage_of_the_robot(rig):
    """It resumes after 469 ms with one waiting state for each tick: the newest is answered, and the pause is reported."""
    rig.service.overtaken(b"a", encode(rig.state(1)), 5_000_000_000)  # before the first answer there is no pause
    assert rig.torque(1).watchdog.pause_ms == 0.0
    rig.now = 470 * MS
    for seq in range(2, 470):
        rig.service.overtaken(b"a", encode(rig.state(seq)), rig.now)
    reply = torque(rig.send(rig.state(470)))
    assert (reply.watchdog.state, reply.watchdog.misses) == (WatchdogLevel.OK, 0)
    assert (reply.watchdog.pause_ms, reply.comm.late) == (pytest.approx(468.0, abs=1.0), 469)
    after = rig.torque(471)
    assert (after.watchdog.state, after.watchdog.pause_ms) == (WatchdogLevel.OK, 0.0)
    rig.now = 900 * MS
    for seq in (*range(472, 600), *range(720, 899)):  # a gap of 120 ms by the robot's clock is no fault meanwhile
        rig.service.overtaken(b"a", encode(rig.state(seq)), rig.now)
    torque(rig.send(rig.state(900)))
    assert rig.refused(1020).code is Code.LATCHED_FAULT  # but one while the server runs


def test_a_client_that_waits_for_a_reply_has_no_outage(rig):
    rig.times = iter((MS, 208 * MS))
    rig.torque(1)
    reply = rig.torque(209)
    assert reply.watchdog.state is WatchdogLevel.OK
    assert reply.watchdog.pause_ms == pytest.approx(207.0)
    rig.torque(210)


def test_a_silence_by_the_servers_clock_alone_is_an_outage_beyond_a_bound_and_by_the_robots_alone_none(rig, robot):
    """Below it, the robot's clock may have stood still."""
    rig.torque(1)
    rig.now = 52 * MS
    assert torque(rig.send(rig.state(2, t_send=None, t_robot=500 * MS))).watchdog.state is WatchdogLevel.HOLD
    rig = greeted(robot)
    rig.torque(1)
    rig.now = 240 * MS
    watchdog = torque(rig.send(rig.state(2, t_send=None))).watchdog
    assert (watchdog.state, watchdog.pause_ms) == (WatchdogLevel.OK, pytest.approx(238.0))
    rig.now = 492 * MS
    reply = error(rig.send(rig.state(3, t_send=None)))
    assert reply.code is Code.LATCHED_FAULT
    assert "no state for 252 ms" in reply.message


@every(("kind", "told"), [("robot", 1), ("sim", 0), ("replay", 0)])
def test_pauses_are_logged_for_robots_and_not_for_simulations(caplog, kind, told, robot):
    """A simulated world may compute for any time between states, and a replay reads them."""
    rig = Rig(robot)
    rig.greet(client=requests.Client(name=kind, kind=kind))
    for seq in (1, 2):
        rig.now = seq * 24 * MS
        torque(rig.send(rig.state(seq, t_send=None)))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == told
    assert all("no state was handled for 23 ms" in line for line in lines)


def test_a_simulators_own_time_counts(fresh):
    fresh.greet(client=requests.Client(name="slow", kind="sim"))
    torque(fresh.send(fresh.state(1)))
    fresh.now += 10_000 * MS
    assert torque(fresh.send(fresh.state(2))).watchdog.state is WatchdogLevel.OK
    assert error(fresh.send(fresh.state(200))).code is Code.LATCHED_FAULT


def test_reset_is_refused_while_the_robot_tilts_or_moves(rig, robot):
    rig.torque(1)
    rig.refused(150)
    wrong = [("vel", moving_at(robot, i, speed)) for i, speed in ((0, 1.1), (4, 1.1), (10, -1.1))]
    for field, value in [("q", tilted(robot, 1.2)), *wrong]:
        reply = error(rig.send(msgspec.structs.replace(rig.at_rest, **{field: value})))
        assert (reply.code, reply.field) == (Code.LATCHED_FAULT, field)
    assert rig.refused(151).code is Code.LATCHED_FAULT
    assert isinstance(rig.send(rig.at_rest), requests.ResetAck)


STOP = Flags(estop=True)
REFUSED: dict[str, Callable[[Rig], bytes]] = {
    "NaN in q": lambda rig: encode(rig.state(3, q=[float("nan")] * rig.robot.nq, flags=STOP)),
    "unknown contact": lambda rig: encode(rig.state(3, contacts=[Contact(frame="NOSE")], flags=STOP)),
    "repeated t_robot": lambda rig: encode(rig.state(3, t_robot=2 * MS, flags=STOP)),
    "old seq": lambda rig: encode(rig.state(1, flags=STOP)),
    "another session": lambda rig: encode(state(rig.robot, rig.session + 1, 3, flags=STOP)),
    "no vector": lambda rig: msgpack.packb(msgpack.unpackb(encode(rig.state(3, flags=STOP))) | {"q": "north"}),
}


def test_an_emergency_stop_in_a_refused_message_acts(fresh):
    for why, message in REFUSED.items():
        fresh.greet()
        fresh.torque(1)
        fresh.torque(2)
        refusal = error(fresh.raw(message(fresh)))
        assert "emergency stop is engaged" in refusal.message, why
        assert fresh.torque(4).status == "damping", why
        assert isinstance(fresh.send(fresh.at_rest), requests.ResetAck)
        assert fresh.torque(5).status == "ok"


def test_an_emergency_stop_survives_an_outage_and_a_hello(rig):
    rig.torque(1)
    assert rig.refused(500, flags=STOP).code is Code.LATCHED_FAULT  # after a silence
    assert rig.greet().mode == "latched"
    assert rig.refused(1).code is Code.LATCHED_FAULT  # so does the silence
    assert isinstance(rig.send(rig.at_rest), requests.ResetAck)
    assert rig.torque(2).status == "ok"


def test_an_emergency_stop_in_an_overtaken_state_acts_and_that_of_another_client_does_not(rig):
    rig.torque(1)
    guess = msgspec.structs.replace(rig.state(2, flags=STOP), session=rig.session + 1)
    assert error(rig.send(guess, identity=b"stranger")).code is Code.NOT_CONTROLLING
    assert rig.torque(2).status == "ok"
    rig.service.overtaken(b"a", encode(rig.state(3, flags=STOP)), rig.now)
    assert rig.torque(4).status == "damping"


def test_an_emergency_stop_is_accepted_from_a_new_connection(robot):
    """A client that knows the session number need not say hello first; the message may be invalid otherwise, or overtaken."""
    for overtaken in (False, True):
        rig = greeted(robot)
        rig.torque(1)
        if overtaken:
            rig.service.overtaken(b"new", encode(rig.state(2, flags=STOP)), 2 * MS)
        else:
            refused = error(rig.send(rig.state(2, flags=STOP, q=b""), identity=b"new"))
            assert refused.code is Code.NOT_CONTROLLING
            assert refused.message.endswith("its emergency stop is engaged")
        assert rig.torque(2).status == "damping"


def test_faults_and_outages_are_reported_and_latch_until_reset(rig, robot):
    q = standing(robot)
    q[2] = 0.98
    rig.torque(1, q=q.tobytes())
    q[2] = 1.01
    assert rig.torque(2, q=q.tobytes()).status == "fault"
    reply = rig.refused(3)
    assert (reply.code, reply.recoverable) == (Code.LATCHED_FAULT, False)
    assert "the base flies" in reply.message
    assert isinstance(rig.send(rig.at_rest), requests.ResetAck)
    rig.torque(4)
    assert rig.controller.last.dt == 0.0  # begins anew
    for seq in (105, 106):
        assert "no state for 101 ms" in rig.refused(seq).message
    assert [[exchange.seq for exchange in fault.exchanges] for fault in rig.faults] == [[1, 2], [1, 2, 4]]


def test_a_controller_error_is_an_internal_fault_and_latches(rig):
    rig.controller.fail = True
    reply = rig.refused(1)
    assert (reply.code, reply.seq) == (Code.INTERNAL, 1)
    assert "a wire came loose" in reply.message
    rig.controller.fail = False
    assert rig.refused(2).code is Code.LATCHED_FAULT
    rig.send(rig.at_rest)
    rig.torque(3)
    rig.controller.kp = INF  # no torque that is NaN or infinite is sent
    with np.errstate(invalid="ignore"):
        assert rig.refused(4).code is Code.INTERNAL


def test_heartbeats_are_acknowledged_with_the_mode_and_do_not_keep_control(rig, robot):
    rig.torque(1)
    ack = expect(requests.HeartbeatAck, rig.send(requests.Heartbeat(session=rig.session, t_send=5)))
    assert (ack.t_send, ack.t_recv, ack.mode) == (5, MS, "ok")
    rig.refused(150)
    for ms in range(200, 1300, 100):
        rig.now = ms * MS
        ack = expect(requests.HeartbeatAck, rig.send(requests.Heartbeat(session=rig.session)))
        assert ack.mode == "latched"
    assert isinstance(rig.send(hello(robot), identity=b"b"), requests.Welcome)


def tilted(robot: Robot, angle: float) -> bytes:
    q = standing(robot)
    q[3:7] = [np.sin(angle / 2), 0.0, 0.0, np.cos(angle / 2)]
    return q.tobytes()


def moving_at(robot: Robot, i: int, speed: float) -> bytes:
    v = np.zeros(robot.nv)
    v[i] = speed
    return v.tobytes()


def refused(reply: Message, text: str) -> None:
    assert isinstance(reply, ErrorMessage), reply
    assert reply.code is Code.LATCHED_FAULT
    assert text in reply.message


@every("stopped", [False, True])
@every("identity", [b"a", b"b"])
def test_a_fault_outlasts_hello_reconnection_and_another_client(identity, stopped, robot):
    rig = greeted(robot)
    rig.controller.fail = True
    rig.refused(1)
    rig.controller.fail = False
    if stopped:
        rig.send(Stop(session=rig.session))
    rig.now += 2000 * MS
    welcome = rig.greet_as(identity)
    assert (welcome.mode, welcome.latched) == ("latched", "the controller failed (a wire came loose)")
    refused(rig.send(rig.state(1), identity=identity), "a wire came loose")
    assert isinstance(rig.send(rig.at_rest, identity=identity), ResetAck)
    assert isinstance(rig.send(rig.state(2), identity=identity), TorqueMessage)
    assert rig.greet_as(identity).mode == "ok"


def test_a_fault_of_a_shadow_is_not_that_of_the_robot(fresh):
    fresh.greet_as(b"s", kind="shadow")
    fresh.send(fresh.state(1), identity=b"s")
    fresh.now = 500 * MS
    refused(fresh.send(fresh.state(500), identity=b"s"), "no state")
    assert fresh.greet().mode == "ok"
    assert isinstance(fresh.send(fresh.state(1)), TorqueMessage)


@every(("kind", "mode"), [("robot", "latched"), ("sim", "ok")])
def test_a_silence_before_a_hello_is_latched(kind, mode, robot):
    """Not that of a simulated robot: its world may stand still. Nor a shorter one, and one after `stop`."""
    rig = Rig(robot)
    rig.greet(kind=kind)
    rig.torque(1)
    rig.now = 50 * MS
    assert rig.greet(kind=kind).mode == "ok"
    rig.torque(51)
    rig.send(Stop(session=rig.session))
    rig.now = 5000 * MS
    assert rig.greet(kind=kind).mode == "ok"
    rig.torque(5001)
    rig.now = 5150 * MS
    again = rig.greet(kind=kind)
    assert again.mode == mode
    if mode == "latched":
        assert again.latched == "no state for 149 ms before hello"
        assert [fault.reason for fault in rig.faults] == [again.latched]


@every_row((0.96, 4, 5.0, BASE), (1.1, 0, 0.0, "tilt of at most 1 rad"), (0.0, 0, 1.2, BASE), (0.0, 9, 1.2, "joint speeds"))
def test_the_first_state_is_judged_as_by_reset(tilt, i, speed, text, robot):
    rig, fields = Rig(robot), {"q": tilted(robot, tilt), "vel": moving_at(robot, i, speed)}
    rig.greet()
    refused(rig.tick(1, **fields), text)
    refused(rig.tick(2), text)  # it is latched
    assert isinstance(rig.send(rig.at_rest), ResetAck)
    refused(rig.tick(3, **fields), text)  # so is the first one after a reset
    rig.send(rig.at_rest)
    rig.torque(4)
    assert isinstance(rig.tick(5, vel=moving_at(rig.robot, 9, 5.0)), TorqueMessage)  # later ones may move


@every(("kind", "start"), [("shadow", "rest"), ("replay", "rest"), ("robot", "motion")])
def test_shadows_replays_and_robots_of_such_a_server_may_start_in_motion(kind, start, robot):
    rig = Rig(robot, start=start)
    rig.greet(kind=kind)
    rig.torque(1, vel=moving_at(rig.robot, 9, 5.0))


def test_a_lying_robot_may_start_in_any_attitude_but_still(robot):
    rig = greeted(robot, start="lying")
    refused(rig.tick(1, q=tilted(robot, 3.0), vel=moving_at(robot, 9, 0.3)), "joint speeds of at most 0.2")
    refused(rig.send(Reset(session=rig.session, q=tilted(robot, 3.0), vel=moving_at(robot, 3, 0.3))), "base speeds of at most")
    on_its_back = Reset(session=rig.session, q=tilted(robot, 3.0), vel=moving_at(robot, 9, 0.1))
    assert isinstance(rig.send(on_its_back), ResetAck)
    rig.torque(2, q=tilted(robot, 3.0))


def with_button(robot: Robot) -> Rig:
    """A rig with a client that may stop the robot, after one tick."""
    rig = greeted(robot, estops=("button",))
    rig.torque(1)
    return rig


def status(rig: Rig, seq: int = 2) -> str:
    reply = rig.tick(seq)
    return reply.status if isinstance(reply, TorqueMessage) else reply.code


def test_a_named_client_stops_the_robot_from_any_connection_and_without_a_session(robot):
    guarded = with_button(robot)
    ack = expect(EstopAck, guarded.send(Estop(name="button"), identity=b"elsewhere"))
    assert (ack.stopped, ack.reason) == (True, "emergency stop by 'button'")
    assert status(guarded) == "damping"
    guarded.send(Estop(name="button", stop=False), identity=b"elsewhere")
    assert status(guarded, 3) == "damping"
    assert isinstance(guarded.send(guarded.at_rest), ResetAck)
    assert status(guarded, 4) == "ok"
    rig = Rig(robot, estops=("button",))
    rig.send(Estop(name="button"), identity=b"elsewhere")
    assert rig.greet().latched == "emergency stop by 'button'"
    assert status(rig, 1) == "damping"


def test_others_cannot_stop_the_robot_and_no_stop_is_no_stop(robot):
    guarded = with_button(robot)
    joker = msgpack.packb({"t": "estop", "name": "joker", "stop": 1})
    for message in (encode(Estop(name="joker")), joker, PARTS + b"estop\xc3"):
        expect(ErrorMessage, guarded.raw(message, identity=b"elsewhere"))
    for value in (False, None, 0):
        none = msgpack.unpackb(encode(guarded.state(2))) | {"flags": {"estop": value}, "nonsense": 1}
        assert isinstance(guarded.raw(msgpack.packb(none)), ErrorMessage)
    assert status(guarded) == "ok"


@every("flags", [{"estop": 1}, {"estop": "yes"}, ["estop", True], {"estop": True, "estopp": 1}])
@every("identity", [b"a", b"new"])
def test_a_malformed_stop_of_the_controlling_client_stops(robot, flags, identity):
    guarded = with_button(robot)
    message = msgpack.unpackb(encode(guarded.state(2))) | {"flags": flags}
    reply = expect(ErrorMessage, guarded.raw(msgpack.packb(message), identity=identity))
    assert "emergency stop is engaged" in reply.message
    assert status(guarded) == "damping"


@every_row(
    lambda data: msgpack.packb(msgpack.unpackb(data) | {"padding": bytes(MAX_BYTES)}),
    lambda data: data[: data.index(b"estop") + 6],
    lambda data: PARTS + data,
)
def test_a_stop_that_is_too_long_or_cut_or_in_parts_stops(spoilt, robot):
    """In a state, and of a client of the role."""
    guarded = with_button(robot)
    expect(ErrorMessage, guarded.raw(spoilt(encode(guarded.state(2, flags=STOP)))))
    assert status(guarded) == "damping"
    guarded = with_button(robot)
    guarded.send(Estop(name="button", stop=False), identity=b"elsewhere")
    assert status(guarded) == "ok"
    data = msgpack.packb({"t": "estop", "v": "1.2", "name": "button", "stop": True, "estop": True})
    expect(ErrorMessage, guarded.raw(spoilt(data), identity=b"elsewhere"))
    assert status(guarded, 3) == "damping"


def test_a_silent_client_stops_the_robot_where_a_timeout_is_set(robot):
    rig = Rig(robot, estops=("button",), estop_timeout_ms=50.0)
    rig.greet()
    assert status(rig, 1) == "damping"  # none was ever heard
    refused = expect(ErrorMessage, rig.send(rig.at_rest))
    assert refused.message == "no message of an emergency-stop client since the start"
    ack = expect(EstopAck, rig.send(Estop(name="button", stop=False), identity=b"elsewhere"))
    assert ack.timeout_ms == 50.0
    assert isinstance(rig.send(rig.at_rest), ResetAck)
    for seq in range(2, 52):
        assert status(rig, seq) == "ok"
    assert status(rig, 52) == "damping"
    assert isinstance(rig.send(Estop(name="button", stop=False), identity=b"elsewhere"), EstopAck)
    assert status(rig, 53) == "damping"  # until reset
