"""The conformance test of a foreign client."""

import os
import signal
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from time import sleep

import numpy as np

from controllers.controller import Controller
from idyn.types import Array
from sim_harness.conform.probe import (
    CLIENT,
    ENCODER,
    SAFETY,
    WIRE,
    Broken,
    NotSeen,
    Outcome,
    Rules,
    expect,
    expect_that,
    numbers,
)
from sim_harness.conform.trial import PATIENCE_S, START_S, STATES, Heard, Trial, altered, correct, far_from, withheld
from transport.server.settings import ServerSettings
from transport.startup.warm_up import warm_up

RULES = Rules()
SESSION, STATE, MUST = f"{WIRE}#session", f"{WIRE}#state-sent-every-tick", f"{CLIENT}#what-a-client-must-do"
BETWEEN, GATE, LATCHES = f"{SAFETY}#between-answers", f"{SAFETY}#torque-gate", f"{SAFETY}#latches-and-the-start"

REPEATS = 8  # wrong answers in a row: some of them may come after the client's own deadline

MIN_FOLLOWED, MAX_PHASES = 20, 10
"""Answers that must have come in time to judge a client by its torques; phases of `STATES` in which they may come."""

SILENCE_S = 0.2  # time without answers after which a robot is stopped until `reset` [s]


def limits(trial: Trial) -> tuple[Array, Array]:
    """Return tau_max and dtau_max of the last welcome."""
    welcome = next(heard.reply for heard in reversed(trial.heard) if heard.reply["t"] == "welcome")
    return numbers(welcome["limits"]["tau_max"]), numbers(welcome["limits"]["dtau_max"])


def not_applied(state: Heard, tau: Array, why: str) -> None:
    """Check that a state does not report these torques as applied."""
    same = np.allclose(state.applied, tau, atol=0.05 * np.abs(tau).max())
    expect_that(not same, "state.tau_applied", state.applied, f"other torques than those of {why}")


def came_in_time(before: Heard, state: Heard) -> bool:
    """Return whether an answer was still valid in the next state, and was not too late for the client by its own word."""
    valid = state.fields["t_robot"] <= before.reply["valid_until"]
    return valid and state.fields.get("last_applied_seq") in (None, before.fields["seq"])


def follows(trial: Trial, before: Heard, state: Heard) -> bool:
    """Return whether a state reports the torques of the answer before it, but for joints at the limit of the rate."""
    tau_max, dtau_max = limits(trial)
    asked, had = numbers(before.reply["tau"]), state.applied
    expect("state.tau_applied, length", len(had), len(asked))
    step = dtau_max * (state.fields["t_robot"] - before.fields["t_robot"]) * 1e-9
    limited = np.abs(asked - before.applied) >= step if len(before.applied) == len(asked) else np.zeros(len(asked), bool)
    return np.allclose(np.where(limited, asked, had), asked, atol=0.02 * tau_max.max())


def check_following(trial: Trial, answered: list[Heard], tau: Array, why: str) -> None:
    """Check that the next states do not report these torques, or these answers, as applied."""
    wrong = {state.fields["seq"] for state in answered}
    for state in trial.states(5, withheld):
        applied = state.fields.get("last_applied_seq")
        expect_that(applied not in wrong, "state.last_applied_seq", applied, f"not that of {why}")
        not_applied(state, tau, why)


# -- what it sends ----------------------------------------------------------------------------------------------------


@RULES.add("it begins with hello, which describes the server's robot", SESSION)
def hello(trial: Trial) -> None:
    heard, before = trial.until("hello", START_S)
    expect("first message, t", [each.kind for each in before], [])
    expect("frames of hello", len(heard.frames), 1)
    expect_that(heard.identity.startswith(b"\0"), "ZMQ identity", heard.identity, "none of the client's own")
    if heard.reply["t"] == "error":
        raise Broken(f"hello.{heard.reply.get('field') or 'fields'}", heard.reply["message"], "a hello that the server accepts")
    for _ in range(2):  # as if hello had been repeated before this answer: one session, see `well_formed`
        trial.answer(heard, correct(heard))


