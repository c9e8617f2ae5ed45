"""Digests of the sources that a library is built from: of a file, and of what kernels may use of it."""

import ast
import hashlib

MARKS = ("compiled", "inlined", "entry")


def file_digest(text: bytes) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(text).hexdigest()[:16]


def code_digest(text: str) -> str:
    """Return the digest of what kernels may use of a module: kernels without docstrings, constants, fields of classes."""
    module, kept = ast.parse(text), (ast.Assign, ast.AnnAssign, ast.ClassDef)
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef):
            node.body = [each for each in node.body if isinstance(each, kept) or is_kernel(each)]
        elif isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return file_digest(ast.dump(module).encode())


def is_kernel(node: ast.stmt) -> bool:
    """Return whether a statement defines a kernel."""
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    names = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    return any(isinstance(name, ast.Name) and name.id in MARKS for name in names)
