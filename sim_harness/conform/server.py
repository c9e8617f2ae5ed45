"""The conformance test of a foreign server."""

from collections.abc import Callable, Iterator

import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.conform.probe import (
    DT,
    DT_NS,
    SAFETY,
    WIRE,
    Bench,
    Broken,
    Fields,
    NotSeen,
    Outcome,
    Probe,
    Rules,
    expect,
    expect_that,
    fields_of,
    numbers,
)
from transport.protocol.codec import MAX_BYTES

RULES = Rules()
SESSION, TORQUE, STATE = f"{WIRE}#session", f"{WIRE}#torque-the-reply", f"{WIRE}#state-sent-every-tick"
LATCHES, OTHERS, TRANSPORT = f"{SAFETY}#latches-and-the-start", f"{WIRE}#other-messages", f"{WIRE}#transport"


def probing(claim: str, page: str, *, begin: bool = True) -> Callable[[Callable[[Probe], None]], None]:
    """Return a decorator that adds a check of one connection as a rule. begin: with a session"""

    def decorate(check: Callable[[Probe], None]) -> None:
        @RULES.add(claim, page)
        def with_probe(bench: Bench) -> None:
            with bench.probe(begin=begin) as probe:
                check(probe)

    return decorate


LIMITS = ("tau_max", "dtau_max", "q_min", "q_max", "v_max", "tau0", "v0")


# -- the session ------------------------------------------------------------------------------------------------------


@probing("hello is answered by a welcome with this robot, its limits and a session", SESSION)
def welcome(probe: Probe) -> None:
    given, robot = probe.welcome, probe.robot
    expect("welcome.dry_run", given["dry_run"], False)
    expect_that(given["session"] > 0, "welcome.session", given["session"], "a number above 0")
    expect("welcome.joint_names", sorted(given["joint_names"]), sorted(robot.joint_names))
    expect("welcome.contact_frames", sorted(given["contact_frames"]), sorted(robot.contact_names))
    for name in LIMITS:
        expect(f"welcome.limits.{name}, length", len(numbers(given["limits"][name])), robot.na)
    expect_that((numbers(given["limits"]["tau_max"]) > 0).all(), "welcome.limits.tau_max", given["limits"], "above 0")
    hold, latch = given["watchdog_ms"], given["latch_ms"]
    expect_that(0 < hold < latch, "welcome.watchdog_ms", hold, f"above 0 and below latch_ms {latch}")


@RULES.add("stricter limits of the hello are in force, in welcome and torque", SESSION)
def stricter_limits(bench: Bench) -> None:
    na = bench.robot.na
    with bench.probe(limits={"tau_max": [0.05] * na, "dtau_max": [10.0] * na}) as probe:
        expect("welcome.limits.tau_max", set(numbers(probe.welcome["limits"]["tau_max"])), {0.05})
        expect("welcome.limits.dtau_max", set(numbers(probe.welcome["limits"]["dtau_max"])), {10.0})
        probe.torque(tau_applied=[0.0] * na)
        tau = numbers(probe.torque(tau_applied=[0.0] * na)["tau"])
        expect_that((np.abs(tau) <= 0.05 + 1e-9).all(), "torque.tau", np.abs(tau).max(), "at most tau_max 0.05 N·m")
        most = 10.0 * DT
        expect_that((np.abs(tau) <= most + 1e-9).all(), "torque.tau", np.abs(tau).max(), f"a change of at most {most} N·m")


@probing("a hello of another robot, or with unknown, missing or repeated joints, is refused", SESSION, begin=False)
def other_robot(probe: Probe) -> None:
    right = probe.hello()
    model, joints = right["model"], right["joint_names"]
    for field, value in (("total_mass", model["total_mass"] * 1.01), ("nq", model["nq"] + 1), ("na", model["na"] + 1)):
        wrong = right | {"model": model | {field: value}}
        probe.expect_refusal(wrong, "model_mismatch", f"model.{field}", recoverable=False)
    for names in ([*joints[:-1], "no_such_joint"], joints[:-1], [*joints[:-1], joints[0]]):
        probe.expect_refusal(right | {"joint_names": names}, "joint_map", recoverable=False)
    probe.expect_refusal({name: right[name] for name in right if name != "base"}, "bad_schema", "base")


