"""Ticks of a log with several outcomes under the same torques (`idyn.prediction.outcomes`; with many contacts
`idyn.prediction.outcomes`)."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from idyn.errors import ConfigError
from idyn.prediction.outcomes import Outcome, add_if_new, all_outcomes, outcomes
from idyn.types import Array, ContactSet
from sim_harness.run.logs import Block, LogBlocks
from transport.protocol.messages.state import StateMessage, TorqueMessage

PRESSES = 1e-9  # normal impulse above which a contact counts as pressing [N·s]


class Ambiguity(msgspec.Struct, frozen=True, kw_only=True):
    """A tick with several outcomes."""

    seq: int  # number of the tick
    t_s: float  # time since the first tick [s]
    outcomes: int  # number of outcomes found
    apart: float  # largest difference between their velocities v⁺ [m/s, rad/s]
    pressing: list[list[str]]  # for each outcome, the keys of the contacts that press


class Ambiguities(msgspec.Struct, frozen=True, kw_only=True):
    """Checked ticks of a log."""

    checked: int  # number of ticks
    proved: int  # those whose motion is proved to be unique
    found: list[Ambiguity]  # those with several outcomes; in the others one was found, without a proof


def ambiguities(path: Path, every: int, samples: int, progress: Callable[[int], None]) -> Ambiguities:
    """Check ticks of a log for several outcomes on rigid ground.

    A check uses the measured state, the predicted contacts and the torque of the reply.
    every: number n, every n-th tick is checked; samples: searches in a tick with many contacts; progress: called after each
        tick
    Raises LogError, and ConfigError if `every` or `samples` is not positive.
    """
    for name, number in (("every", every), ("samples", samples)):
        if number < 1:
            raise ConfigError(name, f"expected ≥ 1, got {number}")
    checked, proved, found = 0, 0, list[Ambiguity]()
    answered, begin_ns = Counter[int](), dict[int, int]()
    with LogBlocks(path) as log:
        for block in log.blocks():
            for state, reply, _ in block.exchanges:
                if not isinstance(reply, TorqueMessage):
                    continue
                answered[block.session] += 1
                t_s = (state.t_robot - begin_ns.setdefault(block.session, state.t_robot)) * 1e-9
                if (answered[block.session] - 1) % every == 0:
                    ambiguity, unique = _check(block, (state, reply), t_s, samples)
                    checked += 1
                    proved += unique
                    found += [] if ambiguity is None else [ambiguity]
                    progress(1)
    return Ambiguities(checked=checked, proved=proved, found=found)


def _check(
    block: Block, exchange: tuple[StateMessage, TorqueMessage], t_s: float, samples: int
) -> tuple[Ambiguity | None, bool]:
    robot, dt = block.agreement.robot, block.agreement.dt_ns * 1e-9
    measured, contacts, tau = block.tick(*exchange)
    every = all_outcomes(robot, measured, contacts, tau, dt)
    several = list(every.found)
    if every.undecided:
        for outcome in outcomes(robot, measured, contacts, tau, dt, samples=samples):
            add_if_new(several, outcome)
    if len(several) < 2:
        return None, every.unique is True
    velocities = np.array([outcome.v_plus for outcome in several])
    ambiguity = Ambiguity(
        seq=exchange[0].seq,
        t_s=t_s,
        outcomes=len(several),
        apart=float(np.ptp(velocities, axis=0).max()),
        pressing=[_pressing(contacts, outcome) for outcome in several],
    )
    return ambiguity, False


def _pressing(contacts: ContactSet, outcome: Outcome) -> list[str]:
    normal: Array = outcome.impulse[2::3]
    return [key for key, p in zip(contacts.keys, normal.tolist(), strict=True) if p > PRESSES]


def ambiguities_text(checks: Ambiguities) -> str:
    """Return a report of at most ten ticks, as lines of text."""
    found = checks.found
    others = checks.checked - checks.proved - len(found)
    lines = [f"{checks.checked} ticks checked, {len(found)} with several outcomes under the same torques"]
    lines.append(f"{checks.proved} proved to have one outcome; {others} with one found, not proved to be the only one")
    for each in found[:10]:
        pressing = "; or ".join(", ".join(keys) + " press" if keys else "no contact presses" for keys in each.pressing)
        lines.append(f"seq {each.seq}, {each.t_s:.3f} s: {each.outcomes} outcomes up to {each.apart:.3g} apart: {pressing}")
    if len(found) > 10:
        lines.append(f"… and {len(found) - 10} more")
    return "\n".join(lines)
