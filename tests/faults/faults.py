"""The table of faults: what goes wrong in a standing robot's messages, the server's reply, and the robot's mode afterwards."""

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, TypeVar

import msgpack
import msgspec
import numpy as np
from trial import LONG, ONCE, Trial

from transport.protocol.messages.base import Code
from transport.protocol.messages.state import Contact, Flags, Imu, Reference, StateMessage

Change = Callable[[Trial], None]

OK, STOPPED, DAMPING = "ok", "failsafe:stopped", "failsafe:damping"
FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
T = TypeVar("T")

COMPANY: list[tuple[str, tuple[str, str, str]]] = []
"""Faults that are tests of their own: where, and what happens, what the server says, what becomes of the robot."""
HEADINGS = {  # what becomes of the robot → heading in the table; '': of all that have none of their own
    "goes on": "The robot goes on",
    "holds its posture until `reset`": "The robot holds its posture until `reset`",
    "damps until `reset`": "The robot damps until `reset`",
    "–": "No robot takes part",
    "": "Other ends",
}


class Fault(NamedTuple):
    """
    name: for the table; arrange: what goes wrong; ticks: for so long
    after: the robot's mode 0.2 s later; code: of the refusals, None: there are none; perhaps: that code, if there is any
    field: that the refusals name
    says: in a torque's `message`
    unheard: the client takes the refusal for an answer to something else, and waits in vain
    """

    name: str
    arrange: Change
    ticks: int = ONCE
    after: str = OK
    code: Code | None = None
    perhaps: Code | None = None
    says: str = ""
    unheard: bool = False
    field: str = ""


def told(name: str, server: str, robot: str) -> Callable[[T], T]:
    """Add a test to the table."""

    def note(test: T) -> T:
        COMPANY.append((test.__module__, (name, server, robot)))
        return test

    return note


def table() -> str:
    """All faults, for docs/reference/faults.md: what goes wrong → what the server says, by what becomes of the robot."""
    becomes = dict(zip((OK, STOPPED, DAMPING), HEADINGS, strict=False))
    rows = []
    for fault in FAULTS:
        said = [f"`{fault.code}`" + (f" for `{fault.field}`" if fault.field else "")] if fault.code else []
        said += [f"`{fault.perhaps}`, or no refusal"] if fault.perhaps else []
        said += [f"`{fault.says} …`"] if fault.says else []
        rows.append((fault.name, ", ".join(said) or "–", becomes[fault.after]))
    company = [row for _, row in sorted(COMPANY, key=lambda entry: entry[0])]  # whoever was imported first
    sections: dict[str, dict[str, list[str]]] = {end: {} for end in HEADINGS}
    for name, server, robot in rows + company:
        end, says = (robot, server) if robot in HEADINGS else ("", f"{server} → {robot}")
        sections[end].setdefault(says, []).append(name)
    return "\n".join(f"### {HEADINGS[end]}\n\n{_lines(said)}" for end, said in sections.items())


def _lines(said: dict[str, list[str]]) -> str:
    """What the server says → the faults: one line each."""
    return "".join(f"- {'; '.join(names)} → {says}\n" for says, names in said.items())


def state(**fields: object) -> Change:
    """Fields of the states replaced; a function is asked for the value, with the robot and the state."""

    def arrange(trial: Trial) -> None:
        def change(message: StateMessage) -> StateMessage:
            values = {name: value(trial, message) if callable(value) else value for name, value in fields.items()}
            return msgspec.structs.replace(message, **values)

        trial.client.change_state = change

    return arrange


def readings(*, gyro: float = 0.0, acc: float = 9.81) -> Change:
    """An IMU that says this about the vertical axis."""
    return state(imu=Imu(quat=[0.0, 0.0, 0.0, 1.0], gyro=[0.0, 0.0, gyro], acc=[0.0, 0.0, acc]))


def raw(change: Callable[[bytes], bytes]) -> Change:
    def arrange(trial: Trial) -> None:
        trial.client.wire.change = change

    return arrange


def envelope(**fields: object) -> Change:
    """Fields of the packed message replaced, whatever the schema says."""
    return raw(lambda data: msgpack.packb(msgpack.unpackb(data) | fields))


def changed(field: str, i: int | slice, change: Callable[[Any, int], Any]) -> Change:
    """One number or a part of a vector replaced: from what it was and the tick, from 1."""

    def arrange(trial: Trial) -> None:
        ticks = count(1)

        def spoil(message: StateMessage) -> StateMessage:
            vector = np.frombuffer(getattr(message, field)).copy()
            vector[i] = change(vector[i], next(ticks))
            return msgspec.structs.replace(message, **{field: vector.tobytes()})

        trial.client.change_state = spoil

    return arrange