@RULES.add("it sends states of its session, with seq 1, 2, 3, …", STATE)
def numbered(trial: Trial) -> None:
    states = trial.normal()
    session = states[-1].reply["session"]
    for before, state in pairwise(states):
        expect("state.session", state.fields["session"], session)
        expect("state.seq", state.fields["seq"], before.fields["seq"] + 1)


@RULES.add("t_robot is in ns, and advances by dt_nominal", STATE)
def clock(trial: Trial) -> None:
    greeting = next(heard.fields for heard in trial.heard if heard.kind == "hello")
    states = trial.states(STATES)
    steps = np.diff([state.fields["t_robot"] for state in states])
    expect_that((steps > 0).all(), "state.t_robot", steps.min(), "to advance")
    ratio = float(np.mean(steps)) * 1e-9 / greeting["dt_nominal"]
    expect_that(0.5 <= ratio <= 5.0, "state.t_robot", f"steps of {ratio:.3g} dt_nominal", "0.5 to 5")


@RULES.add("it reports which feet touch", MUST)
def contacts(trial: Trial) -> None:
    expect_that(trial.normal()[-1].fields.get("contacts") is not None, "state.contacts", None, "a list of feet or contacts")


@RULES.add("it applies the torques of the answers, within limits, and reports them", MUST)
def applies(trial: Trial) -> None:
    phases = [trial.normal()]
    reported = phases[0][-1].fields.get("tau_applied")
    expect_that(reported is not None, "state.tau_applied", None, "the torques that the motors had")
    while not (pairs := [pair for phase in phases for pair in pairwise(phase) if came_in_time(*pair)])[MIN_FOLLOWED:]:
        expect_that(len(phases) < MAX_PHASES, "state.last_applied_seq", f"{len(pairs)} answers applied", f"> {MIN_FOLLOWED}")
        phases.append(trial.normal())
    wrong = sum(not follows(trial, *pair) for pair in pairs)
    few = len(pairs) // 4  # without last_applied_seq: answers that came after the client's own deadline
    expect_that(wrong <= few, "state.tau_applied", f"other torques in {wrong} of {len(pairs)} states", "those of the answers")


@RULES.add("answers with fields that it does not know change nothing", f"{WIRE}#session")
def unknown_fields(trial: Trial) -> None:
    trial.normal()
    trial.states(10, altered(field_of_a_later_version={"x": [1, 2.0, "three"]}))
    trial.normal()


# -- how it reacts ----------------------------------------------------------------------------------------------------


@RULES.add("without an answer it goes on with the next state", MUST)
def lost(trial: Trial) -> None:
    last = trial.normal()[-1]
    dt = last.fields["t_robot"] - trial.heard[-2].fields.get("t_robot", last.fields["t_robot"])
    try:
        states = trial.states(3, withheld)
    except NotSeen as reason:
        raise Broken("states", str(reason), "a state in every tick") from None
    for k, state in enumerate(states, start=1):
        expect("state.seq", state.fields["seq"], last.fields["seq"] + k)
    waited = (states[-1].fields["t_robot"] - last.fields["t_robot"]) * 1e-9
    expect_that(waited < 0.1, "state.t_robot", f"{waited:.3f} s after the last answer", f"three ticks, of {dt * 1e-6:.1f} ms")


@RULES.add("an answer to an earlier state is not taken for that of this one", f"{SAFETY}#promises-of-the-server")
def late(trial: Trial) -> None:
    for _ in range(10):  # on a busy machine the answer may come after the client has stopped waiting
        trial.normal()
        (missed,) = trial.states(1, withheld)
        other = far_from(numbers(missed.reply["tau"]), limits(trial)[0])
        trial.states(1, withheld)
        heard, _ = trial.until("state")
        trial.answer(heard, ENCODER.encode(missed.reply | {"tau": other.tobytes()}))
        trial.answer(heard, correct(heard))
        check_following(trial, [missed], other, "the late answer")


