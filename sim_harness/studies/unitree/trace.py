"""The trace of Unitree's simulator, to judge a robot by whose controller reads its own sensors only."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.mujoco.door import mujoco

PRESSES_N = 1.0
"""Normal force from which a foot touches [N]."""


class Truth(NamedTuple):
    """What the simulator did, step by step.

    t: time [s] (n); q, v: configuration and velocity as MuJoCo has them (n, …)
    torques: of the motors in the step that begins there [N·m] (n, na)
    """

    t: Array
    q: Array
    v: Array
    torques: Array

    @property
    def attitude(self) -> Rotation:
        """Attitude of the base."""
        return Rotation.from_quat(self.q[:, [4, 5, 6, 3]])

    @property
    def tilt(self) -> Array:
        """Angle between the vertical axes of base and world [rad] (n)."""
        return np.arccos(np.clip(self.attitude.as_matrix()[:, 2, 2], -1.0, 1.0))

    def taken(self, rows: Array) -> "Truth":
        """Return these rows."""
        return Truth(self.t[rows], self.q[rows], self.v[rows], self.torques[rows])


def read_truth(path: Path) -> Truth:
    """Return the trace that the simulator has written. A row of it has the torques of the step that ends there."""
    with np.load(path) as found:
        rows, nq, nv = found["rows"], int(found["nq"]), int(found["nv"])
    t, q, v, torques = np.split(rows, np.cumsum([1, nq, nv]), axis=1)
    return Truth(t[:-1, 0], q[:-1], v[:-1], torques[1:])


def model_of(path: Path) -> Any:
    """Return the simulator's model of a robot on a flat floor, without meshes.

    path: MJCF of the robot. Raises ConfigError if it cannot be read.
    """
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise ConfigError("model", f"{path}: {error}") from None
    for geom in [each for each in spec.geoms if each.type == mujoco.mjtGeom.mjGEOM_MESH]:
        spec.delete(geom)
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.05])
    return spec.compile()


class UnitreeModel:
    """Reads traces of a robot."""

    def __init__(self, path: Path) -> None:
        """path: see `model_of`"""
        self._model = model_of(path)
        self._data = mujoco.MjData(self._model)

    def joints(self, q: Array, names: tuple[str, ...]) -> Array:
        """Return the angles of these joints in configurations [rad] (n, na)."""
        found: Array = q[:, [self._model.joint(name).qposadr[0] for name in names]]
        return found

    def touching(self, truth: Truth, feet: tuple[str, ...]) -> Array:
        """Return which feet touch (n, feet). feet: names of their geometries"""
        model, data, ids = self._model, self._data, [self._model.geom(name).id for name in feet]
        found, force = np.zeros((len(truth.t), len(feet)), np.bool_), np.zeros(6)
        for k in range(len(found)):
            data.qpos[:], data.qvel[:], data.ctrl[:] = truth.q[k], truth.v[k], truth.torques[k]
            mujoco.mj_forward(model, data)
            pressure = dict.fromkeys(ids, 0.0)
            for i in range(data.ncon):
                mujoco.mj_contactForce(model, data, i, force)
                for geom in data.contact[i].geom.tolist():
                    if geom in pressure:
                        pressure[geom] += force[0]
            found[k] = [pressure[each] > PRESSES_N for each in ids]
        return found