def at(field: str, i: int | slice, value: object) -> Change:
    return changed(field, i, lambda _, tick: value)


def further(field: str, i: int, by: float) -> Change:
    return changed(field, i, lambda true, tick: true + by)


def bit_flips() -> Change:
    rng = np.random.default_rng(0)

    def flip(data: bytes) -> bytes:
        spoilt = bytearray(data)
        spoilt[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        return bytes(spoilt)

    return raw(flip)


def frozen(trial: Trial) -> None:
    """The same measurement again and again, with new times."""
    first: list[StateMessage] = []

    def change(message: StateMessage) -> StateMessage:
        first.append(message)
        return msgspec.structs.replace(message, q=first[0].q, vel=first[0].vel)

    trial.client.change_state = change


def lost(which: str, probability: float = 1.0, seed: int = 0) -> Change:
    rng = np.random.default_rng(seed)

    def arrange(trial: Trial) -> None:
        setattr(trial.client, f"lose_{which}", lambda: bool(rng.random() < probability))

    return arrange


def client(**features: object) -> Change:
    def arrange(trial: Trial) -> None:
        for name, value in features.items():
            setattr(trial.client, name, value)

    return arrange


def reference(scale: float, field: str) -> Change:
    def value(trial: Trial, message: StateMessage) -> Reference:
        na = trial.robot.na
        parts = {name: np.zeros(na) for name in ("q", "v", "a")}
        parts["q"] = trial.robot.joint_angles(trial.server.controller.stance)
        parts[field] = np.full(na, scale)
        return Reference(**{name: part.tobytes() for name, part in parts.items()})

    return state(ref=value)


def loaded(force: float, *, active: bool) -> list[Contact]:
    """Switches and vertical forces: three feet with 10 N, the first one with `force` [N]."""
    first = Contact(frame=FEET[0], active=active, f_sensed=[0.0, 0.0, force], sensed_valid=True)
    return [first, *(Contact(frame=foot, f_sensed=[0.0, 0.0, 10.0], sensed_valid=True) for foot in FEET[1:])]


NAN, INF = float("nan"), float("inf")
STILL = [0.0] * 12
ESTOP = Flags(estop=True)
LATCHED, NON_FINITE, SCHEMA, LENGTH = Code.LATCHED_FAULT, Code.NON_FINITE, Code.BAD_SCHEMA, Code.WRONG_LENGTH
FELT = (LONG, DAMPING, LATCHED)  # lasts until the server damps
MOTOR = (*FELT, None, "motor")  # and names the motor

FAULTS = (
    Fault("NaN in q, once", at("q", 8, NAN), code=NON_FINITE),
    Fault("Inf in vel, once", at("vel", 3, INF), code=NON_FINITE),
    Fault("NaN in q for 150 ms", at("q", 8, NAN), LONG, STOPPED, NON_FINITE),
    Fault("NaN in tau_applied", at("tau_applied", 0, NAN), 5, code=NON_FINITE),
    Fault("tau_applied of 1e300 N·m", at("tau_applied", 0, 1e300), 5, says="tau_applied ignored"),
    Fault("an angle of 1e300 rad", at("q", 9, 1e300), 5, code=SCHEMA, field="q[9]"),
    Fault("a joint at 1e300 rad/s", at("vel", 9, 1e300), 5, code=SCHEMA, field="vel[9]"),
    Fault("tau_meas of 1e300 N·m", state(tau_meas=[0.0] * 11 + [1e300]), 5, code=SCHEMA, field="tau_meas[11]"),
    Fault("a gyro of 1e300 rad/s", readings(gyro=1e300), 5, code=SCHEMA, field="imu.gyro[2]"),
    Fault("an accelerometer of 1e300 m/s²", readings(acc=1e300), 5, code=SCHEMA, field="imu.acc[2]"),
    Fault("tau_applied of 0 for 150 ms", state(tau_applied=STILL), *MOTOR),
    Fault("tau_applied of 0 for 150 ms, without t_applied", state(tau_applied=STILL, t_applied=None), *MOTOR),
    Fault("tau_meas of 0, without tau_applied and t_applied", state(tau_applied=None, tau_meas=STILL, t_applied=None), *MOTOR),
    Fault("no t_applied, for 150 ms", state(t_applied=None), LONG),
    Fault("q too short", state(q=b"\0" * 80), code=LENGTH),
    Fault("vel of 7 bytes", state(vel=b"\0" * 7), code=LENGTH),
    Fault("quaternion of length 0", at("q", 6, 0.0), code=Code.QUATERNION_NOT_UNIT),
    Fault("unknown contact", state(contacts=[Contact(frame="NOSE")]), code=Code.CONTACT_UNKNOWN),
    Fault("contact with NaN", state(contacts=[Contact(frame=FEET[0], p=[NAN] * 3, n=[0, 0, 1])]), code=NON_FINITE),
    Fault("no foot switch is closed", state(contacts=[Contact(frame=foot, active=False) for foot in FEET]), 3),
    Fault("no foot switch closes any more", state(contacts=[]), LONG, says="foot switch"),
    Fault("a foot switch is open under its force", state(contacts=loaded(10.0, active=False)), 50, says="foot switch"),
    Fault("a foot switch closes without a force", state(contacts=loaded(0.0, active=True)), 600, says="foot switch"),
    Fault("old seq", envelope(seq=1), code=Code.OUT_OF_ORDER, unheard=True),
    Fault("t_robot does not advance", envelope(t_robot=0), 5, code=Code.OUT_OF_ORDER),
    Fault("t_robot is negative", envelope(t_robot=-(10**15)), 5, code=Code.OUT_OF_ORDER),
    Fault("session number of another session", envelope(session=7), 5, code=Code.NOT_CONTROLLING),
    Fault("another schema version", envelope(v="9.0"), 5, code=Code.VERSION_MISMATCH),
    Fault("unknown type", envelope(t="tea"), 5, code=SCHEMA),
    Fault("unknown field", envelope(vell=b""), 5, code=SCHEMA),
    Fault("text instead of a vector", envelope(q="north"), 5, code=SCHEMA),
    Fault("empty message", raw(lambda data: b""), 5, code=SCHEMA),
    Fault("random bytes", raw(lambda data: b"\xc1\xff" * 100), 5, code=SCHEMA),
    Fault("half a message", raw(lambda data: data[: len(data) // 2]), 5, code=SCHEMA),
    Fault("100 kB", raw(lambda data: data + bytes(100_000)), 5, code=SCHEMA),
    Fault("deeply nested message", raw(lambda data: b"\x91" * 5000), 5, code=SCHEMA),
    Fault("one bit flipped in each state", bit_flips(), 30, unheard=True, code=SCHEMA),
    Fault("frozen state for 100 ms", frozen, 100),
    Fault("front and hind legs exchanged", changed("q", slice(7, 19), lambda legs, tick: np.roll(legs, 6)), *FELT),
    Fault("a joint 0.5 rad off, once", further("q", 9, 0.5), says="implausible state ignored"),
    Fault("a joint at 31 rad/s, once", at("vel", 9, 31.0), says="implausible state ignored"),
    Fault("a joint at 31 rad/s, twice", at("vel", 9, 31.0), 2, DAMPING, LATCHED),
    Fault("the base 1 m off, once", further("q", 0, 1.0), says="implausible state ignored"),
    Fault("the base 1 m off, for 150 ms", further("q", 0, 1.0), *FELT),
    Fault("the base upside down, once", at("q", slice(3, 7), [1.0, 0.0, 0.0, 0.0]), says="implausible state ignored"),
    Fault("the base 3 m off in every second state", changed("q", 0, lambda true, tick: true + 3.0 * (tick % 2)), *FELT),
    Fault("a joint drifts by 1 rad/s, its speed does not", changed("q", 9, lambda true, tick: true + 1e-3 * tick), *FELT),
    Fault("an impossible reference of 1e3 rad", reference(1e3, "q"), 20, DAMPING, LATCHED),
    Fault("an impossible reference of 1e9 rad/s²", reference(1e9, "a"), 20, DAMPING, LATCHED),
    Fault("reference with NaN", reference(NAN, "v"), 5, code=NON_FINITE),
    Fault("emergency stop", state(flags=ESTOP), ONCE, DAMPING),
    Fault("emergency stop in a state with NaN", state(q=[NAN] * 19, flags=ESTOP), ONCE, DAMPING, NON_FINITE),
    Fault("1 % of the states lost", lost("state", 0.01), 200),
    Fault("10 % of the states lost", lost("state", 0.1), 200),
    Fault("50 % of the states lost", lost("state", 0.5), 200),
    Fault("50 % of the answers lost", lost("answer", 0.5), 200),
    Fault("every state is sent three times", client(repeat=2), 200),
    Fault("every other state arrives after the next one", client(swap=True), 200, perhaps=Code.OUT_OF_ORDER),
    Fault("no answers for 10 ms", lost("answer"), 10),
    Fault("no answers for 30 ms", lost("answer"), 30),
    Fault("no states for 30 ms", lost("state"), 30),
    Fault("no answers for 150 ms", lost("answer"), LONG, STOPPED),
    Fault("no states for 150 ms", lost("state"), LONG, STOPPED, LATCHED),
)
