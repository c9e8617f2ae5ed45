"""Each example passes `mypy --strict`, as a user runs it: in a folder of his own, without this project's settings."""

import shutil
import subprocess
import sys
from pathlib import Path

from documents import ROOT, blocks
from fast import full


def scripts() -> dict[str, str]:
    """Name → text of each script in the documents; a block that continues the block above belongs to that one's script."""
    found: dict[str, str] = {}
    for block in blocks("python"):
        if "continues the block above" in block.title:
            last = next(reversed(found))
            assert last.startswith(module(block.document)), f"{block} continues a block of another document"
            found[last] += block.text
        else:
            found[f"{module(block.document)}_{block.line}"] = block.text
    return found


def module(document: str) -> str:
    return document.removesuffix(".md").replace("/", "_").replace("-", "_")


def errors(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@full
def test_examples_are_typed(tmp_path):
    for name, text in scripts().items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    files = list((ROOT / "docs" / "examples").rglob("*.py"))
    for path in files:
        shutil.copy(path, tmp_path)
    assert len(files) >= 2
    assert len(scripts()) > 15
    assert errors(tmp_path) == []


@full
def test_a_wrong_example_is_found(tmp_path):
    """mypy sees the types of the installed packages: calls with wrong arguments are errors."""
    (tmp_path / "wrong.py").write_text("from idyn import load_robot\n\nrobot, q = load_robot(3)\nrobot.no_such_name\n")
    found = "\n".join(errors(tmp_path))
    assert 'incompatible type "int"' in found
    assert "no_such_name" in found
