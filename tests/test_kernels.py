"""What kernels may contain: they are compiled into a library without BLAS, LAPACK and Python's text formatting."""

import ast
from collections.abc import Iterator

from test_import_order import PACKAGES, ROOT

KERNEL = {"compiled", "inlined"}  # decorators
BLAS = {"dot", "vdot", "inner", "outer", "matmul", "linalg"}  # attributes


def kernels(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and KERNEL & {
            each.id for each in node.decorator_list if isinstance(each, ast.Name)
        }:
            yield node


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """The places that a node assigns to, of tuples each one."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]


def is_slice(target: ast.expr) -> bool:
    if not isinstance(target, ast.Subscript):
        return False
    indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return any(isinstance(each, ast.Slice) for each in indices)


def refused(kernel: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """The line and the reason of each construct that a kernel must not contain."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "`@` calls BLAS: use `apply` or `product`"
        elif isinstance(node, ast.Attribute) and node.attr in BLAS:
            yield node.lineno, f"`{node.attr}` calls BLAS or LAPACK: use `idyn.solvers.linalg`"
        elif any(map(is_slice, targets(node))):
            yield node.lineno, "an assignment to a slice formats an error message: use `copy` or `fill`"


def test_kernels_call_no_blas_and_assign_to_no_slices():
    found, bad = 0, []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if "studies" in path.parts:
            continue
        for kernel in kernels(ast.parse(path.read_text(encoding="utf-8"))):
            found += 1
            bad += [f"{path.relative_to(ROOT)}:{line}: {kernel.name}: {why}" for line, why in refused(kernel)]
    assert found > 500
    assert not bad, "\n".join(bad)


def test_each_refused_construct_is_found():
    source = """
@compiled
def kernel(a, b):
    c = a @ b
    c @= b
    c = np.dot(a, b) + a.dot(b)
    c = np.linalg.norm(a)
    a[:] = b
    a[1:3], d = b, 0.0
    a[:, 0] += b
    a[0], a[1, 2] = b[:2]
"""
    (kernel,) = kernels(ast.parse(source))
    assert sorted({line for line, _ in refused(kernel)}) == [4, 5, 6, 7, 8, 9, 10]
