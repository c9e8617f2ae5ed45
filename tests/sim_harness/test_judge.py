"""`idyn judge`: files of problems and solutions, their formats, and the verdicts on them."""

import io
import json
import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import pytest
from cli import fails, prints
from fast import every, every_row
from measured import measured
from scipy import sparse

from idyn.errors import InputError
from sim_harness.commands.main import main
from sim_harness.judge.files import steps_of
from sim_harness.judge.step import read_steps, step_of, write_steps
from sim_harness.judge.verdict import ANSWERS, Kind, answer_to, judge
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan
from sim_harness.studies.fclib import read_fclib, write_fclib
from sim_harness.studies.measured_tosses import read_tensor

DT = 1e-3
GOOD = {  # 2 kg that stick under a push of 4 N
    "M": np.diag([2.0, 2.0, 2.0]), "J": np.eye(3), "v": np.zeros(3), "v_plus": np.zeros(3), "p": [-4e-3, 0.0, 19.62e-3],
    "mu": 0.5, "dt": DT, "h": [0.0, 0.0, 19.62], "force": [4.0, 0.0, 0.0],
}  # fmt: skip
BOX = """<mujoco><option timestep="0.001" cone="elliptic"/><worldbody><geom type="plane" size="1 1 1" friction="0.5"/>
<body pos="0 0 0.099"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="10" friction="0.5"/></body></worldbody></mujoco>"""
G = 9.81
WRONG = {  # kind → impulses in loads, and u⁺ [m/s]; all else is right
    Kind.PENETRATES: ((0.1, 0.0, 0.5), (0.0, 0.0, -0.005)),
    Kind.PULLS: ((0.0, 0.0, -0.2), (0.0, 0.0, 0.3)),
    Kind.OUTSIDE: ((0.6, 0.3, 1.0), (0.0, 0.0, 0.0)),
    Kind.SLIPS: ((-0.2, 0.1, 1.0), (0.004, -0.002, 0.0)),
    Kind.ENERGY: ((0.5, 0.0, 1.0), (1.0, 0.0, 0.0)),
}
RIGHT = {
    "sticks": ((0.2, 0.1, 1.0), (0.0, 0.0, 0.0)),
    "slides": ((-0.3, 0.4, 1.0), (0.6, -0.8, 0.0)),
    "parts": ((0.0, 0.0, 0.0), (0.3, 0.1, 0.2)),
    "slides without load": ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
}


def plain(fields):
    return {key: np.asarray(value).tolist() for key, value in fields.items()}


def test_json_and_npz_hold_the_same_steps(tmp_path):
    slips = GOOD | {"p": [-2e-3, 0.0, 19.62e-3], "v_plus": [1e-3, 0.0, 0.0]}
    (tmp_path / "a.json").write_text(json.dumps([plain(GOOD), plain(slips)]))
    stacked = {key: np.array([np.asarray(GOOD[key]), np.asarray(slips[key])]) for key in ("M", "J", "v", "v_plus", "p")}
    np.savez(tmp_path / "a.npz", **stacked, mu=0.5, dt=DT, h=GOOD["h"], force=GOOD["force"])
    for name in ("a.json", "a.npz"):
        steps = read_steps(tmp_path / name)
        assert [judge(step).kinds for step in steps] == [(), (Kind.SLIPS,)]
    write_steps(tmp_path / "b.json", steps)
    for one, other in zip(steps, read_steps(tmp_path / "b.json"), strict=True):
        assert np.array_equal(one.p, other.p)
        assert np.array_equal(one.problem.force, other.problem.force)


@every_row(
    ({"M": np.eye(2)}, r"x\.J: expected shape"),
    ({"M": -np.eye(3)}, r"x\.M: expected a positive definite"),
    ({"M": np.triu(np.ones((3, 3)))}, r"x\.M: expected a symmetric"),
    ({"J": np.eye(4)}, r"x\.J: expected shape"),
    ({"p": [1.0]}, r"x\.p: expected shape"),
    ({"v": [0.0, 0.0, np.nan]}, r"x\.v: expected finite"),
    ({"v": [0.0, 0.0, np.inf]}, r"x\.v: expected finite"),
    ({"mu": -0.1}, r"x\.mu: expected one number"),
    ({"mu": [0.1, 0.2]}, r"x\.mu: expected one number"),
    ({"dt": 0.0}, r"x\.dt: expected a number > 0"),
    ({"dt": "now"}, r"x\.dt: expected numbers"),
    ({"gap": 0.0}, r"x\.gap: unknown field"),
)
def test_wrong_fields_are_named(wrong, named):
    with pytest.raises(InputError, match=named):
        step_of("x", GOOD | wrong)


def test_a_missing_field_is_named():
    with pytest.raises(InputError, match=r"x\.v_plus: missing"):
        step_of("x", {key: value for key, value in GOOD.items() if key != "v_plus"})


