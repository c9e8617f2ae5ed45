"""The robot's side of the protocol for a simulated robot: sends states, receives torques, applies the failsafe."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from idyn.status import Status
from idyn.types import Array, State
from sim_harness.measure.fall import Posture
from sim_harness.measure.trace import Trace, TraceWriter
from sim_harness.robot.hardware import Hardware, Purpose, stream
from sim_harness.robot.imperfections import LinkSettings, Loss
from sim_harness.world.world import Push, World
from transport.protocol.errors import ProtocolError, printable
from transport.protocol.joint_map import BASE_Q, BASE_V
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.base import Code, ErrorMessage
from transport.protocol.messages.requests import Reset, ResetAck
from transport.protocol.messages.state import Imu, StateMessage, TorqueMessage
from transport.protocol.torque_gate import limits_of
from transport.robot.failsafe import DriveCommand, Failsafe, FailsafeMode, FailsafeSettings, drive_command
from transport.server.process import steady


class Pacer:
    """Wakes at start + k · period, k = 1, 2, … Deadlines that have passed are skipped, not caught up with.

    skipped: number of missed deadlines
    """

    def __init__(self, period: float) -> None:
        """period: [s]; the first deadline is one period after the first `wait`"""
        self.skipped = 0
        self._period = round(period * 1e9)
        self._deadline = 0

    def wait(self) -> int:
        """Sleep until the next deadline and return the delay of the wake-up [ns], ≥ 0. The first call only starts the clock."""
        now = time.monotonic_ns()
        if self._deadline == 0:
            self._deadline = now + self._period
            return 0
        if now >= self._deadline + self._period:
            behind = (now - self._deadline) // self._period
            self.skipped += behind
            self._deadline += behind * self._period
        while (rest := self._deadline - time.monotonic_ns()) > 0:
            time.sleep(rest * 1e-9)
        late = -rest
        self._deadline += self._period
        return late


log = logging.getLogger(__name__)

PROGRESS_TICKS = 50  # number of ticks between calls of `progress`


class Exchanger(Protocol):
    """The client methods that a robot uses, implemented by `RobotClient` and `Loopback` of `transport`."""

    error: ErrorMessage | None  # error message in reply to the last state, None without one

    @property
    def deadline(self) -> float:
        """Return the longest time that `exchange` waits [s]."""
        ...

    @property
    def session(self) -> int:
        """Return the session number."""
        ...

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        """Send a state and return the torque message, None without one."""
        ...

    def ask(self, message: FromClient) -> FromServer:
        """Send any other message and return the reply."""
        ...


class ExchangeResult(NamedTuple):
    """Result of the exchange of one tick."""

    command: DriveCommand | None = None  # command for the drives, None without a torque
    mode: str = ""  # status of the reply
    round_trip: float = np.nan  # time from state to torque [s], NaN without a torque
    fault: bool = False  # whether the server reports a latched fault


class RobotSide:
    """Connects a world with a client whose session was opened with `hello_for(world.robot, dt, kind="sim")`, and
    `measured="imu"` if the hardware has an IMU.

    The world's time is the robot's clock, for the server's watchdog and for the failsafe, which decides what the drives do with
    and without a reply. The mode of a tick in the trace is the status of the server's reply, or `failsafe:<mode>`.

    refused: number of states that the server refused or whose reply was unusable, by error code
    """

    def __init__(
        self,
        world: World,
        client: Exchanger,
        *,
        dt: float,
        kd: float | Array,
        hardware: Hardware | None = None,
        progress: Callable[[int], None] | None = None,
        failsafe: FailsafeSettings | None = None,
        watch: Callable[[TraceWriter], None] | None = None,
    ) -> None:
        """
        dt: step of the world and period of the loop [s]
        kd: damping of the failsafe [N·m·s/rad], ≥ 0, of all motors or of each (na)
        hardware: between the world and the messages, default ideal
        progress: called with the number of ticks since the last call
        failsafe: times of the failsafe
        watch: called with the trace at the end of each tick; must not keep a reference to it
        """
        robot = world.robot
        self.world = world
        self.refused: Counter[str] = Counter()
        self._client = client
        self._dt = dt
        self._failsafe = Failsafe(
            damping=np.broadcast_to(kd, robot.na).astype(np.float64), limits=limits_of(robot.limits), settings=failsafe
        )
        self._applied: Array | None = None
        self._answered_ns: int | None = None  # `t_robot` of the state whose torque was applied
        self._waited, self._answered = 0.0, False  # waiting time for the last reply [s]; whether it arrived
        self._hardware = Hardware.ideal(robot, dt) if hardware is None else hardware
        self._progress = progress
        self._watch = watch

    def run(self, duration: float, pushes: Sequence[Push] = (), posture: Posture | None = None) -> Trace:
        """Run in lock-step: each tick waits for its reply, without pacing. Returns the trace.

        duration: simulated time [s]
        pushes: external forces
        posture: if given, the run ends with the first state of a fall, which the server still sees. It goes on after a stop by
            the failsafe, which is not reset here: a stopped robot may stand or fall
        """
        ticks = round(duration / self._dt)
        trace = TraceWriter(self.world.robot, ticks)
        for _ in range(ticks):
            fell = posture is not None and not posture.upright(self.world.q[None])
            if not self._tick(trace, pushes):
                break
            if fell:
                break
        return trace.trace()

    def run_paced(self, duration: float, pushes: Sequence[Push] = (), *, waits: bool = False) -> Trace:
        """Run in real time or slower and return the trace.

        duration: simulated time [s]
        pushes: external forces
        waits: whether simulated time stops until a late reply arrives; otherwise the world continues without the reply. When no
            reply arrives within the client's deadline, the world continues by the waiting time in both cases
        A pause of this process itself is not counted and always delays the simulation.
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
                waited = min(self._waited, self._client.deadline)  # a longer wait is a pause of this process
                lost = min(pacer.skipped - skipped, int(waited / self._dt))
                for _ in range(min(lost, ticks - len(trace))):
                    self._tick(trace, pushes, ask=False)
        return trace.trace()

    @property
    def stopped(self) -> bool:
        """Return true when the failsafe has stopped the robot until `reset`."""
        return self._failsafe.stopped

    def reset(self) -> bool:
        """Reset server and failsafe after a stop. Return False when the server refuses, for instance because the robot moves.

        Raises ConnectionFailed without a reply.
        """
        q, vel, imu = self._sent(State(q=self.world.q, v=self.world.v))
        answer = self._client.ask(Reset(session=self._client.session, q=q, vel=vel, imu=imu))
        if not isinstance(answer, ResetAck):
            return False
        self._failsafe.reset()
        return True

    def _tick(self, trace: TraceWriter, pushes: Sequence[Push], *, ask: bool = True) -> bool:
        """Run one period; return False when the state of the world is non-finite.

        ask: whether to exchange messages with the server
        """
        world, hardware = self.world, self._hardware
        trace.state(world.t, world.q, world.v, perf_counter())
        measured = hardware.sensors.measure(world.state)
        reply = self._exchange(measured, trace) if ask else ExchangeResult()
        angles, speeds = world.robot.joint_angles(measured.q), measured.v[world.robot.tree.a]
        command, mode = self._failsafe.torque(self._now_ns(), angles, speeds, reply.command, fault=reply.fault)
        tau = hardware.actuators.apply(command)
        trace.command(tau, reply.mode if mode is FailsafeMode.OK else f"failsafe:{mode}", reply.round_trip)
        result = world.step(tau, self._dt, pushes)
        hardware.feet.record(result, self._dt)
        trace.world(result.contacts, result.beside)
        trace.simulated(result.contacts.keys, result.force, result.status)
        if self._progress is not None and len(trace) % PROGRESS_TICKS == 0:
            self._progress(PROGRESS_TICKS)
        if self._watch is not None:
            self._watch(trace)
        self._applied = tau
        self._answered_ns = reply.command.t_ns if reply.command is not None else self._answered_ns
        return result.status is not Status.NON_FINITE

    def _exchange(self, measured: State, trace: TraceWriter) -> ExchangeResult:
        """Send the measured state and return the result; records the reply in the trace."""
        state = self._message(measured)
        begin = perf_counter()
        try:
            reply = self._client.exchange(state)
            command = None if reply is None else drive_command(reply, self.world.robot.na)
        except ProtocolError as error:  # a malformed reply counts as a missing one
            reply = command = None
            self._count_refusal(error.code, f"malformed reply: {error}")
        self._waited = perf_counter() - begin
        self._answered = command is not None
        if reply is None or command is None:
            refusal = self._client.error
            if refusal is not None:
                self._count_refusal(refusal.code, f"the server refused the state: {refusal.message}")
                trace.refused(refusal.code, refusal.message)
            return ExchangeResult(fault=refusal is not None and refusal.code is Code.LATCHED_FAULT)
        trace.reply(reply)
        return ExchangeResult(command, reply.status, self._waited, fault=reply.status == "fault")

    def _message(self, measured: State) -> StateMessage:
        q, vel, imu = self._sent(measured)
        felt = np.zeros(self.world.robot.na) if self._applied is None else self._applied
        return StateMessage(
            q=q,
            vel=vel,
            t_robot=self._now_ns(),
            t_applied=self._answered_ns,
            tau_applied=None if self._applied is None else self._applied.tobytes(),
            tau_meas=None if imu is None else felt.tobytes(),
            imu=imu,
            contacts=self._hardware.feet.contacts(self.world.contacts),
        )

    def _sent(self, measured: State) -> tuple[bytes, bytes, Imu | None]:
        """Return q and vel of a message, and the readings of the IMU if the robot does not measure its base."""
        unit, q, v = self._hardware.imu, measured.q, measured.v
        if unit is None:
            return q.tobytes(), v.tobytes(), None
        return q[BASE_Q:].tobytes(), v[BASE_V:].tobytes(), unit.read(self.world.t, self.world.state, measured)

    def _count_refusal(self, code: str, reason: str) -> None:
        if not self.refused[code]:
            log.warning("no torque received at %.3f s: %s (%s)", self.world.t, printable(reason), code)
        self.refused[code] += 1

    def _now_ns(self) -> int:
        return round(self.world.t * 1e9)


