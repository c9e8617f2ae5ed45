"""`python -m idyn.library.build`: build the library of kernels beside the sources; with `--if-stale`, only if it is needed."""

import os
import sys

os.environ["IDYN_KERNELS"] = "numba"
if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of the code: the same sources give the same bytes
    os.execve(sys.executable, [sys.executable, "-m", "idyn.library.build", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})

import json
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from idyn.errors import KernelError
from idyn.library.native import load


def is_fresh() -> bool:
    """Return whether there is a library of these sources."""
    try:
        load()
    except KernelError:
        return False
    return True


def build() -> None:
    """Build the library in two processes."""
    from idyn.library.build import numba_mode  # noqa: PLC0415  (numba is not needed above)

    numba_mode.BUILDING.append(True)
    from idyn.library.build import back, front, roster  # noqa: PLC0415

    begin = time.monotonic()

    def compile_part(entries: list[Any], object_file: Path) -> None:
        """Write the object file of these entries, and the types of their results beside it."""
        with front.without_machine_code():
            for count, each in enumerate(entries):
                each.compile()
                if count % 20 == 0 or count == len(entries) - 1:
                    seconds = time.monotonic() - begin
                    print(f"{object_file.stem}: {count + 1} of {len(entries)} kernels, {seconds:.0f} s", flush=True)
        object_file.write_bytes(back.emit(front.linked(entries), [each.symbol for each in entries]))
        object_file.with_suffix(".json").write_text(json.dumps({each.symbol: each.result for each in entries}), "utf-8")

    every = [front.Entry(kernel, types) for kernel, types in roster.entries()]
    first_part = [each for each in every if not each.symbol.startswith(roster.SECOND_PROCESS)]
    with tempfile.TemporaryDirectory() as folder:
        first, second = (Path(folder) / f"{name}.o" for name in ("predictions", "others"))
        child = os.fork()
        if child == 0:
            try:
                compile_part([each for each in every if each not in first_part], second)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        compile_part(first_part, first)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise RuntimeError("the second process failed; its message is above")
        parts = [json.loads(each.with_suffix(".json").read_text("utf-8")) for each in (first, second)]
        table = {"results": parts[0] | parts[1], "sources": roster.sources()}
        back.write_libraries([first, second], [each.symbol for each in every], table, Path(folder))
    print(f"kernels built in {time.monotonic() - begin:.0f} s", flush=True)


if not ("--if-stale" in sys.argv and is_fresh()):
    build()
