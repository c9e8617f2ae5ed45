"""Warm-up: compile or load all kernels of a controller and of the service, before a client connects and while it runs."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import numpy as np

from controllers.build import controller_from_snapshot
from controllers.controller import Controller
from idyn.jit.compiled import CompileTask, compiling
from idyn.prediction.precompile import CompileTasks
from idyn.prediction.rungs import defer, loaded
from idyn.types import ContactSet
from transport.protocol.joint_map import BASE_Q, BASE_V
from transport.protocol.messages.requests import Reset
from transport.protocol.messages.state import Contact, Imu, Reference, StateMessage
from transport.robot.client import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

TICKS = 10  # number of states of each kind

TICK_NS = 1_000_000

SWAY = 1e-3  # speed of every joint in every second state [rad/s]; states at rest take other branches


def warm_up(controller: Controller, settings: ServerSettings, tasks: CompileTasks | None = None) -> None:
    """Run compile tasks; then send encoded states of every kind in the stance to a service, and reset the controller.

    The controller is also reset before each kind of state.
    tasks: `controller.compile_tasks()`, of which the needed ones are run; None: all are run
    """
    run = controller.compile_tasks() if tasks is None else tasks
    for task in run.needed + (run.deferred if tasks is None else []):
        task()
    robot = controller.robot
    clock = iter(range(0, 10**12, TICK_NS))
    service, client = connected(controller, settings, clock.__next__)
    q, rest = controller.stance.tobytes(), np.zeros(robot.nv).tobytes()
    speeds = (rest, np.full(robot.nv, SWAY).tobytes())
    t_robot = 0
    for extra in _kinds(controller):
        client.ask(Reset(session=client.session, q=q, vel=rest))
        for tick in range(TICKS):
            t_robot += TICK_NS
            client.exchange(StateMessage(q=q, vel=speeds[tick % 2], t_robot=t_robot, **extra))  # type: ignore[arg-type]
    if controller.estimator() is not None:
        _warm_up_estimator(controller, service, clock.__next__)
    controller.reset()


def connected(controller: Controller, settings: ServerSettings, clock: Callable[[], int]) -> tuple[Service, Loopback]:
    """Return a service and its client, which has said hello: kernels of the service are compiled. clock: time [ns]"""
    service = Service(controller, settings)
    client = Loopback(service, hello_for(controller.robot, TICK_NS * 1e-9, kind="sim"), clock=clock)
    client.hello()
    return service, client


def _warm_up_estimator(controller: Controller, service: Service, clock: Callable[[], int]) -> None:
    """Send states without a base."""
    robot, q = controller.robot, controller.stance[BASE_Q:].tobytes()
    level = Imu(quat=[0.0, 0.0, 0.0, 1.0], gyro=[0.0] * 3, acc=(-np.array(robot.bodies.gravity)).tobytes())
    client = Loopback(service, hello_for(robot, TICK_NS * 1e-9, kind="sim", measured="imu"), clock=clock)
    client.hello()
    rest, no_torque = np.zeros(robot.nv - BASE_V).tobytes(), np.zeros(robot.na).tobytes()
    for tick in range(TICKS):
        client.exchange(StateMessage(q=q, vel=rest, t_robot=(tick + 1) * TICK_NS, tau_meas=no_torque, imu=level))


def _kinds(controller: Controller) -> Iterator[dict[str, object]]:
    """Yield the optional fields of states, kind by kind."""
    robot, q = controller.robot, controller.stance
    contacts = controller.contacts(q)
    zero = np.zeros(robot.na)
    applied = zero.tobytes()
    yield {}
    yield {"tau_applied": applied}
    yield {"contacts": []}
    yield {"contacts": _reported(contacts, 0.0, sensed=False)}
    yield {"contacts": _reported(contacts, 0.0, sensed=True), "tau_applied": applied}
    yield {"contacts": _reported(contacts, 1e-3, sensed=True)[1:], "tau_applied": applied}
    angles = robot.joint_angles(q).tobytes()
    yield {"ref": Reference(q=angles, v=applied, a=applied), "tau_applied": applied}


def _reported(contacts: ContactSet, dist: float, *, sensed: bool) -> list[Contact]:
    """Return contacts as a robot reports them, with or without tangents and measured forces."""
    carried = np.zeros(3).tobytes()
    return [
        Contact(
            frame=key,
            p=contacts.points[i].tobytes(),
            n=contacts.normals[i].tobytes(),
            dist=dist,
            t1=contacts.tangents[i].tobytes() if sensed else None,
            f_sensed=carried if sensed else None,
            sensed_valid=sensed,
        )
        for i, key in enumerate(contacts.keys)
    ]


log = logging.getLogger(__name__)


class NotCached(Exception):
    """A kernel is not in the cache."""


class Precompilation:
    """Precompilation of one controller. Use: `run`, then `start_rest` when clients can connect, and `close`.

    When the second process fails, needed kernels are compiled here and predictions do without the deferred ones.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        tasks = controller.compile_tasks()
        self._done, self._total = 0, len(tasks.needed)
        self._tasks: CompileTasks = tasks._replace(needed=[partial(self._run_task, task) for task in tasks.needed])
        self._loader: threading.Thread | None = None
        self._closed = False
        self.helper: subprocess.Popen[bytes] | None = None

    @property
    def complete(self) -> bool:
        """Whether everything is loaded."""
        return self._loader is None or not self._loader.is_alive()

    def run(self, settings: ServerSettings) -> None:
        """Compile or load the needed kernels and log progress; load the deferred ones if they are cached."""
        defer(self._tasks.parts)
        with compiling(self._tell):
            warm_up(self._controller, settings, self._tasks)
        if self.helper is None:
            self._load_cached()

    def finish(self) -> None:
        """Compile or load the deferred kernels now."""
        if self.helper is not None:
            log.info("compiling the kernels of the fallback cascade")
            self.helper.wait()
        with compiling(log.debug):
            for task in self._tasks.deferred:
                task()
        loaded(self._tasks.parts)

    def start_rest(self) -> None:
        """Load the deferred kernels in a thread, unless they are loaded."""
        if self._tasks.deferred:
            self._loader = threading.Thread(target=self._load_rest, name="kernels", daemon=True)
            self._loader.start()

    def close(self) -> None:
        """End the second process. What it has not compiled is compiled by the next server."""
        self._closed = True
        if self.helper is not None and self.helper.poll() is None:
            self.helper.kill()
            self.helper.wait()

    def start_helper(self) -> None:
        """Start the second process."""
        try:
            program = f"import idyn; import {__name__} as kernels; kernels.main()"  # idyn first: see `idyn.siblings`
            self.helper = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
            assert self.helper.stdin is not None
            with self.helper.stdin as pipe:
                pipe.write(msgspec.msgpack.encode(self._controller.snapshot()))
        except OSError as error:  # out of processes or memory, or the process has ended already
            log.warning("no second process to compile kernels: %s", error)

    def _run_task(self, task: CompileTask) -> None:
        task()
        self._done += 1

    def _tell(self, news: str) -> None:
        part = f"task {self._done + 1} of {self._total}" if self._done < self._total else "first ticks"
        log.info("%s; %s", news, part)
        if self.helper is None:
            self.start_helper()

    def _load_cached(self) -> bool:
        """Load the deferred kernels if all of them are in the cache."""

        def refuse(_: str) -> None:
            raise NotCached

        try:
            with compiling(refuse):
                for task in self._tasks.deferred:
                    task()
        except NotCached:
            return False
        loaded(self._tasks.parts)
        self._tasks = self._tasks._replace(deferred=[])
        return True

    def _load_rest(self) -> None:
        if self.helper is None:
            self.start_helper()
        ended = self.helper.wait() if self.helper is not None else 1
        if self._closed:
            return
        if self._load_cached():
            log.info("all kernels are loaded")
        else:
            missing = ", ".join(sorted(self._tasks.parts))
            log.warning("predictions do without %s: the process that compiles them ended with exit code %d", missing, ended)


def main() -> None:
    """Second process: compile the service's kernels, the needed ones from the end of their list, then the deferred ones."""
    controller = controller_from_snapshot(msgspec.msgpack.decode(sys.stdin.buffer.read()))
    tasks = controller.compile_tasks()
    with compiling(log.debug):
        connected(controller, ServerSettings(controller=""), time.monotonic_ns)
        for task in reversed(tasks.needed):
            task()
        os.nice(10)  # the server is running or about to
        for task in tasks.deferred:
            task()
