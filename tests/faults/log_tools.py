"""All commands that read a log."""

import shutil
from pathlib import Path

import pytest

from sim_harness.commands.main import main

TOOLS = (
    ["replay", "{}.mcap"],
    ["replay", "{}.mcap", "--out", "{}.fleet"],
    ["export", "{}.mcap"],
    ["export", "{}.mcap", "--rerun"],
    ["export", "{}.mcap", "--parquet"],
    ["export", "{}.mcap", "--messages"],
    ["view", "{}.mcap", "--out", "{}.html"],
    ["compare", "{}.mcap"],
    ["check", "{}.mcap", "--every", "50"],
    ["judge", "{}.mcap", "--every", "50", "--out", "{}.judged"],
)


def opened_by_every_tool(log: Path, caplog: pytest.LogCaptureFixture) -> list[list[str]]:
    """Check that every tool reads a log. Return what each logs. The tools get copies: what is said of a log is said once."""
    said = []
    for k, command in enumerate(TOOLS):
        copy = log.with_name(f"tool {k}")
        shutil.copy(log, f"{copy}.mcap")
        caplog.clear()
        assert main([word.replace("{}", str(copy)) for word in command]) != 2, command
        said.append([record.getMessage() for record in caplog.records])
    return said
