"""Search of a log for ticks with several outcomes under the same torques (`idyn.prediction.outcomes`)."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from idyn.errors import ConfigError
from idyn.prediction.outcomes import Outcome, outcomes
from idyn.types import Array, ContactSet
from sim_harness.run.log_blocks import Block, LogBlocks
from transport.protocol.base_estimate import estimated
from transport.protocol.codec import vector
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.state_input import StateReader

PRESSES = 1e-9
"""Normal impulse above which a contact counts as pressing [N·s]."""


class Ambiguity(msgspec.Struct, frozen=True, kw_only=True):
    """A tick with several outcomes.

    seq: number of the tick; t_s: time since the first tick [s]
    outcomes: number of outcomes found; apart: largest difference between their velocities v⁺ [m/s, rad/s]
    pressing: for each outcome, the keys of the contacts that press
    """

    seq: int
    t_s: float
    outcomes: int
    apart: float
    pressing: list[list[str]]


def ambiguities(path: Path, every: int, samples: int, progress: Callable[[int], None]) -> tuple[int, list[Ambiguity]]:
    """Return the number of checked ticks, and those with several outcomes on rigid ground.

    A check uses the measured state, the predicted contacts and the torque of the reply.
    every: number n, every n-th tick is checked; samples: searches per tick; progress: called after each tick
    Raises LogError, and ConfigError if `every` or `samples` is not positive.
    """
    for name, number in (("every", every), ("samples", samples)):
        if number < 1:
            raise ConfigError(name, f"expected ≥ 1, got {number}")
    checked, found = 0, list[Ambiguity]()
    answered, begin_ns = Counter[int](), dict[int, int]()
    with LogBlocks(path) as log:
        for block in log.blocks():
            for state, reply, _ in block.exchanges:
                if not isinstance(reply, TorqueMessage):
                    continue
                answered[block.session] += 1
                t_s = (state.t_robot - begin_ns.setdefault(block.session, state.t_robot)) * 1e-9
                if (answered[block.session] - 1) % every == 0:
                    checked += 1
                    found.extend(_outcomes(block, (state, reply), t_s, samples))
                    progress(1)
    return checked, found


def _outcomes(block: Block, exchange: tuple[StateMessage, TorqueMessage], t_s: float, samples: int) -> Iterator[Ambiguity]:
    (state, reply), agreement = exchange, block.agreement
    robot, measured = agreement.robot, estimated(StateReader(agreement).read(state.q, state.vel).state, reply)
    keys = [force.frame for force in reply.contact_force if force.frame in robot.spheres.keys]
    contacts = block.controller.contacts(measured.q, keys)
    tau = agreement.joints.torques_to_robot(vector(reply.tau, robot.na, "tau"))
    several = outcomes(robot, measured, contacts, tau, agreement.dt_ns * 1e-9, samples=samples)
    if len(several) > 1:
        velocities = np.array([outcome.v_plus for outcome in several])
        yield Ambiguity(
            seq=state.seq,
            t_s=t_s,
            outcomes=len(several),
            apart=float(np.ptp(velocities, axis=0).max()),
            pressing=[_pressing(contacts, outcome) for outcome in several],
        )


def _pressing(contacts: ContactSet, outcome: Outcome) -> list[str]:
    normal: Array = outcome.impulse[2::3]
    return [key for key, p in zip(contacts.keys, normal.tolist(), strict=True) if p > PRESSES]


def ambiguities_text(checked: int, found: list[Ambiguity]) -> str:
    """Return a report of at most ten ticks, as lines of text. checked: number of ticks"""
    lines = [f"{checked} ticks checked, {len(found)} with several outcomes under the same torques"]
    for each in found[:10]:
        pressing = "; or ".join(", ".join(keys) + " press" if keys else "no contact presses" for keys in each.pressing)
        lines.append(f"seq {each.seq}, {each.t_s:.3f} s: {each.outcomes} outcomes up to {each.apart:.3g} apart: {pressing}")
    if len(found) > 10:
        lines.append(f"… and {len(found) - 10} more")
    return "\n".join(lines)
