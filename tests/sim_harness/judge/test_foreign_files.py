"""Files that others write: FCLib's local and global problems, measured tosses, tensors of PyTorch."""

import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import pytest
from fast import every
from measured import measured
from scipy import sparse

from idyn.errors import InputError
from sim_harness.judge.fclib import read_fclib
from sim_harness.judge.files import steps_of
from sim_harness.judge.measured import read_tensor
from sim_harness.judge.verdict import Kind, judge

h5py = pytest.importorskip("h5py")


def put(file, where, matrix, form):
    """Write a matrix as fclib.h describes it, with room for more entries than it has."""
    a = {"csc": sparse.csc_matrix, "csr": sparse.csr_matrix, "triplets": sparse.coo_matrix}[form](matrix)
    rows, columns = (a.row, a.col) if form == "triplets" else (a.indptr, a.indices)
    nz = a.nnz if form == "triplets" else {"csc": -1, "csr": -2}[form]
    for key, value in {"m": a.shape[0], "n": a.shape[1], "nz": nz, "nzmax": a.nnz}.items():
        file[f"{where}/{key}"] = np.array([value], dtype=np.int32)
    file[f"{where}/p"], file[f"{where}/i"] = rows.astype(np.int32), columns.astype(np.int32)
    file[f"{where}/x"] = a.data


def bodies(seed, n=3, equalities=0):
    """A chain of bodies: M, H (normal first), G, and a solution with one opening, one sticking and one sliding contact."""
    rng = np.random.default_rng(seed)
    nv, mu = 9 + equalities, np.array([0.5, 0.8, 0.3])
    B = rng.normal(size=(nv, nv))
    M, H, G = B @ B.T + np.eye(nv), rng.normal(size=(nv, 3 * n)), rng.normal(size=(nv, equalities))
    r = np.array([0.0, 0.0, 0.0, 2.0, 0.3, -0.2, 1.0, -0.3, 0.0])
    u = np.array([0.7, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0, 1.5, 0.0])
    v, lam = rng.normal(size=nv), rng.normal(size=equalities)
    return {
        "M": M,
        "H": H,
        "G": G,
        "f": M @ v - H @ r - G @ lam,
        "w": u - H.T @ v,
        "b": -G.T @ v,
        "mu": mu,
        "r": r,
        "u": u,
        "v": v,
    }


def write_global(path, d, form="csc"):
    with h5py.File(path, "w") as file:
        file["fclib_global/spacedim"] = np.array([3], dtype=np.int32)
        for name in ("M", "H", "G"):
            if d[name].size:
                put(file, f"fclib_global/{name}", d[name], form)
        for name in ("f", "w", "mu", "b"):
            if d[name].size:
                file[f"fclib_global/vectors/{name}"] = d[name]
        file["fclib_global/info/title"] = "a chain"
        for name in ("v", "u", "r"):
            file[f"solution/{name}"] = d[name]


@every("form", ["csc", "csr", "triplets"])
@every("equalities", [0, 2])
def test_a_solution_of_a_global_problem_is_right_and_a_wrong_one_is_named(tmp_path, form, equalities):
    d = bodies(1, equalities=equalities)
    write_global(tmp_path / "a.hdf5", d, form)
    step = read_fclib(tmp_path / "a.hdf5")
    np.testing.assert_allclose((step.problem.J @ step.v_plus).reshape(3, 3), d["u"].reshape(3, 3)[:, [1, 2, 0]], atol=1e-9)
    assert judge(step).violations == ()
    write_global(tmp_path / "b.hdf5", d | {"r": d["r"] * 1.1}, form)
    assert Kind.MOMENTUM in judge(read_fclib(tmp_path / "b.hdf5")).kinds
    pulls = d["r"] - np.eye(9)[3] * 3.0
    write_global(tmp_path / "c.hdf5", d | {"r": pulls, "f": d["f"] + d["H"] @ (d["r"] - pulls)}, form)
    assert judge(read_fclib(tmp_path / "c.hdf5")).kinds[0] is Kind.PULLS


def test_a_velocity_beside_the_equalities_is_refused(tmp_path):
    d = bodies(2, equalities=2)
    write_global(tmp_path / "a.hdf5", d | {"v": d["v"] + 0.1})
    with pytest.raises(InputError, match="solution/v: expected a velocity that satisfies"):
        read_fclib(tmp_path / "a.hdf5")


