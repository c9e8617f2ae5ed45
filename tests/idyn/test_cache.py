"""The kernel cache: a directory for each module and state of its sources; unused ones are removed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from time import time

import pytest
from fast import full

from idyn.jit.cache import KEPT_S, OWN_ROOT, cache_directory, code_digest, content_digest, imported_files, prune, root

LONG_AGO = time() - KEPT_S - 3600.0
OLD, OTHER = "mine.kernels-0123456789abcdef", "00112233445566ff"


def made(root: Path, name: str, file: str = "kernels.f-3.py311.nbi") -> Path:
    """A directory with a file that was last used long ago."""
    path = root / name / file
    path.parent.mkdir(parents=True)
    path.touch()
    os.utime(root / name, (LONG_AGO, LONG_AGO))
    return root / name


def forget() -> None:
    for function in (cache_directory, code_digest, content_digest, imported_files):
        function.cache_clear()


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's package: `kernels` imports `tools`, which imports `idyn.solvers.linalg`; `others` imports neither."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    forget()
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "kernels.py").write_text("from mine import tools\n")
    (folder / "tools.py").write_text("import numpy\nfrom idyn.solvers.linalg import (\n    cholesky,\n)\n")
    (folder / "others.py").write_text("import mine\n")
    return folder


def directories(folder: Path) -> list[Path]:
    forget()
    return [cache_directory(folder / f"{name}.py", f"mine.{name}") for name in ("kernels", "tools", "others")]


def test_a_change_concerns_the_changed_module_and_its_importers(mine: Path) -> None:
    before = directories(mine)
    (mine / "tools.py").write_text("a = 1\n")
    kernels, tools, others = directories(mine)
    assert kernels != before[0]
    assert tools != before[1]
    assert others == before[2]
    assert kernels.is_relative_to(mine.parent / "cache")


WRITTEN = """
def f(x):
    return x + 1


class A:
    a = 1
"""
DOCUMENTED = """
# f adds one.
'''A module.'''


def f(x):
    '''Adds
    one.'''

    # what it says
    return x + 1  # one more


class A:
    '''Has an a.'''

    a = 1
    '''One.'''
"""


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (DOCUMENTED, True),
        (DOCUMENTED.replace("x + 1", "x + 2"), False),
        (DOCUMENTED.replace("x + 1", "x + 1, '  # 1'"), False),
        (DOCUMENTED.replace("one.'''\n\n", "one.'''; x += 1\n\n"), False),
        (DOCUMENTED.replace("a = 1\n", "a = '''1'''\n"), False),
    ],
)
def test_comments_and_docstrings_do_not_change_the_digest(mine: Path, text: str, same: bool) -> None:
    (mine / "tools.py").write_text(WRITTEN)
    before = directories(mine)
    (mine / "tools.py").write_text(text)
    assert (directories(mine) == before) is same


def test_imports_are_followed_into_idyn(mine: Path) -> None:
    files = {path.name for path in imported_files(mine / "tools.py", mine.parent)}
    assert files == {"linalg.py"}
    assert content_digest(mine / "tools.py", mine.parent) != content_digest(mine / "others.py", mine.parent)


def test_installed_packages_of_others_do_not_count(mine: Path) -> None:
    """Where idyn is installed, NumPy and numba lie beside the user's package: their files are no part of its digest."""
    installed = mine.parent / "site-packages"
    shutil.copytree(mine, installed / "mine")
    (installed / "numpy").mkdir()
    (installed / "numpy" / "__init__.py").write_text("a = 1\n")
    before = directories(installed / "mine")
    (installed / "numpy" / "__init__.py").write_text("a = 2\n")
    assert directories(installed / "mine") == before
    (installed / "mine" / "tools.py").write_text("a = 1\n")
    after = directories(installed / "mine")
    assert (after[0] != before[0], after[1] != before[1], after[2] == before[2]) == (True, True, True)
    assert before == directories(mine)  # a checkout with the same sources shares its kernels


def test_a_change_of_a_law_concerns_no_kernels_of_the_controller_and_the_server() -> None:
    law = OWN_ROOT / "idyn" / "laws" / "coulomb.py"
    files = [file for part in ("controllers", "transport") for file in (OWN_ROOT / part).rglob("*.py")]
    kernels = [file for file in files if "\n@compiled" in file.read_text(encoding="utf-8")]
    assert len(kernels) > 10
    for file in kernels:
        reached, waiting = {file}, [file]
        while waiting:
            new = imported_files(waiting.pop(), OWN_ROOT) - reached
            reached |= new
            waiting += new
        assert law not in reached, file


