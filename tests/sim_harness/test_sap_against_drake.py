"""The law `sap` against Drake's SAP: each step of a robot whose joints sway.

Drake is the oracle: geometry, kinematics and dynamics are its own. Its contacts are those that touch, its relaxation time is
τ_d. Its w is ‖W_ii‖_F / 3 as the paper has it, but of J diag(M)⁻¹ Jᵀ, for the quadruped's feet 1.29 times ours. It stands in
R_t = σ w alone here, R_n being that of the springs, so σ makes up for it.
"""

import xml.etree.ElementTree as ET

import msgspec
import numpy as np
import pytest

from controllers.robot.load import load_robot
from idyn import Flat, Robot, State, contacts_from_geometry, make_law, predict
from idyn.options import Options
from idyn.terms.dynamics import evaluate
from idyn.types import Consistency

pytest.importorskip("pydrake", reason="the package drake is not installed")
from pydrake.all import (
    AddContactMaterial,
    AddMultibodyPlantSceneGraph,
    Box,
    CoulombFriction,
    DiagramBuilder,
    DiscreteContactApproximation,
    Parser,
    ProximityProperties,
    RigidTransform,
    Simulator,
    Sphere,
)

pytestmark = [pytest.mark.drake, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

RIGID = 1e15
"""Stiffness of what is to yield nothing beside the ground [N/m]."""


class DrakeWorld:
    """A plant with SAP contact; the ground has stiffness [N/m], τ_d [s] and friction, what stands on it the friction alone."""

    def __init__(self, dt, stiffness, dissipation, mu):
        self.dt, self.mu = dt, mu
        self.soft, self.hard = (self._material(k, tau) for k, tau in ((stiffness, dissipation), (RIGID, 0.0)))
        self.builder = DiagramBuilder()
        self.plant, _ = AddMultibodyPlantSceneGraph(self.builder, dt)
        self.plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        self.plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -9.81])
        ground = Box(100.0, 100.0, 1.0), RigidTransform(np.array([0.0, 0.0, -0.5]))
        self.plant.RegisterCollisionGeometry(self.plant.world_body(), ground[1], ground[0], "ground", self.soft)

    def _material(self, stiffness, dissipation):
        properties = ProximityProperties()
        AddContactMaterial(point_stiffness=stiffness, friction=CoulombFriction(self.mu, self.mu), properties=properties)
        properties.AddProperty("material", "relaxation_time", float(dissipation))
        return properties

    def add(self, body, shape, position, material):
        name = f"{body.name()} {len(self.plant.GetCollisionGeometriesForBody(body))}"
        self.plant.RegisterCollisionGeometry(body, RigidTransform(np.array(position)), shape, name, material)

    def ready(self):
        self.plant.Finalize()
        self.simulator = Simulator(self.builder.Build())
        self.context = self.plant.GetMyMutableContextFromRoot(self.simulator.get_mutable_context())
        self.force = self.plant.get_applied_generalized_force_input_port().FixValue(
            self.context, np.zeros(self.plant.num_velocities())
        )
        return self

    @property
    def v(self):
        return self.plant.GetVelocities(self.context)

    def begin(self):
        self.simulator.Initialize()
        self.ticks = 0

    def step(self, force):
        self.force.GetMutableData().set_value(force)
        self.ticks += 1
        self.simulator.AdvanceTo(self.ticks * self.dt)


def standing(robot, q, stiffness, dissipation, mu):
    """A robot on its feet, from its own URDF without what is only seen; q as Pinocchio has it."""
    world = DrakeWorld(1e-3, stiffness, dissipation, mu)
    tree = ET.fromstring(robot.description.urdf)
    for link in tree.iter("link"):
        for seen in (*link.findall("visual"), *link.findall("collision")):
            link.remove(seen)
    Parser(world.plant).AddModelsFromString(ET.tostring(tree, encoding="unicode"), "urdf")
    for foot in robot.description.contact:
        body = world.plant.GetBodyByName(foot.frame)
        world.add(body, Sphere(foot.radius), foot.offset, world.hard)
    world.ready()
    plant, context = world.plant, world.context
    (base,) = plant.GetFloatingBaseBodies()
    plant.SetFreeBodyPose(context, plant.get_body(base), RigidTransform(q[:3]))
    for name, angle in zip(robot.joint_names, robot.joint_angles(q), strict=True):
        plant.GetJointByName(name).set_angle(context, angle)
    return world