@RULES.add("torques are in the client's order of joints", SESSION)
def joint_order(bench: Bench) -> None:
    robot = bench.robot
    with bench.probe() as probe:
        tau = numbers(probe.torque()["tau"])
    if robot.na != len(robot.joint_names) or robot.nq - robot.na not in (0, 7):
        raise NotSeen("this robot has joints without motors or of several coordinates")
    names, base = list(robot.joint_names)[::-1], robot.nq - robot.na
    q = np.concatenate([bench.stance[:base], bench.stance[base:][::-1]])
    with bench.probe(joint_names=names, actuated=names) as probe:
        turned = numbers(probe.torque(q=q.tobytes())["tau"])[::-1]
    expect_that(np.allclose(tau, turned, atol=1e-3 * max(1.0, np.abs(tau).max())), "torque.tau", turned, f"{tau}, reordered")


@RULES.add("states without a session, or with the number of another one, are refused", SESSION)
def no_session(bench: Bench) -> None:
    with bench.probe(begin=False) as probe:
        probe.expect_refusal(probe.state(), "not_controlling", recoverable=False)
    with bench.probe() as probe:
        probe.expect_refusal(probe.state(session=probe.session - 1), "not_controlling", "session", recoverable=False)
        probe.torque()


@RULES.add("one client controls: another hello is refused while it does", SESSION)
def one_controls(bench: Bench) -> None:
    with bench.probe() as first, bench.probe(begin=False) as second:
        first.torque()
        second.expect_refusal(second.hello(), "not_controlling", recoverable=False)
        first.torque()


@RULES.add("stop is acknowledged, ends the session and gives control back", OTHERS)
def stop(bench: Bench) -> None:
    with bench.probe() as probe, bench.probe(begin=False) as other:
        probe.torque()
        answer = probe.expect_type(probe.ask({"t": "stop", "session": probe.session}), "stop_ack")
        expect("stop_ack.session", answer["session"], probe.session)
        probe.expect_refusal(probe.state(), "not_controlling", recoverable=False)
        other.begin()


# -- torques ----------------------------------------------------------------------------------------------------------


@probing("a state is answered by a torque that echoes session, seq and t_robot", TORQUE)
def echo(probe: Probe) -> None:
    for _ in range(20):
        answer = probe.torque()
        for name, sent in (("session", probe.session), ("seq", probe.seq), ("t_robot", probe.time)):
            expect(f"torque.{name}", answer[name], sent)
        expect("torque.dry_run", answer["dry_run"], False)


@probing("torques are finite, within the limits, and the sum of their parts", TORQUE)
def torque_vectors(probe: Probe) -> None:
    tau_max = numbers(probe.welcome["limits"]["tau_max"])
    for _ in range(20):
        answer = probe.torque()
        tau, ff, fb = (numbers(answer[name]) for name in ("tau", "tau_ff", "tau_fb"))
        for name, vector in (("tau", tau), ("tau_ff", ff), ("tau_fb", fb)):
            expect(f"torque.{name}, length", len(vector), probe.robot.na)
            expect_that(np.isfinite(vector).all(), f"torque.{name}", vector, "finite numbers")
        expect_that((np.abs(tau) <= tau_max * (1 + 1e-9)).all(), "torque.tau", tau, f"at most {tau_max}")
        expect_that(np.allclose(tau, ff + fb, atol=1e-6), "torque.tau_fb", fb, f"tau − tau_ff = {tau - ff}")
        expect("torque.limited_by, length", len(answer["limited_by"]), probe.robot.na)


