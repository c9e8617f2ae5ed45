"""Facts about this machine and installation that decide whether a server holds 1 kHz: for `idyn doctor`."""

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from idyn.errors import install_command
from idyn.jit.mode import PLAIN, cache_root
from sim_harness.robot.robot_side import Pacer
from transport.server.realtime import PRIORITY, steady

PACKAGES = ("idyn", "numpy", "scipy", "pin", "numba", "llvmlite", "qpsolvers", "pyzmq", "msgspec", "msgpack")

REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[([\w, -]+)\])?.*;.*extra == ['\"]([\w-]+)['\"]")
"""A requirement of an extra: package, its own extras, name of the extra."""

LATE_US = 200.0
"""Wake-ups later than this take a fifth of a period of 1 ms [µs]."""

WAKE_UPS = 1000
"""Number of measured wake-ups, 1 ms apart."""


class Fact(NamedTuple):
    """One line of the report. advice: what limits 1 kHz or does not work, and what to do; '' if nothing"""

    name: str
    value: str
    advice: str = ""


def facts() -> Iterator[Fact]:
    """Yield the facts, without the round trip of a server. Takes a second."""
    yield Fact("Python", f"{platform.python_version()} {platform.python_implementation()}")
    yield _platform()
    for name in PACKAGES:
        yield _package(name)
    yield from _extras()
    yield _cores()
    yield _governor()
    yield _scheduling()
    yield _memory_lock()
    yield _wake_ups()
    yield _kernel_cache()


def _platform() -> Fact:
    advice = "" if sys.platform == "linux" else "core pinning and exact timers need Linux; elsewhere ticks are later"
    return Fact("platform", f"{platform.system()} {platform.release()} {platform.machine()}", advice)


def _package(name: str) -> Fact:
    try:
        return Fact(name, version(name))
    except PackageNotFoundError:
        return Fact(name, "not installed", f"pip install {name}")


def _extras() -> Iterator[Fact]:
    """Yield for each extra whether its packages are installed, or the command that installs them."""
    extras: dict[str, list[str]] = {}
    for requirement in requires("idyn") or ():
        if match := REQUIREMENT.match(requirement):
            extras.setdefault(match[3], []).append(match[1])
    for extra, packages in extras.items():
        missing = [name for name in packages if name != "idyn" and not _is_installed(name)]
        advice = f"for what needs them: {install_command(extra)}" if missing else ""
        yield Fact(f"extra [{extra}]", f"not installed: {', '.join(missing)}" if missing else "installed", advice)


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _cores() -> Fact:
    usable, busy = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, os.getloadavg()[0]
    advice = ""
    if usable < 2:
        advice = "a server, its robot and its sockets share one core: use two or more"
    elif busy > usable - 1:
        advice = f"{busy:.1f} processes want to run now: stop other work, or reserve a core (`core` of the server)"
    return Fact("cores", f"{usable} usable, load {busy:.1f}", advice)


def _governor() -> Fact:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if not path.is_file():
        return Fact("CPU frequency", "not controlled here")
    governor = path.read_text(encoding="utf-8").strip()
    return Fact("CPU frequency", governor, "" if governor == "performance" else "set the governor 'performance'")


def _scheduling() -> Fact:
    """Whether this user may ask for real-time scheduling."""
    if sys.platform != "linux":
        return Fact("real-time scheduling", "not available")
    import resource  # noqa: PLC0415 - not on every platform

    most = 99 if os.geteuid() == 0 else resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    advice = (
        "" if most else f"allow priorities up to {PRIORITY + 1} (`rtprio` in limits.conf, LimitRTPRIO): the server uses them"
    )
    return Fact("real-time scheduling", f"priorities up to {99 if most < 0 else most}" if most else "not permitted", advice)


def _memory_lock() -> Fact:
    if sys.platform != "linux":
        return Fact("locked memory", "not available")
    import resource  # noqa: PLC0415 - not on every platform

    most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return Fact("locked memory", "unlimited" if most < 0 or os.geteuid() == 0 else f"{most / 2**20:.0f} MB")


def _wake_ups() -> Fact:
    """Measure how late this process wakes up at 1 kHz."""
    pacer, late = Pacer(1e-3), np.empty(WAKE_UPS)
    with steady():
        pacer.wait()
        for k in range(WAKE_UPS):
            late[k] = pacer.wait() * 1e-3
    middle, worst = np.median(late), np.percentile(late, 99.5)
    advice = "" if worst < LATE_US else "other processes or power saving delay wake-ups"
    return Fact("wake-ups at 1 kHz", f"{middle:.0f} µs late, 99.5 %: {worst:.0f} µs, largest {late.max():.0f} µs", advice)


def _kernel_cache() -> Fact:
    root = cache_root()
    sizes = [path.stat().st_size for path in root.rglob("*.nbc")] if root.is_dir() else []
    mode = "fallback mode" if PLAIN else "compiled"
    value = f"{mode}, {len(sizes)} kernels, {sum(sizes) / 2**20:.0f} MB in {root}"
    parent = next(path for path in (root, *root.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        return Fact("kernel cache", value, "the folder cannot be written: set NUMBA_CACHE_DIR")
    if PLAIN:
        return Fact("kernel cache", value, "kernels run without private interfaces: ticks take 2 to 3 times as long")
    return Fact("kernel cache", value, "" if sizes else "the first start compiles for a minute; `idyn warm-up` does it before")
