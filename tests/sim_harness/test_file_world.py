"""The world of a robot's own MJCF or URDF against MuJoCo stepped by hand, and what the controller believes otherwise."""

import mujoco
import numpy as np
import pytest
import urdf
from disk import written
from fast import every, every_row

from idyn import ContactPoint, Flat, Robot, load_robot
from sim_harness.mujoco.file_world import beliefs, file_world
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.run.plan import load_plan, note_of_world, own_world
from sim_harness.world.bodies import RobotBodies
from sim_harness.world.world import Push
from sim_harness.world.worlds import build_world

TABLE = """
<mujoco model="table">
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    {floor}
    <body name="top" pos="0 0 0.2">
      <freejoint/>
      <geom type="box" size="0.3 0.2 0.02" mass="4" contype="0" conaffinity="0"/>
      <geom type="sphere" size="0.03" pos="0.25 0.15 -0.17" friction="0.6" mass="0.1"/>
      <geom type="sphere" size="0.03" pos="0.25 -0.15 -0.17" friction="0.6" mass="0.1"/>
      <geom type="sphere" size="0.03" pos="-0.25 0.15 -0.17" friction="0.6" mass="0.1"/>
      <geom type="sphere" size="0.03" pos="-0.25 -0.15 -0.17" friction="0.6" mass="0.1"/>
      <body name="arm" pos="0 0 0.05">
        <joint name="swing" axis="0 1 0" pos="{anchor} 0 0"
          damping="0.4" frictionloss="0.1" stiffness="3" springref="0.2" armature="0.02"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.02" mass="0.5"/>
      </body>
    </body>
    <body name="ball" pos="3 0 0.1"><freejoint/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><position joint="swing" kp="50" forcerange="-9 9"/></actuator>
</mujoco>
"""
FLOOR = '<geom type="plane" size="5 5 1" friction="0.9"/>'
CORNERS = [(x, y, -0.17) for x in (-0.25, 0.25) for y in (-0.15, 0.15)]
FEET = "".join(urdf.touching('sphere radius="0.03"', corner) for corner in CORNERS)
BALL = urdf.link("ball", 1.0, 1.0) + urdf.joint("flies", "arm", "ball", kind="floating")


@pytest.fixture
def world_of(tmp_path):
    def build(floor=FLOOR, anchor=0.0, **settings):
        path = written(tmp_path / "table.xml", TABLE.format(floor=floor, anchor=anchor))
        robot = Robot.from_mjcf(path, **settings)
        q = robot.neutral()
        q[2] = 0.2
        return file_world(RobotBodies(robot, Flat(), q), path, 0.0)[0], path

    return build


def test_it_moves_as_mujoco_moves_the_file(world_of):
    world, path = world_of()
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    data = mujoco.MjData(model)
    swing = model.joint("swing")
    for k in range(200):
        torque = 1.5 * np.sin(0.05 * k)
        world.step(np.array([torque]), 0.002)
        data.qfrc_applied[swing.dofadr[0]] = torque
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(world.q[:3], data.qpos[:3], atol=1e-12)
    np.testing.assert_allclose(world.q[7], data.qpos[swing.qposadr[0]], atol=1e-12)
    np.testing.assert_allclose(world.data.qpos[-7:], data.qpos[-7:], atol=1e-12)  # the ball, which is not the robot's


@every("floor", [FLOOR, ""])
def test_the_feet_carry_the_weight_on_the_files_floor_or_an_added_one(world_of, floor):
    world, _ = world_of(floor)
    for _ in range(1000):
        result = world.step(np.zeros(1), 0.002)
    assert world.robot.weight == pytest.approx((4.0 + 0.4 + 0.5) * 9.81)
    assert result.impulse[:, 2].sum() / 0.002 == pytest.approx(world.robot.weight, rel=1e-3)
    assert len(result.contacts.keys) == 4


def test_a_push_acts_on_the_body_of_the_file_and_where_it_is_said(world_of):
    """At the joint's own point, the anchor, a force does not turn it; 0.3 m above it, it does."""
    world, _ = world_of()
    for _ in range(300):
        world.step(np.zeros(1), 0.002)
    at_rest = world.q[0]
    for _ in range(200):
        world.step(np.zeros(1), 0.002, [Push(frame="top", force=(60.0, 0.0, 0.0))])
    acceleration = (60.0 - 0.9 * world.robot.weight) / world.robot.total_mass  # the larger μ of foot and floor
    assert world.q[0] - at_rest == pytest.approx(0.5 * acceleration * 0.4**2, rel=0.05)
    speeds = []
    for height in (0.0, 0.3):
        world, _ = world_of(anchor=0.01)
        world.step(np.zeros(1), 0.002, [Push(frame="arm", force=(5.0, 0.0, 0.0), point=(0.0, 0.0, height))])
        free, _ = world_of(anchor=0.01)
        free.step(np.zeros(1), 0.002)
        speeds.append(world.v[6] - free.v[6])
    assert abs(speeds[1]) > 20.0 * abs(speeds[0])