@every("planar", [False, True])
def test_a_local_problem_is_that_of_its_global_one(tmp_path, planar):
    """W, V, R and q by elimination of the velocities from a global problem; in two dimensions without the second tangents."""
    d = bodies(3, equalities=2)
    keep = np.flatnonzero(np.arange(9) % 3 < (2 if planar else 3))
    if planar:
        d["f"] = d["f"] + d["H"][:, [5]] @ d["r"][[5]]  # friction along the left-out tangent
        d["r"] = np.where(np.arange(9) % 3 == 2, 0.0, d["r"])
    H, inverse, G = d["H"][:, keep], np.linalg.inv(d["M"]), d["G"]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fclib_local/spacedim"] = np.array([2 if planar else 3], dtype=np.int32)
        put(file, "fclib_local/W", H.T @ inverse @ H, "csr")
        put(file, "fclib_local/V", H.T @ inverse @ G, "triplets")
        put(file, "fclib_local/R", G.T @ inverse @ G, "csc")
        vectors = {"q": d["w"][keep] + H.T @ inverse @ d["f"], "s": d["b"] + G.T @ inverse @ d["f"], "mu": d["mu"]}
        for name, value in vectors.items():
            file[f"fclib_local/vectors/{name}"] = value
        file["solution/r"], file["solution/u"] = d["r"][keep], d["u"][keep]
    step = read_fclib(tmp_path / "a.h5")
    found = (step.problem.J @ step.v_plus).reshape(3, 3)[:, [2, 0, 1]].ravel()
    np.testing.assert_allclose(found[keep], d["u"][keep], atol=1e-7)
    assert judge(step).violations == ()


def toss(n=40):
    """A cube that slides on one face along x and is slowed by friction, in half edges, as ContactNets writes it."""
    half, dt, mu, g = 0.0524, 1.0 / 148.0, 0.18, 9.81
    speed = 1.0 - mu * g * dt * np.arange(n)
    rows = np.zeros((1, n, 19))
    rows[0, :, 0], rows[0, :, 2] = np.cumsum(speed) * dt / half, 1.0
    rows[0, :, 3], rows[0, :, 7] = 1.0, speed / half
    return rows


def saved(path, values, module="torch._utils", function="_rebuild_tensor_v2", stored=None):
    """Write a tensor as torch.save does, by pickle's own rules. stored: its numbers, default: all"""
    stored = values.ravel() if stored is None else stored
    storage, rebuild = type("DoubleStorage", (), {"__module__": "torch"}), types.FunctionType((lambda *a: a).__code__, {})
    rebuild.__module__, rebuild.__qualname__ = module, function
    fakes = {"torch": types.ModuleType("torch"), module: types.ModuleType(module)}
    fakes["torch"].DoubleStorage = storage
    setattr(fakes[module], function, rebuild)

    class Key:
        pass

    class Tensor:
        def __reduce__(self):
            strides = tuple(stride // 8 for stride in values.strides)
            return rebuild, (key, 0, values.shape, strides, False, None)

    class Pickler(pickle.Pickler):
        def persistent_id(self, item):
            return ("storage", storage, "0", "cpu", stored.size) if item is key else None

    key, text = Key(), io.BytesIO()
    known = {name: sys.modules.get(name) for name in fakes}
    sys.modules.update(fakes)
    try:
        Pickler(text, protocol=2).dump(Tensor())
    finally:
        for name, old in known.items():
            sys.modules.pop(name) if old is None else sys.modules.__setitem__(name, old)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        archive.writestr("archive/data/0", struct.pack(f"<{stored.size}d", *stored))


def test_a_toss_of_contactnets_is_explained(tmp_path):
    saved(tmp_path / "7.pt", toss())
    assert np.array_equal(read_tensor(tmp_path / "7.pt"), toss())
    steps = list(steps_of(tmp_path / "7.pt", 1))
    assert len(steps) == 39
    for step in steps:
        assert judge(step).violations == ()
        assert step.p.reshape(-1, 3)[:, 2].sum() == pytest.approx(0.37 * 9.81 / 148.0, rel=1e-6)


def test_a_toss_that_speeds_up_on_the_floor_gains_energy_from_nothing(tmp_path):
    saved(tmp_path / "7.pt", toss()[:, ::-1] * np.where(np.isin(np.arange(19), [0]), -1.0, 1.0))
    assert all(Kind.ENERGY in judge(step).kinds for step in steps_of(tmp_path / "7.pt", 1))


def test_a_file_that_would_run_code_is_refused(tmp_path):
    saved(tmp_path / "a.pt", toss(), "posixpath2", "system")
    with pytest.raises(InputError, match=r"a\.pt: expected a tensor.*system"):
        read_tensor(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(b"\x80\x02]q\x00.")
    with pytest.raises(InputError, match=r"b\.pt: expected a tensor"):
        read_tensor(tmp_path / "b.pt")


def test_a_tensor_that_repeats_its_numbers_is_refused(tmp_path):
    """A stride of 0 would make an array of any size from one number."""
    saved(tmp_path / "a.pt", np.broadcast_to(1.0, (3, 19)), stored=np.ones(1))
    with pytest.raises(InputError, match=r"a\.pt: expected a tensor"):
        read_tensor(tmp_path / "a.pt")


@pytest.mark.full
def test_measured_tosses_are_judged():
    """Most changes of velocity are explained to 0.05 m/s, and no impulse pulls or leaves its cone."""
    verdicts = [judge(step, 0.05) for step in steps_of(measured("cube-tosses.npz"), 400)]
    assert len(verdicts) > 50
    assert np.mean([Kind.MOMENTUM in verdict.kinds for verdict in verdicts]) < 0.5
    assert not any({Kind.PULLS, Kind.OUTSIDE} & set(verdict.kinds) for verdict in verdicts)
