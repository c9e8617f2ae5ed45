"""Files for packaging agree with the project: image, conda recipe, what an image leaves out, platforms, table of extras."""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import partial

import pytest
from documents import ROOT, table, words
from fast import every, full

from idyn.errors import IdynError
from sim_harness.commands.main import build_parser, check_platform
from sim_harness.commands.options import COMMANDS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")

CONDA = {"pin": "pinocchio", "msgpack": "msgpack-python"}  # packages that have another name at conda-forge


def instructions(name: str) -> list[str]:
    return re.findall(rf"^\s*{name} (.+)$", DOCKERFILE, flags=re.MULTILINE)


def test_the_image_runs_commands_that_exist():
    commands = re.findall(r"\bidyn ((?:serve|top)\b[^&\"\]]*)", "\n".join(instructions("RUN") + instructions("CMD")))
    commands += re.findall(r"exec idyn ([^\"]+)", "\n".join(instructions("HEALTHCHECK .*CMD")))
    assert {command.split()[0] for command in commands} == {"top", "serve"}
    for command in commands:
        build_parser().parse_args(shlex.split(re.sub(r"\$\{\w+\}", "quadruped", command)))


def test_the_image_gets_all_files_that_a_wheel_needs():
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "*"
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert all((ROOT / name).exists() for name in kept)
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {*wheel, "pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "deployment"} == kept


def test_the_extras_of_the_image_exist():
    (extras,) = re.findall(r"ARG EXTRAS=(\S*)", DOCKERFILE)
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_each_stage_of_the_image_has_the_library_that_pinocchio_loads():
    stages = DOCKERFILE.split("\nFROM ")[1:]
    assert len(stages) == 2
    assert all(re.search(r"apt-get install [^&]*\blibgomp1\b", stage) for stage in stages)


def test_a_system_without_that_library_is_told_what_to_install(tmp_path):
    """A `pinocchio` that fails as the real one does there is found before it."""
    failure = "libgomp.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "pinocchio.py").write_text(f"raise ImportError({failure!r})", encoding="utf-8")
    command = [sys.executable, "-m", "idyn", "check", "quadruped"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "idyn: Pinocchio needs libgomp.so.1 of the system; Debian, Ubuntu: apt install libgomp1\n"


def without(folder, *packages):
    """Return a function that runs a program of Python to which these packages seem not to be installed."""
    for name in packages:
        absent = f"raise ModuleNotFoundError('No module named {name}', name='{name}')"
        (folder / f"{name}.py").write_text(absent, encoding="utf-8")
    return partial(subprocess.run, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False)


def test_matplotlib_is_needed_only_to_draw(tmp_path):
    """A command that draws names the extra."""
    done = without(tmp_path, "matplotlib")([sys.executable, "-m", "idyn", "compare", "cone-study"])
    assert done.returncode == 2
    assert done.stderr.startswith("idyn: picture: drawing needs the package matplotlib, which is not installed: pip install")


NEEDED = {  # optional packages without which a module of commands does not load, whatever its options
    "commands.comparisons": {"matplotlib"},
    "commands.bridges": {"cyclonedds"},
    "studies.commands": {"matplotlib"},
}

OPTIONAL = {"matplotlib", "mujoco", "rosbags", "cyclonedds", "meshcat", "pygame", "prometheus_client", "foxglove", "rerun"}
OPTIONAL |= {"pyarrow", "h5py"}


@full
def test_commands_load_without_the_extras_of_others(tmp_path):
    modules: dict[frozenset[str], set[str]] = {}
    for module in {command.module for command in COMMANDS.values()}:
        modules.setdefault(frozenset(NEEDED.get(module, ())), set()).add(f"sim_harness.{module}")
    for needed, alike in modules.items():
        (folder := tmp_path / "-".join(["needed", *needed])).mkdir()
        done = without(folder, *OPTIONAL - needed)([sys.executable, "-c", f"import {', '.join(sorted(alike))}"])
        assert not done.returncode, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A folder with the packages of a wheel, as `pyproject.toml` selects them."""
    target = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    left_out = {ROOT / path.removeprefix("/") for path in target["exclude"]}
    folder = tmp_path_factory.mktemp("wheel")
    for path in (path for package in target["packages"] for path in (ROOT / package).rglob("*")):
        if path.is_file() and path.suffix != ".pyc" and not left_out & {*path.parents}:
            place = folder / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    return folder


EVERY_MODULE = """
import sys
from importlib import import_module
from pathlib import Path
from idyn.errors import ConfigError
for path in sorted(Path.cwd().rglob("*.py")):
    name = ".".join(path.relative_to(Path.cwd()).with_suffix("").parts)
    if not name.endswith("__main__") and ".peers." not in name:  # scripts, of which some are for other environments
        try:
            import_module(name)
        except ConfigError as error:
            assert "pip install" in str(error), (name, error)
print(sys.modules["sim_harness.demo"].__file__, *(name for name in sys.modules if name.startswith("sim_harness.studies")))
"""
"""Imports every module below the working folder; an extra may be missing."""


@full
def test_a_wheel_has_no_studies_and_needs_none(wheel):
    """All its modules are imported without them, and a study says where it runs."""
    assert not (wheel / "sim_harness" / "studies").exists()
    environment = os.environ | {"PYTHONPATH": str(wheel)}
    run = partial(subprocess.run, cwd=wheel, env=environment, capture_output=True, text=True, check=False)
    done = run([sys.executable, "-c", EVERY_MODULE])
    assert (done.returncode, done.stdout.strip()) == (0, str(wheel / "sim_harness" / "demo.py")), done.stderr
    done = run([sys.executable, "-m", "idyn", "compare", "cone-study"])
    assert (done.returncode, done.stderr) == (2, "idyn: cone-study: this study runs from a checkout of the repository only\n")


def test_the_conda_recipe_has_the_requirements_of_the_project():
    recipe = (ROOT / "deployment" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{PROJECT["version"]}"' in recipe
    run = re.search(r"^  run:\n((?:    - .+\n)+)", recipe, flags=re.MULTILINE)
    found = {line.removeprefix("    - ") for line in run[1].splitlines()}
    expected = {f"python {PROJECT['requires-python']}", "__unix"}
    for requirement in PROJECT["dependencies"]:
        name, bounds = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()
        expected.add(f"{CONDA.get(name, name)} {bounds}")
    assert found == expected
    (script,) = (f"{name} = {target}" for name, target in PROJECT["scripts"].items())
    assert f"- {script}" in recipe


def test_what_is_not_needed_to_run_is_left_out(tmp_path, capsys):
    """Of two equal libraries one file remains, with both names."""
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    files = {
        "cmeel.prefix/include/pinocchio/x.hpp": "header",
        "cmeel.prefix/lib/libx.so.1": "library",
        "cmeel.prefix/lib/libx.so": "library",
        "cmeel.prefix/lib/liby.so": "other",
        "cmeel.prefix/lib/libz.a": "static",
        "numpy/core.py": "code",
        "numpy/tests/test_core.py": "test",
        "pip/__init__.py": "installer",
        "distutils-precedence.pth": "line",
    }
    for name, text in files.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    slim = runpy.run_path(str(ROOT / "deployment" / "slim.py"))
    slim["slim"].__globals__["LIBRARIES"] = ()  # the libraries of this test have no symbols
    slim["slim"](packages)
    left = {path.relative_to(packages).as_posix() for path in packages.rglob("*") if path.is_file()}
    libraries = {"cmeel.prefix/lib/libx.so.1", "cmeel.prefix/lib/libx.so", "cmeel.prefix/lib/liby.so"}
    assert left == libraries | {"numpy/core.py"}
    assert os.path.samefile(packages / "cmeel.prefix/lib/libx.so", packages / "cmeel.prefix/lib/libx.so.1")
    assert (packages / "cmeel.prefix/lib/liby.so").read_text() == "other"
    sizes = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert len(sizes) >= 5


@every("platform", ["win32", "cygwin"])
def test_windows_is_refused_in_words(platform):
    with pytest.raises(IdynError, match=r"does not run on Windows.*WSL"):
        check_platform(platform)
    for other in ("linux", "darwin"):
        check_platform(other)


def test_the_table_of_extras_is_complete():
    rows = table("docs/how-to/install.md", "extras")
    assert sorted(words(rows[0][2])) == sorted(re.match(r"[\w-]+", each)[0] for each in PROJECT["dependencies"])
    named = {words(row[0])[0]: sorted(words(row[2])) for row in rows[1:]}
    extras = PROJECT["optional-dependencies"]
    users = {name: sorted(re.match(r"[\w-]+", each)[0] for each in packages) for name, packages in extras.items()}
    assert named == {name: users[name] for name in users.keys() - {"docs", "notebooks", "drake", "browser", "test", "dev"}}
