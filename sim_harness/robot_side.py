"""The robot's end of the protocol with a simulated robot behind it: state out, torque in, failsafe between."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol

import numpy as np

from idyn.status import Status
from idyn.types import Array
from sim_harness.pacing import Pacer
from sim_harness.trace import Trace, TraceWriter
from sim_harness.world import Push, World
from transport.codec import vector
from transport.errors import ProtocolError
from transport.failsafe import Failsafe
from transport.messages import Contact, ErrorMessage, StateMessage, TorqueMessage
from transport.realtime import steady

log = logging.getLogger(__name__)

PROGRESS_TICKS = 50
"""Progress is told once in so many ticks."""


class Exchanger(Protocol):
    """The part of a client that a robot uses: `RobotClient` and `Loopback` of `transport` have it."""

    error: ErrorMessage | None

    def exchange(self, state: StateMessage) -> TorqueMessage | None: ...


class RobotSide:
    """Joins a world to a client whose session has begun with `hello_for(world.robot, dt, kind="sim")`.

    The world's time is the robot's clock: for the server's watchdog, and for the failsafe, which decides the torque
    when none arrives. A trace calls a torque of the server by the status of its reply, one of the failsafe
    `failsafe:<mode>`.

    refused: how often a state got no torque for a reason that was given, by error code
    """

    def __init__(
        self,
        world: World,
        client: Exchanger,
        *,
        dt: float,
        kd: float,
        report_contacts: bool = True,
        progress: Callable[[int], None] | None = None,
        watch: Callable[[TraceWriter], None] | None = None,
    ) -> None:
        """
        dt: step of the world and period of the loop [s]; kd: damping of the failsafe [N·m·s/rad], ≥ 0
        report_contacts: send the contacts with each state; otherwise the server has to find them
        progress: called with the ticks done since the last call
        watch: called at the end of each tick, and must not keep it
        """
        robot = world.robot
        self.world = world
        self.refused: Counter[str] = Counter()
        self._client = client
        self._dt = dt
        self._failsafe = Failsafe(dt=dt, kd=np.full(robot.na, kd), tau_max=robot.limits.tau_max)
        self._applied: Array | None = None
        self._felt: dict[str, bytes] = {}  # force on each contact place in the last step, world axes [N] (3)
        self._waited = 0.0  # for the last reply [s]
        self._report_contacts = report_contacts
        self._progress = progress
        self._watch = watch

    def run(self, duration: float, pushes: Sequence[Push] = ()) -> Trace:
        """In lock-step: every tick waits for its reply, as fast as both sides can."""
        ticks = round(duration / self._dt)
        trace = TraceWriter(self.world.robot, ticks)
        for _ in range(ticks):
            if not self._tick(trace, pushes):
                break
        return trace.trace()

    def run_paced(self, duration: float, pushes: Sequence[Push] = ()) -> Trace:
        """In real time. The world does not wait for the server: in periods lost to a late reply it has the failsafe's torque.

        A pause of this process itself is no fault of the server's and only stretches the world's time.
        """
        ticks = round(duration / self._dt)
        trace = TraceWriter(self.world.robot, ticks)
        pacer = Pacer(self._dt)
        with steady():
            pacer.wait()
            while len(trace) < ticks:
                skipped = pacer.skipped
                if not self._tick(trace, pushes):
                    break
                pacer.wait()
                lost = min(pacer.skipped - skipped, int(self._waited / self._dt))
                for _ in range(min(lost, ticks - len(trace))):
                    self._tick(trace, pushes, ask=False)
        return trace.trace()

    def _tick(self, trace: TraceWriter, pushes: Sequence[Push], *, ask: bool = True) -> bool:
        """One period; False when the world has left the finite numbers."""
        world = self.world
        trace.state(world.t, world.q, world.v)
        fresh, server_mode, round_trip = self._exchange(trace) if ask else (None, "", np.nan)
        tau, mode = self._failsafe.torque(self._now_ns(), world.v[world.robot.a], fresh)
        trace.command(tau, server_mode if tau is fresh else f"failsafe:{mode}", round_trip)
        result = world.step(tau, self._dt, pushes)
        forces = result.impulse / self._dt
        self._felt = {key: force.tobytes() for key, force in zip(result.contacts.keys, forces, strict=True)}
        trace.simulated(result.contacts.keys, result.force, result.status)
        if self._progress is not None and len(trace) % PROGRESS_TICKS == 0:
            self._progress(PROGRESS_TICKS)
        if self._watch is not None:
            self._watch(trace)
        self._applied = tau
        return result.status is not Status.NON_FINITE

    def _exchange(self, trace: TraceWriter) -> tuple[Array | None, str, float]:
        """The server's torque (na), its status, and the round trip [s]; None, '' and NaN without a torque."""
        state = self._state()
        begin = perf_counter()
        try:
            reply = self._client.exchange(state)
            tau = None if reply is None else vector(reply.tau, self.world.robot.na, "tau")
        except ProtocolError as error:  # bytes that are no torque are as good as none
            self._waited = perf_counter() - begin
            self._note(error.code, f"unusable reply: {error}")
            return None, "", np.nan
        self._waited = round_trip = perf_counter() - begin
        if reply is None or tau is None:
            if (refusal := self._client.error) is not None:
                self._note(refusal.code, f"the server refuses the state: {refusal.message}")
            return None, "", np.nan
        if reply.ref is not None:
            trace.reference(
                vector(reply.ref.q, self.world.robot.na, "ref.q"), vector(reply.ref.v, self.world.robot.na, "ref.v")
            )
        if reply.solver is not None:
            trace.solved(reply.solver.time_us * 1e-6)
        for force in reply.contact_force:
            trace.predicted(force.frame, (force.fn, force.ft1, force.ft2))
        return tau, reply.status, round_trip

    def _state(self) -> StateMessage:
        world = self.world
        return StateMessage(
            q=world.q.tobytes(),
            vel=world.v.tobytes(),
            t_robot=self._now_ns(),
            tau_applied=None if self._applied is None else self._applied.tobytes(),
            contacts=self._contacts() if self._report_contacts else None,
        )

    def _contacts(self) -> list[Contact]:
        """What ideal foot sensors and a terrain map would report."""
        c = self.world.contacts
        mu, gaps = c.mu.tolist(), c.gaps.tolist()
        return [
            Contact(
                frame=key,
                p=c.points[i].tobytes(),
                n=c.normals[i].tobytes(),
                t1=c.tangents[i].tobytes(),
                mu=mu[i],
                dist=gaps[i],
                f_sensed=self._felt.get(key),
                sensed_valid=key in self._felt,
            )
            for i, key in enumerate(c.keys)
        ]

    def _note(self, code: str, reason: str) -> None:
        """Count it; say it once for each code."""
        if not self.refused[code]:
            log.warning("no torque at %.3f s, %s (%s)", self.world.t, reason, code)
        self.refused[code] += 1

    def _now_ns(self) -> int:
        return round(self.world.t * 1e9)
