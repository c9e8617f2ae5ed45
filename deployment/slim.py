"""Delete from a virtual environment what idyn does not need to run; print the size after each step.

    python deployment/slim.py ENVIRONMENT

Headers, static libraries, CMake files, tests of dependencies and installers are deleted; libraries that wheels carry several
times become one file; symbols are stripped where `strip` (binutils) is installed. Afterwards nothing can be compiled against
the environment, and no package installed into it.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

DEVELOPMENT = ("cmeel.prefix/include", "cmeel.prefix/lib/cmake", "cmeel.prefix/lib/pkgconfig", "cmeel.prefix/share/doc")
"""Folders for programs that are compiled against Pinocchio."""

INSTALLERS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")

LIBRARIES = ("cmeel.prefix", "zstandard")
"""Packages whose libraries are stripped; not those that `auditwheel` has changed, as NumPy's: `strip` breaks some."""


def slim(packages: Path) -> None:
    """packages: the site-packages folder of the environment"""
    report(packages, "as installed")
    for folder in DEVELOPMENT:
        shutil.rmtree(packages / folder, ignore_errors=True)
    for path in packages.rglob("*.a"):
        path.unlink()
    report(packages, "without headers, static libraries and CMake files")
    for tests in [path for path in packages.rglob("tests") if path.is_dir()]:
        shutil.rmtree(tests, ignore_errors=True)
    report(packages, "without tests")
    remove(packages, INSTALLERS)
    report(packages, "without pip and setuptools")
    link_copies(packages / "cmeel.prefix" / "lib")
    report(packages, "with one file for each library")
    if strip := shutil.which("strip"):
        for name in LIBRARIES:
            for path in libraries(packages / name):
                subprocess.run([strip, "--strip-unneeded", str(path)], check=True)
        report(packages, "without symbols")


def remove(packages: Path, names: Iterable[str]) -> None:
    for name in names:
        path = packages / name
        if path.is_file():
            path.unlink()
        shutil.rmtree(path, ignore_errors=True)


def link_copies(folder: Path) -> None:
    """Replace equal files by hard links to the first: a wheel stores a link as a copy."""
    known: dict[tuple[int, str], Path] = {}
    for path in sorted(folder.glob("*.so*")):
        if path.is_symlink():
            continue
        key = path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
        if (first := known.setdefault(key, path)) is not path:
            path.unlink()
            path.hardlink_to(first)


def libraries(folder: Path) -> Iterator[Path]:
    """Yield each shared library below a folder once, whatever its number of links."""
    seen = set()
    for path in sorted(folder.rglob("*.so*")):
        if not path.is_symlink() and path.is_file() and path.stat().st_ino not in seen:
            seen.add(path.stat().st_ino)
            yield path


def report(packages: Path, what: str) -> None:
    sizes = {(each := path.lstat()).st_ino: each.st_size for path in packages.rglob("*") if path.is_file()}
    print(f"{sum(sizes.values()) / 1e6:6.0f} MB  {what}", flush=True)


if __name__ == "__main__":
    slim(next(Path(sys.argv[1]).glob("lib/python3*/site-packages")))
