"""A robot on its ground as the bodies of an engine world.

Only the robot's contact points make contact, with the terrain and with boxes of other bodies. Joint limits are not simulated.
"""

from collections.abc import Callable, Sequence

import numpy as np

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, State
from sim_harness.engines.engine import ForwardProblem
from sim_harness.shapes.shapes import Shape
from sim_harness.world.bodies import Bodies
from sim_harness.world.jacobian import generalised_force
from sim_harness.world.joints import JointFriction
from sim_harness.world.world import MARGIN, Push, Touching, checked_state

NEARBY = 1e-4
"""Step of the central differences for Ṅ v [m or rad]; the error is about 1e-7 v²."""


class RobotBodies(Bodies):
    """A robot on its ground.

    mu: friction coefficients, one per contact point, then one per pair; None: those of terrain and robot
    friction: joint friction, None without any
    hulls: shapes that touch the ground instead of the contact points that are no feet; only MuJoCo worlds have them
    """

    def __init__(
        self,
        robot: Robot,
        terrain: Terrain,
        q: Array,
        mu: Array | None = None,
        friction: JointFriction | None = None,
        hulls: Sequence[Shape] = (),
    ) -> None:
        self.hulls = hulls
        self.robot, self.terrain, self.mu, self.friction = robot, terrain, mu, friction
        self.start = checked_state(robot, q, None)

    def touching(self, q: Array) -> Touching:
        return Touching(contacts=self.near(q, MARGIN))

    def near(self, q: Array, margin: float) -> ContactSet:
        """Return the contacts with a gap below the margin [m]."""
        return contacts_from_geometry(self.robot, q, self.terrain, margin=margin, mu=self.mu)

    def pivots(self, q: Array, touching: Touching) -> tuple[Array, Array]:
        """Return the centres of the contact spheres, and the contact points of the other surface [m] (n, 3)."""
        c = touching.contacts
        radii = dict(zip(self.robot.spheres.keys, self.robot.spheres.radii, strict=True))
        radius = np.array([radii[key.split("/")[0]] for key in c.keys]).reshape(-1, 1)
        return c.points + radius * c.normals, c.points

    def bias(self, q: Array, v: Array, contacts: ContactSet) -> Callable[[], Array] | None:
        """Return a function that computes Ṅ v, the second derivative of the gaps, by central differences [m/s²] (n)."""

        def second_derivative() -> Array:
            span = NEARBY / max(1.0, float(np.abs(v).max()))
            difference = -2.0 * contacts.gaps
            for side in (-span, span):
                near = self.near(self.robot.integrate(q, side * v), np.inf)
                gaps = dict(zip(near.keys, near.gaps, strict=True))
                difference += [gaps[key] for key in contacts.keys]
            return difference / span**2

        return second_derivative

    def force(self, axes: Array, state: State, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> Array:
        robot, force = self.robot, np.zeros(self.robot.nv)
        if tau is not None:
            force[robot.tree.a] = tau
        for push in pushes:
            share = push.share(*span)
            if share > 0.0:
                joint = robot.joint_of_frame(push.frame)
                rotations, origins = robot.place(state.q)
                point = origins[joint] + rotations[joint] @ np.array(push.point)
                force += generalised_force(axes, robot.tree.support, joint, point, share * np.array(push.force))
        return force

    def with_joints(self, problem: ForwardProblem, q: Array, integrates: bool) -> tuple[ForwardProblem, JointFriction | None]:
        return problem, self.friction