def test_checkouts_with_the_same_sources_share_kernels(mine: Path, tmp_path: Path) -> None:
    before = directories(mine)
    copy = tmp_path / "elsewhere" / "mine"
    shutil.copytree(mine, copy)
    assert directories(copy) == before


def test_a_new_directory_removes_unused_ones(mine: Path) -> None:
    old, recent = made(root(), OLD), made(root(), OTHER)
    cut_short = made(root(), OTHER[::-1], "kernels.f-3.py311.nbi.tmp.5f3a")  # its writer was killed
    os.utime(recent)
    directories(mine)
    assert not old.exists()
    assert not cut_short.exists()
    assert recent.exists()


def test_a_directory_in_use_is_kept(mine: Path) -> None:
    digest = content_digest(mine / "kernels.py", mine.parent)
    own, other = made(root(), f"mine.kernels-{digest}"), made(root(), OTHER)
    forget()
    assert cache_directory(mine / "kernels.py", "mine.kernels") == own
    assert own.stat().st_mtime > time() - 60.0
    assert other.exists(), "unused directories are removed only when a new one is made"


@full
def test_a_cache_that_cannot_be_written_costs_one_warning(tmp_path: Path) -> None:
    """The kernel works all the same."""
    (tmp_path / "file").touch()
    code = "from idyn.solvers.linalg import rank_of; import numpy as np; print(rank_of(np.eye(2)))"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "file")}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "2"
    assert ended.stderr.count("kernels are not cached") == 1


RECORDS = """
import numpy as np
from idyn.jit.records import ArrayRecord, Vector


class Inner(ArrayRecord):
    x: Vector

    def __init__(self):
        self.put(x=np.full(2, 3.0))


class Outer(ArrayRecord):
    inner: Inner

    def __init__(self):
        self.put(inner=Inner())
"""


@full
def test_a_field_more_in_a_nested_record_compiles_its_readers_anew(mine: Path) -> None:
    """The kernel's module does not import that of the record."""
    code = "from idyn.jit.compiled import compiled\n\n\n@compiled\ndef total(record):\n    return record.inner.x.sum()\n"
    (mine / "kernels.py").write_text(code)

    def total() -> str:
        code = "from mine.kernels import total; from mine.records import Outer; outer = Outer(); print(total(outer.fields))"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(mine.parent), *sys.path])}
        command = [sys.executable, "-c", code]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    (mine / "records.py").write_text(RECORDS)
    assert total().strip() == "6.0"
    moved = RECORDS.replace("    x: Vector\n", "    n: int\n    x: Vector\n").replace("put(x", "put(n=1, x")
    (mine / "records.py").write_text(moved)
    assert total().strip() == "6.0"


@full
def test_a_tuple_that_moves_compiles_its_readers_anew(mine: Path) -> None:
    """The cache of a kernel names the types that it was compiled for, here one of a module that is gone."""
    (mine / "kernels.py").write_text("from idyn.jit.compiled import compiled\n\n\n@compiled\ndef first(p):\n    return p.x\n")
    for place in ("here", "there"):
        (mine / f"{place}.py").write_text(
            "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    x: float\n    y: float\n"
        )
        code = f"from mine.kernels import first; from mine.{place} import Pair; print(first(Pair(2.0, 3.0)))"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(mine.parent), *sys.path])}
        ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.strip() == "2.0"
        (mine / f"{place}.py").unlink()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("measurements", "kernels.nbi"),
        (OLD.upper(), "kernels.nbi"),
        (OLD + "0", "kernels.nbi"),
        ("0123456789abcde", "kernels.nbi"),
        (OLD, "notes.txt"),
        (OLD, "deeper/still/notes"),
    ],
)
def test_directories_of_other_origin_are_kept(tmp_path: Path, name: str, file: str) -> None:
    path = made(tmp_path, name, file)
    prune(tmp_path)
    assert (path / file).exists()


def test_an_empty_directory_is_kept(tmp_path: Path) -> None:
    made(tmp_path, OLD, "kernels.nbi")
    (tmp_path / OLD / "kernels.nbi").unlink()
    os.utime(tmp_path / OLD, (LONG_AGO, LONG_AGO))
    prune(tmp_path)
    assert (tmp_path / OLD).exists()


def test_links_and_files_are_kept(tmp_path: Path) -> None:
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


def test_a_missing_cache_is_not_an_error(tmp_path: Path) -> None:
    prune(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    prune(tmp_path / "file")
