"""Drake's discrete worlds with its own SAP solver, and the step that it is about to take as a problem for our engines.

Drake is the oracle: geometry, kinematics and dynamics are its own, so what is compared is contact model and solver.
"""

import xml.etree.ElementTree as ET

import numpy as np
from pydrake.all import (
    AddContactMaterial,
    AddMultibodyPlantSceneGraph,
    Box,
    CoulombFriction,
    DiagramBuilder,
    DiscreteContactApproximation,
    JacobianWrtVariable,
    Parser,
    ProximityProperties,
    RigidTransform,
    Simulator,
    SpatialInertia,
    Sphere,
    UnitInertia,
)

from sim_harness.engines.engine import ForwardProblem

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

    def step(self, force=None):
        """Drake's own."""
        if force is not None:
            self.force.GetMutableData().set_value(force)
        self.ticks += 1
        self.simulator.AdvanceTo(self.ticks * self.dt)

    def step_with(self, engine, force=None):
        """The same with one of our engines, its configuration moved as Drake moves it."""
        plant, context = self.plant, self.context
        solution = engine.solve(self.problem(force))
        assert solution.status.ok
        q = plant.GetPositions(context) + self.dt * plant.MapVelocityToQDot(context, solution.v_plus)
        plant.SetPositions(context, q)
        plant.SetVelocities(context, solution.v_plus)
        return solution

    def problem(self, force=None):
        """The step at hand, with the contact points that Drake weighs by stiffness."""
        plant, context = self.plant, self.context
        query = plant.get_geometry_query_input_port().Eval(context)
        inspector, rows, gaps = query.inspector(), [], []
        for pair in query.ComputePointPairPenetration():
            stiff = [
                inspector.GetProximityProperties(g).GetProperty("material", "point_contact_stiffness")
                for g in (pair.id_A, pair.id_B)
            ]
            share = stiff[0] / (stiff[0] + stiff[1])
            point = share * pair.p_WCa + (1 - share) * pair.p_WCb
            A, B = (self._jacobian(inspector.GetFrameId(g), point) for g in (pair.id_A, pair.id_B))
            n = pair.nhat_BA_W
            s = np.cross(n, [0.0, 1.0, 0.0]) / np.linalg.norm(np.cross(n, [0.0, 1.0, 0.0]))
            rows.append(np.vstack([s, np.cross(n, s), n]) @ (A - B))
            gaps.append(-pair.depth)
        nv = plant.num_velocities()
        return ForwardProblem(
            M=plant.CalcMassMatrix(context),
            h=plant.CalcBiasTerm(context) - plant.CalcGravityGeneralizedForces(context),
            v=self.v,
            J=np.vstack(rows) if rows else np.zeros((0, nv)),
            force=np.zeros(nv) if force is None else force,
            mu=np.full(len(gaps), self.mu),
            gaps=np.array(gaps),
            dt=self.dt,
        )

    def _jacobian(self, frame, point):
        """Of a point of the world that moves with the body of a geometry frame (3, nv)."""
        plant, world = self.plant, self.plant.world_frame()
        body = plant.GetBodyFromFrameId(frame)
        there = plant.EvalBodyPoseInWorld(self.context, body).inverse() @ point
        return plant.CalcJacobianTranslationalVelocity(
            self.context, JacobianWrtVariable.kV, body.body_frame(), there, world, world
        )


def cubes(count, stiffness, dissipation, mu, side=0.1, mass=1.0, radius=0.01):
    """A pile of cubes on four small balls each; a ball touches the ground or the plate on top of the next one."""
    world = DrakeWorld(1e-3, stiffness, dissipation, mu)
    half = side / 2
    for i in range(count):
        body = world.plant.AddRigidBody(f"cube {i}", SpatialInertia(mass, np.zeros(3), UnitInertia.SolidCube(side)))
        for x, y in ((x, y) for x in (-half, half) for y in (-half, half)):
            world.add(body, Sphere(radius), (x, y, radius - half), world.hard)
        if i < count - 1:
            world.add(body, Box(3 * side, 3 * side, half), (0.0, 0.0, half / 2), world.soft)
    world.ready()
    for i in range(count):
        depth = mass * 9.81 / (4 * stiffness) * sum(count - j for j in range(i + 1))
        pose = RigidTransform(np.array([0.01 * i, 0.0, half + side * i - depth]))
        world.plant.SetFreeBodyPose(world.context, world.plant.GetBodyByName(f"cube {i}"), pose)
    return world


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
