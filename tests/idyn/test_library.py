"""The library of kernels: what calls accept, records that Python and kernels share, and libraries that are refused."""

import copy
import gc
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fast import every, every_row, first_is_fast, full

from idyn import LAWS, KernelError, load_robot
from idyn.contact.contacts import fill_centres
from idyn.library import kernels
from idyn.library.kernels import entry_point
from idyn.library.mode import LIBRARY, MODE
from idyn.library.records import ArrayRecord, Cube, Indices, Mask, Matrix, Vector
from idyn.prediction.solve import workspace_for
from idyn.terms.inputs import limit_friction

pytestmark = pytest.mark.skipif(MODE != LIBRARY, reason="tests of the library")
ROOT = Path(__file__).resolve().parents[2]


def _given(n=4):
    rng = np.random.default_rng(n)
    placements = np.hstack([np.tile(np.eye(3).ravel(), (3, 1)), rng.normal(size=(3, 3))])
    return placements, rng.normal(size=(n, 3)), np.arange(n) % 3


@every("n", [0, 1, 5, 40])
def test_kernels_receive_the_given_arrays(n):
    placements, offsets, joints = _given(n)
    centres = np.full((n, 3), np.nan)
    fill_centres((placements, offsets), (joints,), (centres,))
    np.testing.assert_allclose(centres, placements[joints, 9:] + offsets, atol=1e-15)


def test_references_and_buffers_are_released():
    placements, offsets, joints = given = _given()
    centres = np.zeros((4, 3))
    before = [sys.getrefcount(each) for each in (*given, centres)]
    for _ in range(1000):
        fill_centres((placements, offsets), (joints,), (centres,))
        with pytest.raises(TypeError):
            fill_centres((placements, offsets), (joints,), (None,))
    gc.collect()
    assert [sys.getrefcount(each) for each in (*given, centres)] == before
    centres.resize((5, 3), refcheck=False)  # refused while a buffer is held


@every(
    "other",
    [
        np.zeros((8, 3))[::2],
        np.zeros((3, 4)).T,
        np.zeros(12),
        np.zeros((4, 3), np.float32),
        np.zeros((4, 3), np.int64),
        np.zeros((4, 3), np.complex64),  # as large as what is expected
        np.zeros((4, 3), ">f8"),
        np.zeros((4, 3), "datetime64[s]"),
        np.zeros(97, np.int8)[1:].view(np.float64).reshape(4, 3),  # where no number begins
        np.float64(1.0),
        [[0.0] * 3] * 4,
        None,
    ],
)
def test_arrays_of_another_type_or_layout_are_refused(other):
    placements, offsets, joints = _given()
    with pytest.raises(TypeError, match="fill_centres: expected"):
        fill_centres((placements, other), (joints,), (np.zeros((4, 3)),))
    with pytest.raises(TypeError, match="fill_centres: expected"):
        fill_centres((placements, offsets), (joints,), (other,))


@every("given", [(), (_given()[0],), (*_given()[:2], np.zeros(5)), list(_given()[:2]), _given()[0], None])
def test_a_tuple_of_another_length_is_refused(given):
    with pytest.raises(TypeError, match="fill_centres: expected"):
        fill_centres(given, (np.zeros(4, np.int64),), (np.zeros((4, 3)),))


def test_read_only_arrays_are_read_and_never_written():
    placements, offsets, joints = given = _given()
    centres = np.zeros((4, 3))
    for each in (*given, centres):
        each.flags.writeable = False
    with pytest.raises(TypeError, match="fill_centres: expected"):
        fill_centres((placements, offsets), (joints,), (centres,))
    assert not centres.any()
    fill_centres((placements, offsets), (joints,), (np.zeros((4, 3)),))


class Inner(ArrayRecord):
    x: Vector
    A: Matrix
    C: Cube
    rows: Indices
    mask: Mask
    share: float
    count: int
    goes: bool
    remark: str = "Python's alone"


class Outer(ArrayRecord):
    x: Vector
    inner: Inner


def _values(seed=0):
    rng = np.random.default_rng(seed)
    arrays = {"x": rng.normal(size=3), "A": rng.normal(size=(2, 3)), "C": rng.normal(size=(4, 2, 3)), "rows": np.arange(5)}
    return arrays | {"mask": rng.random((2, 4)) < 0.5, "share": -1.5e-300, "count": -(2**40), "goes": True}


def _record(**values):
    record = Inner()
    record.put(**values)
    return record


def _seen(fields):
    return [np.array(getattr(fields, name)).tolist() for name in _values()]


def test_a_block_holds_what_was_put_in_and_shares_the_arrays():
    values, outer = _values(), Outer()
    outer.put(inner=_record(**values), x=np.array([11.0]))
    assert _seen(outer.inner) == [np.array(value).tolist() for value in values.values()]
    assert int(outer.inner) in outer.block
    assert outer.inner.A.ctypes.data in outer.inner.block
    outer.inner.count = 7
    assert (outer.inner.count, 7 in outer.inner.block) == (7, True)
    assert _record(x=np.zeros(0), C=np.zeros((2, 0, 3))).C.shape == (2, 0, 3)


