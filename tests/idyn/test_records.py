"""Array records: Python and compiled code read and write the same data; values of other types are refused."""

import copy
import gc
import pickle

import numba
import numpy as np
import pytest
from fast import every

from idyn.jit.compiled import compiled
from idyn.jit.entry import entry_point
from idyn.jit.records import ArrayRecord, Cube, Indices, Mask, Matrix, Vector


class Inner(ArrayRecord):
    """Fields of all kinds."""

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
    """With a record in it."""

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


@compiled
def _look(r):
    shapes = r.x.shape, r.A.shape, r.C.shape, r.rows.shape, r.mask.shape
    return shapes, r.x.sum() + r.A[1, 2] + r.C[3, 1, 2] + r.rows[4], r.mask[1].sum(), r.share, r.count, r.goes


@compiled
def _shapes(r):
    return r.x.shape, r.mask.shape, r.C.shape


@compiled
def _exchange(r, x, share, count, goes):
    before = r.x
    r.x, r.share, r.count, r.goes = x, share, count, goes
    before[0], r.x[0], r.A[0, 0] = 7.0, 8.0, 9.0


@compiled
def _length(r):
    return len(r.x)


@compiled
def _lengths(r, other):
    return len(r.x), len(other.x)


@compiled
def _deep(r):
    r.inner.x[0] = r.x[0]
    return r.inner.count


def test_compiled_code_reads_what_was_put_in():
    v = _values()
    shapes, total, marked, *numbers = _look(_record(**v).fields)
    assert shapes == tuple(v[name].shape for name in ("x", "A", "C", "rows", "mask"))
    assert total == pytest.approx(v["x"].sum() + v["A"][1, 2] + v["C"][3, 1, 2] + 4)
    assert marked == v["mask"][1].sum()
    assert numbers == [v["share"], v["count"], v["goes"]]


def test_compiled_code_shares_memory_and_can_set_fields():
    r, other = _record(**_values()), np.zeros(5)
    first = r.x
    _exchange(r.fields, other, 0.25, 3, False)
    assert (first[0], other[0], r.A[0, 0]) == (7.0, 8.0, 9.0)
    if not numba.config.DISABLE_JIT:
        assert r.x is first  # Python is told of arrays' contents alone
    shapes, *_, share, count, goes = _look(r.fields)
    assert shapes[0] == (5,)
    assert (share, count, goes) == (0.25, 3, False)


def test_a_nested_record_is_shared():
    inner, outer = _record(**_values()), Outer()
    outer.put(inner=inner, x=np.array([11.0]))
    assert _deep(outer.fields) == inner.count
    assert inner.x[0] == 11.0


def test_records_of_one_type_are_independent():
    one, other = _record(**_values(1)), _record(**_values(2))
    assert _look(one.fields)[1] == pytest.approx(one.x.sum() + one.A[1, 2] + one.C[3, 1, 2] + 4)
    assert _look(one.fields)[1] != _look(other.fields)[1]


def test_one_function_accepts_records_of_several_types():
    inner, outer = _record(**_values()), Outer()
    outer.put(inner=inner, x=np.zeros(7))
    assert [_length(each.fields) for each in (inner, outer, inner)] == [3, 7, 3]
    assert _lengths(inner.fields, outer.fields) == (3, 7)
    assert _lengths(outer.fields, inner.fields) == (7, 3)


def test_arrays_without_elements_keep_their_shape():
    r = _record(x=np.zeros(0), mask=np.zeros((0, 4), np.bool_), C=np.zeros((2, 0, 3)))
    assert _shapes(r.fields) == ((0,), (0, 4), (2, 0, 3))


def test_a_record_keeps_its_arrays_alive():
    r = _record(**_values(3))
    before = _look(r.fields)
    gc.collect()
    rubbish = [np.full((4, 2, 3), np.nan) for _ in range(100)]
    assert _look(r.fields) == before
    assert len(rubbish) == 100


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_an_entry_point_accepts_a_record():
    r = _record(**_values())
    assert entry_point(_look, Inner.TYPE)(r.fields) == _look(r.fields)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@every(
    ("name", "value"),
    [
        ("x", np.zeros(3, np.float32)),
        ("x", np.zeros((3, 1))),
        ("x", np.zeros(6)[::2]),
        ("x", np.zeros(3).astype(">f8")),
        ("A", np.asfortranarray(np.ones((2, 3)))),
        ("A", np.broadcast_to(0.0, (2, 3))),
        ("rows", np.zeros(5)),
        ("mask", np.zeros((2, 4), np.int64)),
    ],
)
def test_arrays_of_another_kind_are_refused(name, value):
    with pytest.raises(TypeError, match=f"Inner.{name}: expected"):
        _record(**{name: value})


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_records_of_another_kind_are_refused():
    with pytest.raises(TypeError, match=r"Outer\.inner: expected"):
        Outer().put(inner=Outer())


@every("copied", [copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))])
def test_copies_do_not_share_memory(copied):
    outer = Outer()
    outer.put(x=np.arange(3.0), inner=_record(**_values()))
    other = copied(outer)
    expected = _look(outer.inner.fields)
    outer.x[:], outer.inner.x[:] = 777.0, 777.0
    del outer
    gc.collect()
    filler = [np.full(3, 777.0) for _ in range(1000)]  # where the first one's arrays were
    assert _look(other.inner.fields) == expected
    assert _length(other.fields) == 3
    assert other.x.tolist() == [0.0, 1.0, 2.0]
    other.inner.x[0] = 5.0
    assert _look(other.inner.fields) != expected
    assert len(filler) == 1000


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@every(
    ("name", "wrong"),
    [("x", np.zeros(3, np.float32)), ("A", np.zeros((3, 2)).T), ("count", 2.7), ("goes", 0.5), ("goes", 1), ("share", None)],
)
def test_a_refused_value_changes_nothing(name, wrong):
    record = _record(**_values())
    before, seen = getattr(record, name), _look(record.fields)
    with pytest.raises(TypeError, match=name):
        record.put(**{name: wrong})
    assert getattr(record, name) is before
    assert _look(record.fields) == seen


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
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
