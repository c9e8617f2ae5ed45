"""The tutorials work as they are written: files, commands and outputs. `python tests/tutorials.py` writes the outputs anew."""

import pytest
from fast import every_row, full
from tutorials import TUTORIALS, agrees, outputs


@full
@pytest.mark.parametrize("document", TUTORIALS)
def test_a_tutorial_works_and_prints_what_it_shows(document, tmp_path):
    for block, printed in outputs(document, tmp_path):
        assert agrees(block.text, printed), f"{block}: shown\n{block.text}\nprinted\n{printed}"


@every_row(
    ("force 10.0 N", "force  10.3 N\n", True),
    ("force 10.0 N", "force 11.0 N", False),
    ("force 10.0 N", "force 10.0 m", False),
    ("error 0.1", "error 0.2", True),
    ("error 1e-9", "error 3e-9", False),
    ("a\n…\nd", "a\nb\nc\nd", True),
    ("a\n…\nd", "a\nb\nc", False),
    ("…\nc", "a\nb\nc", True),
    ("a\n…", "b\na", False),
    ("a\n…", "a\nb", True),
)
def test_outputs_are_compared_by_words_and_numbers(shown, printed, same):
    assert agrees(shown, printed) == same
