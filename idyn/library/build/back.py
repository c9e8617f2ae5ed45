"""Back end of the build: machine code of the linked module, and the shared libraries made of it by a C compiler."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from idyn.library.build.sources import PACKAGES
from idyn.library.c.header import header
from idyn.library.kernels import CALL_FILE, FOLDER, LIBRARY_FILE

C = FOLDER / "c"
PROCESSORS = {"x86_64": "x86-64-v3", "aarch64": "generic", "arm64": "generic"}
"""Processor that the machine code is for, by architecture."""


def emit(modules: list[Any], symbols: list[str]) -> bytes:
    """Return the object file of modules, in which only the symbols are visible."""
    triple, options = llvm.get_process_triple(), llvm.create_pipeline_tuning_options(3)
    options.loop_vectorization, options.slp_vectorization = True, False
    processor = {"cpu": PROCESSORS[triple.partition("-")[0]], "opt": 3, "reloc": "pic", "codemodel": "default"}
    target = llvm.Target.from_triple(triple).create_target_machine(**processor)
    builder, module = llvm.create_pass_builder(target, options), _linked(modules)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()  # once callees stand in their callers, counts of references cancel: the last pass
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_jump_threading_pass()
    passes.add_refprune_pass()
    passes.run(module, builder)
    module.link_in(llvm.parse_assembly((C / "count.ll").read_text("utf-8")))
    for function in module.functions:
        if not function.is_declaration:
            function.linkage = "external" if function.name in symbols else "internal"
    builder.getModulePassManager().run(module, builder)
    missing = set(symbols) - {each.name for each in module.functions if not each.is_declaration}
    if missing:
        raise RuntimeError(f"entries that the optimiser removed: {', '.join(sorted(missing))}")
    return bytes(target.emit_object(module))


def _linked(modules: list[Any]) -> Any:
    for module in modules:
        for function in module.functions:
            if not function.is_declaration and function.linkage in (llvm.Linkage.external, llvm.Linkage.linkonce_odr):
                function.linkage = "weak_odr"
    while len(modules) > 1:  # in pairs: one after the other would copy the whole again and again
        for a, b in zip(modules[::2], modules[1::2], strict=False):
            a.link_in(b)
        modules = modules[::2]
    return modules[0]


def compiler() -> list[str]:
    """Return the command of a C compiler: `$CC`, `cc`, or that of the package ziglang. Raises RuntimeError without one."""
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if found:
        return found.split()
    if find_spec("ziglang") is None:
        raise RuntimeError("the library of kernels needs a C compiler: install gcc or clang, or `pip install ziglang`")
    return [sys.executable, "-m", "ziglang", "cc"]


def write_libraries(objects: list[bytes], table: dict[str, Any]) -> None:
    """Write `libidyn.so`, of object files and a table, and the module that calls it beside the sources, both at once."""
    text = json.dumps(table, sort_keys=True, separators=(",", ":"))
    quoted = "\n".join(json.dumps(text[k : k + 4000]) for k in range(0, len(text), 4000))
    texts = {
        "table.c": f"static const char table[] =\n{quoted};\nconst char *idyn_table_address = table;\n",
        "idyn_kernels.h": header(),
        "visible.map": f"{{ global: {' '.join(f'{each}_*;' for each in PACKAGES)} local: *; }};\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, content in texts.items():
            (work / name).write_text(content, "utf-8")
        for k, code in enumerate(objects):
            (work / f"{k}.o").write_bytes(code)
        link, python = ["-Wl,-s", "-Wl,-z,defs", f"-Wl,--version-script={work / 'visible.map'}", "-lm"], ["-Wl,-s"]
        if sys.platform == "darwin":
            link, python = ["-lm"], ["-undefined", "dynamic_lookup"]
        include = [f"-I{work}", f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}"]
        command = [*compiler(), "-O2", "-ffp-contract=off", "-fPIC", "-shared", *include]
        sources = [C / "runtime.c", C / "idyn.c", work / "table.c", *sorted(work.glob("*.o"))]
        subprocess.run([*command, *sources, *link, "-o", work / "libidyn.so"], check=True)
        subprocess.run([*command, C / "call.c", *python, "-o", work / "call.so"], check=True)
        shutil.move(work / "libidyn.so", LIBRARY_FILE)
        shutil.move(work / "call.so", CALL_FILE)
