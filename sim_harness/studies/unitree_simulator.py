"""Unitree's simulator with pushes, or in lock-step: their bridge between DDS and MuJoCo, in a loop of our own.

    python -m sim_harness.studies.unitree_simulator SETUP.json

A process of its own, because their modules read their configuration when they are imported.
"""

import os
import sys
import time
from collections import deque
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import msgspec
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
    """

    t: Array
    q: Array
    v: Array
    torques: Array  # of the motors in the step that begins there [N·m] (n, na)

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
    """Return the simulator's model of a robot on a flat floor, without meshes that touch nothing or have no file.

    path: MJCF of the robot. Raises ConfigError if it cannot be read.
    """
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise ConfigError("model", f"{path}: {error}") from None
    lost = [mesh for mesh in spec.meshes if not (path.parent / spec.meshdir / mesh.file).is_file()]
    for geom in [each for each in spec.geoms if each.type == mujoco.mjtGeom.mjGEOM_MESH]:
        if geom.meshname in {mesh.name for mesh in lost} or not (geom.contype or geom.conaffinity):
            spec.delete(geom)
    for mesh in lost:
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


STEP_S, ANSWER_S, SLACK_S = 0.002, 0.05, 0.006
"""Step of the physics and period of the states; time that a state waits for its command in lock-step; lateness that the loop in
real time makes up for at once, without commands [s]; what is later takes from the share of real time."""

GONE = 20
"""Number of states without a command after which states wait no longer."""


class PushOnBase(msgspec.Struct):
    """A force on the base [N], in the axes of the world, from `start` on for `duration` [s] after the first command."""

    start: float
    duration: float
    force: tuple[float, float, float]


class SimulatorSetup(msgspec.Struct):
    """A run. folder: of Unitree's simulator; hold: the robot hangs in its initial pose until the first command."""

    folder: str
    robot: str
    domain: int
    seconds: float
    trace: str
    hold: bool = False
    # None: in real time; a number: in lock-step. Each state waits for its command, which acts so many steps later
    delay: int | None = None
    pushes: tuple[PushOnBase, ...] = ()


def model_path(folder: Path, robot: str) -> Path:
    """Return the MJCF of a robot in the simulator's folder, the last one that is no scene. Raises ConfigError without one."""
    place = folder / "sim/unitree_robots" / robot
    found = [path for path in sorted(place.glob("*.xml")) if not path.stem.startswith("scene")]
    if not found:
        raise ConfigError("model", f"expected a robot's MJCF in {place}")
    return found[-1]


def simulate(setup: SimulatorSetup) -> None:
    """Run, at most in real time, and write the trace."""
    model = model_of(model_path(Path(setup.folder), setup.robot))
    model.opt.timestep = STEP_S
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    link = _connected(setup, model, data)
    start, rows, begun = data.qpos.copy(), [], None
    due = time.perf_counter()
    end = due + setup.seconds if setup.delay is None else np.inf
    for _ in range(round(setup.seconds / STEP_S)):
        if due > end:
            break
        if setup.delay is not None:
            link.exchange(setup.delay)
        if not link.commanded:
            if setup.hold:
                data.qpos[:], data.qvel[:] = start, 0.0
        elif begun is None:
            begun = data.time
        t = np.nan if begun is None else data.time - begun
        forces = [push.force for push in setup.pushes if push.start <= t < push.start + push.duration]
        data.xfrc_applied[1, :3] = np.sum(forces, axis=0) if forces else 0.0
        mujoco.mj_step(model, data)
        rows.append(np.concatenate([[data.time], data.qpos, data.qvel, data.ctrl]))
        due = max(due + STEP_S, time.perf_counter() - SLACK_S)
        time.sleep(max(due - time.perf_counter(), 0.0))
    np.savez_compressed(setup.trace, rows=np.array(rows), nq=model.nq, nv=model.nv, nu=model.nu)


def _connected(setup: SimulatorSetup, model: Any, data: Any) -> Any:
    """Start their bridge. Return it; it knows whether it has been `commanded`, and `exchange` is a step in lock-step."""
    sys.path[:0] = [setup.folder, str(Path(setup.folder) / "sim/simulate_python")]
    theirs = import_module("config")
    family = "g1" if model.nu > 20 else "go2"  # by their names for it
    theirs.ROBOT, theirs.SIMULATE_DT, theirs.DOMAIN_ID = family, STEP_S, setup.domain  # type: ignore[attr-defined]
    theirs.USE_JOYSTICK = 0  # type: ignore[attr-defined]
    import_module("unitree_sdk2py.core.channel").ChannelFactoryInitialize(setup.domain, "lo")
    bridge = import_module("unitree_sdk2py_bridge").UnitreeSdk2Bridge
    in_step = setup.delay is not None

    class Link(bridge):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            self.commanded, self._arrived, self._queue = False, Event(), deque[Any]()
            self._unanswered = GONE
            super().__init__(model, data)

        def PublishLowState(self) -> None:
            if not in_step:
                super().PublishLowState()

        def LowCmdHandler(self, message: Any) -> None:
            self.commanded = True
            if in_step:
                self._queue.append(message)
                self._arrived.set()
            else:
                super().LowCmdHandler(message)

        def exchange(self, delay: int) -> None:
            """Send the state, with its time as a robot sends it, and wait for the command."""
            self._arrived.clear()
            self.low_state.tick = round(1e3 * data.time) + 1  # 0: no time
            super().PublishLowState()
            answered = self._arrived.wait(ANSWER_S if self._unanswered < GONE else STEP_S)
            self._unanswered = 0 if answered else self._unanswered + 1
            message = None
            while len(self._queue) > delay:  # more than one after a late command, which would delay all later ones
                message = self._queue.popleft()
            if message is not None:
                super().LowCmdHandler(message)

    return Link()


if __name__ == "__main__":
    simulate(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=SimulatorSetup))
    os._exit(0)  # their threads do not end
