"""Friction problems in FCLib's HDF5 layout: read them as steps, and write steps (extra `fclib`).

    /fclib_local/spacedim            3
    /fclib_local/W/{m, n, nz, nzmax, p, i, x}    Delassus matrix; nz = −1: CSC, −2: CSR, else triplets (i, p) of nz entries
    /fclib_local/vectors/{q, mu}     u = W r + q, friction coefficients
    /solution/{r, u}                 a solution, if there is one

Rows of a contact are normal, tangent, tangent. A local problem has no masses: it becomes a step of dt = 1 with M = 1 and
J = W^½, so u and r are its speeds and impulses.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix

from idyn.errors import InputError
from idyn.extras import missing_extra
from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem
from sim_harness.judge.step import Step

SUFFIXES = (".hdf5", ".h5", ".hdf")
RANGE = 1e-8
"""Largest part of q outside the range of W, relative to q. A larger one belongs to no mechanical system."""


def read_fclib(path: Path) -> Step:
    """Read a local problem and its solution; without one, r = 0. Raises InputError; ConfigError without h5py."""
    h5py = _h5py(path)
    try:
        with h5py.File(path, "r") as file:
            local = file["fclib_local"]
            if int(np.ravel(local["spacedim"])[0]) != 3:
                raise InputError(f"{path}/fclib_local/spacedim", f"expected 3, got {local['spacedim'][()]}")
            W = _matrix(f"{path}/fclib_local/W", {key: np.ravel(local["W"][key]) for key in local["W"]})
            q, mu = (np.ravel(local["vectors"][key]).astype(float) for key in ("q", "mu"))
            found = file.get("solution")
            r, u = (None if found is None or key not in found else np.ravel(found[key]).astype(float) for key in ("r", "u"))
    except (OSError, KeyError) as error:
        raise InputError(str(path), f"expected FCLib's layout of a local problem ({error})") from error
    rows = 3 * len(mu)
    for name, value, shape in (("W", W, (rows, rows)), ("vectors/q", q, (rows,)), ("r", r, (rows,)), ("u", u, (rows,))):
        if value is not None and value.shape != shape:
            raise InputError(f"{path}: {name}", f"expected shape {shape} for {len(mu)} contacts, got {value.shape}")
    order = np.arange(rows).reshape(-1, 3)[:, [1, 2, 0]].ravel()
    return _step(path, W[np.ix_(order, order)], q[order], mu, None if r is None else r[order], None if u is None else u[order])


def _step(path: Path, W: Array, q: Array, mu: Array, r: Array | None, u: Array | None) -> Step:
    """Return the step of u = W r + q, rows as ours."""
    if np.abs(W - W.T).max(initial=0.0) > 1e-8 * np.abs(W).max(initial=1e-300):
        raise InputError(f"{path}/fclib_local/W", "expected a symmetric matrix")
    size, axes = np.linalg.eigh((W + W.T) / 2)
    if (size < -1e-8 * np.abs(size).max(initial=0.0)).any():
        raise InputError(f"{path}/fclib_local/W", f"expected no negative eigenvalue, got {size[0]:.3g}")
    J = axes * np.sqrt(np.maximum(size, 0.0))
    v = np.linalg.lstsq(J, q, rcond=1e-10)[0]
    if np.abs(J @ v - q).max(initial=0.0) > RANGE * np.abs(q).max(initial=0.0):
        raise InputError(f"{path}/fclib_local/vectors/q", "expected a vector in the range of W")
    n = len(q)
    b = ForwardProblem(M=np.eye(n), h=np.zeros(n), v=v, J=J, force=np.zeros(n), mu=mu, gaps=np.zeros(len(mu)), dt=1.0)
    p = np.zeros(n) if r is None else r
    v_plus = v + J.T @ p
    if u is not None:
        v_plus = v_plus + np.linalg.lstsq(J, u - J @ v_plus, rcond=1e-10)[0]
    return Step(name=path.stem, problem=b, p=p, v_plus=v_plus)


def _matrix(where: str, data: dict[str, Any]) -> Array:
    """Return a matrix of FCLib as a dense array."""
    try:
        shape, nz = (int(data["m"][0]), int(data["n"][0])), int(data["nz"][0])
        p, i, x = data["p"], data["i"], data["x"].astype(float)
        if nz >= 0:
            return np.asarray(coo_matrix((x[:nz], (i[:nz], p[:nz])), shape).toarray())
        return np.asarray((csc_matrix if nz == -1 else csr_matrix)((x, i, p), shape).toarray())
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(where, f"expected m, n, nz, p, i and x of a sparse matrix ({error})") from error


def write_fclib(path: Path, step: Step) -> None:
    """Write a step as a local problem with its solution: W = J M⁻¹ Jᵀ, q = J (v + dt M⁻¹ (force − h)), gaps included in q_N."""
    h5py, b = _h5py(path), step.problem
    order = np.arange(len(b.J)).reshape(-1, 3)[:, [2, 0, 1]].ravel()
    J = b.J[order]
    q = J @ (b.v + b.dt * np.linalg.solve(b.M, b.force - b.h))
    q[::3] += b.gaps / b.dt
    u = J @ step.v_plus
    u[::3] += b.gaps / b.dt
    W = csc_matrix(J @ np.linalg.solve(b.M, J.T))
    with h5py.File(path, "w") as file:
        file["fclib_local/spacedim"] = np.array([3], dtype=np.int32)
        sizes = {"m": W.shape[0], "n": W.shape[1], "nz": -1, "nzmax": W.nnz}
        for key, value in sizes.items():
            file[f"fclib_local/W/{key}"] = np.array([value], dtype=np.int32)
        for key, values in {"p": W.indptr, "i": W.indices}.items():
            file[f"fclib_local/W/{key}"] = values.astype(np.int32)
        file["fclib_local/W/x"], file["fclib_local/vectors/q"], file["fclib_local/vectors/mu"] = W.data, q, b.mu
        file["solution/r"], file["solution/u"] = step.p[order], u


def _h5py(path: Path) -> Any:
    try:
        import h5py  # noqa: PLC0415 - an optional package
    except ModuleNotFoundError as error:
        raise missing_extra("judge", str(path), "h5py", "fclib") from error
    return h5py
