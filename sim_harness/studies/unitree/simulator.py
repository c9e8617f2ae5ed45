"""Unitree's simulator with pushes: their bridge between DDS and MuJoCo, in a loop of our own in real time.

    python -m sim_harness.studies.unitree.simulator SETUP.json

A process of its own, because their modules read their configuration when they are imported.
"""

import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sim_harness.mujoco.door import mujoco
from sim_harness.studies.unitree.trace import model_of

MODELS = {"go2": "go2.xml", "g1": "g1_29dof.xml"}
"""Robot → its MJCF file in the simulator's folder."""


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
    pushes: tuple[PushOnBase, ...] = ()

    @property
    def model(self) -> Path:
        """The robot's MJCF."""
        return Path(self.folder) / "sim/unitree_robots" / self.robot / MODELS[self.robot]


def simulate(setup: SimulatorSetup) -> None:
    """Run in real time and write the trace."""
    model = model_of(setup.model)
    model.opt.timestep = 0.002
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    commanded = _connected(setup, model, data)
    start, rows, begun = data.qpos.copy(), [], None
    due = time.perf_counter()
    for _ in range(round(setup.seconds / model.opt.timestep)):
        if not commanded:
            if setup.hold:
                data.qpos[:], data.qvel[:] = start, 0.0
        elif begun is None:
            begun = data.time
        data.xfrc_applied[1, :3] = sum(
            (np.array(push.force) for push in setup.pushes if begun is not None and _acts(push, data.time - begun)), np.zeros(3)
        )
        mujoco.mj_step(model, data)
        rows.append(np.concatenate([[data.time], data.qpos, data.qvel, data.ctrl]))
        due += model.opt.timestep
        time.sleep(max(due - time.perf_counter(), 0.0))
    np.savez_compressed(setup.trace, rows=np.array(rows), nq=model.nq, nv=model.nv, nu=model.nu)


def _acts(push: PushOnBase, t: float) -> bool:
    return push.start <= t < push.start + push.duration


def _connected(setup: SimulatorSetup, model: Any, data: Any) -> list[bool]:
    """Start their bridge. Return a list that is empty until the first command."""
    sys.path[:0] = [setup.folder, str(Path(setup.folder) / "sim/simulate_python")]
    theirs = import_module("config")
    theirs.ROBOT, theirs.SIMULATE_DT, theirs.DOMAIN_ID = setup.robot, model.opt.timestep, setup.domain  # type: ignore[attr-defined]
    theirs.USE_JOYSTICK = 0  # type: ignore[attr-defined]
    import_module("unitree_sdk2py.core.channel").ChannelFactoryInitialize(setup.domain, "lo")
    bridge = import_module("unitree_sdk2py_bridge").UnitreeSdk2Bridge
    commanded: list[bool] = []

    class Bridge(bridge):  # type: ignore[misc, valid-type]
        def LowCmdHandler(self, message: Any) -> None:
            commanded[:] = [True]
            super().LowCmdHandler(message)

    Bridge(model, data)
    return commanded


if __name__ == "__main__":
    simulate(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=SimulatorSetup))
    os._exit(0)  # their threads do not end