@RULES.add("a torque with dry_run is not applied", f"{WIRE}#torque-the-reply")
def dry_run(trial: Trial) -> None:
    state = trial.normal()[-1]
    other = far_from(numbers(state.reply["tau"]), limits(trial)[0])
    marked = trial.states(REPEATS, altered(dry_run=True, tau=other.tobytes()))
    check_following(trial, marked, other, "answers with dry_run")


@RULES.add("torques above tau_max, and those that are no numbers, are stopped by its own torque gate", GATE)
def gate(trial: Trial) -> None:
    trial.normal()
    tau_max, _ = limits(trial)
    for tau in (10.0 * tau_max, np.full(len(tau_max), np.nan)):
        for after in trial.states(REPEATS, altered(tau=tau.tobytes(), ref=None))[1:]:
            expect_that(np.isfinite(after.applied).all(), "state.tau_applied", after.applied, "finite numbers")
            expect_that(
                (np.abs(after.applied) <= tau_max * (1 + 1e-6)).all(), "state.tau_applied", after.applied, f"≤ {tau_max}"
            )
        trial.normal()


@RULES.add("after a state that is refused and recoverable it goes on with the next one", f"{WIRE}#torque-the-reply")
def refused(trial: Trial) -> None:
    trial.normal()
    error = {"t": "error", "v": "1.2", "code": "stale_state", "message": "t_send: planted by idyn conform", "recoverable": True}
    error |= {"field": "t_send", "session": None}
    states = trial.states(REPEATS, lambda heard: ENCODER.encode(error | {"seq": heard.fields["seq"]}))
    for before, state in pairwise(states):
        expect("state.seq", state.fields["seq"], before.fields["seq"] + 1)
    trial.normal()


@RULES.add("without answers the torque fades, and after 100 ms the robot is stopped until reset", BETWEEN)
def silence(trial: Trial) -> None:
    last = trial.normal()[-1]
    other = far_from(numbers(last.reply["tau"]), limits(trial)[0])
    silent_until = last.fields["t_robot"] + round(SILENCE_S * 1e9)

    def treat(state: Heard) -> bytes | None:
        return None if state.fields["t_robot"] < silent_until else ENCODER.encode(state.reply | {"tau": other.tobytes()})

    reset, before = trial.until("reset", treat=treat)
    states = [heard for heard in before if heard.kind == "state"]
    expect_that(len(states) > 1, "t", "reset at once", "states for 100 ms, then reset")
    not_applied(states[-1], numbers(last.reply["tau"]), "the last answer")
    for state in states:
        not_applied(state, other, "answers before reset")
    expect("reset.session", reset.fields["session"], last.reply["session"])
    trial.answer(reset, correct(reset))
    trial.normal()


@RULES.add("after a fault it damps, and sends reset again until that is accepted", LATCHES)
def fault(trial: Trial) -> None:
    last = trial.normal()[-1]
    trial.planned = True
    other = far_from(numbers(last.reply["tau"]), limits(trial)[0])
    (ended,) = trial.states(1, altered(status="fault", message="planted by idyn conform", tau=other.tobytes()))
    trial.latch("planted by idyn conform")
    reset, before = trial.until("reset")
    for state in (each for each in before[2:] if each.kind == "state"):
        not_applied(state, other, "the fault")
        damps = (state.applied * numbers(state.fields["vel"])[-len(state.applied) :] <= 1e-9).all()
        expect_that(damps, "state.tau_applied", state.applied, "torques against the speeds")
    expect_that("hello" not in {each.kind for each in before}, "t", "hello", "reset")
    refusal = reset.reply | {"t": "error", "code": "latched_fault", "field": "vel", "message": "vel: planted", "seq": None}
    trial.latch("planted by idyn conform")  # the service has released it
    trial.answer(reset, ENCODER.encode(refusal | {"recoverable": False}))
    again, _ = trial.until("reset")
    trial.answer(again, correct(again))
    trial.planned = False
    states = trial.normal()
    expect_that(states[0].fields["seq"] > ended.fields["seq"], "state.seq", states[0].fields["seq"], "to go on after reset")


