"""Parameters of MuJoCo's soft constraints, as told by a model: for the law `mujoco` and its certificate.

Names and meanings are MuJoCo's: solref = (time constant [s], damping ratio), or (−stiffness, −damping) if the first one is
negative; solimp = (d0, dw, width [m], midpoint, power). This module contains data only; the law and the certificate have a copy
of the formulas each (MATHEMATICS §3.6).
"""

import numpy as np

from idyn.jit.records import ArrayRecord, Indices, Matrix
from idyn.types import Array

SOLREF, FRICTION_SOLREF, SOLIMP, MARGIN, WEIGHT, CONDIM, SPIN, ROLL, CONTACT = 0, 2, 4, 9, 10, 11, 12, 13, 14
"""Columns of `SoftConstraints.contacts`, and their number. FRICTION_SOLREF: 0 if friction has that of the normal force; WEIGHT:
body_invweight0 [1/kg]; SPIN, ROLL: friction against turning about the normal and about the tangents [m]."""

DAMPING, LOSS, LOSS_SOLREF, LOSS_SOLIMP, LOW, HIGH, LIMIT_MARGIN, LIMIT_SOLREF, LIMIT_SOLIMP, DOF_WEIGHT, DOF = (
    0, 1, 2, 4, 9, 10, 11, 12, 14, 19, 20,
)  # fmt: skip
"""Columns of `SoftConstraints.joints`, and their number. LOSS: friction loss [N·m]; LOW, HIGH: range, ±inf if there is none;
DOF_WEIGHT: dof_invweight0 [1/(kg·m²)]."""

LEAST_FRICTION, MOST_FRICTION = 1e-5, 100.0
"""Range of friction coefficients; the lower limit is MuJoCo's."""


class SoftConstraints(ArrayRecord):
    """Parameters for compiled code.

    contacts: of each joint's body; a contact has those of its first body, and the sum of both bodies' WEIGHT (njoints, CONTACT)
    joints: of each velocity (nv, DOF); q_index: its position in q, −1 for unactuated velocities (nv)
    pyramidal: whether friction cones are pyramids; impratio: ratio of frictional to normal impedance
    implicit: whether the step is also implicit in the bias forces, MuJoCo's integrator `implicit`
    resists: whether a joint has damping, friction loss or a range
    damped: whether a joint has damping, in which every step is implicit
    turns: whether there is a contact with friction against turning, condim 4 or 6
    """

    contacts: Matrix
    joints: Matrix
    q_index: Indices
    pyramidal: bool
    impratio: float
    implicit: bool
    resists: bool
    damped: bool
    turns: bool

    def __init__(
        self, contacts: Array, joints: Array, q_index: Array, *, pyramidal: bool, impratio: float, implicit: bool
    ) -> None:
        self.put(contacts=contacts, joints=joints, q_index=q_index)
        self.put(pyramidal=pyramidal, impratio=impratio, implicit=implicit)
        resists = joints[:, [DAMPING, LOSS]].any() or np.isfinite(joints[:, [LOW, HIGH]]).any()
        self.put(resists=bool(resists), damped=bool(joints[:, DAMPING].any()))
        self.put(turns=bool((contacts[:, CONDIM] > 3).any()))


NO_CONSTRAINTS = SoftConstraints(
    np.zeros((0, CONTACT)), np.zeros((0, DOF)), np.zeros(0, np.int64), pyramidal=False, impratio=1.0, implicit=False
)
"""Placeholder for other laws."""