@probing("times of a torque: t_recv ≤ t_send, deadline_met, and valid_until after t_robot", TORQUE)
def times(probe: Probe) -> None:
    deadline, latch_ns = probe.welcome["deadline_us"] * 1e3, probe.welcome["latch_ms"] * 1e6
    for _ in range(20):
        answer = probe.torque()
        spent = answer["t_send"] - answer["t_recv"]
        expect_that(spent >= 0, "torque.t_send", answer["t_send"], f"at least t_recv {answer['t_recv']}")
        expect("torque.deadline_met", answer["deadline_met"], spent <= deadline)
        valid = answer["valid_until"] - answer["t_robot"]
        expect_that(0 < valid <= latch_ns, "torque.valid_until", f"t_robot + {valid} ns", f"t_robot + 1 to {latch_ns:.0f} ns")


@probing("a standing robot gets status ok, forces at its contacts only, and no force that pulls", TORQUE)
def forces(probe: Probe) -> None:
    names = list(probe.robot.contact_names)
    switches = [{"frame": frame, "active": k != 0} for k, frame in enumerate(names)]
    for contacts in ([{"frame": frame} for frame in names], switches):
        answer = probe.torque(contacts=contacts)
        touching = {each["frame"] for each in contacts if each.get("active", True)}
        for k, force in enumerate(answer["contact_force"]):
            expect_that(force["frame"] in touching, f"torque.contact_force[{k}].frame", force["frame"], f"one of {touching}")
            expect_that(force["fn"] >= -1e-6, f"torque.contact_force[{k}].fn", force["fn"], "at least 0")
        if contacts is not switches:
            expect("torque.status", answer["status"], "ok")


@probing("vectors may be lists of numbers", TRANSPORT)
def lists(probe: Probe) -> None:
    expect("torque.seq", probe.torque(q=probe.bench.stance.tolist(), vel=[0.0] * probe.robot.nv)["seq"], 1)


@probing("a state with flags.dry_run gets a torque that is marked", TORQUE)
def dry_run(probe: Probe) -> None:
    expect("torque.dry_run", probe.torque(flags={"dry_run": True})["dry_run"], True)
    expect("torque.dry_run", probe.torque()["dry_run"], False)


# -- refusals ---------------------------------------------------------------------------------------------------------


@probing("the same state again gets the same answer; another one with its seq is refused", f"{SAFETY}#promises-of-the-server")
def repeated(probe: Probe) -> None:
    state = probe.state()
    probe.send(state)
    first = probe.wire.answer()
    probe.send(state)
    expect("torque", fields_of(probe.wire.answer()), fields_of(first))
    probe.expect_refusal(state | {"mu": None, "volt": 12.0}, "duplicate", "seq")


@probing("states that go back in seq or t_robot are refused, and the next one is answered", f"{WIRE}#torque-the-reply")
def out_of_order(probe: Probe) -> None:
    for _ in range(3):
        probe.torque()
    probe.expect_refusal(probe.state(seq=0), "out_of_order", "seq")
    probe.seq -= 1
    probe.expect_refusal(probe.state(t_robot=probe.time - 5 * DT_NS), "out_of_order", "t_robot")
    probe.seq -= 1
    probe.torque()


@RULES.add("malformed states are refused with code and field, and leave no trace", f"{WIRE}#torque-the-reply")
def malformed(bench: Bench) -> None:
    robot, q = bench.robot, bench.stance
    with_nan = np.where(np.arange(robot.nq) == robot.nq - 1, np.nan, q)
    faults: list[tuple[Fields, str, str | None]] = [
        ({"q": q[:-1].tobytes()}, "wrong_length", "q"),
        ({"vel": [0.0] * (robot.nv + 1)}, "wrong_length", "vel"),
        ({"q": with_nan.tobytes()}, "non_finite", f"q[{robot.nq - 1}]"),
        ({"contacts": [{"frame": "no_such_foot"}]}, "contact_unknown", "contacts[0].frame"),
        ({"tau_applied": [0.0]}, "wrong_length", "tau_applied"),
        ({"no_such_field": 1}, "bad_schema", None),
        ({"q": None}, "bad_schema", "q"),
        ({"contacts": "none"}, "bad_schema", "contacts"),
    ]
    if robot.floating:
        turned = np.concatenate([q[:3], 1.5 * q[3:7], q[7:]])
        faults.append(({"q": turned.tobytes()}, "quaternion_not_unit", "q[3:7]"))
    with bench.probe() as probe:
        probe.torque()
        for changes, code, field in faults:
            probe.expect_refusal(probe.state(**changes), code, field)
            probe.seq -= 1  # the number is free again
            probe.torque()


