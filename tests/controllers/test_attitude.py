"""Attitude functions, compared with rotations of another library."""

import numpy as np
import pytest
from fast import every
from scipy.spatial.transform import Rotation

from controllers.robot.attitude import rotation, tilt, up, yaw

TURNS = Rotation.random(50, random_state=0)


@every("turn", list(TURNS))
def test_rotation_up_tilt_and_yaw_match_scipy(turn):
    quaternion, R = turn.as_quat(), turn.as_matrix()
    np.testing.assert_allclose(rotation(quaternion), R, atol=1e-14)
    np.testing.assert_allclose(up(quaternion), R.T @ [0, 0, 1], atol=1e-14)
    assert tilt(quaternion) == pytest.approx(np.arccos(R[2, 2]), abs=1e-12)
    assert yaw(quaternion) == pytest.approx(np.arctan2(R[1, 0], R[0, 0]), abs=1e-12)


def test_tilt_is_zero_upright_and_pi_upside_down():
    assert tilt(np.array([0.0, 0.0, 0.0, 1.0])) == 0.0
    assert tilt(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(np.pi)
    assert yaw(np.array([0.0, 0.0, np.sin(0.35), np.cos(0.35)])) == pytest.approx(0.7)
