"""What `from idyn import …` offers."""

import ast
from pathlib import Path

import pytest

import idyn


@pytest.mark.parametrize("name", idyn.__all__)
def test_public_names_are_there_and_say_what_they_are(name):
    thing = getattr(idyn, name)
    assert name in dir(idyn)
    assert name in {"__version__", "LAWS"} or thing.__doc__


def test_type_checkers_are_told_of_the_same_names():
    tree = ast.parse(Path(idyn.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == set(idyn.__all__) - {"__version__"}


def test_an_unknown_name_is_refused_with_those_that_there_are():
    with pytest.raises(AttributeError, match="make_law"):
        idyn.no_such_thing  # noqa: B018
