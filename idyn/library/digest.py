"""Digests of the sources that a library is built from: of a file, and of what kernels may use of it."""

import ast
import hashlib
from collections.abc import Iterator

MARKS = ("compiled", "inlined", "entry")


def file_digest(text: bytes) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(text).hexdigest()[:16]


def code_digest(text: str) -> str:
    """Return the digest of what kernels may use of a module: kernels without docstrings, constants, fields of classes."""
    return file_digest("\n".join(map(ast.dump, _used(ast.parse(text)))).encode())


def holds_kernels(text: str) -> bool:
    """Return whether a module holds kernels."""
    return any(map(_is_kernel, ast.parse(text).body))


def _is_kernel(node: ast.stmt) -> bool:
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    names = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    return any(isinstance(name, ast.Name) and name.id in MARKS for name in names)


def _used(module: ast.Module | ast.ClassDef) -> Iterator[ast.stmt]:
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _used(node)
        elif isinstance(node, ast.FunctionDef) and _is_kernel(node):
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
            yield node