@every_row(
    ("x", np.zeros(3, np.float32)),
    ("x", np.zeros((3, 1))),
    ("x", np.zeros(6)[::2]),
    ("x", np.zeros(3).astype(">f8")),
    ("A", np.asfortranarray(np.ones((2, 3)))),
    ("A", np.broadcast_to(0.0, (2, 3))),
    ("rows", np.zeros(5)),
    ("mask", np.zeros((2, 4), np.int64)),
    ("count", 2.7),
    ("goes", 0.5),
    ("goes", 1),
    ("share", None),
)
def test_a_refused_value_changes_nothing(name, wrong):
    record = _record(**_values())
    seen, block = _seen(record), record.block.tolist()
    with pytest.raises(TypeError, match=f"Inner.{name}: expected"):
        record.put(**{name: wrong})
    assert (_seen(record), record.block.tolist()) == (seen, block)


@every("copied", [copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))])
def test_copies_do_not_share_memory(copied):
    outer = Outer()
    outer.put(x=np.arange(3.0), inner=_record(**_values()))
    other, expected = copied(outer), _seen(outer.inner)
    outer.x[:], outer.inner.x[:] = 777.0, 777.0
    del outer
    gc.collect()
    filler = [np.full(3, 777.0) for _ in range(1000)]  # where the first one's arrays were
    assert _seen(other.inner) == expected
    assert other.x.tolist() == [0.0, 1.0, 2.0]
    assert {int(other.inner), other.x.ctypes.data} < set(other.block.tolist())
    assert len(filler) == 1000


