"""Tutorials: their files, commands and outputs, as a reader meets them.

A page is worked through from the top in an empty folder. A block whose title (its first line, a comment) is the name
of a file becomes that file. Each line of an `sh` block is a command; one that ends in `&` runs on, at most until the
page ends. A `text` block has the output of the command before it: the same words, numbers within 5 % or one unit of
their last digit; a line `…` stands for any lines. `python tests/tutorials.py` writes the outputs of all tutorials, or
of those named, into the pages; blocks with `…` are changed by hand.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from math import isclose
from pathlib import Path

from documents import ROOT, Block, blocks_of

TUTORIALS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/tutorials/*.md"))
TIMEOUT = 300.0  # of a command; kernels may have to be compiled [s]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def outputs(document: str, folder: Path) -> list[tuple[Block, str]]:
    """Work through a page in a folder; return its `text` blocks, each with the output of the command before it."""
    running: list[subprocess.Popen] = []
    found, printed = [], ""
    try:
        for block in blocks_of(document, (ROOT / document).read_text(encoding="utf-8")):
            if re.fullmatch(r"\w+\.(toml|py)", block.title):
                (folder / block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "sh":
                for line in block.text.strip().splitlines():
                    printed = _run(shlex.split(line), folder, running)
            elif block.language == "text":
                found.append((block, printed))
        return found
    finally:
        for process in running:
            process.terminate()
            process.wait(timeout=30)


def agrees(shown: str, printed: str) -> bool:
    """Whether an output is the one that a page shows."""
    parts = [part.strip("\n") for part in re.split(r"^…$", shown, flags=re.MULTILINE)]
    printed = printed.strip("\n")
    if len(parts) == 1:
        return _same(parts[0], printed)
    lines, start = printed.split("\n"), 0
    for i, part in enumerate(parts):
        wanted = part.split("\n") if part else []
        last = len(lines) - len(wanted)
        places = range(last, last + 1) if i == len(parts) - 1 and wanted else range(start, last + 1)
        if i == 0:
            places = places[:1]
        place = next((k for k in places if k >= start and _same(part, "\n".join(lines[k : k + len(wanted)]))), None)
        if place is None:
            return False
        start = place + len(wanted)
    return True


def _same(shown: str, printed: str) -> bool:
    words = [" ".join(_NUMBER.sub("#", text).split()) for text in (shown, printed)]
    numbers = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=False)
    return words[0] == words[1] and all(isclose(float(a), float(b), rel_tol=0.05, abs_tol=_last_digit(a)) for a, b in numbers)


def _last_digit(number: str) -> float:
    mantissa, _, exponent = number.partition("e")
    return 1.01 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _run(words: list[str], folder: Path, running: list[subprocess.Popen]) -> str:
    """Run a command and return what it prints, or start one that ends in `&`."""
    program, *arguments = [word for word in words if word != "&"]
    command = [sys.executable, *(["-m", "sim_harness"] if program == "idyn" else []), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    if words[-1] == "&":
        log = folder / f"{len(running)}.txt"
        with log.open("w") as file:
            running.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT))
        if arguments[0] == "serve":
            _wait_for_server(running[-1], log)
        return ""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def _wait_for_server(server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + TIMEOUT
    while "serving" not in log.read_text():
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)


def rewrite(document: str) -> bool:
    """Write outputs that have changed into a page; return whether there were any."""
    page = ROOT / document
    old = text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for block, printed in outputs(document, Path(folder)):
            if not agrees(block.text, printed):
                assert not re.search(r"^…$", block.text, flags=re.MULTILINE), f"{block}: to be changed by hand to\n{printed}"
                text = text.replace(f"```text\n{block.text}```", f"```text\n{printed.strip()}\n```", 1)
    page.write_text(text, encoding="utf-8")
    return text != old


if __name__ == "__main__":
    for name in sys.argv[1:] or TUTORIALS:
        print(f"{name}: {'outputs written' if rewrite(name) else 'unchanged'}")
