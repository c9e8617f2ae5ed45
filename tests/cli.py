"""Commands of `idyn`, run in this process."""

import pytest

from sim_harness.commands.main import main


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says that is refused: one line."""
    assert main([*words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("idyn: ")
    assert error.count("\n") == 1
    return error


def prints(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints that does what it is asked."""
    assert main([*words]) == 0
    return capsys.readouterr().out
