"""Forecasts of a toss by MuJoCo: its own box, plane, contact model and semi-implicit Euler steps."""

import numpy as np

from sim_harness.judge.tosses import RATE, Toss
from sim_harness.mujoco.door import mujoco
from sim_harness.studies.tosses.block import Block
from sim_harness.studies.tosses.forecast import Forecast, first_motion

SUBSTEPS = 8
"""Steps per sample: 0.84 ms."""


def block_model(block: Block, mu: float, solref: tuple[float, float]) -> mujoco.MjModel:
    """Return the model of a block on a floor. The frame of its body is at the centre of mass.

    mu: friction coefficient; solref: time constant [s] and damping ratio of the contacts
    """
    spec = mujoco.MjSpec()
    spec.option.timestep = 1.0 / (RATE * SUBSTEPS)
    spec.option.gravity = [0.0, 0.0, -block.gravity]
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    contact = {"friction": [mu, 0.0, 0.0], "solref": list(solref), "condim": 3}
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **contact)
    body = spec.worldbody.add_body(mass=block.mass, inertia=[block.inertia] * 3, ipos=[0.0, 0.0, 0.0], explicitinertial=True)
    body.add_freejoint()
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[block.half] * 3, pos=-block.centre, **contact)
    return spec.compile()


class MujocoForecaster:
    """Forecasts by MuJoCo. Parameters: those of `block_model`"""

    def __init__(self, block: Block, mu: float, solref: tuple[float, float]) -> None:
        self.block, self._model = block, block_model(block, mu, solref)
        self._data = mujoco.MjData(self._model)

    def __call__(self, toss: Toss, sample: int, samples: int) -> Forecast:
        """Return the forecast of `samples` samples of a toss, the first of which is `sample`, given."""
        model, data, motion = self._model, self._data, first_motion(self.block, toss, sample, self._model.opt.timestep)
        mujoco.mj_resetData(model, data)
        mujoco.mju_mat2Quat(data.qpos[3:], motion.rotation.ravel())
        data.qpos[:3], data.qvel[:] = motion.position, motion.velocity
        positions, rotations = np.empty((samples, 3)), np.empty((samples, 3, 3))
        positions[0], rotations[0] = toss.position[sample], toss.rotation[sample]
        turn = np.empty(9)
        for k in range(1, samples):
            mujoco.mj_step(model, data, SUBSTEPS)
            mujoco.mju_quat2Mat(turn, data.qpos[3:])
            rotations[k] = turn.reshape(3, 3)
            positions[k] = data.qpos[:3] - rotations[k] @ self.block.centre
        return Forecast(positions, rotations, int(sum(warning.number for warning in data.warning)))
