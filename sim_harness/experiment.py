"""An experiment: a simulated robot against a torque server, once for each law, with everything kept."""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controllers.config import NonNegative, Settings, load, parse
from controllers.controller import ControllerSettings, build_controller, check_law
from controllers.robots import load_robot
from controllers.terrain import make_terrain, reseeded, resting
from idyn.errors import ConfigError
from idyn.robot import Robot
from idyn.terrain import Terrain
from idyn.types import Array
from sim_harness.fall import Posture
from sim_harness.foot_sensors import Report
from sim_harness.hardware import Hardware
from sim_harness.imperfections.bodies import joint_friction, world_robot
from sim_harness.imperfections.check import check_imperfections
from sim_harness.imperfections.link import Link
from sim_harness.imperfections.settings import ImperfectionSettings
from sim_harness.metrics import Summary, summarise
from sim_harness.perturbation import PerturbationSettings, perturbed
from sim_harness.pushes import PushSettings, push_of
from sim_harness.robot_side import Exchanger, RobotSide
from sim_harness.server_process import ServerProcess
from sim_harness.trace import Trace, TraceWriter
from sim_harness.world import Push
from sim_harness.worlds import build_world, load_engine
from transport.client import DEADLINE_MS, RobotClient
from transport.conversation import hello_for
from transport.failsafe import FailsafeSettings
from transport.loopback import Loopback
from transport.provenance import attachments, metadata
from transport.recorder import Recorder
from transport.service import Service
from transport.settings import ServerSettings

Progress = Callable[[str, int], None]
"""Called with the label of a run and the ticks done since the last call."""


LOCK_STEP_MS = 30_000
"""A world in lock-step waits so long for a reply [ms]: only a server that is gone takes longer."""

Watch = Callable[[str, TraceWriter], None]
"""Called with the label and the rows of a run at the end of each tick, inside its loop."""

TRACE, CONTROLLER = "trace.npz", "controller.json"
"""What a run leaves in its folder: its arrays, and the controller's snapshot, with robot and ground."""


class ExperimentSettings(Settings, frozen=True):
    """`configs/experiments/*.toml`.

    server: name or path of the server's configuration
    laws: run once with each
    controller: values that replace those of the server's controller, table by table
    engine, engine_settings: one of `sim_harness.worlds.NAMES` and its own settings
    duration: of one run [s]
    paced: in real time, with the server as slow as it is; otherwise in lock-step, as fast as possible, until a fall
    patience: paced, the world stands still for so long while a reply is late [s]: a slow machine then shows a slow walk. 0: it
        moves on, as a robot would
    failsafe: what the robot's own side does while no answer comes
    contacts: 'geometry' lets the server find them, 'message' sends what an ideal sensor would report, 'binary' which feet touch
    mu: friction coefficient of all contacts instead of the robot's and the terrain's own, may be inf; the controller believes
        in it too, unless its `contact.mu` says otherwise, or `robot.ground.mu` what the world has instead
    perturbation: of the first state, drawn from the seed of a run
    push: pushes
    robot: in what the simulated robot and its ground differ from what the controller believes
    """

    server: str
    laws: tuple[str, ...]
    duration: float
    controller: dict[str, Any] = msgspec.field(default_factory=dict)
    engine: str = "lcp"
    engine_settings: dict[str, Any] = msgspec.field(default_factory=dict)
    paced: bool = True
    patience: NonNegative = 0.0
    failsafe: FailsafeSettings = FailsafeSettings()
    contacts: Report = "geometry"
    mu: NonNegative | None = None
    perturbation: PerturbationSettings = PerturbationSettings()
    push: tuple[PushSettings, ...] = ()
    robot: ImperfectionSettings = ImperfectionSettings()


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One law's run. controller: what it was controlled with, on the ground that it had."""

    summary: Summary
    trace: Trace
    controller: ControllerSettings
    log: Path | None

    def save(self, folder: Path) -> None:
        """Write what it takes to look at the run again into a folder, which is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        self.trace.save_npz(folder / TRACE)
        snapshot = build_controller(self.controller).snapshot()
        (folder / CONTROLLER).write_text(json.dumps(snapshot, indent=1), encoding="utf-8")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with everything loaded and checked."""

    settings: ExperimentSettings
    server: ServerSettings
    controller: ControllerSettings

    @property
    def ticks(self) -> int:
        """Of one run."""
        return round(self.settings.duration / self.controller.period)


def load_plan(name_or_path: str, duration: float | None = None, engine: str | None = None) -> Plan:
    """Read an experiment and all it names. Raises ConfigError before anything runs.

    engine: instead of the experiment's, with its own defaults: an engine's settings mean nothing to another
    """
    settings = load("experiments", name_or_path, ExperimentSettings)
    if engine is not None and engine != settings.engine:
        settings = msgspec.structs.replace(settings, engine=engine, engine_settings={})
    if duration is not None:
        settings = msgspec.structs.replace(settings, duration=duration)
    return build_plan(settings)