def test_read_only_records_refuse_writes():
    class Sealed(ArrayRecord):
        read_only = True
        x: Vector

    record = Sealed()
    record.put(x=np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        record.x[0] = 1.0
    record.own["x"][0] = 2.0
    assert record.x[0] == 2.0


def test_kernels_write_into_records_and_refuse_other_ones():
    robot, _ = load_robot("quadruped")
    given = workspace_for(robot, 4).problem.dynamics.given
    given.own["mu"][:] = [0.5, 2.0, np.inf, 0.0]
    limit_friction(given, 1.0)
    assert given.mu.tolist() == [0.5, 1.0, 1.0, 0.0]
    with pytest.raises(TypeError, match=r"Outer\.inner: expected"):
        Outer().put(inner=Outer())
    for other in (Inner(), int(given), 0, None):
        with pytest.raises(TypeError, match="limit_friction: expected"):
            limit_friction(other, 1.0)


ANSWER = """
import sys
import numpy as np
from idyn import Flat, State, contacts_from_geometry, load_robot, predict
robot, q = load_robot("quadruped")
contacts, guess = contacts_from_geometry(robot, q, Flat(), margin=0.002), None
for k in range(3):
    state = State(q=q, v=np.linspace(-0.1, 0.1, robot.nv))
    answer = predict(robot, state, contacts, np.full(robot.na, 0.1 * k), law=sys.argv[1], dt=0.001, guess=guess)
    guess = answer.guess
    print(answer.tau.tobytes().hex(), answer.rung)
print("numba" in sys.modules, "llvmlite" in sys.modules)
"""


def answers(law, mode):
    """What three predictions print in a process of their own."""
    command = [sys.executable, "-W", "ignore", "-c", ANSWER, law]
    environment = os.environ | {"IDYN_KERNELS": mode}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    return ended.stdout.splitlines()


@every("law", first_is_fast(["coulomb", "no-slip"]))
def test_python_gives_the_same_bits_and_nothing_is_compiled(law):
    of_library = answers(law, "")
    assert of_library[-1] == "False False"
    assert of_library == answers(law, "python")


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_numba_gives_the_same_bits(law):
    pytest.importorskip("numba")
    assert answers(law, "")[:-1] == answers(law, "numba")[:-1]


COPIED = """
import sys, time
from pathlib import Path
import numpy as np
from idyn.solvers.linalg import copy
from numba.core.caching import IndexDataCacheFile

folder, name = Path(sys.argv[1]), sys.argv[2]
write_index, write_data = IndexDataCacheFile._save_index, IndexDataCacheFile._save_data

def wait(step):
    until = time.monotonic() + 2.0
    while not (folder / step).exists() and time.monotonic() < until:
        time.sleep(0.01)

def save_index(self, *given):
    (folder / f"{name} has read").touch()
    wait("flags has read" if name == "reals" else "reals has read")
    if name == "reals":
        wait("index of flags")
    write_index(self, *given)
    (folder / f"index of {name}").touch()

def save_data(self, *given):
    if name == "flags":
        wait("reals are written")
    write_data(self, *given)
    (folder / f"{name} are written").touch()

if name != "both":
    IndexDataCacheFile._save_index, IndexDataCacheFile._save_data = save_index, save_data
for kind in {"reals": [float], "flags": [bool], "both": [float, bool]}[name]:
    source = np.arange(3).astype(kind)
    target = np.zeros_like(source)
    copy(source, target)
    print(target)
"""


@full
def test_numbas_cache_may_be_written_by_two_processes_at_once(tmp_path):
    """Each compiles a kernel for other types; numba alone would give both the same file, whose code a third process calls."""
    pytest.importorskip("numba")
    environment = os.environ | {"IDYN_KERNELS": "numba", "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)

    def start(name):
        command = [sys.executable, "-c", COPIED, str(tmp_path), name]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)

    writers = [start("reals"), start("flags")]
    assert [each.communicate()[0] for each in writers] == ["[0. 1. 2.]\n", "[False  True  True]\n"]
    assert start("both").communicate()[0] == "[0. 1. 2.]\n[False  True  True]\n"


STORES = """
import numpy as np
from idyn.library.kernels import entry, stack_array
from idyn.library.records import Vector, written

@entry(int, written((Vector, Vector)))
def fill(number, rows):
    first, second = rows
    if number < 2:
        own = stack_array(2)
        own[0] = 5.0
        second[0] = own[0]
        return
    first[number - 2] = 7.0

for number in (0, 3):
    rows = np.zeros(2), np.zeros(2)
    fill(number, rows)
    print(*rows)
"""


@full
@pytest.mark.parametrize("mode", ["python", "numba"])
def test_stores_to_arrays_of_tuples_stay_beside_arrays_on_the_stack(mode, tmp_path):
    """numba takes them for dead where it inlines Python code, as it once did for `stack_array`."""
    pytest.importorskip("numba")
    path = tmp_path / "stores.py"
    path.write_text(STORES, encoding="utf-8")
    environment = os.environ | {"IDYN_KERNELS": mode, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    assert ended.stdout == "[0. 0.] [5. 0.]\n[0. 7.] [0. 0.]\n"


def test_an_unknown_mode_is_refused():
    command, environment = [sys.executable, "-c", "import idyn; idyn.predict"], os.environ | {"IDYN_KERNELS": "fast"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "IDYN_KERNELS: expected 'library', 'numba' or 'python', got 'fast'" in ended.stderr


def refusal():
    """Why the library is refused."""
    return kernels.load.__wrapped__()[-1]


def test_a_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "LIBRARY_FILE", tmp_path / "libidyn.so")
    assert re.search(f"not built.*{tmp_path}/libidyn.so.*{kernels.BUILT_BY}", refusal())


def test_a_library_that_cannot_be_loaded_is_named(monkeypatch, tmp_path):
    other = tmp_path / "libidyn.so"
    other.write_bytes(b"of another machine")
    monkeypatch.setattr(kernels, "LIBRARY_FILE", other)
    assert re.search(f"not built for this machine.*{kernels.BUILT_BY}", refusal())


def test_a_module_of_calls_that_is_of_another_build_is_named(monkeypatch):
    monkeypatch.setattr(kernels, "CALL_FILE", kernels.LIBRARY_FILE)
    assert "idyn_bind" in refusal()


def test_a_refused_library_says_why_where_a_kernel_is_called(monkeypatch):
    monkeypatch.setattr(kernels, "load", lambda: (None, None, {}, "the library is of yesterday"))
    with pytest.raises(KernelError, match="of yesterday"):
        entry_point(my_kernel, float)(1.0)


def test_a_library_of_other_sources_is_refused_and_comments_are_no_change(monkeypatch, tmp_path):
    copied = tmp_path / "idyn" / "contact" / "contacts.py"
    copied.parent.mkdir(parents=True)
    shutil.copy(ROOT / "idyn" / "contact" / "contacts.py", copied)
    monkeypatch.setattr(kernels, "FOLDER", tmp_path / "idyn" / "library")
    text = copied.read_text("utf-8") + "\n# a remark\n"
    copied.write_text(text, "utf-8")
    assert not refusal()
    copied.write_text(text.replace("AT_SURFACE = 1e-12", "AT_SURFACE = 1e-11"), "utf-8")
    assert "other sources: idyn/contact/contacts.py;" in refusal()


def test_the_library_is_the_same_wherever_it_is_built():
    assert str(ROOT).encode() not in kernels.LIBRARY_FILE.read_bytes(), "the place of a build is a part of what it builds"


def my_kernel(x):
    return 2.0 * x


def test_a_kernel_that_the_library_lacks_says_what_to_do():
    with pytest.raises(KernelError, match=r"no kernel for \(float64,\).*IDYN_KERNELS=numba"):
        entry_point(my_kernel, float)(1.0)
