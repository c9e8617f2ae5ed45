"""The law `mujoco` against MuJoCo itself: the force of every foot and the acceleration in the step that was predicted."""

import msgspec
import mujoco
import numpy as np
import pytest
from fast import fast, first_is_fast, full

from controllers.robot.load import load_robot
from idyn import Batch, predict, predict_batch
from idyn.contact.terrain import Flat, Slope
from idyn.errors import ConfigError
from idyn.laws import make_law
from idyn.laws.mujoco.parameters import SoftContact, SoftJoint
from idyn.laws.settings import LAWS
from idyn.options import Options
from idyn.prediction.request import Request
from idyn.prediction.soft_tables import inverse_weights
from idyn.prediction.torques import under_torques
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, with_controller
from sim_harness.studies.mujoco_law import ROBOTS, SECONDS, TURNING, Setting, force_errors
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


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12", "go2", "g1"]))
def test_forces_are_those_of_the_world(name, cone):
    for ground in ((0.02, 1.0), (0.005, 1.0), (-3e4, -400.0), (0.01, 0.4)):
        world = world_of(name, cone=cone, solref=ground)
        check(world, make_law("mujoco", cone=cone, contact=SoftContact(solref=ground)), 4)


VARIANTS = {
    "impratio": ({"impratio": 10.0}, {}, {}),
    "solimp": ({"solimp": (0.1, 0.99, 0.003, 0.3, 3.0)}, {}, {"solimp": (0.1, 0.99, 0.003, 0.3, 3.0)}),
    "linear": ({"solimp": (0.5, 0.99, 0.001, 0.3, 1.0)}, {}, {"solimp": (0.5, 0.99, 0.001, 0.3, 1.0)}),
    "solreffriction": ({"solreffriction": (0.05, 1.0)}, {}, {"solreffriction": (0.05, 1.0)}),
    "slope": ({}, {"terrain": Slope(0.2)}, {}),
    "slippery": ({}, {"mu": 0.1}, {}),
}


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("variant", fast(VARIANTS, "impratio", "solimp", "slope"))
@pytest.mark.parametrize("dim", [3, 6])
def test_forces_with_other_settings(dim, variant, cone):
    settings, place, contact = VARIANTS[variant]
    world = world_of("quadruped", cone=cone, condim=dim, roll=0.01, **place, **settings)
    contact = SoftContact(condim=dim, roll=0.01, **contact)
    law = make_law("mujoco", cone=cone, impratio=settings.get("impratio", 1.0), contact=contact)
    check(world, law, 12)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_margin_and_frictionless_contacts(cone):
    for change, contact in (
        ({"pair_margin": 2e-3}, SoftContact(margin=2e-3)),
        ({"pair_dim": 1}, SoftContact(condim=1)),
    ):
        world = world_of("quadruped", cone=cone)
        for field, value in change.items():
            getattr(world.model, field)[:] = value
        check(world, make_law("mujoco", cone=cone, contact=contact), 8)


def turning(name, dim, **settings):
    """A world whose feet have friction against turning as MuJoCo Menagerie's Go2, and the same contact for the law."""
    contact = {"condim": dim, "spin": 0.02, "roll": 0.01}
    return world_of(name, **contact, **settings), SoftContact(**contact)


def moments_of(world):
    """Contact moments of the last step in the world, by key, about MuJoCo's contact points."""
    found, wrench = {}, np.zeros(6)
    for k in range(world.data.ncon):
        mujoco.mj_contactForce(world.model, world.data, k, wrench)
        place = world.model.geom(int(world.data.contact.geom[k, 1])).name
        assert place.startswith("place")
        found[world.robot.contact_names[int(place.split()[1])]] = wrench[3:] @ world.data.contact.frame[k].reshape(3, 3)
    return found


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2"]))
@pytest.mark.parametrize("dim", [6, 4])
def test_friction_against_turning(dim, name, cone):
    """Forces and moments are the world's; those without this friction are not."""
    for impratio in (1.0, 100.0):
        world, contact = turning(name, dim, cone=cone, impratio=impratio)
        law, turned = make_law("mujoco", cone=cone, impratio=impratio, contact=contact), 0.0
        check(world, law, 8)
        for seed in range(8):
            answer, _, _ = random_step(world, law, [4, seed])
            felt = moments_of(world)
            for key, moment in zip(answer.keys, answer.moment, strict=True):
                np.testing.assert_allclose(moment, felt.get(key, 0.0), atol=FORCE * world.robot.weight)
            turned = max(turned, np.abs(answer.moment).max())
        assert turned > 0.1
    point = make_law("mujoco", cone=cone, impratio=100.0)
    assert max(random_step(world, point, [4, seed])[2] for seed in range(8)) > 1.0
    assert random_step(world_of(name, cone=cone), point, [4, 0])[0].moment.shape == (0, 3)


