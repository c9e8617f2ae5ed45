"""Directories of compiled functions: one for each state of the sources, and old ones go."""

import os
from pathlib import Path
from time import time

import pytest

from idyn.cache import KEPT_S, cache_directory, prune

LONG_AGO = time() - KEPT_S - 3600.0
OLD, OTHER = "0123456789abcdef", "00112233445566ff"


def made(root: Path, name: str, file: str = "kernels_1/kernels.f-3.py311.nbi") -> Path:
    """A directory with a file in it, of which nobody has asked for long."""
    path = root / name / file
    path.parent.mkdir(parents=True)
    path.touch()
    os.utime(root / name, (LONG_AGO, LONG_AGO))
    return root / name


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of the user's, with a cache of its own."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    cache_directory.cache_clear()
    (tmp_path / "package").mkdir()
    return tmp_path / "package"


def test_another_directory_for_other_sources(package: Path) -> None:
    before = cache_directory(package)
    (package / "kernels.py").write_text("a = 1\n")
    cache_directory.cache_clear()
    assert cache_directory(package) != before
    assert cache_directory(package).parent == before.parent == package.parent / "cache"


def test_a_new_one_makes_those_go_that_nobody_used(package: Path) -> None:
    root = package.parent / "cache"
    old, recent = made(root, OLD), made(root, OTHER)
    cut_short = made(root, OLD[::-1], "kernels_1/kernels.f-3.py311.nbi.tmp.5f3a")  # somebody who wrote it was killed
    os.utime(recent)
    cache_directory(package)
    assert not old.exists()
    assert not cut_short.exists()
    assert recent.exists()


def test_whoever_asks_for_one_uses_it(package: Path) -> None:
    root = package.parent / "cache"
    name = cache_directory(package).name
    own, other = made(root, name), made(root, OTHER)
    cache_directory.cache_clear()
    assert cache_directory(package) == own
    assert own.stat().st_mtime > time() - 60.0
    assert other.exists(), "only a new directory is a reason to look"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("measurements", "kernels.nbi"),
        (OLD.upper(), "kernels.nbi"),
        (OLD + "0", "kernels.nbi"),
        (OLD, "notes.txt"),
        (OLD, "deeper/still/notes"),
    ],
)
def test_what_may_not_be_ours_stays(tmp_path: Path, name: str, file: str) -> None:
    path = made(tmp_path, name, file)
    prune(tmp_path)
    assert (path / file).exists()


def test_an_empty_directory_stays(tmp_path: Path) -> None:
    made(tmp_path, OLD, "kernels.nbi")
    (tmp_path / OLD / "kernels.nbi").unlink()
    os.utime(tmp_path / OLD, (LONG_AGO, LONG_AGO))
    prune(tmp_path)
    assert (tmp_path / OLD).exists()


def test_links_and_files_stay(tmp_path: Path) -> None:
    elsewhere = made(tmp_path / "elsewhere", OLD)
    root = tmp_path / "cache"
    root.mkdir()
    (root / OLD).symlink_to(elsewhere)
    (root / OTHER).touch()
    os.utime(root / OTHER, (LONG_AGO, LONG_AGO))
    prune(root)
    assert (root / OLD).is_symlink()
    assert (root / OTHER).exists()
    assert elsewhere.exists()


def test_no_cache_is_no_trouble(tmp_path: Path) -> None:
    prune(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    prune(tmp_path / "file")
