"""The law `mujoco` against MuJoCo itself: forces, moments and accelerations as predicted; and laws read from an MJCF."""

import msgspec
import mujoco
import numpy as np
import pytest
from fast import every, every_row, first_is_fast, full

from controllers.robot.load import load_robot
from idyn import LAWS, Batch, ConfigError, Options, Robot, State, contacts_from_geometry, make_law, predict, predict_batch
from idyn.contact.soft import SoftContact, SoftJoint, inverse_weights
from idyn.contact.terrain import Flat, Slope
from idyn.prediction.predict import under_torques
from idyn.prediction.request import Request
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, with_controller
from sim_harness.studies.mujoco_law import ROBOTS, SECONDS, TURNING, Setting, force_errors
from sim_harness.studies.mujoco_model import load_model, read_law
from sim_harness.world.worlds import build_world

DT = 1e-3
FORCE = 1e-9  # largest error of a force, as a share of the weight
VARIANTS = {
    "impratio": ({"impratio": 10.0}, {}, {}),
    "solimp": ({"solimp": (0.1, 0.99, 0.003, 0.3, 3.0)}, {}, {"solimp": (0.1, 0.99, 0.003, 0.3, 3.0)}),
    "linear": ({"solimp": (0.5, 0.99, 0.001, 0.3, 1.0)}, {}, {"solimp": (0.5, 0.99, 0.001, 0.3, 1.0)}),
    "solreffriction": ({"solreffriction": (0.05, 1.0)}, {}, {"solreffriction": (0.05, 1.0)}),
    "slope": ({}, {"terrain": Slope(0.2)}, {}),
    "slippery": ({}, {"mu": 0.1}, {}),
}
REFUSED = {
    "option.integrator": ('cone="elliptic"', 'cone="elliptic" integrator="RK4"'),
    "option.noslip_iterations": ('cone="elliptic"', 'cone="elliptic" noslip_iterations="3"'),
    "geom.shank0.foot0": ('type="sphere" size="0.03"', 'type="capsule" size="0.03 0.02"'),
    "joint.stiffness": ('damping="0.02"', 'damping="0.02" stiffness="1"'),
    "option.density": ('cone="elliptic"', 'cone="elliptic" density="1.2"'),
}


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


@every("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12", "go2", "g1"]))
def test_forces_are_those_of_the_world(name, cone):
    for ground in ((0.02, 1.0), (0.005, 1.0), (-3e4, -400.0), (0.01, 0.4)):
        world = world_of(name, cone=cone, solref=ground)
        check(world, make_law("mujoco", cone=cone, contact=SoftContact(solref=ground)), 4)


@full
@every("cone", first_is_fast(["elliptic", "pyramidal"]))
@every("variant", VARIANTS)
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


@every_row(
    ({"contact": SoftContact(solref=(0.02, 0.0))}, "law.contact.solref"),
    ({"contact": SoftContact(solimp=(0.9, 0.95, 0.001, 0.5, 0.5))}, "law.contact.solimp"),
    ({"contacts": {"FL_foot": SoftContact(solref=(-1.0, 1.0))}}, "law.contacts.FL_foot.solref"),
    ({"contact": SoftContact(spin=np.inf)}, "law.contact.spin"),
    ({"contact": SoftContact(condim=6, roll=-1.0)}, "law.contact.roll"),
    ({"joint": SoftJoint(range=(1.0, 0.0))}, "law.joint.range"),
    ({"joints": {"hip": SoftJoint(solimplimit=(np.nan, 0.95, 0.001, 0.5, 2.0))}}, "law.joints.hip.solimplimit"),
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


def moments_of(world):
    """Contact moments of the last step in the world, by key, about MuJoCo's contact points."""
    found, wrench = {}, np.zeros(6)
    for k in range(world.data.ncon):
        mujoco.mj_contactForce(world.model, world.data, k, wrench)
        place = world.model.geom(int(world.data.contact.geom[k, 1])).name
        assert place.startswith("place")
        found[world.robot.contact_names[int(place.split()[1])]] = wrench[3:] @ world.data.contact.frame[k].reshape(3, 3)
    return found


@every("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2"]))
@every("dim", first_is_fast([6, 4]))
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


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2", "g1"]))
@every("cone", ["elliptic", "pyramidal"])
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


@full
@every("integrator", ["Euler", "implicit"])
@every("cone", ["elliptic", "pyramidal"])
def test_torque_limits_are_kept_and_forces_stay_those_of_the_world(cone, integrator):
    """A joint at its limit accelerates as that permits, all others as asked. With `implicit` joints resist and have a range."""
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


STEP = 5e-4

ROBOT = """<mujoco>
  <option timestep="0.0005" cone="elliptic" impratio="3" tolerance="0" iterations="200" ls_iterations="200"/>
  <default><joint damping="0.02" frictionloss="0.1" armature="0.01" range="-0.05 0.3" margin="0.01"/>
    <default class="foot"><geom type="sphere" size="0.03" solref="0.01 0.9" friction="0.5 0.005 0.0001" solmix="2"/></default>
  </default>
  <worldbody>{ground}
    <body name="trunk" pos="0 0 0.4"><freejoint/>
      <inertial pos="0.01 0 0" mass="6" diaginertia="0.06 0.05 0.07"/>{legs}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>"""

GROUND = '<geom name="floor" type="plane" size="0 0 1" solref="0.03 1.1" solimp="0.8 0.9 0.002" margin="0.001" friction="0.7"/>'

