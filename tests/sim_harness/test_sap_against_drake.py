"""The law `sap` against Drake's SAP: each step of a robot whose joints sway.

Drake is the oracle: geometry, kinematics and dynamics are its own. Its contacts are those that touch, its relaxation time is
τ_d. Its w is ‖W_ii‖_F / 3 as the paper has it, but of J diag(M)⁻¹ Jᵀ, for the quadruped's feet 1.29 times ours. It stands in
R_t = σ w alone here, R_n being that of the springs, so σ makes up for it.
"""

import xml.etree.ElementTree as ET

import msgspec
import numpy as np
import pytest

from idyn import Consistency, Flat, Options, Robot, State, contacts_from_geometry, load_robot, make_law, predict
from idyn.terms.dynamics import evaluate

drake = pytest.importorskip("pydrake.all", reason="the package drake is not installed")

pytestmark = [pytest.mark.drake, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

DT, STIFFNESS, DISSIPATION, MU, SIGMA = 1e-3, 1e4, 5e-3, 0.8, 1e-3

RIGID = 1e15  # stiffness of the feet, which are to yield nothing beside the ground [N/m]


def material(stiffness, dissipation):
    properties = drake.ProximityProperties()
    drake.AddContactMaterial(point_stiffness=stiffness, friction=drake.CoulombFriction(MU, MU), properties=properties)
    properties.AddProperty("material", "relaxation_time", dissipation)
    return properties


class Drake:
    """A robot on its feet, from its own URDF without what is only seen; states in the order of the robot's model."""

    def __init__(self, robot, q):
        builder = drake.DiagramBuilder()
        plant, _ = drake.AddMultibodyPlantSceneGraph(builder, DT)
        plant.set_discrete_contact_approximation(drake.DiscreteContactApproximation.kSap)
        plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -9.81])
        ground = drake.Box(100.0, 100.0, 1.0), drake.RigidTransform(np.array([0.0, 0.0, -0.5]))
        plant.RegisterCollisionGeometry(plant.world_body(), ground[1], ground[0], "ground", material(STIFFNESS, DISSIPATION))
        tree = ET.fromstring(robot.description.urdf)
        for link in tree.iter("link"):
            for seen in (*link.findall("visual"), *link.findall("collision")):
                link.remove(seen)
        drake.Parser(plant).AddModelsFromString(ET.tostring(tree, encoding="unicode"), "urdf")
        for k, foot in enumerate(robot.description.contact):
            place = drake.RigidTransform(np.array(foot.offset))
            body = plant.GetBodyByName(foot.frame)
            plant.RegisterCollisionGeometry(body, place, drake.Sphere(foot.radius), f"foot {k}", material(RIGID, 0.0))
        plant.Finalize()
        self.simulator = drake.Simulator(builder.Build())
        context = plant.GetMyMutableContextFromRoot(self.simulator.get_mutable_context())
        force = plant.get_applied_generalized_force_input_port().FixValue(context, np.zeros(plant.num_velocities()))
        (base,) = plant.GetFloatingBaseBodies()
        plant.SetFreeBodyPose(context, plant.get_body(base), drake.RigidTransform(q[:3]))
        for name, angle in zip(robot.joint_names, robot.joint_angles(q), strict=True):
            plant.GetJointByName(name).set_angle(context, angle)
        self.joints = [plant.GetJointByName(name).velocity_start() for name in robot.joint_names]
        self.angles = [plant.GetJointByName(name).position_start() for name in robot.joint_names]
        self.robot, self.plant, self.context, self.force, self.ticks = robot, plant, context, force, 0
        self.simulator.Initialize()

    def velocity(self, R):
        """v in the model's order: of the base in its own axes R, then of the joints."""
        v = self.plant.GetVelocities(self.context)
        return np.r_[R.T @ v[3:6], R.T @ v[:3], v[self.joints]]

    def state(self):
        positions = self.plant.GetPositions(self.context)
        w, x, y, z = positions[:4] / np.linalg.norm(positions[:4])
        q = np.r_[positions[4:7], x, y, z, w, positions[self.angles]]
        return State(q=q, v=self.velocity(self.robot.frames.placement("root_joint", q).rotation))

    def step(self, tau):
        """Step under these torques. Return the sum of the ground's vertical forces in the step [N]."""
        force = np.zeros(self.plant.num_velocities())
        force[self.joints] = tau
        self.force.GetMutableData().set_value(force)
        self.ticks += 1
        self.simulator.AdvanceTo(self.ticks * DT)
        results = self.plant.get_contact_results_output_port().Eval(self.context)  # those of the step that was taken
        pairs = [results.point_pair_contact_info(i) for i in range(results.num_point_pair_contacts())]
        return sum(abs(pair.contact_force()[2]) for pair in pairs)


def turning(state):
    """A state with the change of the base velocity by the rotation of its axes: Drake has Rᵀ v̇ = d(Rᵀ v)/dt + ω × Rᵀ v."""
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
    side = Drake(robot, q)
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
