"""Whether compiled code uses private interfaces of CPython, NumPy and numba, or plain arguments and plain linking.

Private interfaces: layouts of Python's arrays (`layouts`, `entry`), arrays in a kernel's stack frame (`stack`), array structs
built by numba's own code (`records`), linking of long kernels (`linking`). They save about 30 µs a tick and half of the compile
time. They are probed when the package is imported: layouts in every process; the others once for each combination of releases,
in a process of its own, whose result is stored in the kernel cache. If a probe fails, one warning is given and compiled code
runs in fallback mode, without private interfaces: slower, with the same results. `IDYN_JIT=plain` selects fallback mode,
`IDYN_JIT=private` skips the second probe.
"""

import os
import platform
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import llvmlite
import numba
import numpy as np

from idyn.jit.layouts import probe_layout

TRIED = ("0.65", "0.68")
"""Releases of numba with which the tests of compiled code and of predictions were run; others are probed."""

PROBE_S = 120.0
"""Time limit of the second probe, that of numba's interfaces [s]."""


def cache_root() -> Path:
    """Return the directory of the kernel cache: `NUMBA_CACHE_DIR`, or `idyn` in the user's cache directory."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idyn"


def reason_for_plain() -> str:
    """Return why private interfaces are not used; '' if they are. Raises ValueError for an unknown value of `IDYN_JIT`."""
    asked = os.environ.get("IDYN_JIT", "")
    if asked not in ("", "plain", "private"):
        raise ValueError(f"IDYN_JIT: expected 'plain' or 'private', got '{asked}'")
    if asked == "plain":
        return "IDYN_JIT=plain"
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32:
        return f"{platform.python_implementation()} {platform.architecture()[0]} is not 64-bit CPython"
    wrong = probe_layout()
    if wrong or asked == "private" or numba.__version__.startswith(TRIED):
        return wrong
    return probe_numba()


def probe_numba() -> str:
    """Return why numba's private interfaces are not used, or '': the result of `idyn.jit.probe` in a process of its own, run
    once for each combination of releases."""
    releases = "-".join((platform.python_version(), np.__version__, numba.__version__, llvmlite.__version__))
    verdict = cache_root() / f"probe-{releases}.txt"
    with suppress(OSError, UnicodeDecodeError):
        return verdict.read_text("utf-8")
    found = run_probe()
    with suppress(OSError):
        verdict.parent.mkdir(parents=True, exist_ok=True)
        verdict.write_text(found, "utf-8")
    return found


def run_probe() -> str:
    """Run kernels that use every private interface, in a process of its own. Return why these must not be used; '' if all
    results are right."""
    environment = os.environ | {"IDYN_JIT": "private"}
    try:
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "idyn.jit.probe"],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the probe of numba {numba.__version__} did not run ({type(error).__name__})"
    if ended.returncode == 0 and ended.stdout.strip() == "right":
        return ""
    last = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
    return f"the probe of numba {numba.__version__} failed: {last[0][:200]}"


def _plain() -> bool:
    if numba.config.DISABLE_JIT:
        return True
    reason = reason_for_plain()
    if reason and reason != "IDYN_JIT=plain":
        warnings.warn(f"compiled code takes plain arguments, which is slower: {reason}", RuntimeWarning, stacklevel=2)
    return bool(reason)


PLAIN = _plain()
"""Whether compiled code runs in fallback mode, without private interfaces."""
