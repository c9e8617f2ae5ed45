"""Mutation check: plant one fault at a time in a copy of the sources, and see which tests find it.

    python tests/mutations/check.py [--full] [NUMBER ...]

For each fault of `faults.toml` the tests named in `near` run first, then the fast set, with `--full` also the full set, until
one fails. A fault that no test finds is printed as `survived`, with the reason if it does not change results. The exit code is
1 if another fault survived. A library of changed kernels would be refused: the first tests run kernels as Python, the sets by
numba, which compiles for minutes.
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

ROOT = Path(__file__).parents[2]
FAULTS = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))["fault"]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run the full set, too, before a fault counts as survived")
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="faults, from 1 (default: all)")
    options = parser.parse_args()
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "idyn"
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, tracked.split("\0")):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        for library in (ROOT / "idyn" / "library").glob("*.so"):
            shutil.copy(library, copy / "idyn" / "library")
        if broken := run(copy, [], "library"):
            raise SystemExit(f"{broken} fails without a fault")
        for number in options.numbers or range(1, len(FAULTS) + 1):
            fault = FAULTS[number - 1]
            path, begun = copy / fault["file"], time.monotonic()
            source = path.read_text(encoding="utf-8")
            if source.count(fault["was"]) != 1:
                raise SystemExit(f"fault {number}: expected `was` once in {fault['file']}, got {source.count(fault['was'])}")
            path.write_text(source.replace(fault["was"], fault["now"]), encoding="utf-8")
            found = next(filter(None, (run(copy, *each) for each in sets(fault, options.full))), "")
            path.write_text(source, encoding="utf-8")
            survived += not found and "equivalent" not in fault
            found = found or f"survived; equivalent: {fault['equivalent']}" if "equivalent" in fault else found or "survived"
            row = f"{number:2} {fault['kind']:11} {fault['file']:44} {found}"
            print(f"{row} ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"{survived} survived")
    return min(survived, 1)


def sets(fault: dict[str, str], full: bool) -> Iterator[tuple[list[str], str]]:
    """Yield the arguments of pytest and what runs the kernels, first those of few tests."""
    yield ["-n", "0", *fault["near"].split()], "python"
    yield [], "numba"
    if full:
        yield ["-m", "full"], "numba"


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
