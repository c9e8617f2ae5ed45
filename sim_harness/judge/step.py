"""A step of a simulator with contacts, as data to be judged, and its file format (npz or JSON), see `docs/how-to/judge.md`."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import InputError
from idyn.types import Array, Record
from sim_harness.engines.engine import ForwardProblem

NEEDED, OPTIONAL = ("M", "J", "v", "v_plus", "p", "mu", "dt"), ("h", "force", "gaps")
STACKED = ("M", "J", "v", "v_plus", "p")
"""Fields that have a first axis in an npz file of several steps; of the others each may have it."""

RANK = {"M": 2, "J": 2, "v": 1, "v_plus": 1, "p": 1, "mu": 1, "dt": 0, "h": 1, "force": 1, "gaps": 1}
"""Number of axes of a field of one step."""


class Step(Record, frozen=True):
    """A step to judge.

    problem: the step's data; p, v_plus: its solution [N·s] (3n), [m/s, rad/s] (nv)
    """

    name: str  # for reports
    problem: ForwardProblem
    p: Array
    v_plus: Array


def step_of(name: str, fields: Mapping[str, Any]) -> Step:
    """Check the fields of one step and return it. Raises InputError that names the field."""
    for key in fields:
        if key not in (*NEEDED, *OPTIONAL):
            raise InputError(f"{name}.{key}", f"unknown field; expected {', '.join((*NEEDED, *OPTIONAL))}")
    for key in NEEDED:
        if key not in fields:
            raise InputError(f"{name}.{key}", f"missing; expected {', '.join(NEEDED)}")
    given = {key: _numbers(f"{name}.{key}", value) for key, value in fields.items()}
    M, J = _square(f"{name}.M", given["M"]), given["J"]
    nv = len(M)
    if J.ndim != 2 or J.shape[1] != nv or len(J) % 3:
        raise InputError(f"{name}.J", f"expected shape (3n, {nv}), got {J.shape}")
    n, dt = len(J) // 3, given["dt"]
    if dt.ndim or not 0.0 < dt < np.inf:
        raise InputError(f"{name}.dt", f"expected a number > 0, got {fields['dt']}")
    sizes = {"v": nv, "v_plus": nv, "p": 3 * n, "h": nv, "force": nv, "gaps": n}
    whole = {key: given.get(key, np.zeros(size)) for key, size in sizes.items()}
    for key, size in sizes.items():
        if whole[key].shape != (size,):
            raise InputError(f"{name}.{key}", f"expected shape ({size},), got {whole[key].shape}")
    mu = np.broadcast_to(given["mu"], (n,)).copy() if given["mu"].ndim == 0 else given["mu"]
    if mu.shape != (n,) or not (mu >= 0.0).all():
        raise InputError(f"{name}.mu", f"expected one number ≥ 0, or {n}, got {fields['mu']}")
    problem = ForwardProblem(
        M=M, h=whole["h"], v=whole["v"], J=J, force=whole["force"], mu=mu, gaps=whole["gaps"], dt=float(dt)
    )
    return Step(name=name, problem=problem, p=whole["p"], v_plus=whole["v_plus"])


def _numbers(where: str, value: Any) -> Array:
    try:
        found = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(where, f"expected numbers, got {type(value).__name__} ({error})") from error
    if np.isnan(found).any() or (np.isinf(found).any() and not where.endswith(".mu")):
        raise InputError(where, "expected finite numbers")
    return found


def _square(where: str, M: Array) -> Array:
    if M.ndim != 2 or M.shape[0] != M.shape[1] or not len(M):
        raise InputError(where, f"expected shape (nv, nv), got {M.shape}")
    if np.abs(M - M.T).max() > 1e-6 * np.abs(M).max():
        raise InputError(where, "expected a symmetric matrix")
    try:
        np.linalg.cholesky(M)
    except np.linalg.LinAlgError as error:
        raise InputError(where, "expected a positive definite matrix") from error
    return (M + M.T) / 2


def read_steps(path: Path) -> list[Step]:
    """Read the steps of an npz or JSON file. Raises InputError."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as data:
                return _unstacked(path.stem, {key: data[key] for key in data.files})
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(str(path), f"expected an npz or JSON file of steps ({error})") from error
    rows = found if isinstance(found, list) else [found]
    for row in rows:
        if not isinstance(row, dict):
            raise InputError(
                f"{path}", f"expected an object of {', '.join(NEEDED)} or a list of objects, got {type(row).__name__}"
            )
    return [step_of(path.stem if row is found else f"{path.stem}[{i}]", row) for i, row in enumerate(rows)]


def _unstacked(name: str, fields: dict[str, Any]) -> list[Step]:
    if fields.get("v", np.zeros(0)).ndim < 2:
        return [step_of(name, fields)]
    count = len(fields["v"])
    for key, value in fields.items():
        if key in STACKED and len(value) != count:
            raise InputError(f"{name}.{key}", f"expected {count} steps as in v, got {len(value)}")
    steps = []
    for i in range(count):
        own = {key: value[i] if value.ndim > RANK.get(key, value.ndim) else value for key, value in fields.items()}
        steps.append(step_of(f"{name}[{i}]", own))
    return steps


def write_steps(path: Path, steps: list[Step]) -> None:
    """Write steps as JSON, in the format of this module."""
    rows = []
    for step in steps:
        b = step.problem
        arrays = {"M": b.M, "J": b.J, "v": b.v, "h": b.h, "force": b.force, "gaps": b.gaps, "mu": b.mu, "p": step.p}
        rows.append({key: value.tolist() for key, value in arrays.items()} | {"v_plus": step.v_plus.tolist(), "dt": b.dt})
    path.write_text(json.dumps(rows), encoding="utf-8")