def build_plan(settings: ExperimentSettings) -> Plan:
    """An experiment's settings with what they name. Raises ConfigError."""
    if not 0 < settings.duration < np.inf:
        raise ConfigError("experiment.duration", f"expected a finite number > 0, got {settings.duration}")
    if not settings.laws:
        raise ConfigError("experiment.laws", "expected at least one law")
    for law in settings.laws:
        check_law(law)
    server = load("server", settings.server, ServerSettings)
    controller = load("controllers", server.controller, ControllerSettings)
    if settings.mu is not None:
        believed = msgspec.structs.replace(controller.contact, mu=settings.mu)
        controller = msgspec.structs.replace(controller, contact=believed)
    load_engine(settings.engine, settings.engine_settings)
    plan = with_controller(Plan(settings=settings, server=server, controller=controller), settings.controller)
    robot, _ = load_robot(plan.controller.robot)
    check_imperfections(settings.robot, robot, plan.controller.period)
    for i, push in enumerate(settings.push):
        push_of(push, robot, f"experiment.push[{i}]")
    if plan.ticks < 1:
        period = plan.controller.period
        raise ConfigError("experiment.duration", f"expected a period of {period} s at least, got {settings.duration}")
    return plan


def with_controller(plan: Plan, changes: dict[str, Any], where: str = "experiment.controller") -> Plan:
    """The plan with some of its controller's settings replaced, table by table. Raises ConfigError."""
    values = merged(msgspec.to_builtins(plan.controller), changes, where)
    return msgspec.structs.replace(plan, controller=parse(values, ControllerSettings, where))


def merged(base: dict[str, Any], changes: dict[str, Any], where: str) -> dict[str, Any]:
    """`base` with `changes` put in, key by key. Raises ConfigError for a key that is not there."""
    result = dict(base)
    for key, value in changes.items():
        if key not in base:
            raise ConfigError(f"{where}.{key}", "no such setting")
        inner = base[key]
        both = isinstance(inner, dict) and isinstance(value, dict)
        result[key] = merged(inner, value, f"{where}.{key}") if both else value
    return result