@pytest.mark.parametrize("cone", first_is_fast(["elliptic", "pyramidal"]))
def test_bodies_may_differ_in_friction_against_turning(cone):
    """One foot has condim 6, one 4, one 3, and one no friction."""
    world, dims = world_of("quadruped", cone=cone), (6, 4, 3, 1)
    world.model.pair_friction[:, 2:] = 0.02, 0.01, 0.01
    for row, dim in enumerate(dims):
        world.model.pair(f"pair {row}").dim[:] = dim
    feet = zip(world.robot.contact_names, dims, strict=True)
    own = {foot: SoftContact(condim=dim, spin=0.02, roll=0.01) for foot, dim in feet}
    check(world, make_law("mujoco", cone=cone, contacts=own), 20)


def test_without_friction():
    check(world_of("quadruped", cone="elliptic", mu=0.0), make_law("mujoco", cone="elliptic"), 8)
    check(world_of("quadruped", condim=6, mu=0.0), make_law("mujoco", contact=SoftContact(condim=6)), 8)


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


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2", "g1"]))
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_motion_of_the_integrator_implicit(name, cone):
    """Its step is implicit in Coriolis forces: the law of an explicit step misses the demand, and so does this one there."""
    for dim, ground in ((3, (0.02, 1.0)), (6, (0.005, 1.0))):
        world, contact = turning(name, dim, cone=cone, integrator="implicit", solref=ground)
        contact = msgspec.structs.replace(contact, solref=ground)
        law = make_law("mujoco", cone=cone, integrator="implicit", contact=contact)
        check(world, law, 6)
        explicit = make_law("mujoco", cone=cone, contact=contact)
        assert max(random_step(world, explicit, [0, k])[2] for k in range(3)) > 0.1
    batch = Batch(state=world.state, contacts=world.contacts, q_ddot=np.zeros((2, world.robot.na)))
    single = predict(world.robot, world.state, world.contacts, np.zeros(world.robot.na), law=law, dt=DT)
    assert np.array_equal(predict_batch(world.robot, batch, law=law, dt=DT).tau[1], single.tau)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit"])
@pytest.mark.parametrize("cone", first_is_fast(["elliptic", "pyramidal"]))
def test_friction_and_limits_of_joints(cone, integrator):
    """Damping enters the step implicitly; half of the joints are beyond their range."""
    world = world_of("quadruped", cone=cone, integrator=integrator)
    own = resisting(world)
    check(world, make_law("mujoco", cone=cone, integrator=integrator, joints=own), 12)
    plain = make_law("mujoco", cone=cone, integrator=integrator)
    assert max(random_step(world, plain, [0, k])[2] for k in range(3)) > 1.0  # without them the demand is missed


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "g1"]))
def test_inverse_weights_are_those_of_the_compiled_model(name):
    world = world_of(name)
    bodies, dofs = inverse_weights(world.robot)
    np.testing.assert_allclose(bodies, world.model.body_invweight0[: len(bodies), 0], rtol=1e-12)
    np.testing.assert_allclose(dofs, world.model.dof_invweight0[world.coordinates.dofs], rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"contact": SoftContact(solref=(0.02, 0.0))}, "law.contact.solref"),
        ({"contact": SoftContact(solimp=(0.9, 0.95, 0.001, 0.5, 0.5))}, "law.contact.solimp"),
        ({"contacts": {"FL_foot": SoftContact(solref=(-1.0, 1.0))}}, "law.contacts.FL_foot.solref"),
        ({"contact": SoftContact(spin=np.inf)}, "law.contact.spin"),
        ({"contact": SoftContact(condim=6, roll=-1.0)}, "law.contact.roll"),
        ({"joint": SoftJoint(range=(1.0, 0.0))}, "law.joint.range"),
        ({"joints": {"hip": SoftJoint(solimplimit=(np.nan, 0.95, 0.001, 0.5, 2.0))}}, "law.joints.hip.solimplimit"),
    ],
)
def test_invalid_parameters_are_named(settings, named):
    with pytest.raises(ConfigError, match=named):
        make_law("mujoco", **settings)