def test_what_the_controller_believes_otherwise_is_said(world_of):
    feet = [ContactPoint(frame="top", offset=(x, y, -0.17), radius=0.03, mu=0.8) for x in (-0.25, 0.25) for y in (-0.15, 0.15)]
    world, path = world_of(armature={"swing": 0.5}, contact=feet, tau_max={"swing": 3.0}, gravity=(0.0, 0.0, -1.62))
    said = " ".join(beliefs(world.bodies, path, 0.0))
    assert "gravity: believed [0.0, 0.0, -1.62], in the file [0.0, 0.0, -9.81] m/s²" in said
    assert "rotor inertia: believed 0.5 for 0.02" in said
    assert "torque limit of swing: believed 3, in the file 9" in said
    assert "friction of top: believed 0.8, in the world 0.6" in said
    own, path = world_of()
    (said,) = beliefs(own.bodies, path, 0.0)
    assert said.endswith("the controller does not know: damping up to 0.4, friction up to 0.1, springs up to 3")


def test_a_world_made_from_the_model_has_no_springs_of_the_file(world_of):
    own, path = world_of()
    made = build_world(MujocoSettings(), own.robot, Flat(), own.q)
    for world in (own, made):
        world.step(np.zeros(1), 0.002)
    assert abs(own.v[6]) > 10 * abs(made.v[6])
    assert path.exists()


def stool(*more, feet=FEET, iyy=0.025):
    rod, resisting = urdf.touching('box size="0.04 0.04 0.3"', 0.15), '<dynamics damping="0.4" friction="0.1"/>'
    seat = urdf.link("seat", 3.0, (0.02, iyy, 0.03), (0.01, 0, 0), feet)
    arm = urdf.link("arm", 0.5, (0.01, 0.01, 0.001), 0.2, rod)
    swing = urdf.joint("swing", "seat", "arm", resisting, axis="0 1 0", at=0.05, limits=(-1, 0.4, 9, 10))
    return urdf.robot("stool", seat, arm, swing, *more)


@pytest.fixture
def stool_of(tmp_path):
    def build(text, mu=0.7, **settings):
        path = written(tmp_path / "stool.urdf", text)
        places = [ContactPoint(frame="seat", offset=corner, radius=0.03, mu=mu) for corner in CORNERS]
        robot = Robot.from_urdf(path, contact=places, **settings)
        q = robot.neutral()
        q[2] = 0.2
        return robot, q, path

    return build


def test_a_urdf_moves_as_mujoco_moves_its_import(stool_of):
    """Also at the end of the range of the arm, where it stops, and with the rotor that a URDF cannot name."""
    robot, q, path = stool_of(stool(), armature=0.02)
    world, _ = file_world(RobotBodies(robot, Flat(), q), path, 0.0)
    spec = mujoco.MjSpec.from_string(path.read_text())
    seat = spec.worldbody.first_body()
    seat.add_freejoint()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=[0, 0.005, 1e-4])
    for geom in spec.geoms:
        if geom.type != mujoco.mjtGeom.mjGEOM_PLANE:
            geom.friction = [0.7, 0.005, 1e-4]
    spec.add_exclude(bodyname1="seat", bodyname2="arm")
    settings = MujocoSettings()
    spec.option.cone, spec.option.integrator = mujoco.mjtCone.mjCONE_ELLIPTIC, world.model.opt.integrator
    spec.option.impratio, spec.option.tolerance = settings.impratio, settings.tolerance
    spec.joint("swing").armature = 0.02
    model = spec.compile()
    model.opt.timestep, data = settings.timestep, mujoco.MjData(model)
    data.qpos[2] = 0.2
    for k in range(400):
        torque = 1.5 * np.sin(0.02 * k)
        world.step(np.array([torque]), 0.001)
        data.qfrc_applied[6] = torque
        for _ in range(round(0.001 / settings.timestep)):
            mujoco.mj_step(model, data)
    assert abs(world.v[6]) + abs(world.q[7]) > 0.2
    np.testing.assert_allclose(world.q[:3], data.qpos[:3], atol=1e-9)
    np.testing.assert_allclose(world.q[7], data.qpos[7], atol=1e-9)


