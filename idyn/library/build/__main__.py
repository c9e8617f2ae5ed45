"""`python -m idyn.library.build`: build the library of kernels beside the sources; with `--if-stale`, only if it is not up to date."""

import os
import sys

os.environ["IDYN_KERNELS"] = "numba"
if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of the code: the same sources give the same bytes
    os.execve(sys.executable, [sys.executable, "-m", "idyn.library.build", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})

import tempfile
import time
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


def main() -> None:
    """Build the library and report progress."""
    if "--if-stale" in sys.argv and is_fresh():
        return
    from idyn.library.build import numba_mode  # noqa: PLC0415  (numba is not needed above)

    numba_mode.BUILDING.append(True)
    from idyn.library.build import back, front, roster  # noqa: PLC0415

    begin = time.monotonic()

    def tell(news: str) -> None:
        print(f"kernels: {news}, {time.monotonic() - begin:.0f} s", flush=True)

    entries = [front.Entry(kernel, types) for kernel, types in roster.entries()]
    with front.without_machine_code():
        for count, each in enumerate(entries):
            if count % 20 == 0:
                tell(f"{count} of {len(entries)} entries")
            each.compile()
    module = front.linked(entries)
    tell("linked")
    symbols = [each.symbol for each in entries]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "kernels.o").write_bytes(back.emit(module, symbols))
        table: dict[str, Any] = {"results": {each.symbol: each.result for each in entries}, "sources": roster.sources()}
        back.write_libraries([work / "kernels.o"], symbols, table, work)
    tell("built")


main()
