"""Stack buffers: a static check of their use in the sources, and their values."""

import ast
from pathlib import Path

import numpy as np
import pytest

from idyn.jit.compiled import compiled
from idyn.jit.stack import SMALL, stack_array

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


@compiled
def quadratic(n, m):
    """Σ i² j, by way of two local arrays."""
    a, B, s = stack_array(n), stack_array((n, m)), 0.0
    for i in range(n):
        a[i] = i
        for j in range(m):
            B[i, j] = i * j
    for i in range(n):
        for j in range(m):
            s += a[i] * B[i, j]
    return s


@compiled
def many_times(times, n, m):
    s = 0.0
    for _ in range(times):
        s += quadratic(n, m)
    return s


@pytest.mark.parametrize("n", [0, 1, 7, SMALL // 8, SMALL // 8 + 1])
def test_small_and_large_local_arrays_hold_their_values(n):
    m = 5
    assert quadratic(n, m) == np.sum(np.arange(n, dtype=float) ** 2) * np.sum(np.arange(m))


def test_the_stack_is_released_after_each_call():
    assert many_times(20_000, 30, 30) == 20_000 * quadratic(30, 30)  # 144 MB if each call kept its own
