"""Runs of an experiment: a simulated robot with a torque server, one run for each law, and the saved data."""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from controllers.build import build_controller
from controllers.config.loading import parse
from controllers.config.tables import KIND, Table, kind_of
from controllers.controller import Controller
from controllers.planners.getting_up import GetUpSettings
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.fall import Posture
from sim_harness.measure.metrics import Summary, summarise
from sim_harness.measure.trace import Trace, TraceWriter
from sim_harness.measure.verdict import Task
from sim_harness.robot.robot_side import Exchanger, Relay
from sim_harness.run.plan import Plan, hello_of, pushes_of, simulated_robot, terrain_of, with_controller, with_reseeded_terrain
from sim_harness.run.server_process import ServerProcess
from transport.keys import Keys
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.robot.client import DEADLINE_MS, RobotClient
from transport.server.service import Service
from transport.server.sessions.latches import STANDS
from transport.startup.loopback import Loopback

NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")

MOST_LINES = 20


class Listener(Relay):
    """Collects what replies say. Messages that differ by numbers only count as one."""

    def __init__(self, client: Exchanger) -> None:
        super().__init__(client)
        self._messages: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._tasks: dict[str, tuple[int, int, float]] = {}  # name → ticks, ticks in which it was met, largest missing

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        reply = self._client.exchange(state)
        self.error = self._client.error
        if reply is not None:
            if reply.message:
                kind = NUMBER.sub("#", reply.message)
                self._first.setdefault(kind, reply.message)
                self._messages[kind] += 1
            for task in reply.tasks:
                ticks, met, missing = self._tasks.get(task.name, (0, 0, 0.0))
                self._tasks[task.name] = ticks + 1, met + task.met, max(missing, task.missing)
        return reply

    @property
    def steered(self) -> bool:
        """Whether replies show that commands were in force: they report tasks, or that the last command has expired."""
        return bool(self._tasks) or any(STANDS in message for message in self._messages)

    def report(self) -> tuple[str, ...]:
        """Return what was said, one line each."""
        said = [f"in {count} ticks: {self._first[kind]}" for kind, count in self._messages.most_common(MOST_LINES)]
        tasks = [
            f"task {name}: met in {met} of {ticks} ticks, at most {missing:.3g} m/s², rad/s² or N off"
            for name, (ticks, met, missing) in self._tasks.items()
        ]
        return (*said, *tasks[:MOST_LINES])


MOST = 8  # largest number of differing settings that are named


def served_controller(settings: Table) -> ControllerSettings:
    """Return the controller settings of a `welcome`. Raises ConfigError for settings of a server with other kinds or names."""
    return parse(settings, ControllerSettings, "welcome.controller")


def other_controller(plan: Plan, served: ControllerSettings) -> str:
    """Return how the server's controller differs from the one that the experiment asks for, '' if it does not.

    Any of the experiment's laws will do. The robot is compared by the server, when the session starts.
    """
    asked = [with_controller(plan, {"law": law}).controller for law in plan.settings.laws]
    nearest = next((each for each in asked if kind_of(each.law) == kind_of(served.law)), asked[0])
    found = list(_differences(msgspec.to_builtins(nearest), msgspec.to_builtins(served), ""))
    found.sort(key=lambda text: f"{KIND} = " not in text)  # kinds first
    if not found:
        return ""
    more = f", and {len(found) - MOST} more" if len(found) > MOST else ""
    return f"the server runs another controller than the experiment asks for: {', '.join(found[:MOST])}{more}"


def _differences(ours: Table, theirs: Table, path: str) -> Iterator[str]:
    """Yield settings that differ, with both values; of tables of different kinds only the kind."""
    if KIND in ours and ours[KIND] != theirs.get(KIND):
        yield f"{path}{KIND} = {theirs.get(KIND)!r} instead of {ours[KIND]!r}"
        return
    for key, own in ours.items():
        other = theirs.get(key)
        if isinstance(own, dict) and isinstance(other, dict):
            yield from _differences(own, other, f"{path}{key}.")
        elif own != other and f"{path}{key}" != "robot":
            yield f"{path}{key} = {_brief(other)} instead of {_brief(own)}"


def _brief(value: Any) -> str:
    return repr(value.get(KIND)) if isinstance(value, dict) else repr(value)


Progress = Callable[[str, int], None]  # called with the label of a run and the number of ticks since the last call


LOCK_STEP_MS = 30_000
"""Longest time for which a world in lock-step waits for a reply [ms]; a later one means that the server has ended."""

Watch = Callable[[str, TraceWriter], None]
"""Called with the label and the trace of a run at the end of each tick, inside its loop."""

