"""Settings of an experiment, checked together with all configurations that they name; the simulated robot and its world."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from controllers.build import changed
from controllers.config.loading import NonNegative, Settings, load, parse
from controllers.config.tables import Choice, Table, kind_of, named
from controllers.contact.ground import FlatSettings
from controllers.robot.damping import damping_gains
from controllers.robot.kinematics import feet_of, resting
from controllers.robot.load import load_robot, robot_file
from controllers.settings import ControllerSettings
from idyn.contact.terrain import Flat, Terrain
from idyn.errors import ConfigError, FrameNotFound, IdynError, ModelError
from idyn.model.build import read_text
from idyn.model.mjcf import is_mjcf
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.measure.trace import TraceWriter
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.robot.hardware import Hardware, Report, check_imperfections
from sim_harness.robot.imperfections import BodySettings, DriveSettings, ImperfectionSettings, joint_friction, world_robot
from sim_harness.robot.lying import PerturbationSettings, Pose, lying, perturbed
from sim_harness.robot.robot_side import Exchanger, Link, RobotSide
from sim_harness.shapes import Shape, collision_shapes, missing_text
from sim_harness.world.bodies import RobotBodies
from sim_harness.world.world import Push
from sim_harness.world.worlds import AnyEngine, build_world, check_engine
from transport.protocol.messages.requests import Hello
from transport.robot.client import hello_for
from transport.robot.failsafe import FailsafeSettings
from transport.server.settings import ServerSettings

FLOATING = "root_joint"  # Pinocchio's name of the floating base joint

Vector3 = tuple[float, float, float]


class PushSettings(Settings, frozen=True):
    """A push: see `sim_harness.world.world.Push`."""

    # start, duration: interval [s]
    start: float
    duration: float
    frame: str | None = None  # any frame of the pushed body; absent: the floating base
    force: Vector3 | None = None  # [N] (3)
    weights: Vector3 | None = None  # force in multiples of the modelled robot's weight (3); instead of `force`
    point: Vector3 = (0.0, 0.0, 0.0)  # point of action in the frame of the joint that carries the body [m] (3)
    every: NonNegative = 0.0  # interval at which the push is repeated until the end of the run, ≥ duration [s]; 0: once
    turn: float = 0.0  # angle about the vertical from each push to the next [rad]


def push_of(settings: PushSettings, robot: Robot, where: str) -> Push:
    """Return the first push.

    Raises ConfigError at `where` unless it has exactly one of force and weights and an existing frame, and ends before it is
    repeated.
    """
    unit = 1.0 if settings.weights is None else robot.weight
    forces = [force for force in (settings.force, settings.weights) if force is not None]
    if len(forces) != 1:
        raise ConfigError(f"{where}.force", "expected either force or weights, got both or neither")
    if settings.frame is None and not robot.floating:
        raise ConfigError(f"{where}.frame", "missing field, required for a robot without floating base")
    if 0 < settings.every < settings.duration:
        raise ConfigError(
            f"{where}.every", f"expected 0 or at least the duration {settings.duration:g} s, got {settings.every:g}"
        )
    frame = FLOATING if settings.frame is None else settings.frame
    try:
        robot.joint_of_frame(frame)
    except FrameNotFound as error:
        raise ConfigError(f"{where}.frame", str(error)) from error
    x, y, z = forces[0]
    force = (unit * x, unit * y, unit * z)
    return Push(frame=frame, force=force, point=settings.point, start=settings.start, duration=settings.duration)


def repeated(push: Push, settings: PushSettings, end: float) -> list[Push]:
    """Return the push and its repetitions that start before `end` [s], each turned about the vertical."""
    found, (x, y, z) = [push], push.force
    while settings.every > 0 and push.start + len(found) * settings.every < end:
        c, s = math.cos(len(found) * settings.turn), math.sin(len(found) * settings.turn)
        force, start = (c * x - s * y, s * x + c * y, z), push.start + len(found) * settings.every
        found.append(msgspec.structs.replace(push, force=force, start=start))
    return found


class ExperimentSettings(Settings, frozen=True):
    """Settings of an experiment: `configs/experiments/*.toml`."""

    server: str  # name or path of the server's configuration
    laws: tuple[Choice, ...]  # contact laws; there is one run with each, which replaces the law of the controller
    duration: float  # of one run [s]
    # those of the laws, by name, with which the robot is expected to fail, to show it; with the others it must not
    may_fail: tuple[str, ...] = ()
    # values that replace those of the server's controller, table by table
    controller: Table = msgspec.field(default_factory=dict)
    engine: AnyEngine = PolygonLcp()  # contact model of the simulated world
    # whether a run is in real time; otherwise world and server run in lock-step, as fast as possible, until a fall
    paced: bool = True
    # longest time that the world of a paced run waits for a late reply [s]; a slow machine then slows the walk down. 0: the
    # world does not wait, like a real robot
    patience: NonNegative = 0.0
    failsafe: FailsafeSettings = FailsafeSettings()  # settings of the robot's failsafe, which acts without answers
    # 'geometry': the server finds contacts; 'message': the robot sends the contacts of an ideal sensor; 'binary': it sends
    # which feet touch
    contacts: Report = "geometry"
    # friction coefficient of all contacts of the world instead of those of robot and terrain, may be inf; the controller
    # believes it, too, unless it has a `contact.mu` of its own. In the world `robot.ground.mu` replaces it
    mu: NonNegative | None = None
    perturbation: PerturbationSettings = PerturbationSettings()  # of the initial state, drawn from the seed of a run
    # the robot lies on the ground at first, dropped with this side below, or in any attitude; '': it stands
    lying: Pose | Literal[""] = ""
    push: tuple[PushSettings, ...] = ()  # pushes
    # differences of the simulated robot and its ground from the controller's model
    robot: ImperfectionSettings = ImperfectionSettings()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with all configurations loaded and checked."""

    settings: ExperimentSettings
    server: ServerSettings
    controller: ControllerSettings

    @property
    def ticks(self) -> int:
        """Number of periods of one run."""
        return round(self.settings.duration / self.controller.period)

    def as_expected(self, law: str, good: bool) -> bool:
        """Return whether a run ended as the experiment expects. law: its name; good: whether the robot did its task"""
        return good or law in self.settings.may_fail