LEG = """<body name="thigh{i}" pos="{x} {y} 0">
  <joint name="hip{i}" type="hinge" axis="0 1 0" limited="true"/>
  <inertial pos="0 0 -0.1" mass="0.4" diaginertia="0.002 0.002 0.0005"/>
  <body name="shank{i}" pos="0 0 -0.2"><joint name="knee{i}" type="hinge" axis="0 1 0" limited="true"/>
    <inertial pos="0 0 -0.08" mass="0.2" diaginertia="0.001 0.001 0.0002"/>
    <geom type="cylinder" size="0.01 0.05" pos="0 0 -0.05" condim="1"/>
    <geom name="foot{i}" class="foot" pos="0 0 -0.17"/>
  </body>
</body>"""

CORNERS = [(0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1)]


def text_of(ground=GROUND, *changes):
    legs = "".join(LEG.format(i=i, x=x, y=y) for i, (x, y) in enumerate(CORNERS))
    motors = "".join(f'<motor joint="{name}{i}" ctrlrange="-1000 1000"/>' for i in range(4) for name in ("hip", "knee"))
    text = ROBOT.format(ground=ground, legs=legs, motors=motors)
    for before, after in changes:
        text = text.replace(before, after)
    return text


def loaded(folder, *changes):
    paths = folder / "robot.xml", folder / "scene.xml"
    for path, ground in zip(paths, ("", GROUND), strict=True):
        path.write_text(text_of(ground, *changes), encoding="utf-8")
    return Robot.from_mjcf(paths[0]), load_model(paths[1])


@every(("condim", "integrator"), first_is_fast([(3, "Euler"), (4, "implicitfast"), (6, "implicit")]))
@every("cone", ["elliptic", "pyramidal"])
def test_forces_are_those_of_the_model(tmp_path, cone, condim, integrator):
    """MuJoCo mixes parameters of feet and floor; joints resist and have limits. Shanks have a shape that is no contact."""
    options = ("elliptic", f'{cone}" integrator="{integrator}')
    robot, model = loaded(tmp_path, options, ('type="sphere"', f'type="sphere" condim="{condim}"'))
    found, data, pressed = read_law(model, robot), mujoco.MjData(model), 0
    assert (found.timestep, set(found.friction)) == (STEP, set(robot.contact_names))
    law, mu = found.law.build(), np.array([found.friction[key] for key in robot.contact_names])
    motors = [model.joint(name).dofadr[0] for name in robot.joint_names]
    hinges = [model.joint(name).qposadr[0] for name in robot.joint_names]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        q = robot.integrate(robot.neutral(), np.r_[np.zeros(3), rng.uniform(-0.1, 0.1, robot.nv - 3)])
        q[2] -= contacts_from_geometry(robot, q, Flat(), margin=np.inf).gaps.min() + rng.uniform(-5e-4, 2e-3)
        v = 0.5 * rng.normal(size=robot.nv)
        contacts = contacts_from_geometry(robot, q, Flat(), margin=0.01, mu=mu)
        answer = predict(robot, State(q=q, v=v), contacts, 20.0 * rng.normal(size=robot.na), law=law, dt=STEP)
        assert answer.status.ok
        assert answer.residuals.worst < 1e-10
        data.qpos[:7], data.qpos[hinges] = np.r_[q[:3], q[[6, 3, 4, 5]]], q[7:]
        mujoco.mj_kinematics(model, data)
        data.qvel[:6] = np.r_[data.xmat[1].reshape(3, 3) @ v[:3], v[3:6]]
        data.qvel[motors], data.qfrc_applied[motors] = v[6:], answer.tau
        data.qacc_warmstart[:] = 0.0
        mujoco.mj_step1(model, data)
        mujoco.mj_step2(model, data)
        forces, wrench = dict.fromkeys(answer.keys, np.zeros(3)), np.zeros(6)
        for i in range(data.ncon):
            mujoco.mj_contactForce(model, data, i, wrench)
            geom = model.geom(int(data.contact.geom[i].max()))
            forces[f"{model.body(geom.bodyid[0]).name}.{geom.name}"] = wrench[:3] @ data.contact.frame[i].reshape(3, 3)
        for key, force in zip(answer.keys, answer.force, strict=True):
            np.testing.assert_allclose(force, forces[key], atol=1e-9 * robot.weight)
        np.testing.assert_allclose(data.qvel[motors], answer.v_plus[6:], atol=1e-9)
        pressed += answer.normal_force.max(initial=0.0) > 1.0
    assert pressed >= 5


@every("named", REFUSED)
def test_what_the_law_does_not_support_is_named(tmp_path, named):
    robot, _ = loaded(tmp_path)
    path = tmp_path / "other.xml"
    path.write_text(text_of(GROUND, REFUSED[named]), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_law(load_model(path), robot)
    assert error.value.path == named


def test_a_model_with_other_masses_is_refused(tmp_path):
    robot, model = loaded(tmp_path)
    heavier = robot.variant(armature=dict.fromkeys(robot.joint_names, 0.02))
    with pytest.raises(ConfigError, match="inverse inertia"):
        read_law(model, heavier)
    with pytest.raises(ConfigError, match="MuJoCo cannot compile"):
        load_model(tmp_path / "missing.xml")


def test_the_settings_survive_a_file(tmp_path):
    robot, model = loaded(tmp_path)
    law = read_law(model, robot).law
    assert msgspec.json.decode(msgspec.json.encode(law), type=type(law)) == law
