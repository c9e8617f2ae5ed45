"""The law `mujoco` against MuJoCo itself: the force of every foot and the acceleration in the step that was predicted."""

import msgspec
import numpy as np
import pytest
from fast import every, fast, first_is_fast, full
from mujoco_steps import DT, FORCE, check, random_step, resisting, world_of

from controllers.robot.load import load_robot
from idyn import predict
from idyn.contact.terrain import Flat, Slope
from idyn.errors import ConfigError
from idyn.laws import make_law
from idyn.laws.mujoco.law import SoftContact, SoftJoint
from idyn.laws.settings import LAWS
from idyn.prediction.soft_tables import inverse_weights
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, with_controller
from sim_harness.studies.mujoco_law import ROBOTS, SECONDS, TURNING, Setting, force_errors
from sim_harness.world.worlds import build_world


@every("cone", ["elliptic", "pyramidal"])
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


@every("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("variant", fast(VARIANTS, "impratio", "solimp", "slope"))
@every("dim", [3, 6])
def test_forces_with_other_settings(dim, variant, cone):
    settings, place, contact = VARIANTS[variant]
    world = world_of("quadruped", cone=cone, condim=dim, roll=0.01, **place, **settings)
    contact = SoftContact(condim=dim, roll=0.01, **contact)
    law = make_law("mujoco", cone=cone, impratio=settings.get("impratio", 1.0), contact=contact)
    check(world, law, 12)


@every("cone", ["elliptic", "pyramidal"])
def test_margin_and_frictionless_contacts(cone):
    for change, contact in (({"pair_margin": 2e-3}, SoftContact(margin=2e-3)), ({"pair_dim": 1}, SoftContact(condim=1))):
        world = world_of("quadruped", cone=cone)
        for field, value in change.items():
            getattr(world.model, field)[:] = value
        check(world, make_law("mujoco", cone=cone, contact=contact), 8)


def test_without_friction():
    check(world_of("quadruped", cone="elliptic", mu=0.0), make_law("mujoco", cone="elliptic"), 8)
    check(world_of("quadruped", condim=6, mu=0.0), make_law("mujoco", contact=SoftContact(condim=6)), 8)


@every("integrator", ["Euler", "implicitfast", "implicit"])
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


@every(
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
