"""Digests of the sources that a library is built from: of a file, and of what kernels may use of it."""

import ast
import hashlib
import re


def digest(data: bytes) -> str:
    """Return the digest of bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def code_digest(text: str) -> str:
    """Return the digest of what kernels may use of a module: kernels without docstrings, constants, fields of classes."""
    module, kept = ast.parse(text), (ast.Assign, ast.AnnAssign, ast.ClassDef)
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef):
            node.body = [each for each in node.body if isinstance(each, kept) or is_kernel(each)]
        elif isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return digest(ast.dump(module).encode())


def is_kernel(node: ast.stmt) -> bool:
    """Return whether a statement defines a kernel."""
    marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", [])]
    return any(re.match(r"(compiled|entry)\b", mark) for mark in marks)
