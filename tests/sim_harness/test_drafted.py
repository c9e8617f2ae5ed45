"""The shipped drafts of robots that nobody set up are those of `idyn new`: no gain was changed."""

import tomllib
from pathlib import Path

import pytest

from controllers.config.loading import files
from sim_harness.new.draft import draft
from sim_harness.new.source import find_model, poses_of

DRAFTED = [path for path in files("experiments").values() if path.parent.name == "drafted"]


@pytest.mark.parametrize("path", DRAFTED, ids=lambda path: path.stem)
def test_a_shipped_draft_is_what_new_writes(path):
    model = find_model(tomllib.loads(path.read_text(encoding="utf-8"))["robot"]["urdf"], Path.cwd())
    assert draft(model, poses_of(model)).text == path.read_text(encoding="utf-8")


def test_five_drafts_are_shipped():
    assert sorted(path.stem for path in DRAFTED) == ["anymal-c", "b1", "go1", "hyq", "laikago"]