DT, STIFFNESS, DISSIPATION, MU, SIGMA = 1e-3, 1e4, 5e-3, 0.8, 1e-3


class Side:
    """Drake's world with states in the order of the robot's model."""

    def __init__(self, robot, q):
        self.robot, self.world = robot, standing(robot, q, STIFFNESS, DISSIPATION, MU)
        plant = self.world.plant
        self.joints = [plant.GetJointByName(name).velocity_start() for name in robot.joint_names]
        self.angles = [plant.GetJointByName(name).position_start() for name in robot.joint_names]
        self.world.begin()

    def velocity(self, R):
        """v in the model's order: of the base in its own axes R, then of the joints."""
        v = self.world.v
        return np.r_[R.T @ v[3:6], R.T @ v[:3], v[self.joints]]

    def state(self):
        positions = self.world.plant.GetPositions(self.world.context)
        w, x, y, z = positions[:4] / np.linalg.norm(positions[:4])
        q = np.r_[positions[4:7], x, y, z, w, positions[self.angles]]
        return State(q=q, v=self.velocity(self.robot.frames.placement("root_joint", q).rotation))

    def step(self, tau):
        """Step under these torques. Return the sum of the ground's vertical forces in the step [N]."""
        force, plant = np.zeros(len(self.world.v)), self.world.plant
        force[self.joints] = tau
        self.world.step(force)
        results = plant.get_contact_results_output_port().Eval(self.world.context)  # those of the step that was taken
        pairs = [results.point_pair_contact_info(i) for i in range(results.num_point_pair_contacts())]
        return sum(abs(pair.contact_force()[2]) for pair in pairs)


def turning(state):
    """A state whose base velocity has the change in the step by the rotation of its axes: Drake's velocities are along fixed
    axes, Rᵀ v̇ = d(Rᵀ v)/dt + ω × Rᵀ v."""
    v = state.v.copy()
    v[:3] += DT * np.cross(v[3:6], v[:3])
    return State(q=state.q, v=v)


def law_for(robot, state, contacts):
    dynamics = evaluate(robot, state, contacts, dt=DT, ground=Options().ground).dynamics
    M, shares = dynamics.given.M, []
    for J in dynamics.J.reshape(-1, 3, len(state.v)):
        theirs, ours = J @ (J / np.diag(M)).T, J @ np.linalg.solve(M, J.T)
        shares.append(np.linalg.norm(theirs) / np.linalg.norm(ours))
    sigma = SIGMA * float(np.mean(shares)) if shares else SIGMA
    ground = {"stiffness": STIFFNESS, "dissipation": DISSIPATION, "sigma": sigma}
    return make_law("sap", **ground, drift=False)  # the period is Drake's step


@pytest.mark.full
@pytest.mark.parametrize(("name", "push"), [("quadruped", 2.0), ("quadruped", 12.0), ("go2", 2.0), ("solo12", 2.0)])
def test_drake_moves_and_presses_as_predicted(name, push):
    """Joints sway; with the larger acceleration feet slide. The robots have no rotor inertia, as in their URDF."""
    robot, q = load_robot(name)
    robot = Robot(msgspec.structs.replace(robot.description, armature={}))
    side = Side(robot, q)
    rest, rng = robot.joint_angles(q), np.random.default_rng(0)
    phases, worst, forces, pressed = rng.uniform(0.0, 6.28, robot.na), 0.0, 0.0, 0
    for k in range(300):
        state = side.state()
        contacts = contacts_from_geometry(robot, state.q, Flat(), margin=0.0, mu=np.full(len(robot.spheres.keys), MU))
        seen = turning(state)
        sway = push * np.sin(0.02 * k + phases) - 100.0 * (robot.joint_angles(state.q) - rest) - 20.0 * state.v[6:]
        answer = predict(
            robot, seen, contacts, sway, law=law_for(robot, state, contacts), dt=DT,
            options=Options(consistency=Consistency.OFF),
        )  # fmt: skip
        assert answer.status.ok
        pressing = side.step(answer.tau)
        R = robot.frames.placement("root_joint", state.q).rotation
        error = np.abs(side.velocity(R) - answer.v_plus)
        worst = max(worst, error.max())
        forces = max(forces, abs(pressing - answer.normal_force.sum()) / (robot.total_mass * 9.81))
        pressed += len(contacts)
    print(f"\n{name}: velocities {worst:.1e}, vertical force {forces:.1e} of the weight")
    assert pressed > 600
    assert worst < 2e-5
    assert forces < 1e-6
