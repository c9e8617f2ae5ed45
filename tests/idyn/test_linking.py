"""A long kernel is compiled once for all its callers, which are linked to it, also when they are read from the cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fast import full

from idyn.jit.mode import PLAIN

pytestmark = pytest.mark.skipif(PLAIN, reason="plain mode links copies")

STEPS = 40
KERNELS = """
from idyn.jit.compiled import compiled

@compiled
def long(x):
    if x < 0.0:
        raise ValueError("negative")
STEPS
    return x

@compiled
def short(x):
    return long(x)

@compiled
def above(x):
    return short(x) + long(x)

@compiled
def farther(x):
    return short(x)

@compiled
def farthest(x):
    return farther(x)
""".replace("STEPS", STEPS * "    x += 0.5 if x > 0.0 else 0.25\n")

LISTEN = """
from numba.core import event

class Listener(event.Listener):
    def on_start(self, event):
        print(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
"""

CALLS = f"""{LISTEN}
from kernels import above, long, short

assert above(1.0) == 2 * (1.0 + {STEPS} / 2)
try:
    above(-1.0)
except ValueError as error:
    assert str(error) == "negative"
else:
    raise AssertionError("an error was lost")
"""

CALL = (
    LISTEN
    + """
import kernels
kernels.{}(1.0)
"""
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def compiled(home: Path, script: str) -> list[str]:
    """Names of the functions that a new process compiles."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=home,
        env={**os.environ, "NUMBA_CACHE_DIR": str(home / "cache"), "PYTHONPATH": os.pathsep.join((*sys.path, str(home)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@full
def test_a_long_function_is_compiled_once(home: Path) -> None:
    assert sorted(compiled(home, CALLS)) == ["above", "long", "short"]


@full
def test_callers_of_cached_functions_find_the_long_functions_behind_them(home: Path) -> None:
    """The first process compiles `short`, the second a caller of it; the third reads the caller from the cache."""
    assert compiled(home, CALL.format("short")) == ["short", "long"]
    assert compiled(home, CALL.format("farther")) == ["farther"]
    assert compiled(home, CALL.format("farther")) == []
    assert compiled(home, CALL.format("farthest")) == ["farthest"]
    assert compiled(home, CALL.format("farthest")) == []


@full
def test_cached_callers_find_the_cached_long_function(home: Path) -> None:
    assert compiled(home, CALLS)
    assert compiled(home, CALLS) == []


@full
def test_a_long_function_missing_in_the_cache_is_compiled_again(home: Path) -> None:
    assert compiled(home, CALLS)
    files = list((home / "cache").rglob("kernels.long-*"))
    assert files
    for file in files:
        file.unlink()
    assert compiled(home, CALLS) == ["long"]
