"""Fixtures of the transport tests."""

import pytest
from rig import Rig
from standin import solo


@pytest.fixture(scope="session")
def robot():
    return solo()


@pytest.fixture
def fresh(robot):
    """Before `hello`."""
    return Rig(robot)


@pytest.fixture
def rig(fresh):
    """After `hello`."""
    fresh.greet()
    return fresh


@pytest.fixture
def moving(robot):
    """After `hello`; the robot may start in motion."""
    rig = Rig(robot, start="motion")
    rig.greet()
    return rig
