"""Stack buffers: a static check of their use in the sources."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("idyn", "controllers", "transport", "sim_harness")
SOURCES = [p for name in PACKAGES for p in sorted((ROOT / name).rglob("*.py")) if "stack_array(" in p.read_text("utf-8")]


def is_local(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "stack_array"


def misuses(source):
    """Names of functions that return a local array, or make one in a loop."""
    found = set()
    for function in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)):
        names = set()
        for node in ast.walk(function):
            if isinstance(node, ast.For | ast.While) and any(map(is_local, ast.walk(node))):
                found.add(function.name)
            if isinstance(node, ast.Assign):
                for target, value in pairs(node.targets[0], node.value):
                    if is_local(value) or (isinstance(value, ast.Name | ast.Subscript) and root(value) in names):
                        names.add(target)
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                if any(root(part) in names or is_local(part) for part in parts):
                    found.add(function.name)
    return found


def pairs(target, value):
    """Pairs of a name and the value bound to it."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [pair for each, part in zip(target.elts, value.elts, strict=True) for pair in pairs(each, part)]
    return [(target.id, value)] if isinstance(target, ast.Name) else []


def root(node):
    """Name of an array, or of the array of a view."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_local_arrays_are_not_returned_or_made_in_loops(path):
    assert not misuses(path.read_text(encoding="utf-8"))


def test_the_check_finds_misuse():
    assert misuses("def f(n):\n    x, y = stack_array(n), 1\n    return x") == {"f"}
    assert misuses("def f(n):\n    x = stack_array(n)\n    y = x[1:]\n    return 0, y") == {"f"}
    assert misuses("def f(n):\n    for i in range(n):\n        x = stack_array(n)\n") == {"f"}
    assert misuses("def f(n):\n    x = stack_array(n)\n    return x[0] + 1.0") == set()
