"""From a plan to a robot in its world: what the simulated world is made of, imperfections and all."""

from collections.abc import Callable

import msgspec
import numpy as np

from controllers.robot.load import load_robot
from controllers.robot.stance import resting
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.trace import TraceWriter
from sim_harness.robot.hardware import Hardware
from sim_harness.robot.imperfections.bodies import joint_friction, world_robot
from sim_harness.robot.imperfections.link import Link
from sim_harness.robot.perturbation import perturbed
from sim_harness.robot.pushes import push_of
from sim_harness.robot.robot_side import Exchanger, RobotSide
from sim_harness.run.plan import Plan
from sim_harness.world.world import Push
from sim_harness.world.worlds import build_world


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
    robot, terrain = world_robot(believed, settings.robot), terrain_of(plan)
    stance = resting(robot, stance, terrain)
    friction = joint_friction(robot, settings.robot)
    world = build_world(settings.engine, robot, terrain, stance, mu=_friction(plan, robot), friction=friction)
    now = [msgspec.structs.replace(push, start=0.0, duration=np.inf) for push in pushes_of(plan, believed)]
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


def pushes_of(plan: Plan, believed: Robot) -> list[Push]:
    """What pushes the robot; forces in weights are those of the robot that is believed in."""
    return [push_of(push, believed, f"experiment.push[{i}]") for i, push in enumerate(plan.settings.push)]


def on_other_ground(plan: Plan, seed: int) -> Plan:
    """The plan with `seed` added to the seeds of its terrains."""
    replace, contact, ground = msgspec.structs.replace, plan.controller.contact, plan.settings.robot.ground
    controller = replace(plan.controller, contact=replace(contact, terrain=contact.terrain.reseeded(seed)))
    if ground.terrain is not None:
        ground = replace(ground, terrain=ground.terrain.reseeded(seed))
    settings = replace(plan.settings, robot=replace(plan.settings.robot, ground=ground))
    return replace(plan, settings=settings, controller=controller)


def terrain_of(plan: Plan) -> Terrain:
    """The world's ground."""
    contact, other = plan.controller.contact, plan.settings.robot.ground.terrain
    return (contact.terrain if other is None else other).build(contact.ground)


def _friction(plan: Plan, robot: Robot) -> Array | None:
    """Coefficients of the world's contacts, None where terrain and robot have their own."""
    candidates = plan.settings.robot.ground.mu, plan.settings.mu, plan.controller.contact.mu
    mu = next((mu for mu in candidates if mu is not None), None)
    return None if mu is None else np.full(len(robot.contact_names), mu)
