"""Rotation vectors and rotation matrices."""

import numpy as np

from idyn.types import Array

SMALL = 1e-8
"""Angle below which series replace quotients [rad]."""


def exponential(vector: Array) -> Array:
    """Return the rotation matrix of a rotation vector [rad]  (Rodrigues' formula)."""
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3)
    K = _cross(vector / angle)
    R: Array = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * (K @ K)
    return R


def logarithm(R: Array) -> Array:
    """Return the rotation vector of a rotation matrix, of an angle up to π [rad]."""
    axis = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])  # 2 sin(angle) × axis
    sine, cosine = 0.5 * float(np.linalg.norm(axis)), 0.5 * (float(np.trace(R)) - 1.0)
    angle = float(np.arctan2(sine, cosine))
    if sine > SMALL:
        return axis * (0.5 * angle / sine)
    if cosine > 0.0:
        return 0.5 * axis
    columns = R + np.eye(3)  # angle π: 2 × axis axisᵀ
    column: Array = columns[:, int(np.argmax(np.diag(columns)))]
    return column * (np.pi / np.linalg.norm(column))


def left_jacobian(vector: Array) -> Array:
    """Return J so that the angular velocity in the world of `exponential(x)` is J ẋ."""
    angle, K = float(np.linalg.norm(vector)), _cross(vector)
    if angle < 1e-4:
        J: Array = np.eye(3) + 0.5 * K + K @ K / 6.0
        return J
    a, b = (1.0 - np.cos(angle)) / angle**2, (angle - np.sin(angle)) / angle**3
    return np.eye(3) + a * K + b * (K @ K)


def _cross(vector: Array) -> Array:
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
