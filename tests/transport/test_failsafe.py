import numpy as np
import pytest
from standin import MS

from idyn.errors import InputError
from transport.failsafe import Failsafe, FailsafeMode

TAU = np.array([1.0, -2.0])
V = np.array([0.5, 100.0])
KD = np.array([0.2, 0.2])
DAMPING = np.array([-0.1, -5.0])


@pytest.fixture
def failsafe() -> Failsafe:
    return Failsafe(dt=1e-3, kd=KD, tau_max=np.array([5.0, 5.0]))


def test_before_the_first_torque_the_robot_damps(failsafe: Failsafe) -> None:
    tau, mode = failsafe.torque(500 * MS, V, None)
    assert mode is FailsafeMode.DAMPING
    np.testing.assert_allclose(tau, DAMPING)


@pytest.mark.parametrize(
    ("age_ms", "mode", "fade"),
    [
        (1, FailsafeMode.OK, 0.0),
        (2, FailsafeMode.OK, 0.0),
        (3, FailsafeMode.HOLD, 0.0),
        (19.9, FailsafeMode.HOLD, 0.0),
        (20, FailsafeMode.DAMPING, 0.0),
        (45, FailsafeMode.DAMPING, 0.5),
        (70, FailsafeMode.DAMPING, 1.0),
        (99, FailsafeMode.DAMPING, 1.0),
        (100, FailsafeMode.STOPPED, 1.0),
    ],
)
def test_the_ages_of_the_last_torque(failsafe: Failsafe, age_ms: float, mode: FailsafeMode, fade: float) -> None:
    failsafe.torque(7 * MS, V, TAU)
    tau, got = failsafe.torque(7 * MS + round(age_ms * MS), V, None)
    assert got is mode
    np.testing.assert_allclose(tau, (1 - fade) * TAU + fade * DAMPING)


def test_a_fresh_torque_ends_damping_but_not_the_stop(failsafe: Failsafe) -> None:
    failsafe.torque(0, V, TAU)
    assert failsafe.torque(50 * MS, V, None)[1] is FailsafeMode.DAMPING
    assert failsafe.torque(51 * MS, V, TAU)[1] is FailsafeMode.OK
    assert failsafe.torque(151 * MS, V, TAU)[1] is FailsafeMode.STOPPED
    assert failsafe.torque(152 * MS, V, TAU)[1] is FailsafeMode.STOPPED
    failsafe.reset()
    assert failsafe.torque(153 * MS, V, TAU)[1] is FailsafeMode.OK


def test_a_torque_that_is_not_finite_counts_as_none(failsafe: Failsafe) -> None:
    failsafe.torque(0, V, TAU)
    tau, _ = failsafe.torque(MS, V, np.array([np.nan, 0.0]))
    np.testing.assert_array_equal(tau, TAU)


def test_wrong_shapes_are_refused(failsafe: Failsafe) -> None:
    with pytest.raises(InputError, match="fresh"):
        failsafe.torque(0, V, np.zeros(3))
    with pytest.raises(InputError, match="kd"):
        Failsafe(dt=1e-3, kd=KD, tau_max=np.zeros(3))
