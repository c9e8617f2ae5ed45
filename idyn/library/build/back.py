"""Back end of the build: machine code of the linked module, and the shared libraries made of it by a C compiler."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from idyn.library.build.front import COUNTS
from idyn.library.build.header import header
from idyn.library.native import CALL_FILE, FOLDER, LIBRARY_FILE

INTERFACE = re.findall(r"\b(idyn_[a-z]+)\(", (FOLDER / "c" / "idyn.h").read_text("utf-8"))
"""Functions of the C interface, all of which are visible."""

PROCESSORS = {"x86_64": "x86-64-v3", "aarch64": "generic", "arm64": "generic"}
"""Processor that the machine code is for, by architecture."""


def machine() -> Any:
    """Return LLVM's description of the target."""
    triple = llvm.get_process_triple()
    options = {"cpu": PROCESSORS[triple.partition("-")[0]], "opt": 3, "reloc": "pic", "codemodel": "default"}
    return llvm.Target.from_triple(triple).create_target_machine(**options)


def emit(module: Any, symbols: list[str]) -> bytes:
    """Return the object file of a module in which only the symbols are visible."""
    target = machine()
    module.triple, module.data_layout = target.triple, str(target.target_data)
    _prune(module, target)
    for name in COUNTS:
        module.get_function(name).add_function_attribute("alwaysinline")
    _optimise(module, target)
    missing = set(symbols) - {each.name for each in module.functions if not each.is_declaration}
    if missing:
        raise RuntimeError(f"entries that the optimiser removed: {', '.join(sorted(missing))}")
    return bytes(target.emit_object(module))


def _prune(module: Any, target: Any) -> None:
    """Remove counts of references that cancel, once callees that are always inlined stand in their callers."""
    passes, builder = llvm.create_new_module_pass_manager(), _builder(target)
    passes.add_always_inliner_pass()
    functions = llvm.create_new_function_pass_manager()
    functions.add_sroa_pass()
    functions.add_instruction_combine_pass()
    functions.add_simplify_cfg_pass()
    functions.add_jump_threading_pass()
    passes.run(module, builder)
    for function in module.functions:
        if not function.is_declaration:
            functions.run(function, builder)
    passes = llvm.create_new_module_pass_manager()
    passes.add_refprune_pass()
    passes.run(module, builder)


def _optimise(module: Any, target: Any) -> None:
    builder = _builder(target)
    builder.getModulePassManager().run(module, builder)


def _builder(target: Any) -> Any:
    options = llvm.create_pipeline_tuning_options(3)
    options.loop_vectorization, options.slp_vectorization = True, False
    return llvm.create_pass_builder(target, options)


def compiler() -> list[str]:
    """Return the command of a C compiler: `$CC`, `cc`, or that of the package ziglang. Raises RuntimeError without one."""
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if found:
        return found.split()
    probe = subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True, check=False)
    if probe.returncode:
        raise RuntimeError("the library of kernels needs a C compiler: install gcc or clang, or `pip install ziglang`")
    return [sys.executable, "-m", "ziglang", "cc"]


def write_libraries(objects: list[Path], symbols: list[str], table: dict[str, Any], work: Path) -> None:
    """Write `libidyn.so` and the module that calls it beside the sources, both at once."""
    text = json.dumps(table, sort_keys=True, separators=(",", ":"))
    quoted = "\n".join(f'"{_escaped(text[k : k + 4000])}"' for k in range(0, len(text), 4000))
    (work / "table.c").write_text(f"static const char table[] =\n{quoted};\nconst char *idyn_table_address = table;\n")
    (work / "idyn_kernels.h").write_text(header())
    names = [*symbols, "idyn_table_address", "idyn_processor", "idyn_release", "idyn_arena_begin", "idyn_arena_end", *INTERFACE]
    (work / "visible.map").write_text("{ global: " + " ".join(f"{each};" for each in names) + " local: *; };\n")
    command = [*compiler(), "-O2", "-ffp-contract=off", "-fPIC", "-shared", f"-I{work}"]
    sources = [*map(str, objects), str(FOLDER / "c" / "runtime.c"), str(FOLDER / "c" / "idyn.c"), str(work / "table.c")]
    link = ["-Wl,-s", "-Wl,-z,defs", f"-Wl,--version-script={work / 'visible.map'}", "-lm"]
    if sys.platform == "darwin":
        link = ["-lm"]
    subprocess.run([*command, *sources, *link, "-o", str(work / "libidyn.so")], check=True)
    python = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-Wl,-s"]
    include = sysconfig.get_path("include")
    subprocess.run([*command, f"-I{include}", str(FOLDER / "c" / "call.c"), *python, "-o", str(work / "call.so")], check=True)
    for built, place in ((work / "libidyn.so", LIBRARY_FILE), (work / "call.so", CALL_FILE)):
        shutil.move(built, place)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