@probing("schema versions: every 1.x is read, others are refused", TRANSPORT)
def versions(probe: Probe) -> None:
    probe.torque(v="1.99")
    probe.expect_refusal(probe.state(v="2.0"), "version_mismatch", "v", recoverable=False)
    probe.seq -= 1
    probe.torque()


@probing("other bytes, several frames and more than 64 KiB are refused", TRANSPORT)
def bytes_of_no_message(probe: Probe) -> None:
    for data in (b"", b"\xc1", b"\x93\x01\x02\x03", b"hello"):
        probe.expect_refusal(data, "bad_schema")
    probe.wire.send(b"\x80", b"\x80")
    expect("error.code", fields_of(probe.wire.answer()).get("code"), "bad_schema")
    probe.expect_refusal(bytes(MAX_BYTES + 1), "bad_schema")
    probe.expect_refusal({"t": "no_such_type"}, "bad_schema", "t")
    probe.torque()


@RULES.add("a client that chooses its ZMQ identity is refused", f"{SAFETY}#access")
def own_identity(bench: Bench) -> None:
    probe = Probe(bench, identity=b"idyn conform")
    try:
        probe.expect_refusal(probe.hello(), "not_controlling", recoverable=False)
    finally:
        probe.wire.close()


@probing("of states that wait together, the newest is answered", f"{SAFETY}#promises-of-the-server")
def newest(probe: Probe) -> None:
    probe.torque()
    for _ in range(5):
        probe.send(probe.state())
    answered = [fields_of(probe.wire.answer())]
    while answered[-1].get("seq") != probe.seq:
        frames = probe.wire.receive(1.0)
        if frames is None:
            raise Broken("torque.seq", answered[-1].get("seq"), f"{probe.seq}, of the newest state")
        answered.append(fields_of(frames[0]))
    numbered = [each["seq"] for each in answered]
    expect("torque.seq", numbered, sorted(set(numbered)))
    expect("t", {each["t"] for each in answered}, {"torque"})


@probing("an outage longer than latch_ms is a fault, which only a reset at rest releases", LATCHES)
def outage(probe: Probe) -> None:
    probe.torque()
    probe.time += round(1.5e6 * probe.welcome["latch_ms"])
    probe.expect_refusal(probe.state(), "latched_fault", recoverable=False)
    probe.expect_refusal(probe.state(), "latched_fault", recoverable=False)
    beat = probe.ask({"t": "heartbeat", "session": probe.session, "t_send": 7})
    expect("heartbeat_ack.mode", beat.get("mode"), "latched")
    moving = probe.reset(vel=np.full(probe.robot.nv, 3.0).tobytes())
    probe.expect_refusal(moving, "latched_fault", "vel", recoverable=False)
    answer = probe.expect_type(probe.ask(probe.reset()), "reset_ack")
    expect("reset_ack.session", answer["session"], probe.session)
    probe.torque()


