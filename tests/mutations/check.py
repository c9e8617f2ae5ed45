"""Mutation check: plant one fault at a time in a copy of the sources, and see which tests find it.

    python tests/mutations/check.py [--full] [--equivalent] [NUMBER ...]

For each fault of `faults.toml` the tests named in `near` run first, then the fast set, with `--full` also the full set, until
one fails. That test must pass without the fault, or else it has found nothing. A fault that no test finds is printed as
`survived`. One that does not change results is `equivalent` and printed with the reason; only its near tests run, with
`--equivalent` the sets, too. The exit code is 1 if another fault survived, or an equivalent one is found.

A fault outside of kernels leaves the library valid, which runs all tests then. A library of changed kernels would be refused:
the first tests run kernels as Python, the sets by numba, which compiles for minutes.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

from idyn.library.digest import code_digest
from idyn.library.kernels import load

ROOT = Path(__file__).parents[2]
FAULTS = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))["fault"]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run the full set, too, before a fault counts as survived")
    parser.add_argument("--equivalent", action="store_true", help="run the sets for equivalent faults, too")
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="faults, from 1 (default: all)")
    options = parser.parse_args()
    if flaw := load()[-1]:  # where the library is not that of these sources
        sys.exit(flaw)
    unexpected = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "idyn"
        copy_sources(copy)
        for number in options.numbers or range(1, len(FAULTS) + 1):
            fault, begun = FAULTS[number - 1], time.monotonic()
            found = test_that_finds(fault, copy, options)
            result = found or "survived"
            if "equivalent" in fault:
                result += f"; {'not ' if found else ''}equivalent: {fault['equivalent']}"
            unexpected += bool(found) == ("equivalent" in fault)
            row = f"{number:2} {fault['kind']:11} {fault['file']:44} {result}"
            print(f"{row} ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"{unexpected} survived, or were found though equivalent")
    return min(unexpected, 1)


def copy_sources(copy: Path) -> None:
    """Copy what git tracks, as it is now, and the library."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    for library in (ROOT / "idyn" / "library").glob("*.so"):
        shutil.copy(library, copy / "idyn" / "library")


def test_that_finds(fault: dict[str, str], copy: Path, options: argparse.Namespace) -> str:
    """Return the first test that fails with a fault and passes without it, '' if there is none."""
    path = copy / fault["file"]
    source = path.read_text(encoding="utf-8")
    if source.count(fault["was"]) != 1:
        raise SystemExit(f"expected `was` once in {fault['file']}, got {source.count(fault['was'])}: {fault['was']}")
    faulty = source.replace(fault["was"], fault["now"])
    for tests, kernels in sets(fault, options, code_digest(source) != code_digest(faulty)):
        path.write_text(faulty, encoding="utf-8")
        found = run(copy, tests, kernels)
        path.write_text(source, encoding="utf-8")
        if not found:
            continue
        alone = [*(word for word in tests if "/" not in word), found.partition("[")[0]]
        if not run(copy, alone, kernels):
            return found
        print(f"{found} fails without a fault, too ({kernels})", flush=True)
    return ""


def sets(fault: dict[str, str], options: argparse.Namespace, changes_kernels: bool) -> Iterator[tuple[list[str], str]]:
    """Yield the arguments of pytest and what runs the kernels, first those of few tests."""
    yield ["-n", "0", *fault["near"].split()], "python" if changes_kernels else "library"
    if "equivalent" in fault and not options.equivalent:
        return
    kernels = "numba" if changes_kernels else "library"
    yield [], kernels
    if options.full:
        yield ["-m", "full"], kernels


def run(copy: Path, tests: list[str], kernels: str) -> str:
    """Return the first test that fails, '' if all pass. Raises RuntimeError if no test ran."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "IDYN_KERNELS": kernels}
    ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        return ""
    failed = FAILED.search(ended.stdout)
    if ended.returncode not in (1, 2) or failed is None:
        raise RuntimeError(f"pytest ended with {ended.returncode}: {(ended.stdout + ended.stderr)[-2000:]}")
    return failed.group(1)


if __name__ == "__main__":
    sys.exit(main())
