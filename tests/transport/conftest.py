"""Fixtures of the transport tests."""

import pytest
from rig import Rig, greeted
from standin import solo


@pytest.fixture(scope="session")
def robot():
    return solo()


@pytest.fixture
def fresh(robot):
    return Rig(robot)


@pytest.fixture
def rig(robot):
    return greeted(robot)


@pytest.fixture
def moving(robot):
    """After `hello`; the robot may start in motion."""
    return greeted(robot, start="motion")