M = TypeVar("M", StateMessage, TorqueMessage)


class Relay:
    """An exchanger in front of another one, whose session and deadline it has."""

    def __init__(self, client: Exchanger) -> None:
        self._client = client
        self.error: ErrorMessage | None = None

    @property
    def session(self) -> int:
        return self._client.session

    @property
    def deadline(self) -> float:
        return self._client.deadline

    def ask(self, message: FromClient) -> FromServer:
        """Send any message but a state and return the reply, without delay or loss."""
        return self._client.ask(message)


class Link(Relay):
    """A client with a link that delays and loses messages.

    Time is the robot's clock. If several states or torques arrive in the same tick, only the newest is delivered.
    """

    def __init__(self, client: Exchanger, settings: LinkSettings, dt: float, seed: int | None) -> None:
        """dt: period of the ticks [s]"""
        super().__init__(client)
        self._state_delay, self._torque_delay = (
            round(ticks * dt * 1e9) for ticks in (settings.state_delay, settings.torque_delay)
        )
        self._lost_states = Losses(settings.lost_states, dt, stream(seed, Purpose.LOST_STATES))
        self._lost_torques = Losses(settings.lost_torques, dt, stream(seed, Purpose.LOST_TORQUES))
        self._states: deque[tuple[int, StateMessage]] = deque()
        self._torques: deque[tuple[int, TorqueMessage]] = deque()
        self._begun = False

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        """Send the state of this tick and return the torque that arrives in this tick, None without one."""
        now, late = state.t_robot, self._begun
        self._begun, self.error = True, None
        lost_state, lost_torque = self._lost_states.next(), self._lost_torques.next()
        if not lost_state:
            self._states.append((now + (self._state_delay if late else 0), state))
        arrived = _newest(self._states, now)
        if arrived is not None:
            torque = self._client.exchange(arrived)
            self.error = None if lost_torque else self._client.error
            if torque is not None and not lost_torque:
                self._torques.append((now + (self._torque_delay if late else 0), torque))
        return _newest(self._torques, now)


