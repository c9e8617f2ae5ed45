"""Private interfaces of CPython, NumPy and numba: probes detect wrong layouts and failures; the fallback mode gives right
results."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from fast import full

from idyn.jit import mode
from idyn.jit.compiled import VECTOR, compiled
from idyn.jit.entry import Borrowed, entry_point
from idyn.jit.layouts import LAYOUT, probe_layout
from idyn.jit.records import ArrayRecord, Vector

needs_jit = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def test_the_layout_of_this_machine_is_accepted():
    assert probe_layout() == ""


@pytest.mark.parametrize("by", [-8, -1, 1, 4, 8, 16, 1000])
@pytest.mark.parametrize("field", LAYOUT._fields)
def test_wrong_layouts_are_detected(field, by):
    assert "differs in" in probe_layout(LAYOUT._replace(**{field: getattr(LAYOUT, field) + by}))


RUN = """
import idyn.jit.layouts as layouts
wrong = layouts.LAYOUT._replace(**{fields})
layouts.LAYOUT, layouts.probe_layout.__defaults__ = wrong, (wrong,)
import numpy as np
from idyn.jit.compiled import VECTOR, compiled
from idyn.jit.entry import Borrowed, entry_point
from idyn.jit.mode import PLAIN

@compiled
def total(given):
    (x,) = given
    return x.sum()

print(PLAIN, entry_point(total, Borrowed(VECTOR))((np.arange(4.0),)))
"""


@full
@needs_jit
@pytest.mark.parametrize("fields", [{"data": 24}, {"shape": 40, "strides": 32}, {"type_number": 24, "byte_order": 27}], ids=str)
def test_a_wrong_layout_selects_fallback_mode_with_one_warning(fields, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(RUN.replace("{fields}", str(fields)), encoding="utf-8")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, env=environment())
    assert ended.stdout.split() == ["True", "6.0"]
    assert ended.stderr.count("RuntimeWarning: compiled code takes plain arguments") == 1


def environment():
    """Environment of a process that imports this checkout."""
    return {k: v for k, v in os.environ.items() if k != "IDYN_JIT"} | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv("IDYN_JIT", "fast")
    with pytest.raises(ValueError, match="IDYN_JIT: expected 'plain' or 'private', got 'fast'"):
        mode.reason_for_plain()


@full
@needs_jit
def test_an_unknown_release_of_numba_is_probed_once(monkeypatch, tmp_path):
    monkeypatch.setattr(mode, "TRIED", ("0.0",))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("IDYN_JIT", raising=False)
    assert mode.reason_for_plain() == ""
    (verdict,) = tmp_path.glob("probe-*.txt")
    assert verdict.read_text("utf-8") == ""
    verdict.write_text("a field moved", "utf-8")
    assert mode.reason_for_plain() == "a field moved"


@needs_jit
def test_a_failed_probe_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "the probe of numba" in mode.run_probe()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "did not run" in mode.run_probe()


class _Pair(ArrayRecord):
    x: Vector


class _Other(ArrayRecord):
    y: Vector


@compiled
def _first(record, given):
    (x,) = given
    return record.x[0] + x[0]


@needs_jit
def test_an_entry_point_refuses_other_records_and_numbers():
    pair, other = _Pair(), _Other()
    pair.put(x=np.array([2.0]))
    other.put(y=np.array([3.0]))
    enter, given = entry_point(_first, _Pair.TYPE, Borrowed(VECTOR)), (np.array([0.5]),)
    assert enter(pair.fields, given) == 2.5
    for wrong in (other.fields, int(pair.fields), 0, None, "pair"):
        with pytest.raises(TypeError, match="expected a record"):
            enter(wrong, given)