@RULES.add("after a crash of the server it says hello again and uses the new session", SESSION)
def restart(trial: Trial) -> None:
    old = trial.normal()[-1].reply["session"]
    trial.stand.close()
    sleep(0.3)
    trial.planned = True
    trial.start_server()
    greeting, before = trial.until("hello", 2 * PATIENCE_S)
    trial.answer(greeting, correct(greeting))
    expect_that(len(before) < 1000, "t", f"{len(before)} messages", "hello")
    trial.planned = False
    begun(trial, old)


@RULES.add("after the server's goodbye it sends no state, and says hello to the next server", f"{WIRE}#other-messages")
def goodbye(trial: Trial) -> None:
    old = trial.normal()[-1].reply["session"]
    trial.planned = True
    trial.end_sessions("planted by idyn conform")
    states = [heard for heard in trial.messages(0.5) if heard.kind == "state"]
    expect_that(len(states) <= 2, "t", f"{len(states)} states after stop_ack", "none")
    trial.stand.close()
    trial.start_server(latched=True)
    greeting, _ = trial.until("hello", 2 * PATIENCE_S)
    expect("welcome.mode", greeting.reply.get("mode"), "latched")
    trial.answer(greeting, correct(greeting))
    trial.planned = False
    reset, _ = trial.until("reset")
    trial.answer(reset, correct(reset))
    begun(trial, old)


@RULES.add("its messages are well formed: none was refused by the server", STATE)
def well_formed(trial: Trial) -> None:
    trial.states(REPEATS)
    for heard in trial.refused:
        if heard.reply["code"] not in ("latched_fault", "stale_state"):
            name = ".".join(filter(None, (heard.kind, heard.reply.get("field"))))
            raise Broken(name, heard.reply["message"], f"an accepted message (it was refused as {heard.reply['code']})")


@RULES.add("asked to end (SIGTERM), it sends stop and ends", f"{WIRE}#other-messages")
def shutdown(trial: Trial) -> None:
    session = trial.normal()[-1].reply["session"]
    assert trial.process is not None
    os.killpg(trial.process.pid, signal.SIGTERM)
    try:
        stop, _ = trial.until("stop")
    except NotSeen as reason:
        raise Broken("t", str(reason), "stop after SIGTERM") from None
    expect("stop.session", stop.fields.get("session"), session)
    trial.answer(stop, correct(stop))
    try:
        trial.process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise Broken("process", "runs", f"to end within {PATIENCE_S:g} s of SIGTERM") from None


def begun(trial: Trial, old: int) -> None:
    """Check that a new session has begun, from seq 1."""
    session = trial.normal()[0].reply["session"]
    expect_that(session != old, "state.session", session, "the new session")
    numbers_sent = [
        each.fields["seq"] for each in trial.heard if each.kind == "state" and each.fields.get("session") == session
    ]
    expect("state.seq, first of the session", numbers_sent[0], 1)


def try_client(
    command: str, endpoint: str, controller: Controller, settings: ServerSettings, only: str = ""
) -> Iterator[Outcome]:
    """Start a client and yield the outcome of each rule.

    command: its words; `{}` stands for the endpoint, which is also in the environment variable IDYN_ENDPOINT
    endpoint: address of the server that is started for it
    only: text of the rules to try, besides the first one
    """
    warm_up(controller, settings)
    with Trial(command, endpoint, controller, settings) as trial:
        first, *others = RULES
        yield (begun := first.judged(trial))
        for rule in (each for each in others if only in each.claim):
            if begun.state != "passed":
                yield Outcome(rule.claim, rule.page, "not seen", "no session")
                continue
            yield (outcome := rule.judged(trial))
            if outcome.state != "passed":
                trial.renew()