@RULES.add("a fault outlasts stop and hello: the welcome has mode latched and says why", LATCHES)
def fault_outlasts(bench: Bench) -> None:
    with bench.probe() as probe:
        probe.torque()
        probe.time += round(1.5e6 * probe.welcome["latch_ms"])
        probe.expect_refusal(probe.state(), "latched_fault", recoverable=False)
    with bench.probe(begin=False) as probe:
        welcome = probe.expect_type(probe.ask(probe.hello()), "welcome")
        expect("welcome.mode", welcome["mode"], "latched")
        expect_that(welcome.get("latched"), "welcome.latched", welcome.get("latched"), "what stops the robot")
        probe.session = welcome["session"]
        probe.expect_refusal(probe.state(), "latched_fault", recoverable=False)
        probe.expect_type(probe.ask(probe.reset()), "reset_ack")
        probe.torque()


@probing("a first state of a robot that moves is refused", LATCHES)
def first_state(probe: Probe) -> None:
    moving = probe.state(vel=np.full(probe.robot.nv, 3.0).tobytes())
    probe.expect_refusal(moving, "latched_fault", recoverable=False)
    probe.expect_type(probe.ask(probe.reset()), "reset_ack")
    probe.torque()


@RULES.add("flags.estop damps until reset, also in a state that is refused", f"{SAFETY}#emergency-stop")
def estop(bench: Bench) -> None:
    for refused in (False, True):
        with bench.probe() as probe:
            probe.torque()
            changes = {"q": [0.0]} if refused else {}
            probe.ask(probe.state(flags={"estop": True}, **changes))
            for _ in range(3):
                expect("torque.status", probe.torque()["status"], "damping")
            probe.expect_type(probe.ask(probe.reset()), "reset_ack")
            expect_that((answer := probe.torque())["status"] != "damping", "torque.status", answer["status"], "not damping")


@probing("the torque of a stopped robot at rest is zero", f"{SAFETY}#emergency-stop")
def damping(probe: Probe) -> None:
    probe.torque()
    for _ in range(20):
        answer = probe.torque(flags={"estop": True}, tau_applied=[0.0] * probe.robot.na)
    largest = np.abs(numbers(answer["tau"])).max(initial=0.0)
    expect_that(largest < 1e-6, "torque.tau", largest, "0 without speed")
    probe.expect_type(probe.ask(probe.reset()), "reset_ack")


@probing("a heartbeat is echoed, and feeds no watchdog", OTHERS)
def heartbeat(probe: Probe) -> None:
    probe.torque()
    answer = probe.expect_type(probe.ask({"t": "heartbeat", "session": probe.session, "t_send": 1234}), "heartbeat_ack")
    for name, sent in (("session", probe.session), ("t_send", 1234), ("mode", "ok")):
        expect(f"heartbeat_ack.{name}", answer[name], sent)
    probe.time += 6 * DT_NS
    level = probe.torque()["watchdog"]["state"]
    expect_that(level != "ok", "torque.watchdog.state", level, "warn or degraded after six missed ticks")


@probing("stats_get and config_get are answered", OTHERS)
def requests(probe: Probe) -> None:
    before = probe.expect_type(probe.ask({"t": "stats_get"}), "stats")["torques"]
    for _ in range(3):
        probe.torque()
    after = probe.expect_type(probe.ask({"t": "stats_get"}), "stats")["torques"]
    expect("stats.torques", after - before, 3)
    settings = probe.expect_type(probe.ask({"t": "config_get"}), "config")["settings"]
    expect("config.settings", settings, probe.welcome["controller"])


@RULES.add("settings are not changed while a client controls", OTHERS)
def config_set(bench: Bench) -> None:
    with bench.probe() as probe:
        probe.torque()
        probe.expect_refusal({"t": "config_set", "settings": {}}, "not_controlling", recoverable=False)
        probe.torque()


def try_server(endpoint: str, robot: Robot, stance: Array, only: str = "") -> Iterator[Outcome]:
    """Yield the outcome of each rule.

    robot, stance: that the server controls, and a configuration in which it stands (nq); only: text of the rules to try
    """
    bench = Bench(endpoint, robot, stance)
    for rule in (each for each in RULES if only in each.claim):
        yield rule.judged(bench)
