"""Steps of files, by suffix: arrays, FCLib problems, measured tosses, MJCFs, and ticks of an idyn log.

v⁺ of a tick is the velocity that its torque and predicted forces cause. Laws on ground that yields apply to another velocity
(`idyn.contact.ground`), so a log made on the default ground opens and slips here by what the ground gives.
"""

import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import InputError
from sim_harness.compare.studies import CHECKOUT, study_module
from sim_harness.engines.engine import ForwardProblem
from sim_harness.judge.step import Step, read_steps
from sim_harness.run.logs import Block, LogBlocks
from sim_harness.world.world import contact_jacobian
from transport.protocol.messages.state import StateMessage, TorqueMessage

FCLIB = (".hdf5", ".h5", ".hdf")  # ends of the names of FCLib's files


def steps_of(path: Path, every: int) -> Iterable[Step]:
    """Return the steps of a file by its suffix and contents. Raises InputError."""
    if not path.is_file():
        raise InputError(
            str(path),
            "expected a file of steps (.npz, .json), an FCLib problem (.hdf5), tosses (.npz, .pt), a log (.mcap) or scenes",
        )
    if path.suffix == ".mcap":
        return _ticks(path, every)
    if path.suffix in FCLIB:
        return [study_module(path.name, f"{CHECKOUT}.fclib").read_fclib(path)]
    if path.suffix == ".pt" or (path.suffix == ".npz" and _has_tosses(path)):
        tosses = study_module(path.name, f"{CHECKOUT}.measured_tosses")
        return map(tosses.explained_step, islice(tosses.toss_steps(path), 0, None, every))
    if path.suffix == ".json" and (fields := _mjcf_fields(path)) is not None:
        from sim_harness.judge.mjcf import read_mjcf  # noqa: PLC0415 - needs the extra mujoco

        return read_mjcf(path, fields)[::every]
    return read_steps(path)[::every]


def _has_tosses(path: Path) -> bool:
    with suppress(OSError, EOFError, ValueError, zipfile.BadZipFile), np.load(path, allow_pickle=False) as data:
        return "quaternion_wxyz" in data.files
    return False


def _mjcf_fields(path: Path) -> dict[str, Any] | None:
    """Return the contents of a JSON file that names an MJCF, otherwise None."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "mjcf" in found else None


def _ticks(path: Path, every: int) -> Iterator[Step]:
    count = 0
    with LogBlocks(path) as log:
        for block in log.blocks():
            for state, reply, _ in block.exchanges:
                if isinstance(reply, TorqueMessage) and reply.contact_force:
                    if count % every == 0:
                        yield _tick(block, state, reply)
                    count += 1


def _tick(block: Block, state: StateMessage, reply: TorqueMessage) -> Step:
    robot, dt = block.agreement.robot, block.agreement.dt_ns * 1e-9
    measured, contacts, tau = block.tick(state, reply)
    forces = {force.frame: force for force in reply.contact_force}
    terms = robot.terms(measured.q, measured.v)
    J = contact_jacobian(terms.axes, robot.tree.support, contacts)
    p = dt * np.array([[forces[key].ft1, forces[key].ft2, forces[key].fn] for key in contacts.keys]).ravel()
    M, force = terms.M.copy(), np.zeros(robot.nv)
    force[robot.tree.a] = tau
    v, h = measured.v.copy(), terms.h.copy()
    b = ForwardProblem(M=M, h=h, v=v, J=J, force=force, mu=contacts.mu.copy(), gaps=contacts.gaps.copy(), dt=dt)
    return Step(name=f"seq {state.seq}", problem=b, p=p, v_plus=v + np.linalg.solve(M, J.T @ p + dt * (force - h)))
