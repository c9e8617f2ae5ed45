"""The robot's end of the protocol with a simulated robot behind it: state out, torque in, failsafe between."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from idyn.status import Status
from idyn.types import Array, State
from sim_harness.measure.fall import Posture
from sim_harness.measure.trace import Trace, TraceWriter
from sim_harness.robot.hardware import Hardware
from sim_harness.robot.pacing import Pacer
from sim_harness.world.world import Push, World
from transport.protocol.codec import vector
from transport.protocol.errors import ProtocolError
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.error import Code, ErrorMessage
from transport.protocol.messages.requests import Reset, ResetAck
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.torque_gate import limits_of
from transport.realtime import steady
from transport.robot.failsafe import DriveCommand, Failsafe, FailsafeMode, FailsafeSettings, drive_command

log = logging.getLogger(__name__)

PROGRESS_TICKS = 50
"""Ticks between calls of `progress`."""


class Exchanger(Protocol):
    """The part of a client that a robot uses: `RobotClient` and `Loopback` of `transport` have it.

    deadline: `exchange` waits no longer than this [s]
    """

    error: ErrorMessage | None

    @property
    def deadline(self) -> float: ...

    @property
    def session(self) -> int: ...

    def exchange(self, state: StateMessage) -> TorqueMessage | None: ...

    def ask(self, message: FromClient) -> FromServer: ...


class Heard(NamedTuple):
    """What a tick's exchange brought.

    command: for the drives, None without a torque; mode: status of the reply
    round_trip: [s], NaN without a torque; fault: the server says that it stopped
    """

    command: DriveCommand | None = None
    mode: str = ""
    round_trip: float = np.nan
    fault: bool = False


class RobotSide:
    """Joins a world to a client whose session has begun with `hello_for(world.robot, dt, kind="sim")`.

    The world's time is the robot's clock: for the server's watchdog, and for the failsafe, which decides what the drives do
    with a reply and without one. A trace calls a torque of the server by the status of its reply, one of the failsafe
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
        hardware: Hardware | None = None,
        progress: Callable[[int], None] | None = None,
        failsafe: FailsafeSettings | None = None,
        watch: Callable[[TraceWriter], None] | None = None,
    ) -> None:
        """
        dt: step of the world and period of the loop [s]; kd: damping of the failsafe [N·m·s/rad], ≥ 0; failsafe: its times
        hardware: between the world and the messages; ideal without
        progress: called with the ticks done since the last call
        watch: called at the end of each tick, and must not keep it
        """
        robot = world.robot
        self.world = world
        self.refused: Counter[str] = Counter()
        self._client = client
        self._dt = dt
        self._failsafe = Failsafe(damping=np.full(robot.na, kd), limits=limits_of(robot.limits), settings=failsafe)
        self._applied: Array | None = None
        self._answered_ns: int | None = None  # `t_robot` of the state whose torque was applied
        self._waited, self._answered = 0.0, False  # for the last reply [s]; whether it came
        self._hardware = Hardware.ideal(robot, dt) if hardware is None else hardware
        self._progress = progress
        self._watch = watch

    def run(self, duration: float, pushes: Sequence[Push] = (), posture: Posture | None = None) -> Trace:
        """In lock-step: every tick waits for its reply, as fast as both sides can.

        posture: with it the run ends at a fall, or when the robot's own side has stopped it for good: it is not reset here
        """
        ticks = round(duration / self._dt)
        trace = TraceWriter(self.world.robot, ticks)
        for _ in range(ticks):
            if not self._tick(trace, pushes):
                break
            if posture is not None and (self.stopped or not posture.upright(self.world.q[None])):
                break
        return trace.trace()

    def run_paced(self, duration: float, pushes: Sequence[Push] = (), *, waits: bool = False) -> Trace:
        """In real time, or slower.

        waits: the world stands still until a late reply has come, so that its time is stretched; otherwise it moves on
            without. Where no reply comes at all, it moves on by the time that was waited for it.
        A pause of this process itself counts for neither side, and stretches the world's time in any case.
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
                if waits and self._answered:
                    continue
                waited = min(self._waited, self._client.deadline)  # what is beyond, this process has slept through
                lost = min(pacer.skipped - skipped, int(waited / self._dt))
                for _ in range(min(lost, ticks - len(trace))):
                    self._tick(trace, pushes, ask=False)
        return trace.trace()

    @property
    def stopped(self) -> bool:
        """Whether the robot's own side has stopped it until `reset`."""
        return self._failsafe.stopped

    def reset(self) -> bool:
        """Go on after a stop, if the server finds the robot at rest; its controller then begins anew. False when it refuses.
        Raises ConnectionFailed without an answer."""
        answer = self._client.ask(Reset(session=self._client.session, q=self.world.q.tobytes(), vel=self.world.v.tobytes()))
        if not isinstance(answer, ResetAck):
            return False
        self._failsafe.reset()
        return True

    def _tick(self, trace: TraceWriter, pushes: Sequence[Push], *, ask: bool = True) -> bool:
        """One period; False when the world has left the finite numbers."""
        world, hardware = self.world, self._hardware
        trace.state(world.t, world.q, world.v, perf_counter())
        measured = hardware.sensors.measure(world.state)
        heard = self._exchange(measured, trace) if ask else Heard()
        angles, speeds = world.robot.joint_angles(measured.q), measured.v[world.robot.tree.a]
        command, mode = self._failsafe.torque(self._now_ns(), angles, speeds, heard.command, fault=heard.fault)
        tau = hardware.actuators.apply(command)
        trace.command(tau, heard.mode if mode is FailsafeMode.OK else f"failsafe:{mode}", heard.round_trip)
        result = world.step(tau, self._dt, pushes)
        hardware.feet.feel(result, self._dt)
        trace.simulated(result.contacts.keys, result.force, result.status)
        if self._progress is not None and len(trace) % PROGRESS_TICKS == 0:
            self._progress(PROGRESS_TICKS)
        if self._watch is not None:
            self._watch(trace)
        self._applied = tau
        self._answered_ns = heard.command.t_ns if heard.command is not None else self._answered_ns
        return result.status is not Status.NON_FINITE

    def _exchange(self, measured: State, trace: TraceWriter) -> Heard:
        """Send the state and hear what comes back."""
        state = self._message(measured)
        begin = perf_counter()
        try:
            reply = self._client.exchange(state)
            command = None if reply is None else drive_command(reply, self.world.robot.na)
        except ProtocolError as error:  # bytes that are no torque are as good as none
            reply = command = None
            self._note(error.code, f"unusable reply: {error}")
        self._waited = perf_counter() - begin
        self._answered = command is not None
        if reply is None or command is None:
            refusal = self._client.error
            if refusal is not None:
                self._note(refusal.code, f"the server refuses the state: {refusal.message}")
            return Heard(fault=refusal is not None and refusal.code is Code.LATCHED_FAULT)
        self._keep(reply, trace)
        return Heard(command, reply.status, self._waited, fault=reply.status == "fault")

    def _keep(self, reply: TorqueMessage, trace: TraceWriter) -> None:
        """What the trace is to have of a reply."""
        if reply.ref is not None:
            trace.reference(
                vector(reply.ref.q, self.world.robot.na, "ref.q"), vector(reply.ref.v, self.world.robot.na, "ref.v")
            )
        if reply.solver is not None:
            trace.solved(reply.solver.time_us * 1e-6)
        for force in reply.contact_force:
            trace.predicted(force.frame, (force.fn, force.ft1, force.ft2))

    def _message(self, measured: State) -> StateMessage:
        return StateMessage(
            q=measured.q.tobytes(),
            vel=measured.v.tobytes(),
            t_robot=self._now_ns(),
            t_applied=self._answered_ns,
            tau_applied=None if self._applied is None else self._applied.tobytes(),
            contacts=self._hardware.feet.contacts(self.world.contacts),
        )

    def _note(self, code: str, reason: str) -> None:
        """Count it; say it once for each code."""
        if not self.refused[code]:
            log.warning("no torque at %.3f s, %s (%s)", self.world.t, reason, code)
        self.refused[code] += 1

    def _now_ns(self) -> int:
        return round(self.world.t * 1e9)
