"""One fault: a standing robot, a server behind a real socket, and a fault between them. World and robot side wait for each
other, in the robot's time, so that no outcome depends on the load of the machine. `Trial.judged` checks in every trial: no
non-finite torque, none beyond a limit, and none that follows an answer beyond its `valid_until`."""

import multiprocessing
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import sleep
from typing import Any, TypeVar

import msgspec
import numpy as np

from controllers.build import controller_from_snapshot, load_controller
from sim_harness.measure.trace import Trace
from sim_harness.robot.robot_side import RobotSide
from sim_harness.run.plan import load_plan, simulated_robot
from transport.keys import Keys
from transport.log.provenance import attachments, metadata
from transport.log.recorder import PART_BYTES, Recorder
from transport.protocol.messages.requests import ClientKind, Hello
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.robot.client import Conversation, RobotClient, hello_for
from transport.server.process import NOBODY, Systemd
from transport.server.reconfigure import ControllerBuilder
from transport.server.service import Service
from transport.server.sessions.latches import Fault
from transport.server.settings import ServerSettings, WatchdogSettings
from transport.server.sockets.router import Router
from transport.server.sockets.scheduling import Anticipation
from transport.startup.serve import stop_on_signals
from transport.startup.warm_up import warm_up

T = TypeVar("T")
PATIENCE_MS = 20_000  # a busy machine may take its time
BEFORE, AFTER = 60, 200  # ticks of health around a fault
ONCE, LONG = 1, 150  # how many ticks a fault lasts: one, or longer than the robot's own side waits for answers


class Server:
    """A quadruped's server behind its own socket; it runs in a thread from `begin` on, or in the caller of `serve`."""

    def __init__(self, folder: Path, *, tcp: bool = False, part_bytes: int = PART_BYTES, **settings: Any) -> None:
        """settings: further ones of the server"""
        self.settings = ServerSettings(
            controller="quadruped",
            max_state_age_ms=1000.0,
            watchdog=WatchdogSettings(silence_ms=1e4),  # a busy machine is no silent robot
            planners=("mpc", "joystick"),
            estops=("button",),
            **settings,
        )
        self.controller = load_controller("quadruped")
        warm_up(self.controller, self.settings)
        self.recorder: Recorder | None = None
        self.part_bytes = part_bytes
        self.faults: list[str] = []
        self.address = "tcp://127.0.0.1:*" if tcp else f"ipc://{folder}/s"
        self._stop = threading.Event()

    def begin(self, log: Path | None = None) -> None:
        router = self._router(log)
        self._stop.clear()
        self.address = router.endpoint
        self._thread = threading.Thread(target=self._run, args=(router,))
        self._thread.start()

    def serve(self, log: Path | None = None) -> None:
        """Until the process ends."""
        self._run(self._router(log))

    def serve_with_signals(self) -> None:
        """As `idyn serve`: until a signal ends the process."""
        router = self._router(None)
        self._stop.clear()
        stop_on_signals(self._stop)
        self._run(router)

    def serve_watched(self, environment: dict[str, str]) -> None:
        """As a service of systemd, until the process ends. SIGUSR1 makes the loop hang."""
        signal.signal(signal.SIGUSR1, lambda *_: sleep(3600.0))  # handlers run in the main thread, as the loop does
        systemd, router = Systemd(environment), self._router(None)
        systemd.ready("serving")
        self._run(router, systemd)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _router(self, log: Path | None) -> Router:
        if log is not None:
            parts = attachments(self.controller.snapshot(), self.settings), metadata(self.controller.robot, None)
            self.recorder = Recorder(log, *parts, part_bytes=self.part_bytes)
        builder = ControllerBuilder(controller_from_snapshot, in_thread=True)
        service = Service(self.controller, self.settings, recorder=self.recorder, builder=builder)
        return Router(service, self.address, self._note, Anticipation(lead_us=250.0), self.settings.curve)

    def _note(self, fault: Fault) -> None:
        self.faults.append(fault.reason)

    def _run(self, router: Router, systemd: Systemd = NOBODY) -> None:
        with router:
            router.run(self._stop, systemd)


@contextmanager
def serving(folder: Path, *, log: Path | None = None, **settings: Any) -> Iterator[Server]:
    """A server that runs. settings: of `Server`"""
    server = Server(folder, **settings)
    server.begin(log)
    try:
        yield server
    finally:
        server.end()


class Wire(Conversation):
    """Changes the bytes of states on their way out."""

    change: Callable[[bytes], bytes] = staticmethod(lambda data: data)
    sent = b""

    def ask(self, state: StateMessage, now_ns: int) -> bytes:
        self.sent = self.change(super().ask(state, now_ns))
        return self.sent