def run_served(plan: Plan, law: str, folder: Path, progress: Progress, watch: Watch | None = None) -> Run:
    """One law: server process and robot process over ipc; writes log.mcap, trace.npz and summary.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.mcap"
    robot, _ = load_robot(plan.controller.robot)
    with tempfile.TemporaryDirectory(prefix="idyn-") as sockets:
        settings = msgspec.structs.replace(plan.server, law=law, endpoint=f"ipc://{sockets}/server")
        with (
            ServerProcess(settings, plan.controller, log) as server,
            _client(plan, server.endpoint, robot) as client,
        ):
            client.hello()
            trace = _drive(plan, client, law, progress, paced=plan.settings.paced, watch=watch)
    summary = _summary(plan, trace, law)
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary)))
    run = Run(summary=summary, trace=trace, controller=plan.controller, log=log)
    run.save(folder)
    return run


def run_connected(plan: Plan, address: str, label: str, progress: Progress, watch: Watch | None = None) -> Run:
    """The robot side alone, against whatever server listens at `address`. Raises ConnectionFailed when none does."""
    robot, _ = load_robot(plan.controller.robot)
    with _client(plan, address, robot) as client:
        client.hello()
        trace = _drive(plan, client, label, progress, paced=plan.settings.paced, watch=watch)
    return Run(summary=_summary(plan, trace, label), trace=trace, controller=plan.controller, log=None)


def run_in_process(
    plan: Plan,
    label: str,
    progress: Progress,
    *,
    seed: int | None = None,
    log: Path | None = None,
    watch: Watch | None = None,
) -> Run:
    """Robot and service in one process, in lock-step through real bytes. What comes after a fall is not simulated.

    seed: of the perturbation and of the robot's imperfections, and added to those of hills and friction; None: no perturbation
    log: where to record every byte
    """
    plan = plan if seed is None else _on_other_ground(plan, seed)
    controller = build_controller(plan.controller)
    recorder = None
    if log is not None:
        recorder = Recorder(log, attachments(controller, plan.server), metadata(controller, seed))
    try:
        client = Loopback(
            Service(controller, plan.server, recorder=recorder),
            hello_for(controller.robot, plan.controller.period, kind="sim"),
        )
        client.hello()
        trace = _drive(plan, client, label, progress, paced=False, seed=seed, watch=watch)
    finally:
        if recorder is not None:
            recorder.close()
    return Run(summary=_summary(plan, trace, label), trace=trace, controller=plan.controller, log=log)


def _client(plan: Plan, address: str, robot: Robot) -> RobotClient:
    """A robot that waits for its replies as long as its world does; in lock-step, as good as for ever."""
    patience = round(1e3 * plan.settings.patience) or DEADLINE_MS
    deadline = patience if plan.settings.paced else LOCK_STEP_MS
    return RobotClient(address, hello_for(robot, plan.controller.period, kind="sim"), deadline_ms=deadline)


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
    """The robot side of one run."""
    settings = plan.settings
    follow = None if watch is None else partial(watch, label)
    side = simulated_robot(plan, client, progress=lambda ticks: progress(label, ticks), seed=seed, watch=follow)
    pushes = _pushes(plan, load_robot(plan.controller.robot)[0])
    if paced:
        return side.run_paced(settings.duration, pushes, waits=settings.patience > 0.0)
    world = side.world
    return side.run(settings.duration, pushes, Posture(world.robot, world.terrain, world.q))


def simulated_robot(
    plan: Plan,
    client: Exchanger,
    *,
    progress: Callable[[int], None] | None = None,
    seed: int | None = None,
    watch: Callable[[TraceWriter], None] | None = None,
) -> RobotSide:
    """A robot in the experiment's world, at its first state."""
    settings, dt = plan.settings, plan.controller.period
    believed, stance = load_robot(plan.controller.robot)
    robot, terrain = world_robot(believed, settings.robot), _terrain(plan)
    stance = resting(robot, stance, terrain)
    engine = load_engine(settings.engine, settings.engine_settings)
    friction = joint_friction(robot, settings.robot)
    world = build_world(engine, robot, terrain, stance, mu=_friction(plan, robot), friction=friction)
    now = [msgspec.structs.replace(push, start=0.0, duration=np.inf) for push in _pushes(plan, believed)]
    world.step(np.zeros(robot.na), dt, now)  # compiles what is not yet: real time must not wait for it
    world.reset(*perturbed(robot, stance, settings.perturbation, seed))
    return RobotSide(
        world,
        Link(client, settings.robot.link, dt, seed),
        dt=dt,
        kd=plan.controller.safety.damping,
        hardware=Hardware.build(robot, dt, settings.robot, settings.contacts, seed),
        progress=progress,
        failsafe=settings.failsafe,
        watch=watch,
    )


def _pushes(plan: Plan, believed: Robot) -> list[Push]:
    """What pushes the robot; forces in weights are those of the robot that is believed in."""
    return [push_of(push, believed, f"experiment.push[{i}]") for i, push in enumerate(plan.settings.push)]


def _on_other_ground(plan: Plan, seed: int) -> Plan:
    """The plan with `seed` added to the seeds of its terrains."""
    replace, contact, ground = msgspec.structs.replace, plan.controller.contact, plan.settings.robot.ground
    controller = replace(plan.controller, contact=replace(contact, terrain=reseeded(contact.terrain, seed)))
    if ground.terrain is not None:
        ground = replace(ground, terrain=reseeded(ground.terrain, seed))
    settings = replace(plan.settings, robot=replace(plan.settings.robot, ground=ground))
    return replace(plan, settings=settings, controller=controller)


def _terrain(plan: Plan) -> Terrain:
    """The world's ground."""
    contact, other = plan.controller.contact, plan.settings.robot.ground.terrain
    return make_terrain(contact.terrain if other is None else other, contact.ground)


def _friction(plan: Plan, robot: Robot) -> Array | None:
    """Coefficients of the world's contacts, None where terrain and robot have their own."""
    candidates = plan.settings.robot.ground.mu, plan.settings.mu, plan.controller.contact.mu
    mu = next((mu for mu in candidates if mu is not None), None)
    return None if mu is None else np.full(len(robot.contact_keys + robot.pair_keys), mu)


def _summary(plan: Plan, trace: Trace, label: str) -> Summary:
    robot, _ = load_robot(plan.controller.robot)
    return summarise(
        trace,
        robot,
        label=label,
        engine=plan.settings.engine,
        ticks=plan.ticks,
        dt=plan.controller.period,
        **(aims(plan.controller) | {"terrain": _terrain(plan)}),
    )


def aims(controller: ControllerSettings) -> dict[str, Any]:
    """What `summarise` has to know of a controller: its ground, the path it was to follow, the joints that grip instead."""
    reference, contact = controller.reference, controller.contact
    corners = reference.path.waypoints if reference.kind == "gait" else ()
    return {
        "terrain": make_terrain(contact.terrain, contact.ground),
        "path": corners + corners[:1] if reference.path.repeat else corners,
        "gripping": controller.grip.joints,
    }
