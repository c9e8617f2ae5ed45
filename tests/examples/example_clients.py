"""The example clients: how each is built, and the command that runs it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parents[2] / "docs" / "examples" / "clients"

NAMES = ("cpp", "node", "python")


def built(name: str, folder: Path) -> list[str]:
    """Build a client in a folder and return the command that runs it, without the endpoint. Skips where a tool is missing."""
    if name == "python":
        return [sys.executable, str(CLIENTS / "python" / "stand.py")]
    tools = {"cpp": ("cmake", "c++", "pkg-config"), "node": ("node", "npm")}[name]
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"the {name} client needs {', '.join(missing)}")
    return _cpp(folder) if name == "cpp" else _node(folder)


def _cpp(folder: Path) -> list[str]:
    for library in ("libzmq",):
        if subprocess.run(["pkg-config", "--exists", library], check=False).returncode:
            pytest.skip(f"the C++ client needs {library} and msgpack-cxx (libzmq3-dev, libmsgpack-cxx-dev)")
    _run("cmake", "-S", str(CLIENTS / "cpp"), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-Werror")
    _run("cmake", "--build", str(folder))
    return [str(folder / "stand")]


def _node(folder: Path) -> list[str]:
    for path in (CLIENTS / "node").iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    _run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(folder), cwd=folder)
    return ["node", str(folder / "stand.js")]


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
