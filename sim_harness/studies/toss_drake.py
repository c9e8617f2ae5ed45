"""Forecasts of a toss by Drake's discrete plant with its SAP solver. Drake is an optional package, the extra `drake`.

In point contact a box on a plane has one contact point. The block therefore has a small sphere in each corner.
"""

from collections.abc import Iterator
from itertools import count

import numpy as np

from idyn.errors import missing_extra
from idyn.types import Array
from sim_harness.studies.measured_tosses import RATE
from sim_harness.studies.toss_forecasts import Block, Contact, Forecaster, Motion

try:
    from pydrake import all as drake
except ModuleNotFoundError as error:
    raise missing_extra("--engines", "'drake'", "drake", "drake") from error

SUBSTEPS, RADIUS, RIGID = 4, 1e-4, 1e12
"""Steps per sample, as of compliant engines; radius [m] and stiffness [N/m] of the spheres: the floor has all softness."""


def _material(mu: float, stiffness: float, dissipation: float) -> drake.ProximityProperties:
    """Return a surface. dissipation: Drake's relaxation time [s]"""
    surface = drake.ProximityProperties()
    drake.AddContactMaterial(point_stiffness=stiffness, friction=drake.CoulombFriction(mu, mu), properties=surface)
    surface.AddProperty("material", "relaxation_time", dissipation)
    return surface


class DrakeForecaster(Forecaster):
    """Forecasts by Drake. contact: stiffness and dissipation of each corner's contact with the floor"""

    def __init__(self, block: Block, contact: Contact) -> None:
        assert contact.stiffness is not None
        super().__init__(block, 1.0 / (RATE * SUBSTEPS))
        builder = drake.DiagramBuilder()
        plant, _ = drake.AddMultibodyPlantSceneGraph(builder, self.step)
        plant.set_discrete_contact_approximation(drake.DiscreteContactApproximation.kSap)
        plant.set_contact_model(drake.ContactModel.kPoint)
        plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -block.gravity])
        floor = _material(contact.mu, contact.stiffness, contact.dissipation)
        below = drake.RigidTransform(np.array([0.0, 0.0, -0.5]))
        plant.RegisterCollisionGeometry(plant.world_body(), below, drake.Box(100.0, 100.0, 1.0), "floor", floor)
        moment = block.inertia / block.mass
        inertia = drake.SpatialInertia(block.mass, np.zeros(3), drake.UnitInertia(moment, moment, moment))
        self._body = plant.AddRigidBody("block", inertia)
        corner = _material(contact.mu, RIGID, 0.0)
        for i, place in enumerate(block.corners - RADIUS * np.sign(block.corners)):
            plant.RegisterCollisionGeometry(
                self._body, drake.RigidTransform(place), drake.Sphere(RADIUS), f"corner {i}", corner
            )
        plant.Finalize()
        self._plant, self._simulator = plant, drake.Simulator(builder.Build())
        self._context = plant.GetMyMutableContextFromRoot(self._simulator.get_mutable_context())

    def poses(self, motion: Motion) -> Iterator[tuple[Array, Array]]:
        plant, context = self._plant, self._context
        self._simulator.get_mutable_context().SetTime(0.0)
        turn = drake.RotationMatrix.ProjectToRotationMatrix(motion.rotation)
        plant.SetFreeBodyPose(context, self._body, drake.RigidTransform(turn, motion.position))
        plant.SetVelocities(context, np.concatenate((motion.rotation @ motion.velocity[3:], motion.velocity[:3])))
        self._simulator.Initialize()
        for k in count(1):
            self._simulator.AdvanceTo(k / RATE - 0.5 * self.step)  # the state after the last update before k / RATE
            pose = plant.EvalBodyPoseInWorld(context, self._body)
            yield pose.translation(), pose.rotation().matrix()