def load_plan(name_or_path: str, duration: float | None = None, engine: str | None = None) -> Plan:
    """Load and check an experiment and all configurations that it names. Raises ConfigError.

    duration: replaces the experiment's [s]; engine: replaces the experiment's, with the default settings of the new engine
    """
    settings = load("experiments", name_or_path, ExperimentSettings)
    if engine is not None and engine != kind_of(settings.engine):
        settings = msgspec.structs.replace(settings, engine=parse(engine, AnyEngine, "engine"))
    if duration is not None:
        settings = msgspec.structs.replace(settings, duration=duration)
    return build_plan(settings)


def build_plan(settings: ExperimentSettings) -> Plan:
    """Return the plan of an experiment: its settings, and all configurations that they name. Raises ConfigError."""
    if not 0 < settings.duration < np.inf:
        raise ConfigError("experiment.duration", f"expected a finite number > 0, got {settings.duration}")
    if not settings.laws:
        raise ConfigError("experiment.laws", "expected at least one law, got an empty list")
    names = [named(law) for law in settings.laws]
    for name in settings.may_fail:
        if name not in names:
            raise ConfigError("experiment.may_fail", f"expected names of its laws ({', '.join(names)}), got '{name}'")
    server = load("server", settings.server, ServerSettings)
    controller = load("controllers", server.controller, ControllerSettings)
    if settings.mu is not None and controller.contact.mu is None:
        contact = msgspec.structs.replace(controller.contact, mu=settings.mu)
        controller = msgspec.structs.replace(controller, contact=contact)
    check_engine(settings.engine)
    plan = with_controller(Plan(settings=settings, server=server, controller=controller), settings.controller)
    for law in settings.laws:
        with_controller(plan, {"law": law}, "experiment.laws")
    robot, _ = load_robot(plan.controller.robot)
    if settings.lying and not robot.floating:
        raise ConfigError("experiment.lying", "expected a robot with a floating base, got a fixed one")
    terrain = (settings.robot.ground.terrain or plan.controller.contact.terrain).world
    if settings.robot.hulls and not (isinstance(settings.engine, MujocoSettings) and isinstance(terrain, FlatSettings)):
        raise ConfigError("experiment.robot.hulls", "expected the engine 'mujoco' and flat ground")
    check_imperfections(settings.robot, robot, plan.controller.period)
    for i, push in enumerate(settings.push):
        push_of(push, robot, f"experiment.push[{i}]")
    if plan.ticks < 1:
        period = plan.controller.period
        raise ConfigError("experiment.duration", f"expected at least one period of {period} s, got {settings.duration}")
    return plan