class Losses:
    """Random losses of the messages of one direction."""

    def __init__(self, settings: Loss, dt: float, rng: np.random.Generator) -> None:
        """dt: period of the ticks [s]"""
        self._probability = settings.probability
        self._begins = -float(np.expm1(-settings.rate * dt))
        self._length, self._every = round(settings.length / dt), round(settings.every / dt)
        self._tick, self._at, self._left = 0, -1, 0
        self._never = not (settings.probability or settings.rate or settings.every)
        self._rng = rng

    def next(self) -> bool:
        """Return true when the message of this tick is lost. Draws two random numbers, unless no message is ever lost."""
        if self._never:
            return False
        single, burst = self._rng.random(2)
        due = self._is_due(burst)
        if self._left == 0 and (due or burst < self._begins):
            self._left = self._length
        in_burst = self._left > 0
        self._left -= in_burst
        return bool(in_burst or single < self._probability)

    def _is_due(self, burst: float) -> bool:
        """Return true when the burst of the current period of `every` begins.

        burst: uniform random number in [0, 1); that of a period's first tick decides in which tick the burst begins
        """
        if not self._every:
            return False
        moment, self._tick = self._tick % self._every, self._tick + 1
        if moment == 0:
            self._at = round((0.25 + 0.5 * burst) * self._every)
        return moment == self._at


def _newest(queue: deque[tuple[int, M]], now: int) -> M | None:
    """Remove all messages with arrival time ≤ now [ns] and return the newest of them, None without any."""
    newest = None
    while queue and queue[0][0] <= now:
        newest = queue.popleft()[1]
    return newest
