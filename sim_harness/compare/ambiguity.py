"""Ticks of a log with several possible outcomes under the same torques (`idyn.prediction.outcomes`)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from controllers.controller import Controller
from idyn.errors import ConfigError
from idyn.prediction.outcomes import Outcome, outcomes
from idyn.types import Array, ContactSet
from sim_harness.run.logs import Exchange, origin, sessions
from transport.log.reader import LogReader
from transport.protocol.agreement import Agreement
from transport.protocol.codec import vector
from transport.protocol.state_input import StateReader

PRESSES = 1e-9
"""A contact with a larger normal impulse presses [N·s]."""


class Ambiguity(msgspec.Struct, frozen=True, kw_only=True):
    """A tick with several outcomes.

    seq, t_s: its number and time since the first tick [s]
    outcomes: how many were found; apart: largest difference of their velocities [m/s, rad/s]
    pressing: for each, the contacts that press
    """

    seq: int
    t_s: float
    outcomes: int
    apart: float
    pressing: list[list[str]]


def ambiguities(path: Path, every: int, samples: int, progress: Callable[[int], None]) -> tuple[int, list[Ambiguity]]:
    """Number of ticks examined, one in `every`, and those with several outcomes on rigid ground.

    Examined is the measured state with the predicted contacts and the torque of the reply. progress: called after each
    Raises LogError, and ConfigError for numbers that are not positive.
    """
    for name, number in (("every", every), ("samples", samples)):
        if number < 1:
            raise ConfigError(name, f"expected ≥ 1, got {number}")
    looked, found = 0, list[Ambiguity]()
    with LogReader(path) as reader:
        controller, settings = origin(reader)
        for agreement, exchanges in sessions(reader, controller, settings):
            begin = exchanges[0][0].t_robot
            for exchange in exchanges[::every]:
                looked += 1
                t_s = (exchange[0].t_robot - begin) * 1e-9
                found.extend(_judged(controller, agreement, exchange, t_s, samples))
                progress(1)
    return looked, found


def _judged(controller: Controller, agreement: Agreement, exchange: Exchange, t_s: float, samples: int) -> Iterator[Ambiguity]:
    state, reply = exchange
    robot, measured = agreement.robot, StateReader(agreement).read(state.q, state.vel).state
    keys = [force.frame for force in reply.contact_force if force.frame in robot.spheres.keys]
    contacts = controller.contacts(measured.q, keys)
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


def explained(looked: int, found: list[Ambiguity]) -> str:
    """In words."""
    lines = [f"{looked} ticks looked at, {len(found)} with another outcome under the same torques"]
    for each in found[:10]:
        ways = "; or ".join(", ".join(keys) + " press" if keys else "nothing presses" for keys in each.pressing)
        lines.append(f"seq {each.seq}, {each.t_s:.3f} s: {each.outcomes} outcomes up to {each.apart:.3g} apart: {ways}")
    if len(found) > 10:
        lines.append(f"… and {len(found) - 10} more")
    return "\n".join(lines)
