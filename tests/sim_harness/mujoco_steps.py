"""Steps of the law `mujoco` beside MuJoCo's own, from random states."""

import numpy as np

from controllers.robot.load import load_robot
from idyn import predict
from idyn.contact.terrain import Flat
from idyn.laws.mujoco.law import SoftContact, SoftJoint
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.worlds import build_world

DT = 1e-3
FORCE = 1e-9
"""Largest error of a force, as a share of the weight."""


def world_of(name, terrain=None, mu=None, **settings):
    """A world with MuJoCo's solver converged as far as it goes."""
    robot, q = load_robot(name)
    friction = None if mu is None else np.full(len(robot.contact_names), mu)
    world = build_world(MujocoSettings(**settings), robot, terrain or Flat(), q, mu=friction)
    world.model.opt.tolerance = 1e-14 if settings.get("cone") == "pyramidal" else 0.0
    world.model.opt.iterations = world.model.opt.ls_iterations = 200
    return world


def random_step(world, law, seed, speed=1.0):
    """A random state with feet about the ground: the prediction, the errors of forces / weight and of joint accelerations."""
    robot, rng = world.robot, np.random.default_rng(seed)
    q = robot.integrate(world.bodies.start.q, np.r_[np.zeros(3), rng.uniform(-0.05, 0.05, robot.nv - 3)])
    q[2] -= world.bodies.near(q, np.inf).gaps.min() + rng.uniform(0.0, 2e-3)
    world.reset(q, speed * np.r_[0.3 * rng.normal(size=3), rng.normal(size=3), 3.0 * rng.normal(size=robot.na)])
    answer = predict(robot, world.state, world.contacts, 30.0 * rng.normal(size=robot.na), law=law, dt=DT)
    result = world.step(answer.tau, DT)
    felt = dict(zip(result.contacts.keys, result.impulse / DT, strict=True))
    error = max(np.abs(force - felt.get(key, 0.0)).max() for key, force in zip(answer.keys, answer.force, strict=True))
    return answer, error / robot.weight, np.abs(world.v - answer.v_plus)[robot.tree.a].max() / DT


def check(world, law, count, seed=0):
    pressed = 0
    for k in range(count):
        answer, force, acceleration = random_step(world, law, [seed, k])
        assert (answer.law, answer.status.name) == ("mujoco", "SOLVED")
        assert force < FORCE
        assert acceleration < 1e-6  # [rad/s²], of 30
        assert answer.residuals.worst < 1e-10
        pressed += answer.normal_force.max() > 1e-2 * world.robot.weight
    assert pressed >= count / 2


def turning(name, dim, **settings):
    """A world whose feet have friction against turning as MuJoCo Menagerie's Go2, and the same contact for the law."""
    contact = {"condim": dim, "spin": 0.02, "roll": 0.01}
    return world_of(name, **contact, **settings), SoftContact(**contact)


def resisting(world):
    """Give all joints damping, dry friction and a range that half of the random states leave; return the same for the law."""
    robot, m = world.robot, world.model
    dofs = world.coordinates.dofs[robot.tree.a]
    m.dof_damping[dofs], m.dof_frictionloss[dofs] = 0.05, 0.2
    m.dof_solref[dofs], m.dof_solimp[dofs] = (0.01, 0.8), (0.8, 0.9, 0.001, 0.5, 2.0)
    joints = m.dof_jntid[dofs]
    angles = robot.joint_angles(world.bodies.start.q)
    m.jnt_limited[joints], m.jnt_range[joints], m.jnt_margin[joints] = 1, np.stack([angles - 0.02, angles + 0.03], 1), 0.005
    m.jnt_solref[joints], m.jnt_solimp[joints] = (0.03, 0.7), (0.7, 0.95, 0.02, 0.4, 2.5)
    return {
        name: SoftJoint(
            damping=0.05,
            frictionloss=0.2,
            solreffriction=(0.01, 0.8),
            solimpfriction=(0.8, 0.9, 0.001, 0.5, 2.0),
            range=(angle - 0.02, angle + 0.03),
            margin=0.005,
            solreflimit=(0.03, 0.7),
            solimplimit=(0.7, 0.95, 0.02, 0.4, 2.5),
        )
        for name, angle in zip(robot.joint_names, angles.tolist(), strict=True)
    }