def test_a_foot_without_shapes_stands_on_its_contact_places_and_it_is_said(stool_of):
    robot, q, path = stool_of(stool(feet=urdf.touching('mesh filename="package://gone/foot.stl"')))
    world, _ = file_world(RobotBodies(robot, Flat(), q), path, 0.0)
    for _ in range(1000):
        result = world.step(np.zeros(1), 0.001)
    assert result.impulse[:, 2].sum() / 0.001 == pytest.approx(robot.weight, rel=0.02)
    said = " ".join(beliefs(RobotBodies(robot, Flat(), q), path, 0.0))
    assert "package://gone/foot.stl" in said
    assert "contact places touch: seat" in said


def test_feet_that_touch_elsewhere_than_the_controller_believes_are_said(stool_of):
    robot, q, path = stool_of(stool())
    higher = robot.variant(contact=[ContactPoint(frame="seat", offset=(x, y, -0.16), radius=0.03) for x, y, _ in CORNERS])
    q[2] = 0.19
    said = beliefs(RobotBodies(higher, Flat(), q), path, 0.0)
    assert said[-1] == "seat: its shapes are 10 mm below the floor"


def test_friction_is_that_of_the_contact_places_and_may_be_infinite(stool_of):
    """A push of 0.9 weights moves a stool with a friction of 0.5, and none without end."""
    for mu, stays in ((0.5, False), (np.inf, True)):
        robot, q, path = stool_of(stool(), mu=mu)
        world, _ = file_world(RobotBodies(robot, Flat(), q), path, 0.0)
        for _ in range(300):
            world.step(np.zeros(1), 0.001)
        before = world.q[0]
        for _ in range(200):
            world.step(np.zeros(1), 0.001, [Push(frame="seat", force=(0.9 * robot.weight, 0.0, 0.0), point=(0.0, 0.0, -0.2))])
        assert (abs(world.q[0] - before) < 0.01) == stays


def test_a_fixed_base_without_contact_places_has_no_floor(stool_of):
    _, _, path = stool_of(stool())
    arm = Robot.from_urdf(path, base="fixed")
    world, _ = file_world(RobotBodies(arm, Flat(), arm.neutral()), path, 0.0)
    world.step(np.zeros(1), 0.001)
    assert world.data.ncon == 0


@every_row(
    (stool(), "which the controller does not know: damping up to 0.4, friction up to 0.1"),
    (stool(iyy=0.09), "inertias that no body has are changed to spheres' ('seat'"),
    (
        stool(BALL),
        "made from the controller's model, because MuJoCo refuses the file: stool.urdf: Error: free joint can only be used",
    ),
    (
        stool(urdf.link("ball", 1.0, 1.0), urdf.joint("flies", "arm", "ball", axis="0 0 1", kind="planar")),
        "refuses the file: stool.urdf: a joint of several degrees of freedom, imported as flies_TX, flies_TY, flies_RZ",
    ),
)
def test_what_mujoco_changes_or_refuses_in_a_urdf_is_said(text, note, stool_of, tmp_path):
    _, _, path = stool_of(text)
    config = tmp_path / "own.toml"
    places = ", ".join(f'{{frame = "seat", offset = {list(corner)}, radius = 0.03}}' for corner in CORNERS)
    experiment = '[experiment]\nlaws = ["cone"]\nduration = 1.0\nengine = "mujoco"\n'
    config.write_text(f'[robot]\nurdf = "{path}"\ncontact = [{places}]\n{experiment}', encoding="utf-8")
    plan = load_plan(str(config))
    assert own_world(plan, load_robot(plan.controller.robot)[0]) == (path, "")
    assert note in note_of_world(plan)


def test_a_capsule_touches_along_its_side_and_with_its_ends(stool_of):
    """Lying across under the seat, 0.4 m between the centres of its ends: the stool rests on it 0.03 m above the floor."""
    capsule = 'capsule radius="0.03" length="0.4"'
    both = "".join(urdf.touching(capsule, (x, 0, -0.17), "1.5707963 0 0") for x in (-0.2, 0.2))
    robot, q, path = stool_of(stool(feet=both))
    world, said = file_world(RobotBodies(robot, Flat(), q), path, 0.0)
    kinds = [int(kind) for kind in world.model.geom_type]
    assert (kinds.count(mujoco.mjtGeom.mjGEOM_CYLINDER), kinds.count(mujoco.mjtGeom.mjGEOM_SPHERE)) == (2, 4)
    assert said == []
    for _ in range(1000):
        world.step(np.zeros(1), 0.001)
    assert world.q[2] == pytest.approx(0.2, abs=0.002)
    ends = [p for p, k in zip(world.data.geom_xpos, kinds, strict=True) if k == mujoco.mjtGeom.mjGEOM_SPHERE]
    np.testing.assert_allclose(np.abs([end[1] for end in ends]), 0.2, atol=0.002)
