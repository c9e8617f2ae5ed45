"""Fixtures of the transport tests."""

import pytest
from rig import Rig
from standin import solo

from idyn.model.robot import Robot


@pytest.fixture(scope="session")
def robot() -> Robot:
    return solo()


@pytest.fixture
def rig(robot: Robot) -> Rig:
    return Rig(robot)


@pytest.fixture
def moving(robot: Robot) -> Rig:
    """A rig whose robot may start in motion."""
    return Rig(robot, start="motion")