def test_unknown_names_and_unsupported_robots_are_named():
    robot, q = load_robot("fivebar")
    world = build_world(MujocoSettings(), robot, Flat(), q)
    with pytest.raises(ConfigError, match="closed chains"):
        predict(robot, world.state, world.contacts, np.zeros(robot.na), law="mujoco", dt=DT)
    robot, q = load_robot("quadruped")
    world = build_world(MujocoSettings(), robot, Flat(), q)
    law = make_law("mujoco", joints={"no joint": SoftJoint()})
    with pytest.raises(ConfigError, match=r"law\.joints\.no joint"):
        predict(robot, world.state, world.contacts, np.zeros(robot.na), law=law, dt=DT)
    with pytest.raises(msgspec.ValidationError, match="integrator"):
        msgspec.convert({"kind": "mujoco", "integrator": "RK4"}, LAWS["mujoco"])


@pytest.mark.parametrize("integrator", ["Euler", "implicit"])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_torque_limits_are_kept_and_forces_stay_those_of_the_world(cone, integrator):
    """A joint at its limit has the acceleration that the limit permits; all others meet the demand. With `implicit` joints have
    damping, dry friction and a range, too."""
    world, limited = world_of("quadruped", cone=cone, integrator=integrator), 0
    world.robot = world.robot.variant(tau_max=dict.fromkeys(world.robot.joint_names, 2.0))
    law = make_law("mujoco", cone=cone, integrator=integrator, joints=resisting(world) if integrator == "implicit" else {})
    for seed in range(20):
        answer, force, acceleration = random_step(world, law, [1, seed])
        held = np.abs(answer.tau) > 2.0 - 1e-8
        limited += held.any()
        assert np.abs(answer.tau).max() <= 2.0 * (1.0 + 1e-9)
        assert answer.torque_excess == 0.0
        assert (answer.demand_change > 0.0) == held.any()
        assert force < FORCE
        assert acceleration < 1e-6
    assert limited >= 5


@pytest.mark.parametrize("cone", first_is_fast(["elliptic", "pyramidal"]))
@pytest.mark.parametrize(("dim", "integrator"), first_is_fast([(6, "implicit"), (3, "Euler")]))
def test_forces_under_given_torques_are_those_of_the_world(dim, integrator, cone):
    """With damping, dry friction and limits of joints."""
    world, contact = turning("quadruped", dim, cone=cone, integrator=integrator)
    law = make_law("mujoco", cone=cone, integrator=integrator, joints=resisting(world), contact=contact)
    robot, rng = world.robot, np.random.default_rng(0)
    for seed in range(8):
        random_step(world, law, [2, seed])
        contacts, tau = world.contacts, rng.normal(size=robot.na)
        request = Request(robot, world.state, contacts, np.zeros(robot.na), law, DT, Options(), None, None, None)
        answer = under_torques(request, tau)
        result = world.step(tau, DT)
        np.testing.assert_allclose(answer.tau, tau, atol=1e-9)
        felt = dict(zip(result.contacts.keys, result.impulse / DT, strict=True))
        for key, force in zip(answer.keys, answer.force, strict=True):
            np.testing.assert_allclose(force, felt.get(key, 0.0), atol=FORCE * robot.weight)
        assert np.abs(world.v - answer.v_plus)[robot.tree.a].max() / DT < 1e-6


@pytest.mark.full
@pytest.mark.parametrize("task", ["trot", "stand", "slide"])
@pytest.mark.parametrize("robot", ROBOTS)
def test_in_closed_loop_every_force_is_the_worlds(robot, task):
    """With joint feedback and torque limits; Coulomb's law is off by more than a thousandth of the weight."""
    for ground, cone in (("default", "elliptic"), ("stiff", "pyramidal")):
        errors = force_errors(Setting(robot, task, ground, cone))
        if errors is None:
            continue  # no gait
        assert len(errors) == round(SECONDS[task] / DT)
        assert errors.max() < FORCE
        loose = 1e-4 if robot.endswith(TURNING) else 1e-5
        assert np.percentile(force_errors(Setting(robot, task, ground, cone, tolerance=1e-8)), 99) < loose
    if task == "trot" and errors is not None:
        assert np.percentile(force_errors(Setting(robot, task, law="coulomb")), 99) > 1e-3


@full
def test_the_server_predicts_the_forces_of_the_world():
    """In the first tick gaps are 0 up to rounding, which decides whether a foot touches."""
    engine = MujocoSettings(tolerance=0.0)
    plan = build_plan(ExperimentSettings(server="quadruped", laws=("mujoco",), duration=0.3, paced=False, engine=engine))
    run = run_in_process(with_controller(plan, {"law": "mujoco"}), "mujoco", lambda *_: None)
    errors = np.nan_to_num(run.trace.predicted) - np.nan_to_num(run.trace.simulated)
    assert np.abs(run.trace.predicted).max() > 5.0
    assert np.abs(errors[1:]).max() < FORCE * load_robot("quadruped")[0].weight
