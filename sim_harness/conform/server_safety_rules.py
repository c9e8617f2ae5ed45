"""Rules for a server, checked by a client: latches, emergency stop, and requests besides states."""

import numpy as np

from sim_harness.conform.probe import DT_NS, Bench, fields_of, numbers
from sim_harness.conform.rules import SAFETY, WIRE, Broken, Rules, expect, expect_that

RULES = Rules()
LATCHES, OTHERS = f"{SAFETY}#latches-and-the-start", f"{WIRE}#other-messages"
BURST = 5


@RULES.add("of states that wait together, the newest is answered", f"{SAFETY}#promises-of-the-server")
def newest(bench: Bench) -> None:
    with bench.probe() as probe:
        probe.torque()
        for _ in range(BURST):
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


@RULES.add("an outage longer than latch_ms is a fault, which only a reset at rest releases", LATCHES)
def outage(bench: Bench) -> None:
    with bench.probe() as probe:
        probe.torque()
        probe.time += round(1.5e6 * probe.welcome["latch_ms"])
        probe.expect_refusal(probe.state(), "latched_fault", recoverable=False)
        probe.expect_refusal(probe.state(), "latched_fault", recoverable=False)
        beat = probe.ask({"t": "heartbeat", "session": probe.session, "t_send": 7})
        expect("heartbeat_ack.mode", beat.get("mode"), "latched")
        moving = probe.reset(vel=np.full(bench.robot.nv, 3.0).tobytes())
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


@RULES.add("a first state of a robot that moves is refused", LATCHES)
def first_state(bench: Bench) -> None:
    with bench.probe() as probe:
        moving = probe.state(vel=np.full(bench.robot.nv, 3.0).tobytes())
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


@RULES.add("the torque of a stopped robot at rest is zero", f"{SAFETY}#emergency-stop")
def damping(bench: Bench) -> None:
    with bench.probe() as probe:
        probe.torque()
        for _ in range(20):
            answer = probe.torque(flags={"estop": True}, tau_applied=[0.0] * bench.robot.na)
        largest = np.abs(numbers(answer["tau"])).max(initial=0.0)
        expect_that(largest < 1e-6, "torque.tau", largest, "0 without speed")
        probe.expect_type(probe.ask(probe.reset()), "reset_ack")


@RULES.add("a heartbeat is echoed, and feeds no watchdog", OTHERS)
def heartbeat(bench: Bench) -> None:
    with bench.probe() as probe:
        probe.torque()
        answer = probe.expect_type(probe.ask({"t": "heartbeat", "session": probe.session, "t_send": 1234}), "heartbeat_ack")
        for name, sent in (("session", probe.session), ("t_send", 1234), ("mode", "ok")):
            expect(f"heartbeat_ack.{name}", answer[name], sent)
        probe.time += 6 * DT_NS
        level = probe.torque()["watchdog"]["state"]
        expect_that(level != "ok", "torque.watchdog.state", level, "warn or degraded after six missed ticks")


@RULES.add("stats_get and config_get are answered", OTHERS)
def requests(bench: Bench) -> None:
    with bench.probe() as probe:
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
