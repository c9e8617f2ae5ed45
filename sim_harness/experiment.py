"""An experiment: a simulated robot against a torque server, once for each law, with everything kept."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from controllers.config import NonNegative, Settings, load, parse
from controllers.controller import ControllerSettings, build_controller, check_law
from controllers.kinematics import angles_for_base_shift
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
from sim_harness.metrics import GRAVITY, Summary, summarise
from sim_harness.robot_side import Exchanger, RobotSide
from sim_harness.server_process import ServerProcess
from sim_harness.trace import Trace
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


class PushSettings(Settings, frozen=True):
    """A push: see `sim_harness.world.Push`.

    frame: any frame of the body that is pushed; by default the base that floats
    force: [N]; weights: the same in weights of the robot, which comes on top
    """

    start: float
    duration: float
    frame: str = "root_joint"
    force: tuple[float, float, float] = (0.0, 0.0, 0.0)
    weights: tuple[float, float, float] = (0.0, 0.0, 0.0)
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def on(self, robot: Robot) -> Push:
        """The push that this robot gets."""
        weight = robot.total_mass * GRAVITY
        x, y, z = (force + weight * share for force, share in zip(self.force, self.weights, strict=True))
        return Push(frame=self.frame, force=(x, y, z), point=self.point, start=self.start, duration=self.duration)


class PerturbationSettings(Settings, frozen=True):
    """How far runs of different seeds begin from the stance.

    shift: largest displacement of a floating base along each axis over feet that stay [m]
    speed: standard deviation of the joint speeds [rad/s]
    """

    shift: NonNegative = 0.0
    speed: NonNegative = 0.0


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
    """One law's run."""

    summary: Summary
    trace: Trace
    log: Path | None


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
    check_imperfections(settings.robot, load_robot(controller.robot)[0], controller.period)
    plan = with_controller(Plan(settings=settings, server=server, controller=controller), settings.controller)
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


def run_served(plan: Plan, law: str, folder: Path, progress: Progress) -> Run:
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
            trace = _drive(plan, client, law, progress, paced=plan.settings.paced)
    summary = _summary(plan, trace, law)
    trace.save_npz(folder / "trace.npz")
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary)))
    return Run(summary=summary, trace=trace, log=log)


def run_connected(plan: Plan, address: str, label: str, progress: Progress) -> Run:
    """The robot side alone, against whatever server listens at `address`. Raises ConnectionFailed when none does."""
    robot, _ = load_robot(plan.controller.robot)
    with _client(plan, address, robot) as client:
        client.hello()
        trace = _drive(plan, client, label, progress, paced=plan.settings.paced)
    return Run(summary=_summary(plan, trace, label), trace=trace, log=None)


def run_in_process(plan: Plan, label: str, progress: Progress, *, seed: int | None = None, log: Path | None = None) -> Run:
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
        trace = _drive(plan, client, label, progress, paced=False, seed=seed)
    finally:
        if recorder is not None:
            recorder.close()
    return Run(summary=_summary(plan, trace, label), trace=trace, log=log)


def _client(plan: Plan, address: str, robot: Robot) -> RobotClient:
    """A robot that waits for its replies as long as its world does; in lock-step, as good as for ever."""
    patience = round(1e3 * plan.settings.patience) or DEADLINE_MS
    deadline = patience if plan.settings.paced else LOCK_STEP_MS
    return RobotClient(address, hello_for(robot, plan.controller.period, kind="sim"), deadline_ms=deadline)


def _drive(plan: Plan, client: Exchanger, label: str, progress: Progress, *, paced: bool, seed: int | None = None) -> Trace:
    """The robot side of one run."""
    settings, dt = plan.settings, plan.controller.period
    believed, stance = load_robot(plan.controller.robot)
    robot, terrain = world_robot(believed, settings.robot), _terrain(plan)
    stance = resting(robot, stance, terrain)
    engine = load_engine(settings.engine, settings.engine_settings)
    friction = joint_friction(robot, settings.robot)
    world = build_world(engine, robot, terrain, stance, mu=_friction(plan, robot), friction=friction)
    pushes = [push.on(believed) for push in settings.push]
    now = [Push(frame=push.frame, force=push.force, point=push.point) for push in pushes]
    world.step(np.zeros(robot.na), dt, now)  # compiles what is not yet: real time must not wait for it
    world.reset(*_perturbed(robot, stance, settings.perturbation, seed))
    side = RobotSide(
        world,
        Link(client, settings.robot.link, dt, seed),
        dt=dt,
        kd=plan.controller.safety.damping,
        hardware=Hardware.build(robot, dt, settings.robot, settings.contacts, seed),
        progress=lambda ticks: progress(label, ticks),
        failsafe=settings.failsafe,
    )
    if paced:
        return side.run_paced(settings.duration, pushes, waits=settings.patience > 0.0)
    return side.run(settings.duration, pushes, Posture(robot, terrain, world.q))


def _perturbed(robot: Robot, stance: Array, settings: PerturbationSettings, seed: int | None) -> tuple[Array, Array]:
    """The first configuration (nq) and velocity (nv) of a seed's run: the base is moved over feet that stay."""
    q, v = np.array(stance), np.zeros(robot.nv)
    if seed is None:
        return q, v
    rng = np.random.default_rng(seed)
    shift, speeds = rng.uniform(-settings.shift, settings.shift, 3), rng.normal(0.0, settings.speed, robot.na)
    if robot.base == "free_flyer":
        q = robot.with_joint_angles(q, angles_for_base_shift(robot, stance, shift, "experiment.perturbation.shift"))
        q[:3] += shift
    v[robot.a] = speeds
    return q, v


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