def with_controller(plan: Plan, changes: Table, where: str = "experiment.controller") -> Plan:
    """Return the plan with changed settings of its controller, table by table. where: path in errors. Raises ConfigError."""
    return msgspec.structs.replace(plan, controller=changed(plan.controller, changes, where))


def simulated_robot(
    plan: Plan,
    client: Exchanger,
    *,
    progress: Callable[[int], None] | None = None,
    seed: int | None = None,
    watch: Callable[[TraceWriter], None] | None = None,
) -> RobotSide:
    """Return the robot in the world of the experiment, in its initial state.

    client: connection to the server; progress: called with the number of ticks; seed: of the initial state and imperfections
    watch: called with the trace at the end of each tick
    """
    settings, dt = plan.settings, plan.controller.period
    nominal, standing = load_robot(plan.controller.robot)
    robot, terrain = world_robot(nominal, settings.robot), terrain_of(plan)
    stance = resting(robot, standing, terrain)
    friction = joint_friction(robot, settings.robot)
    hulls = _hulls(plan, robot, stance) if settings.robot.hulls else ()
    build = partial(
        build_world, settings.engine, robot, terrain, stance, mu=_friction(plan, robot), friction=friction, hulls=hulls
    )
    try:
        world = build(file=own_world(plan, nominal)[0])
    except ModelError:  # a file that MuJoCo refuses, see `note_of_world`
        world = build()
    now = [msgspec.structs.replace(push, start=0.0, duration=np.inf) for push in pushes_of(plan, nominal)]
    world.step(np.zeros(robot.na), dt, now)  # the first step takes longer than later ones: not in a run in real time
    damping = damping_gains(plan.controller.safety.damping, nominal, standing, dt)
    if settings.lying:
        world.reset(lying(world, stance, settings.lying, damping, seed))
    else:
        world.reset(*perturbed(robot, stance, settings.perturbation, seed))
    return RobotSide(
        world,
        Link(client, settings.robot.link, dt, seed),
        dt=dt,
        kd=damping,
        hardware=Hardware.build(robot, dt, settings.robot, settings.contacts, seed),
        progress=progress,
        failsafe=settings.failsafe,
        watch=watch,
    )


def own_world(plan: Plan, robot: Robot) -> tuple[Path | None, str]:
    """Return the file of the robot if the world is made from it, else None and what in the settings it does not have."""
    settings, path, own = plan.settings, robot_file(plan.controller.robot), robot.description
    text, drive, plain = read_text(path), settings.robot.drive, DriveSettings()
    terrain, bodies = terrain_of(plan), settings.robot
    beyond = {
        "another engine": not isinstance(settings.engine, MujocoSettings),
        "settings of the engine": settings.engine != MujocoSettings(),
        "boxes": bool(own.box),
        "closures": bool(own.closure) and not is_mjcf(text),
        "other bodies": bodies.trunk != BodySettings() or bool(bodies.links) or bodies.hulls,
        "resisting joints": (drive.armature, drive.viscous, drive.coulomb) != (plain.armature, plain.viscous, plain.coulomb),
        "the friction of the ground": bodies.ground.mu is not None or settings.mu is not None or terrain.friction is not None,
        "ground that is not flat": not isinstance(terrain, Flat),
    }
    found = [what for what, has in beyond.items() if has]
    return (None, found[0]) if found else (path, "")


