"""Problems and solutions in FCLib's layout, as steps to judge: `idyn judge` in a checkout.

FCLib files, read and written with the extra `fclib`, have this layout:

    /fclib_local/spacedim            2 or 3
    /fclib_local/W, V, R             Delassus matrix; with equalities (V, R): u = W r + V λ + q, Vᵀ r + R λ + s = 0
    /fclib_local/vectors/{q, mu, s}  mu: friction coefficients
    /fclib_global/spacedim           2 or 3
    /fclib_global/M, H, G            M v = H r + G λ + f, Gᵀ v + b = 0, u = Hᵀ v + w
    /fclib_global/vectors/{f, w, mu, b}
    /solution/{v, r, u, l}           a solution, if there is one; l = λ

A matrix is a group of m, n, nz, nzmax, p, i, x; nz = −1: CSC, −2: CSR, else triplets of nz entries in the rows p and columns i.
Rows of a contact are normal, tangent, tangent; in two dimensions the second tangent has no motion here. Equalities are
eliminated. A local problem has no masses: it becomes a step of dt = 1 with M = 1 and J = W^½, so u and r are its speeds and
impulses. A global one is a step of dt = 1 from v_0 with Hᵀ v_0 = w, so its v⁺ is v + v_0.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import null_space
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix

from idyn.errors import InputError, missing_extra
from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem
from sim_harness.judge.step import Step

RANGE = 1e-8
"""Largest part of q outside the range of W, relative to q. A larger one belongs to no mechanical system."""

EQUALITY = 1e-6
"""Largest violation of equalities by a solution, relative to their largest term."""


def read_fclib(path: Path) -> Step:
    """Read a problem and its solution; without one, r = 0. Raises InputError; ConfigError without h5py."""
    h5py = _h5py(path)
    try:
        with h5py.File(path, "r") as file:
            kind = "fclib_global" if "fclib_global" in file else "fclib_local"
            group, found = file[kind], file.get("solution", {})
            space = int(np.ravel(group["spacedim"])[0])
            if space not in (2, 3):
                raise InputError(f"{path}/{kind}/spacedim", f"expected 2 or 3, got {space}")
            matrices = {
                name: _matrix(f"{path}/{kind}/{name}", {key: np.ravel(group[name][key]) for key in group[name]})
                for name in ("W", "V", "R", "M", "H", "G")
                if name in group
            }
            vectors = {name: np.ravel(value).astype(float) for name, value in group["vectors"].items()}
            solution = {name: np.ravel(value).astype(float) for name, value in found.items()}
            read = _global if kind == "fclib_global" else _local
            return read(path, space, matrices, vectors, solution)
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), f"expected FCLib's layout of a local or global problem ({error})") from error


Named = dict[str, Array]


def _local(path: Path, space: int, matrices: Named, vectors: Named, solution: Named) -> Step:
    """Return the step of u = W r + q."""
    rows = space * len(vectors["mu"])
    _check_shapes(path, {"W": (matrices["W"], (rows, rows)), "vectors/q": (vectors["q"], (rows,))})
    W, q = matrices["W"], vectors["q"]
    if "R" in matrices:  # λ = −R⁻¹ (Vᵀ r + s)
        V, R, s = matrices["V"], matrices["R"], vectors["s"]
        _check_shapes(path, {"R": (R, (len(s), len(s))), "V": (V, (rows, len(s)))})
        if np.linalg.matrix_rank(R) < len(R):
            raise InputError(f"{path}/fclib_local/R", "expected a regular matrix")
        W, q = W - V @ np.linalg.solve(R, V.T), q - V @ np.linalg.solve(R, s)
    if np.abs(W - W.T).max(initial=0.0) > 1e-8 * np.abs(W).max(initial=1e-300):
        raise InputError(f"{path}/fclib_local/W", "expected a symmetric matrix")
    size, axes = np.linalg.eigh((W + W.T) / 2)
    if (size < -1e-8 * np.abs(size).max(initial=0.0)).any():
        raise InputError(f"{path}/fclib_local/W", f"expected no negative eigenvalue, got {size[0]:.3g}")
    J, nothing = axes * np.sqrt(np.maximum(size, 0.0)), np.zeros(rows)
    return _step(path, space, (np.eye(rows), J, nothing, q), vectors["mu"], {key: solution.get(key) for key in ("r", "u")})


def _global(path: Path, space: int, matrices: Named, vectors: Named, solution: Named) -> Step:
    """Return the step of M v = H r + f, u = Hᵀ v + w, in the velocities that the equalities permit."""
    M, J, f, w, mu = matrices["M"], matrices["H"].T, vectors["f"], vectors["w"], vectors["mu"]
    nv, rows, v = len(f), space * len(mu), solution.get("v")
    known = {"M": (M, (nv, nv)), "H": (J.T, (nv, rows)), "vectors/w": (w, (rows,)), "v": (v, (nv,))}
    _check_shapes(path, known)
    if np.abs(M - M.T).max(initial=0.0) > 1e-8 * np.abs(M).max(initial=1e-300) or not (np.linalg.eigvalsh(M) > 0.0).all():
        raise InputError(f"{path}/fclib_global/M", "expected a symmetric positive definite matrix")
    if "G" in matrices:  # v = Z y + v_p with Gᵀ Z = 0, Gᵀ v_p = −b
        G, b = matrices["G"], vectors["b"]
        _check_shapes(path, {"G": (G, (nv, len(b)))})
        v_p, Z = -np.linalg.lstsq(G.T, b, rcond=None)[0], null_space(G.T)
        if v is not None:
            if np.abs(G.T @ v + b).max(initial=0.0) > EQUALITY * (np.abs(G.T) @ np.abs(v) + np.abs(b)).max(initial=0.0):
                raise InputError(f"{path}/solution/v", "expected a velocity that satisfies the equalities Gᵀ v + b = 0")
            v = Z.T @ (v - v_p)
        M, J, f, w = Z.T @ M @ Z, J @ Z, Z.T @ (f - M @ v_p), w + J @ v_p
    return _step(path, space, (M, J, f, w), mu, {"r": solution.get("r"), "u": solution.get("u"), "v": v})


def _check_shapes(path: Path, values: dict[str, tuple[Array | None, tuple[int, ...]]]) -> None:
    for name, (value, shape) in values.items():
        if value is not None and value.shape != shape:
            raise InputError(f"{path}: {name}", f"expected shape {shape}, got {value.shape}")


def _step(
    path: Path, space: int, problem: tuple[Array, Array, Array, Array], mu: Array, solution: dict[str, Array | None]
) -> Step:
    """Return the step of M v = Jᵀ r + f, u = J v + w. problem: (M, J, f, w), rows of a contact normal first"""
    M, J, f, w = problem
    r, u, v = (solution.get(key) for key in ("r", "u", "v"))
    _check_shapes(path, {"r": (r, w.shape), "u": (u, w.shape)})
    v_0 = np.linalg.lstsq(J, w, rcond=1e-10)[0]
    if np.abs(J @ v_0 - w).max(initial=0.0) > RANGE * np.abs(w).max(initial=0.0):
        raise InputError(f"{path}: vectors", "expected free velocities in the range of the contacts' Jacobian")
    if v is None:
        v = np.linalg.solve(M, f if r is None else f + J.T @ r)
        if u is not None:
            v = v + np.linalg.lstsq(J, u - w - J @ v, rcond=1e-10)[0]
    n = len(mu)
    whole, p = np.zeros((n, 3, len(f))), np.zeros((n, 3))
    order = [2, 0, 1][:space]
    whole[:, order] = J.reshape(n, space, len(f))
    if r is not None:
        p[:, order] = r.reshape(n, space)
    b = ForwardProblem(M=M, h=np.zeros(len(f)), v=v_0, J=whole.reshape(3 * n, -1), force=f, mu=mu, gaps=np.zeros(n), dt=1.0)
    return Step(name=path.stem, problem=b, p=p.ravel(), v_plus=v + v_0)


def _matrix(where: str, data: dict[str, Any]) -> Array:
    """Return a matrix of FCLib as a dense array."""
    try:
        shape, nz = (int(data["m"][0]), int(data["n"][0])), int(data["nz"][0])
        p, i, x = data["p"], data["i"], data["x"].astype(float)
        if nz >= 0:
            return np.asarray(coo_matrix((x[:nz], (p[:nz], i[:nz])), shape).toarray())
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
