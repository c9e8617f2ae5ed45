"""A robot on its ground, as engines need to know it.

Joint limits and contact of anything but the robot's contact places, with the terrain and with boxes of other bodies, are not
simulated.
"""

from collections.abc import Callable, Sequence

import numpy as np

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, State
from sim_harness.engines.engine import ForwardProblem
from sim_harness.world.bodies import Bodies
from sim_harness.world.jacobian import generalised_force
from sim_harness.world.joints import JointFriction
from sim_harness.world.world import MARGIN, Push, Touching, checked_state

NEARBY = 1e-4
"""How far off gaps are looked at to see how they bend [m or rad]: Ṅ v is then right to 1e-7 of v²."""


class RobotBodies(Bodies):
    """A robot on its ground.

    mu: friction coefficients instead of the terrain's and the robot's own (one per contact place, then one per pair)
    friction: in the joints, none by default
    """

    def __init__(
        self, robot: Robot, terrain: Terrain, q: Array, mu: Array | None = None, friction: JointFriction | None = None
    ) -> None:
        self.robot, self.terrain, self.mu, self.friction = robot, terrain, mu, friction
        self.start = checked_state(robot, q, None)

    def touching(self, q: Array) -> Touching:
        return Touching(contacts=self.near(q, MARGIN))

    def near(self, q: Array, margin: float) -> ContactSet:
        """The contacts that are nearer than a margin [m]."""
        return contacts_from_geometry(self.robot, q, self.terrain, margin=margin, mu=self.mu)

    def pivots(self, q: Array, touching: Touching) -> tuple[Array, Array]:
        """Contact places are spheres."""
        c = touching.contacts
        radii = dict(zip(self.robot.spheres.keys, self.robot.spheres.radii, strict=True))
        radius = np.array([radii[key.split("/")[0]] for key in c.keys]).reshape(-1, 1)
        return c.points + radius * c.normals, c.points

    def bias(self, q: Array, v: Array, contacts: ContactSet) -> Callable[[], Array] | None:
        """Ṅ v, how the gaps bend along the motion, by central differences [m/s²] (n)."""

        def bend() -> Array:
            span = NEARBY / max(1.0, float(np.abs(v).max()))
            bend = -2.0 * contacts.gaps
            for side in (-span, span):
                near = self.near(self.robot.integrate(q, side * v), np.inf)
                gaps = dict(zip(near.keys, near.gaps, strict=True))
                bend += [gaps[key] for key in contacts.keys]
            return bend / span**2

        return bend

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

    def in_joints(self, problem: ForwardProblem, q: Array, integrates: bool) -> tuple[ForwardProblem, JointFriction | None]:
        return problem, self.friction