class Client(RobotClient):
    """A robot's client with things that can go wrong in it; each is asked once a tick."""

    def __init__(self, address: str, hello: Hello, keys: Keys | None) -> None:
        super().__init__(address, hello, deadline_ms=PATIENCE_MS, keys=keys)
        self._conversation = self.wire = Wire()
        self.received: list[TorqueMessage] = []
        self.heal()

    def heal(self) -> None:
        """End all faults."""
        self.deadline = PATIENCE_MS * 1e-3
        self.change_state: Callable[[StateMessage], StateMessage] = lambda state: state
        self.lose_state: Callable[[], bool] = lambda: False
        self.lose_answer: Callable[[], bool] = lambda: False
        self.repeat = 0  # how often a state is sent once more
        self.swap = False  # every other state arrives after the next one one
        self._kept: list[bytes] = []
        self.wire.change = lambda data: data

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        self.error = None
        state = self.change_state(state)
        if self.lose_state():
            self.wire.ask(state, 0)  # it has its number, and is never seen
            return None
        if self.swap and not self._kept:
            self._kept.append(self.wire.ask(state, 0))
            return None
        reply = super().exchange(state)
        for data in (*self._kept, *[self.wire.sent] * self.repeat):
            self._socket.send(data)
        self._kept.clear()
        if reply is None or self.lose_answer():
            return None
        self.received.append(reply)
        return reply


class Trial:
    """A robot that stands, with its client."""

    def __init__(
        self, server: Server, kind: ClientKind = "sim", *, address: str = "", keys: Keys | None = None, greet=True, **more: Any
    ) -> None:
        """address: instead of the server's own; greet: say hello, to a server that runs; more: fields of the hello"""
        plan = load_plan("stand")
        self.server = server
        self.robot = server.controller.robot
        hello = msgspec.structs.replace(hello_for(self.robot, 1e-3, kind=kind), **more)
        self.client = Client(address or server.address, hello, keys)
        self.side: RobotSide = simulated_robot(plan, self.client)
        self.world: Any = self.side.world
        if greet:
            self.client.hello()

    def close(self) -> None:
        self.client.heal()
        self.put_back_on_its_feet()
        self.side.reset()  # an emergency stop outlives the session
        self.client.close()

    def run(self, ticks: int) -> Counter[str]:
        """Simulate so many ticks; return the number of ticks in each mode."""
        return self.judged(self.side.run(ticks * 1e-3))

    def stands(self, ticks: int = BEFORE) -> None:
        assert set(self.run(ticks)) == {"ok"}

    def during(self, work: Callable[[], T], modes: Collection[str] = ("ok",)) -> T:
        """The result of `work` in a thread, while the robot goes on in these modes."""
        with ThreadPoolExecutor(1) as pool:
            result = pool.submit(work)
            while not result.done():
                assert set(self.run(10)) <= set(modes)
        return result.result()

    def stops_without_answers(self) -> None:
        """Simulate for longer than the robot waits for answers; it then holds its posture."""
        self.client.deadline = 0.0
        self.run(LONG)
        assert set(self.run(AFTER)) == {"failsafe:stopped"}

    def recovers(self) -> None:
        """The robot stands again after a reset."""
        self.put_back_on_its_feet()
        assert self.side.reset()
        self.stands()

    def judged(self, trace: Trace) -> Counter[str]:
        """Return the number of ticks in each mode, after checking what holds in every trial."""
        modes = [trace.modes[i] for i in trace.mode]
        limits = self.robot.limits
        tau_max = limits.tau_max
        q, v = trace.q[:, -self.robot.na :], trace.v[:, -self.robot.na :]
        outward = ((q >= limits.q_max) | (v >= limits.v_max)) & (trace.tau > 0.0)
        inward = ((q <= limits.q_min) | (v <= -limits.v_max)) & (trace.tau < 0.0)
        assert not (outward | inward).any(), "a torque drove a joint beyond its position or speed limit"
        assert np.isfinite(trace.tau).all(), "a torque that is no number reached the motors"
        assert (np.abs(trace.tau) <= tau_max * (1 + 1e-12)).all(), "a torque beyond its limit reached the motors"
        for reply in self.client.received:
            tau = np.frombuffer(reply.tau)
            assert np.isfinite(tau).all(), "a torque that is no number left the server"
            assert (np.abs(tau) <= tau_max * (1 + 1e-12)).all(), "a torque beyond its limit left the server"
        self._check_stale(modes)
        return Counter(modes)

    def _check_stale(self, modes: list[str]) -> None:
        """Nothing follows an answer for longer than it is valid: 20 ms."""
        followed = 0
        for mode in modes:
            followed = followed + 1 if mode == "failsafe:follow" else 0
            assert followed < 20, "an answer was followed beyond its valid_until"

    def put_back_on_its_feet(self) -> None:
        """Put the robot into its stance, as an operator would before a reset."""
        self.world.reset(self.server.controller.stance)


@contextmanager
def greeted(folder: Path, kind: ClientKind = "sim", *, keys: Keys | None = None, **settings: Any) -> Iterator[Trial]:
    """A robot after `hello`, with a server of its own. settings: of `serving`"""
    with serving(folder, **settings) as server:
        trial = Trial(server, kind, keys=keys)
        yield trial
        if server.alive:
            trial.close()
        trial.client.close()


@contextmanager
def standing(folder: Path, kind: ClientKind = "sim", *, keys: Keys | None = None, **settings: Any) -> Iterator[Trial]:
    """A robot that has stood for a while, with a server of its own. settings: of `serving`"""
    with greeted(folder, kind, keys=keys, **settings) as trial:
        trial.stands()
        yield trial


@contextmanager
def forked(work: Callable[..., None], *arguments: object) -> Iterator[BaseProcess]:
    """Run `work` in a process of its own, which ends with the block."""
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def resident_mb(process: int | str = "self") -> float:
    return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * 4096e-6