TRACE, CONTROLLER, SUMMARY = "trace.npz", "controller.json", "summary.json"
"""Files in the folder of a run: its trace, a snapshot of the controller with robot and ground, and its figures."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run of one law."""

    summary: Summary
    trace: Trace
    # its settings, with the terrain of this run; of a run with `run_connected` those of the server
    controller: ControllerSettings
    log: Path | None  # path of its log, if there is one
    # of a run with `run_connected`: how the server's controller differs from the plan's, messages, tasks of planners
    said: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """Write the data that `idyn view` needs to a folder, which is created if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        self.trace.save_npz(folder / TRACE)
        snapshot = build_controller(self.controller).snapshot()
        (folder / CONTROLLER).write_text(json.dumps(snapshot, indent=1), encoding="utf-8")
        (folder / SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(self.summary)))


def run_served(
    plan: Plan, label: str, progress: Progress, *, seed: int | None = None, log: Path | None = None, watch: Watch | None = None
) -> Run:
    """Run with a server process over ipc. Arguments as of `run_in_process`."""
    plan = plan if seed is None else with_reseeded_terrain(plan, seed)
    robot, _ = load_robot(plan.controller.robot)
    with tempfile.TemporaryDirectory(prefix="idyn-") as sockets:
        settings = msgspec.structs.replace(plan.server, law=None, endpoint=f"ipc://{sockets}/server")
        with (
            ServerProcess(settings, plan.controller, log) as server,
            _client(plan, server.endpoint, robot) as client,
        ):
            client.hello()
            trace = _drive(plan, client, label, progress, paced=plan.settings.paced, seed=seed, watch=watch)
    return Run(summary=_summary(plan, trace, label), trace=trace, controller=plan.controller, log=log)


def run_connected(
    plan: Plan, address: str, label: str, progress: Progress, watch: Watch | None = None, keys: Keys | None = None
) -> Run:
    """Run the simulated robot with the server at `address`. The task is that of the server's controller.

    Raises ConnectionFailed if no server answers, ConfigError for a controller with unknown settings.
    """
    robot, stance = load_robot(plan.controller.robot)
    with _client(plan, address, robot, keys) as client:
        served = served_controller(client.hello().controller)
        listener = Listener(client)
        trace = _drive(plan, listener, label, progress, paced=plan.settings.paced, watch=watch)
    other = other_controller(plan, served)
    task = msgspec.structs.replace(task_of(served, stance), terrain=terrain_of(plan), steered=listener.steered)
    return Run(
        summary=_summary(plan, trace, label, task),
        trace=trace,
        controller=served,
        log=None,
        said=((other,) if other else ()) + listener.report(),
    )


def run_in_process(
    plan: Plan,
    label: str,
    progress: Progress,
    *,
    seed: int | None = None,
    log: Path | None = None,
    watch: Watch | None = None,
    controller: Controller | None = None,
) -> Run:
    """Run robot and service in one process, in lock-step, with encoded messages. A fall ends the run.

    seed: of the perturbation and of the robot's imperfections, also added to the seeds of terrains; None: no perturbation
    log: path of a log of all messages; controller: None: that of the plan
    """
    plan = plan if seed is None else with_reseeded_terrain(plan, seed)
    controller = controller or build_controller(plan.controller)
    recorder = None
    if log is not None:
        recorder = Recorder(log, attachments(controller.snapshot(), plan.server), metadata(controller.robot, seed))
    try:
        client = Loopback(
            Service(controller, plan.server, recorder=recorder),
            hello_of(plan, controller.robot),
        )
        client.hello()
        trace = _drive(plan, client, label, progress, paced=False, seed=seed, watch=watch)
    finally:
        if recorder is not None:
            recorder.close()
    return Run(summary=_summary(plan, trace, label), trace=trace, controller=plan.controller, log=log)


def _client(plan: Plan, address: str, robot: Robot, keys: Keys | None = None) -> RobotClient:
    """Return a client that waits for a reply for the time `patience` or, in lock-step, `LOCK_STEP_MS`."""
    patience = round(1e3 * plan.settings.patience) or DEADLINE_MS
    deadline = patience if plan.settings.paced else LOCK_STEP_MS
    return RobotClient(address, hello_of(plan, robot), deadline_ms=deadline, keys=keys)


def _drive(
    plan: Plan,
    client: Exchanger,
    label: str,
    progress: Progress,
    *,
    paced: bool,
    seed: int | None = None,
    watch: Watch | None = None,
) -> Trace:
    settings = plan.settings
    follow = None if watch is None else partial(watch, label)
    side = simulated_robot(plan, client, progress=lambda ticks: progress(label, ticks), seed=seed, watch=follow)
    pushes = pushes_of(plan, load_robot(plan.controller.robot)[0])
    if paced:
        return side.run_paced(settings.duration, pushes, waits=settings.patience > 0.0)
    rises = isinstance(plan.controller.reference, GetUpSettings)  # it lies at first, and a fall may not be the end
    posture = None if rises else Posture(side.world.robot, side.world.terrain, side.world.q)
    return side.run(settings.duration, pushes, posture)


def _summary(plan: Plan, trace: Trace, label: str, task: Task | None = None) -> Summary:
    """Return the figures of a run. task: default that of the plan's controller in the world of the plan"""
    robot, stance = load_robot(plan.controller.robot)
    return summarise(
        trace,
        robot,
        task or msgspec.structs.replace(task_of(plan.controller, stance), terrain=terrain_of(plan)),
        label=label,
        engine=str(kind_of(plan.settings.engine)),
        ticks=plan.ticks,
        dt=plan.controller.period,
    )


def task_of(controller: ControllerSettings, stance: Array) -> Task:
    """Return what a robot with this controller has to do, on the ground of the controller's model. stance: of the robot (nq)"""
    contact, grip = controller.contact, controller.grip
    return Task(
        terrain=contact.terrain.build(contact.ground),
        reference=controller.reference,
        law=str(kind_of(controller.law)),
        gripping=() if grip is None else grip.joints,
        stance=stance if isinstance(controller.reference, GetUpSettings) else None,
    )
