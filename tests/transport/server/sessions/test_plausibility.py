"""Plausibility: one implausible state is ignored, two in a row are a fault; flickering foot switches count as closed."""

import numpy as np
from fast import every
from rig import greeted
from standin import standing
from wire import expect

from idyn.model.robot import Robot
from transport.protocol.contact_input import FootSwitches
from transport.protocol.messages.base import Code, ErrorMessage
from transport.server.sessions.plausibility import SwitchDebounce

WILD = {
    "a joint at 40 rad/s": ("v", 8, 40.0),
    "a joint 0.5 rad off": ("q", 9, 0.5),
    "a base 1 m off": ("q", 0, 1.0),
    "a base upside down": ("q", slice(3, 7), [1.0, 0.0, 0.0, 0.0]),
    "a base 0.15 rad off": ("q", slice(3, 7), [np.sin(0.075), 0.0, 0.0, np.cos(0.075)]),
    "a base at 5 m/s": ("v", 1, 5.0),
    "a base that spins": ("v", 4, 9.0),
}


def wild(robot: Robot, what: str) -> dict[str, bytes]:
    """A robot that stands but for one vector and place in it."""
    q, v = standing(robot), np.zeros(robot.nv)
    vector, place, value = WILD[what]
    (q if vector == "q" else v)[place] = value
    return {"q": q.tobytes(), "vel": v.tobytes()}


@every("what", WILD)
def test_one_implausible_state_is_ignored_and_two_in_a_row_are_a_fault(robot, what):
    rig = greeted(robot)
    rig.tick(1)
    before = rig.torque(2)
    reply = rig.torque(3, **wild(robot, what))
    assert reply.message.startswith("implausible state ignored: ")
    np.testing.assert_allclose(np.frombuffer(reply.tau), np.frombuffer(before.tau), atol=1e-9)
    assert rig.torque(4).message == ""
    rig.tick(5, **wild(robot, what))
    refused = rig.refused(6, **wild(robot, what))
    assert refused.code is Code.LATCHED_FAULT
    assert "two implausible states in a row" in refused.message


def test_a_moving_robot_is_accepted_after_a_dropout(moving, robot):
    """What its speed explains is no jump: 20 ms at 5 rad/s are 0.1 rad."""
    q, v = standing(robot), np.zeros(robot.nv)
    v[7] = 5.0
    moving.tick(1, q=q.tobytes(), vel=v.tobytes())
    q[8] += 0.15
    assert moving.torque(21, q=q.tobytes(), vel=v.tobytes()).message == ""
    v[8] = 29.0  # too much, also after lost states
    assert moving.torque(32, q=q.tobytes(), vel=v.tobytes()).message.startswith("implausible state ignored: ")


def test_a_stumbling_leg_is_accepted_in_the_second_tick(rig, robot):
    """20 rad/s are too much for one tick, and possible in two. The opposite quaternion is the same attitude."""
    stumbling = np.zeros(robot.nv)
    stumbling[8] = 20.0
    rig.tick(1)
    first, second = (rig.torque(seq, vel=stumbling.tobytes()) for seq in (2, 3))
    assert first.message.startswith("implausible state ignored: ")
    assert second.message == ""
    q = standing(robot)
    q[3:7] *= -1.0
    assert rig.torque(4, q=q.tobytes(), vel=stumbling.tobytes()).message == ""


def trembling(robot: Robot, seq: int, *, base: bool = True, joints: bool = True) -> dict[str, bytes]:
    """A robot that stands, with noise of its speeds where it is given."""
    v, noise = np.zeros(robot.nv), np.random.default_rng(seq).normal(0.0, 1e-3, robot.nv)
    v[3:6] = noise[3:6] if base else 1e-3
    v[6:] = noise[6:] if joints else 1e-3
    return {"vel": v.tobytes()}


@every(("frozen", "named"), [("base", "rate of the base"), ("joints", "speeds of the joints")])
def test_a_frozen_sensor_is_named_while_the_robot_stands_and_its_states_are_refused(robot, frozen, named):
    rig = greeted(robot)
    for seq in range(1, 200):
        assert rig.tick(seq, **trembling(robot, seq)).message == ""
    replies = [rig.tick(seq, **trembling(robot, seq, **{frozen: False})) for seq in range(200, 240)]
    refused = [isinstance(reply, ErrorMessage) for reply in replies]
    assert refused == [False] * 5 + [True] * 35  # the first of them is another number than before
    last = expect(ErrorMessage, replies[-1])
    assert last.code is Code.STALE_STATE
    assert last.recoverable
    assert f"the {named} has been frozen for 39 ms" in last.message
    assert rig.torque(240, **trembling(robot, 240)).status == "ok"


def test_the_first_state_after_a_frozen_sensor_may_be_anywhere(rig, robot):
    for seq in range(1, 230):
        rig.tick(seq, **trembling(robot, seq, joints=seq < 200))
    moved = standing(robot)
    moved[9] += 0.5
    reply = rig.torque(230, q=moved.tobytes(), **trembling(robot, 230))
    assert reply.message == ""
    assert rig.tick(231, **trembling(robot, 231)).message.startswith("implausible state ignored: ")


@every("period", [1, 20])
def test_a_sensor_without_noise_or_with_a_slow_one_is_not_frozen(robot, period):
    """A simulated robot comes to rest in all its sensors together; a slow sensor repeats itself between two samples."""
    rig = greeted(robot)
    for seq in range(1, 300):
        v, alive = np.zeros(robot.nv), seq < 150 or period > 1
        v[3:6] = 1e-3 * np.sin(seq // period) if alive else 0.0
        v[6:] = 1e-3 * np.cos(seq) if alive else 0.0
        assert rig.tick(seq, vel=v.tobytes()).message == ""


DT = 1e-3


def run(closed, ticks):
    """Return the last (switches, text) and the first tick with a text. closed: tick → names"""
    debounce, first = SwitchDebounce(), None
    for tick in range(ticks):
        switches, text = debounce.debounced(FootSwitches(keys=closed(tick), mu=None), DT)
        if text and first is None:
            first = tick
    return switches, text, first


@every(("half", "most"), [(1, 50), (2, 130)])
def test_a_flickering_switch_is_named_and_counts_as_closed(half, most):
    switches, text, first = run(lambda tick: ("A", "B") if tick // half % 2 else ("A",), 200 * half)
    assert first is not None
    assert first < most
    assert text == "foot switches flicker: B"
    assert switches.keys == ("A", "B")


def test_a_gait_with_bouncing_landings_and_measured_contacts_are_left_alone():
    assert SwitchDebounce().debounced(None, DT) == (None, "")

    def gait(tick):
        phase = tick % 300
        stands = phase > 100 and not (phase < 116 and phase % 2)
        return ("A", "B") if stands else ("A",)

    assert run(gait, 1500)[2] is None


def test_a_switch_that_is_quiet_again_counts_as_it_is_and_friction_is_kept():
    switches, text, first = run(lambda tick: ("A", "B") if tick < 300 and tick % 2 else ("A",), 1000)
    assert first is not None
    assert text == ""
    assert switches.keys == ("A",)
    debounce = SwitchDebounce()
    for tick in range(100):
        keys, mu = (("A", "B"), (0.5, 0.6)) if tick % 2 else (("B",), (0.6,))
        switches, _ = debounce.debounced(FootSwitches(keys=keys, mu=mu), DT)
    closed = dict(zip(switches.keys, switches.mu, strict=True))
    assert closed["B"] == 0.6
    assert set(closed) == {"A", "B"}
