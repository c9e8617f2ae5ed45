"""A state of a MuJoCo model and its contact forces as a step (extra `mujoco`): a JSON file, see `docs/how-to/judge.md`.

Limits, equalities and joint friction are forces of the step; only contacts are judged. The integrator must be Euler.
"""

from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import InputError
from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem
from sim_harness.judge.step import Step
from sim_harness.mujoco.door import mujoco

FIELDS = ("mjcf", "qpos", "qvel", "ctrl", "applied", "forces", "qvel_plus", "steps")


def read_mjcf(path: Path, fields: dict[str, Any]) -> list[Step]:
    """Return the steps from a state on. Raises InputError."""
    for key in fields:
        if key not in FIELDS:
            raise InputError(f"{path.stem}.{key}", f"unknown field; expected {', '.join(FIELDS)}")
    try:
        model = mujoco.MjModel.from_xml_path(str(path.parent / fields["mjcf"]))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path.stem}.mjcf", f"expected the path of an MJCF ({error})") from error
    if model.opt.integrator != mujoco.mjtIntegrator.mjINT_EULER:
        raise InputError(f"{path.stem}.mjcf", "expected the integrator Euler")
    data = mujoco.MjData(model)
    for key, target in {"qpos": data.qpos, "qvel": data.qvel, "ctrl": data.ctrl, "applied": data.qfrc_applied}.items():
        if key in fields:
            target[:] = _sized(f"{path.stem}.{key}", fields[key], target.shape)
    steps, foreign = fields.get("steps", 1), "forces" in fields or "qvel_plus" in fields
    if type(steps) is not int or steps < 1 or (foreign and steps > 1):
        raise InputError(f"{path.stem}.steps", f"expected an integer ≥ 1, 1 with forces or qvel_plus, got {steps}")
    if foreign or steps == 1:
        return [step_of_mujoco(path.stem, model, data, fields.get("forces"), fields.get("qvel_plus"))]
    return [step_of_mujoco(f"{path.stem}[{i}]", model, data) for i in range(steps)]


def _sized(where: str, value: Any, shape: tuple[int, ...]) -> Array:
    try:
        found = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(where, f"expected numbers ({error})") from error
    if found.shape != shape or not np.isfinite(found).all():
        raise InputError(where, f"expected finite numbers of shape {shape}, got shape {found.shape}")
    return found


def step_of_mujoco(name: str, model: Any, data: Any, forces: Any = None, qvel_plus: Any = None) -> Step:
    """Return the step from the state in `data`, which is stepped. For forces and qvel_plus see the module."""
    mujoco.mj_forward(model, data)
    nv, dt, before = model.nv, model.opt.timestep, data.qvel.copy()
    M = np.zeros((nv, nv))
    for row, one in zip(M, np.eye(nv), strict=True):
        mujoco.mj_mulM(model, data, row, one)
    rows, gaps, mu, own = [], [], [], []
    for k in range(data.ncon):
        contact = data.contact[k]
        if contact.efc_address < 0:
            continue
        rows.append(_jacobian(model, data, contact))
        gaps.append(contact.dist)
        mu.append(contact.friction[0] if contact.dim > 1 else 0.0)
        force = np.zeros(6)
        mujoco.mj_contactForce(model, data, k, force)
        own.append(force[[1, 2, 0]])
    J, p_own = np.vstack(rows) if rows else np.zeros((0, nv)), dt * np.array(own).ravel()
    # M dv = dt (smooth forces + constraint forces), damping at the end of the step
    rest = data.qfrc_constraint - J.T @ p_own / dt
    net = data.qfrc_smooth + rest
    implicit = dt * np.diag(model.dof_damping) if not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_EULERDAMP else 0.0
    p = p_own if forces is None else dt * _sized(f"{name}.forces", forces, (len(mu), 3))[:, [1, 2, 0]].ravel()
    mujoco.mj_step(model, data)
    if qvel_plus is not None:
        v_plus = _sized(f"{name}.qvel_plus", qvel_plus, (nv,))
    elif forces is None:
        v_plus = data.qvel.copy()
    else:
        v_plus = before + np.linalg.solve(M + implicit, J.T @ p + dt * net)
    force = net - (implicit @ (v_plus - before) / dt if np.ndim(implicit) else 0.0)
    b = ForwardProblem(M=M, h=np.zeros(nv), v=before, J=J, force=force, mu=np.array(mu), gaps=np.array(gaps), dt=dt)
    return Step(name=name, problem=b, p=p, v_plus=v_plus)


def _jacobian(model: Any, data: Any, contact: Any) -> Array:
    """Return the rows tangent, tangent, normal of the velocity of the second body relative to the first (3, nv)."""
    one, other = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_jac(model, data, one, None, contact.pos, model.geom_bodyid[contact.geom1])
    mujoco.mj_jac(model, data, other, None, contact.pos, model.geom_bodyid[contact.geom2])
    rows: Array = contact.frame.reshape(3, 3)[[1, 2, 0]] @ (other - one)
    return rows
