"""The notebooks of docs/notebooks run from the first cell to the last, and are kept without outputs."""

import json
import subprocess
import sys

import pytest
from documents import ROOT
from fast import full

NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))


def name(path):
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_is_kept_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_runs(path, tmp_path):
    """A process of its own, as Jupyter's packages warn of much; it fails at the first cell that raises."""
    code = "import sys, nbformat, nbclient; nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), timeout=300).execute()"
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
