"""Construction of the simulated robot and its world from a plan, with all imperfections."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from controllers.robot.damping import damping_gains
from controllers.robot.kinematics import feet_of
from controllers.robot.load import load_robot, robot_file
from controllers.robot.stance import resting
from idyn.contact.terrain import Flat, Terrain
from idyn.errors import ConfigError, IdynError, ModelError
from idyn.model.build import read_text
from idyn.model.mjcf import is_mjcf
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.trace import TraceWriter
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.robot.hardware import Hardware
from sim_harness.robot.imperfections.bodies import joint_friction, world_robot
from sim_harness.robot.imperfections.link import Link
from sim_harness.robot.imperfections.settings import BodySettings, DriveSettings
from sim_harness.robot.lying import lying, perturbed
from sim_harness.robot.pushes import push_of, repeated
from sim_harness.robot.robot_side import Exchanger, RobotSide
from sim_harness.run.plan import Plan
from sim_harness.shapes.shapes import Shape, collision_shapes, missing_text
from sim_harness.world.robot_bodies import RobotBodies
from sim_harness.world.world import Push
from sim_harness.world.worlds import build_world
from transport.protocol.messages.hello import Hello
from transport.robot.conversation import hello_for


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
    world.step(np.zeros(robot.na), dt, now)  # compile missing kernels now, not during a run in real time
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
    """Return the friction coefficients of all contacts; None: those of terrain and robot apply."""
    mu = frictions(plan)[0]
    return None if mu is None else np.full(len(robot.contact_names), mu)


def _hulls(plan: Plan, robot: Robot, stance: Array) -> list[Shape]:
    """Return the shapes that touch the ground beside the feet: the collision shapes of the robot's file. Raises ConfigError."""
    from sim_harness.mujoco.hulls import without_feet  # noqa: PLC0415 - an optional package

    shapes, lost = collision_shapes(robot, list(robot_file(plan.controller.robot).resolve().parents))
    if lost:
        raise ConfigError("experiment.robot.hulls", missing_text(lost))
    return without_feet(shapes, robot, feet_of(robot, stance))