def note_of_world(plan: Plan) -> str:
    """Return what the world of a robot in MuJoCo is made from, and what the controller's model has otherwise."""
    robot, standing = load_robot(plan.controller.robot)
    path, why = own_world(plan, robot)
    if path is None:
        of_model = f"the world is made from the controller's model, because of {why}"
        return of_model if isinstance(plan.settings.engine, MujocoSettings) else ""
    from sim_harness.mujoco.file_world import beliefs  # noqa: PLC0415 - an optional package

    terrain = terrain_of(plan)
    bodies = RobotBodies(robot, terrain, resting(robot, standing, terrain))
    try:
        differences = beliefs(bodies, path, -float(terrain.query(np.zeros((1, 3)))[0][0]), plan.controller.contact.mu)
    except IdynError as error:
        return f"the world is made from the controller's model, because MuJoCo refuses the file: {error}"
    whole = "itself" if is_mjcf(read_text(path)) else "as MuJoCo reads it"
    return f"the world is {path.name} {whole}; " + ("; ".join(differences) or "the controller's model agrees")


def hello_of(plan: Plan, robot: Robot) -> Hello:
    """Return the hello of the simulated robot."""
    measured: Literal["state", "imu"] = "state" if plan.settings.robot.sensing.imu is None else "imu"
    return hello_for(robot, plan.controller.period, kind="sim", measured=measured)


def pushes_of(plan: Plan, nominal: Robot) -> list[Push]:
    """Return the pushes of the experiment. nominal: the controller's model; forces in weights refer to its weight"""
    settings = plan.settings
    found = [repeated(push_of(p, nominal, f"experiment.push[{i}]"), p, settings.duration) for i, p in enumerate(settings.push)]
    return [push for each in found for push in each]


def with_reseeded_terrain(plan: Plan, seed: int) -> Plan:
    """Return the plan with `seed` added to the seeds of its terrains."""
    replace, contact, ground = msgspec.structs.replace, plan.controller.contact, plan.settings.robot.ground
    controller = replace(plan.controller, contact=replace(contact, terrain=contact.terrain.reseeded(seed)))
    if ground.terrain is not None:
        ground = replace(ground, terrain=ground.terrain.reseeded(seed))
    settings = replace(plan.settings, robot=replace(plan.settings.robot, ground=ground))
    return replace(plan, settings=settings, controller=controller)


def terrain_of(plan: Plan) -> Terrain:
    """Return the terrain of the simulated world."""
    contact, other = plan.controller.contact, plan.settings.robot.ground.terrain
    return (other or contact.terrain).world.build(contact.ground)


def frictions(plan: Plan) -> tuple[float | None, float | None]:
    """Return the friction coefficient of all contacts in the world, and the one that the controller believes; None: those of
    terrain and robot apply."""
    belief = plan.controller.contact.mu
    candidates = plan.settings.robot.ground.mu, plan.settings.mu, belief
    return next((mu for mu in candidates if mu is not None), None), belief


def _friction(plan: Plan, robot: Robot) -> Array | None:
    mu = frictions(plan)[0]
    return None if mu is None else np.full(len(robot.contact_names), mu)


def _hulls(plan: Plan, robot: Robot, stance: Array) -> list[Shape]:
    """Return the shapes that touch the ground beside the feet: the collision shapes of the robot's file. Raises ConfigError."""
    from sim_harness.mujoco.robot_model import without_feet  # noqa: PLC0415 - an optional package

    shapes, lost = collision_shapes(robot, list(robot_file(plan.controller.robot).resolve().parents))
    if lost:
        raise ConfigError("experiment.robot.hulls", missing_text(lost))
    return without_feet(shapes, robot, feet_of(robot, stance))
