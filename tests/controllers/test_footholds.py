"""Heights of the ground that a gait takes from where its feet touched: after steps, and everywhere in older logs."""

import msgspec
import numpy as np
import pytest
from walking import DT, Walker

from controllers.contact.plane import StandingPlane
from controllers.planners.gait import GaitSettings
from controllers.planners.locomotion import Locomotion, plane
from controllers.planners.path import PathSettings
from controllers.robot.kinematics import contact_places
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.types import State

STEP = 0.03
"""Height of the ground under one diagonal pair of feet above that under the other [m]: no plane, so the base stays level."""

RAISED = np.array([True, False, False, True])


def test_a_plane_through_points_on_it_is_exact():
    places = np.array([[0.2, 0.1], [0.3, -0.2], [-0.1, 0.15], [-0.2, -0.1]])
    height, gradient = plane(places, 0.4 + places @ (0.2, -0.3))
    assert height == pytest.approx(0.4, abs=1e-14)
    np.testing.assert_allclose(gradient, (0.2, -0.3), atol=1e-14)


class Stepped(Walker):
    """A robot that follows its planner exactly; feet touch when they reach the ground, which is higher under one diagonal."""

    def __init__(self, ground):
        super().__init__("go2", start=0.3)
        self.plan = Locomotion(
            self.robot, self.stance, 0.3, GaitSettings(capture=0.0), PathSettings(velocity=(0.2, 0.0, 0.0)), DT
        )
        self.plan.on(StandingPlane(), ground)
        self.angles, self.floor = self.robot.joint_angles(self.stance), contact_places(self.robot, self.stance)[:, 2].mean()
        self.touching = np.ones(4, dtype=bool)

    def tick(self):
        x, y, _ = self.plan.plan.pose
        q = self.stance.copy()
        q[:3] = x, y, self.stance[2] + self.plan.plan.slope.heave[0]
        q = self.robot.with_joint_angles(q, self.angles)
        places = contact_places(self.robot, q)
        ground = self.floor + np.where(RAISED & (self.k * DT > 0.3), STEP, 0.0)
        swings = self.plan.plan.swinging | self.plan.plan.seeking
        self.touching = np.where(swings, places[:, 2] <= ground, self.touching)
        near = contacts_from_geometry(self.robot, q, Flat(), margin=1.0).take(self.touching)
        contacts = msgspec.structs.replace(near, gaps=np.zeros(len(near)))
        v = np.zeros(self.robot.nv)
        v[:3] = *self.plan.plan.u[:2], self.plan.plan.slope.heave[1]
        self.angles = self.plan.at(self.k * DT, State(q=q, v=v), contacts).q
        self.k += 1


def test_each_foothold_of_an_older_log_has_the_height_at_which_its_foot_touched():
    walker = Stepped("felt")
    for _ in range(3000):
        walker.tick()
    heights = walker.plan.plan.slope.heights
    np.testing.assert_allclose(heights[RAISED].mean() - heights[~RAISED].mean(), STEP, atol=3e-3)


def test_felt_and_estimated_ground_are_not_mixed():
    walker = Stepped("estimated")
    for _ in range(1500):
        walker.tick()
    assert not walker.plan.plan.slope.heights.any()


def test_a_state_that_is_not_finite_leaves_the_felt_ground_as_it_was():
    """The state is extrapolated by a prediction where torques act late, and may overflow."""
    walker = Stepped("felt")
    for _ in range(1500):
        walker.tick()
    before = walker.plan.plan.slope.heights.copy()
    q, v = walker.robot.neutral(), np.zeros(walker.robot.nv)
    q[0] = np.nan
    contacts = contacts_from_geometry(walker.robot, walker.stance, Flat(), margin=0.004)
    walker.plan.at(walker.k * DT, State(q=q, v=v), contacts)
    np.testing.assert_array_equal(walker.plan.plan.slope.heights, before)
