"""Files that `idyn judge` takes: own steps, FCLib's problems, MJCF states, logs."""

import json

import numpy as np
import pytest
from fast import every

from idyn.errors import IdynError, InputError
from sim_harness.commands.main import main
from sim_harness.judge.fclib import read_fclib, write_fclib
from sim_harness.judge.step import read_steps, step_of, write_steps
from sim_harness.judge.verdict import Kind, judge
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan

DT = 1e-3
GOOD = {
    "M": np.diag([2.0, 2.0, 2.0]), "J": np.eye(3), "v": np.zeros(3), "v_plus": np.zeros(3), "p": [-4e-3, 0.0, 19.62e-3],
    "mu": 0.5, "dt": DT, "h": [0.0, 0.0, 19.62], "force": [4.0, 0.0, 0.0],
}  # fmt: skip
"""2 kg that stick under a push of 4 N."""


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


@every(
    ("wrong", "named"),
    [
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
    ],
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
    assert main(["judge", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 2
    assert "idyn: " in capsys.readouterr().err


def test_problems_in_fclibs_layout_keep_their_meaning(tmp_path):
    """The same speeds, impulses and verdict as before; W, q and mu where FCLib has them, rows normal first."""
    h5py = pytest.importorskip("h5py")
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
        assert file["fclib_local/W/nz"][0] == -1
        assert file["fclib_local/spacedim"][0] == 3
    read = read_fclib(tmp_path / "own.hdf5")
    np.testing.assert_allclose(read.problem.J @ read.v_plus, J @ v_plus, atol=1e-9)
    np.testing.assert_allclose(read.p, p, atol=1e-12)
    one, other = judge(step), judge(read)
    assert one.kinds == other.kinds
    assert one.kinds
    for a, b in zip(one.violations, other.violations, strict=True):
        assert a.amount == pytest.approx(b.amount, rel=1e-6)


@every("fault", ["W/x", "vectors/q", "vectors/mu"])
def test_incomplete_problems_of_fclib_are_refused(fault, tmp_path):
    h5py = pytest.importorskip("h5py")
    write_fclib(tmp_path / "a.hdf5", step_of("a", GOOD))
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        del file[f"fclib_local/{fault}"]
    with pytest.raises(IdynError, match=r"a\.hdf5"):
        read_fclib(tmp_path / "a.hdf5")


BOX = """<mujoco><option timestep="0.001" cone="elliptic"/><worldbody><geom type="plane" size="1 1 1" friction="0.5"/>
<body pos="0 0 0.099"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="10" friction="0.5"/></body></worldbody></mujoco>"""


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
    assert len(verdict.step.problem.mu) == 4
    assert verdict.depth == pytest.approx(1e-3, rel=1e-6)
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
    assert main(["judge", str(tmp_path / "fall.json"), "--out", str(tmp_path / "out")]) == 2
    assert "fall.steps" in capsys.readouterr().err


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
    assert main(arguments) == 0
    assert "Largest violations" in capsys.readouterr().out
    kinds = {each["engine"]: each["kinds"] for each in json.loads((tmp_path / "found.json").read_text())}
    assert kinds["lcp"] == kinds["newton"] == {}
    assert "mujoco" in kinds