@every("name", ["a.json", "a.npz", "a.hdf5", "a.mcap", "a.xml", "missing.json"])
@every("content", [b"", b"[1, 2]", b"\x00\xff" * 50, b'{"M": "x"}', b'{"mjcf": 3}'])
def test_any_bytes_give_an_error_with_the_name(name, content, tmp_path, capsys):
    if not name.startswith("missing"):
        (tmp_path / name).write_bytes(content)
    assert "idyn: " in fails(capsys, "judge", str(tmp_path / name), "--out", str(tmp_path / "out"))


def test_problems_in_fclibs_layout_keep_their_meaning(tmp_path):
    """The same speeds, impulses and verdict as before; W, q and mu where FCLib has them, rows normal first."""
    rng = np.random.default_rng(7)
    B = rng.normal(size=(9, 9))
    M, J, v, p = B @ B.T + np.eye(9), rng.normal(size=(6, 9)), rng.normal(size=9), rng.normal(size=6)
    v_plus = v + np.linalg.solve(M, J.T @ p)
    data = {"M": M, "J": J, "v": v, "v_plus": v_plus, "p": p, "mu": [0.3, 0.7], "dt": 1.0}
    step = step_of("own", data)
    write_fclib(tmp_path / "own.hdf5", step)
    with h5py.File(tmp_path / "own.hdf5") as file:
        order = [2, 0, 1, 5, 3, 4]
        np.testing.assert_allclose(file["solution/u"], (J @ v_plus)[order], atol=1e-12)
        np.testing.assert_allclose(file["fclib_local/vectors/q"], (J @ v)[order], atol=1e-12)
        assert (file["fclib_local/W/nz"][0], file["fclib_local/spacedim"][0]) == (-1, 3)
    read = read_fclib(tmp_path / "own.hdf5")
    np.testing.assert_allclose(read.problem.J @ read.v_plus, J @ v_plus, atol=1e-9)
    np.testing.assert_allclose(read.p, p, atol=1e-12)
    one, other = judge(step), judge(read)
    assert one.kinds == other.kinds
    assert one.kinds
    for a, b in zip(one.violations, other.violations, strict=True):
        assert a.amount == pytest.approx(b.amount, rel=1e-6)


@pytest.fixture
def box(tmp_path):
    pytest.importorskip("mujoco")
    (tmp_path / "box.xml").write_text(BOX)

    def step(**fields):
        from sim_harness.judge.mjcf import read_mjcf  # noqa: PLC0415 - needs MuJoCo

        (found,) = read_mjcf(tmp_path / "state.json", {"mjcf": "box.xml"} | fields)
        return found

    return step


def test_a_step_of_mujoco_balances_and_slides_by_its_law(box):
    """1 mm deep, sliding: momentum is right, friction takes energy, nothing pulls or leaves the cone."""
    verdict = judge(box(qvel=[1.0, 0, 0, 0, 0, 0]))
    assert (len(verdict.step.problem.mu), verdict.depth) == (4, pytest.approx(1e-3, rel=1e-6))
    assert not {Kind.MOMENTUM, Kind.OUTSIDE, Kind.PULLS} & set(verdict.kinds)
    assert verdict.energy.friction < 0.0


def test_mujoco_is_judged_over_many_steps(box, tmp_path, capsys):
    """A box falls 1 mm deep into the floor: it is pushed out, and no step misses momentum."""
    (tmp_path / "fall.json").write_text(json.dumps({"mjcf": "box.xml", "steps": 50}))
    main(["judge", str(tmp_path / "fall.json"), "--out", str(tmp_path / "out"), "--json", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found) == 50
    assert not any("momentum" in each for step in found for each in step["violations"])
    (tmp_path / "fall.json").write_text(json.dumps({"mjcf": "box.xml", "steps": 0}))
    capsys.readouterr()
    assert "fall.steps" in fails(capsys, "judge", str(tmp_path / "fall.json"), "--out", str(tmp_path / "out"))


def test_forces_given_for_an_mjcf_are_judged(box):
    """All four corners pull with 5 N."""
    verdict = judge(box(forces=[[-5.0, 0.0, 0.0]] * 4))
    assert Kind.PULLS in verdict.kinds
    assert Kind.MOMENTUM not in verdict.kinds
    with pytest.raises(InputError, match=r"state\.forces: expected finite numbers of shape"):
        box(forces=[[1.0, 0.0, 0.0]])
    with pytest.raises(InputError, match=r"state\.force: unknown"):
        box(force=0)


@pytest.mark.full
def test_a_log_is_judged_by_its_predictions(tmp_path):
    """Predicted forces of a standing robot are inside their cones, and balance."""
    log = tmp_path / "log.mcap"
    run_in_process(load_plan("stand", 0.3), "coulomb", lambda *_: None, log=log)
    main(["judge", str(log), "--every", "50", "--out", str(tmp_path / "out"), "--json", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found) >= 5
    named = " ".join(each for step in found for each in step["violations"])
    assert "outside" not in named
    assert "pulls" not in named
    assert "momentum" not in named


def test_the_command_shows_verdict_and_answer(tmp_path, capsys):
    (tmp_path / "a.json").write_text(json.dumps(plain(GOOD | {"p": [-4e-3, 0.0, 9.81e-3], "v_plus": [0.0, 0.0, -4.905e-3]})))
    assert main(["judge", str(tmp_path / "a.json"), "--out", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr().out
    assert "penetrates by 0.0049 m/s" in printed
    assert "certified" in printed
    assert (tmp_path / "out" / "report.html").is_file()
    (tmp_path / "b.json").write_text(json.dumps(plain(GOOD)))
    assert main(["judge", str(tmp_path / "b.json"), "--out", str(tmp_path / "out")]) == 0


@pytest.mark.full
def test_engines_on_a_scene_are_judged(tmp_path, capsys):
    """A sliding block: `lcp` and `newton` without a violation."""
    found = str(tmp_path / "found.json")
    arguments = ["judge", "sliding-block", "--seconds", "0.02", "--out", str(tmp_path), "--json", found]
    assert "Largest violations" in prints(capsys, *arguments)
    kinds = {each["engine"]: each["kinds"] for each in json.loads((tmp_path / "found.json").read_text())}
    assert kinds["lcp"] == kinds["newton"] == {}
    assert "mujoco" in kinds


h5py = pytest.importorskip("h5py")


def put(file, where, matrix, form):
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
    given = {"f": M @ v - H @ r - G @ lam, "w": u - H.T @ v, "b": -G.T @ v}
    return {"M": M, "H": H, "G": G, **given, "mu": mu, "r": r, "u": u, "v": v}


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


def test_a_toss_of_contactnets_is_explained_and_one_that_speeds_up_is_not(tmp_path):
    saved(tmp_path / "7.pt", toss())
    assert np.array_equal(read_tensor(tmp_path / "7.pt"), toss())
    steps = list(steps_of(tmp_path / "7.pt", 1))
    assert len(steps) == 39
    for step in steps:
        assert judge(step).violations == ()
        assert step.p.reshape(-1, 3)[:, 2].sum() == pytest.approx(0.37 * 9.81 / 148.0, rel=1e-6)
    saved(tmp_path / "7.pt", toss()[:, ::-1] * np.where(np.isin(np.arange(19), [0]), -1.0, 1.0))
    assert all(Kind.ENERGY in judge(step).kinds for step in steps_of(tmp_path / "7.pt", 1))


def test_files_that_would_run_code_and_tensors_that_repeat_numbers_are_refused(tmp_path):
    """A stride of 0 would make an array of any size from one number."""
    saved(tmp_path / "a.pt", toss(), "posixpath2", "system")
    with pytest.raises(InputError, match=r"a\.pt: expected a tensor.*system"):
        read_tensor(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(b"\x80\x02]q\x00.")
    with pytest.raises(InputError, match=r"b\.pt: expected a tensor"):
        read_tensor(tmp_path / "b.pt")
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


class System:
    """Inertia and contact Jacobian; a step is made from the p and u⁺ that it should have."""

    def __init__(self, M, J, mu=0.5):
        self.M, self.J, self.mu = np.array(M), np.array(J), mu

    def step(self, p, u_plus, v_other=0.0, gaps=None):
        """Momentum holds: the force is what v, v⁺ and p need. v_other: velocity before the step, beside that of v⁺"""
        p, u_plus = np.array(p, dtype=float).ravel(), np.array(u_plus, dtype=float).ravel()
        v_plus = np.linalg.pinv(self.J) @ u_plus
        v = v_plus + v_other
        force = (self.M @ (v_plus - v) - self.J.T @ p) / DT
        data = {"M": self.M, "J": self.J, "v": v, "v_plus": v_plus, "p": p, "mu": self.mu, "dt": DT, "force": force}
        return step_of("step", data | ({} if gaps is None else {"gaps": gaps}))


def cube():
    """10 kg, four corners on the ground."""
    rows = []
    for x in (-0.1, 0.1):
        for y in (-0.1, 0.1):
            r = np.array([x, y, -0.1])
            rows.append(np.hstack([np.eye(3), np.array([[0, r[2], -r[1]], [-r[2], 0, r[0]], [r[1], -r[0], 0]])]))
    return System(np.diag([10.0, 10.0, 10.0, 0.07, 0.07, 0.07]), np.vstack(rows))


def linkage():
    """A random inertia of nine degrees of freedom with two contacts."""
    rng = np.random.default_rng(5)
    B = rng.normal(size=(9, 9))
    return System(B @ B.T + np.eye(9), rng.normal(size=(6, 9)))


POINT, MITE = (System(mass * np.eye(3), np.eye(3)) for mass in (2.0, 1.6e-7))
SYSTEMS = {"point": POINT, "mite": MITE, "cube": cube(), "linkage": linkage()}


def loads(system):
    """What each contact carries of the weight in a step [N·s]."""
    return np.diag(system.M)[0] * G * DT / (len(system.J) // 3)


def rigid(system, linear):
    """Contact velocities of a translation, where the system is a body; else the same at each contact."""
    return np.tile(np.array(linear, dtype=float), len(system.J) // 3)


def alike(system, shares):
    """The same impulse at each contact, as shares of its load."""
    return loads(system) * np.tile(np.array(shares, dtype=float), len(system.J) // 3)


@every("name", SYSTEMS)
@every("kind", WRONG)
def test_twenty_wrong_solutions_are_named(kind, name):
    """Five kinds in four systems, from 0.16 mg to 10 kg: this kind and no other, by the amount that it has."""
    system, (shares, u_plus) = SYSTEMS[name], WRONG[kind]
    verdict = judge(system.step(alike(system, shares), rigid(system, u_plus)))
    assert verdict.kinds == (kind,)
    load, worst = loads(system), verdict.violations[0].amount
    expected = {Kind.PENETRATES: 0.005, Kind.PULLS: 0.2 * load, Kind.OUTSIDE: (np.hypot(0.6, 0.3) - 0.5) * load}
    expected |= {Kind.SLIPS: np.hypot(0.004, 0.002), Kind.ENERGY: 0.5 * load * (len(system.J) // 3)}
    assert worst == pytest.approx(expected[kind], rel=1e-9)


@every("name", SYSTEMS)
@every("case", RIGHT)
def test_right_solutions_pass(case, name):
    system, (shares, u_plus) = SYSTEMS[name], RIGHT[case]
    verdict = judge(system.step(alike(system, shares), rigid(system, u_plus), v_other=0.02))
    assert verdict.good, verdict.violations
    assert verdict.laws["exact-cone"] < 1e-12


def test_other_errors_are_named():
    system = SYSTEMS["point"]
    step = system.step(alike(system, (-0.5, 0.0, 1.0)), [0.0, 0.3, 0.0])
    assert judge(step).kinds == (Kind.SIDEWAYS,)
    step = system.step(alike(system, (0.0, 0.0, 1.0)), [0.0, 0.0, 0.0], gaps=[1e-3])
    assert judge(step).kinds == (Kind.PUSHES,)  # at a distance of 1 mm
    right = system.step(alike(system, (0.0, 0.0, 1.0)), [0.0, 0.0, 0.0])
    wrong = type(right)(name="", problem=right.problem, p=right.p, v_plus=right.v_plus + 1e-5)
    assert judge(wrong).violations[0].kind is Kind.MOMENTUM
    assert judge(wrong).violations[0].amount == pytest.approx(2e-5, rel=1e-9)


def test_a_contact_may_leave_its_penetration_within_the_step():
    """1 mm deep: up to 1 m/s at 1 ms, its work against gravity is not from nothing; faster is."""
    system = SYSTEMS["point"]
    for speed, good in ((0.5, True), (1.0, True), (1.1, False)):
        verdict = judge(system.step([0, 0, 2.0 * speed], [0, 0, speed], v_other=np.array([0, 0, -speed]), gaps=[-1e-3]))
        assert (verdict.good, verdict.depth) == (good, 1e-3)


def test_the_polygon_is_inside_the_cone_and_told_apart():
    """Sliding along x + y/2, friction at a corner of the polygon of four: right under `coulomb`, wrong under the round cone."""
    system = SYSTEMS["point"]
    verdict = judge(system.step(alike(system, (-0.5, 0.0, 1.0)), [1.0, 0.5, 0.0]))
    assert verdict.laws["coulomb"] < 1e-12 < verdict.laws["exact-cone"]
    assert verdict.kinds == (Kind.SIDEWAYS,)


@every("name", SYSTEMS)
@every("law", ["exact-cone", "coulomb"])
def test_the_answer_beside_a_wrong_solution_is_right(law, name):
    system = SYSTEMS[name]
    for shares, u_plus in WRONG.values():
        step = system.step(alike(system, shares), rigid(system, u_plus))
        answer = answer_to(step, law)
        assert answer.laws[law] < 1e-6, answer
        assert not {Kind.MOMENTUM, Kind.ENERGY, Kind.PENETRATES, Kind.PULLS, Kind.OUTSIDE} & set(answer.kinds)
        assert np.array_equal(answer.step.problem.M, step.problem.M)
    assert set(ANSWERS) >= {"exact-cone", "coulomb"}
