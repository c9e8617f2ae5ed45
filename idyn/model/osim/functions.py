"""Functions of one coordinate, as the axes of OpenSim's joints and its couplers use them: value, slope and curvature."""

from collections.abc import Callable
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.linalg import solve_banded

from idyn.model.osim.document import Document
from idyn.types import Array

SPLINES = ("SimmSpline", "NaturalCubicSpline", "natCubicSpline")
"""Cubic splines through points; the other names are older ones of the first."""

TAGS = (*SPLINES, "Constant", "LinearFunction", "PolynomialFunction", "MultiplierFunction")
"""Functions that are read."""


class Function(NamedTuple):
    """A function f of a coordinate c. jet: c (n) → f, f′, f″, each (n); constant: f where it does not depend on c"""

    jet: Callable[[Array], tuple[Array, Array, Array]]
    constant: float | None = None
    identity: bool = False


def constant(value: float) -> Function:
    """Return the function f(c) = value."""
    return Function(lambda c: (np.full_like(c, value), np.zeros_like(c), np.zeros_like(c)), value)


def polynomial(coefficients: Array) -> Function:
    """Return a polynomial. coefficients: highest power first."""
    first, second = np.polyder(coefficients), np.polyder(coefficients, 2)
    identity = [*np.trim_zeros(coefficients, "f")] == [1.0, 0.0]
    if len(np.trim_zeros(coefficients[:-1])) == 0:
        return constant(float(coefficients[-1]))
    return Function(
        lambda c: (np.polyval(coefficients, c), np.polyval(first, c), np.polyval(second, c)),
        identity=identity,
    )


def simm_spline(x: Array, y: Array) -> Function:
    """Return the cubic spline through points as OpenSim's SimmSpline has it, continued by straight lines.

    At both ends its third derivative is that of the cubic through the four points there [Forsythe, ch. 4]; three points
    make a parabola, two a line. A natural spline differs by 1 mm beside a knee. x: increasing (n), n ≥ 2
    """
    spline = CubicHermiteSpline(x, y, _simm_slopes(x, y))

    def jet(c: Array) -> tuple[Array, Array, Array]:
        inside = np.clip(c, x[0], x[-1])
        slope = spline(inside, 1)
        return spline(inside) + slope * (c - inside), slope, np.where(c == inside, spline(inside, 2), 0.0)

    return Function(jet)


def _simm_slopes(x: Array, y: Array) -> Array:
    """Return the slopes of a SimmSpline at its points (n), from its curvatures m, which are continuous."""
    n, h = len(x), np.diff(x)
    chord, m = np.diff(y) / h, np.zeros(n)
    if n > 2:
        rows, b = np.zeros((3, n)), np.zeros(n)  # diagonals above, on and below the main one
        rows[0, 2:], rows[1, 1:-1], rows[2, :-2] = h[1:], 2.0 * (h[:-1] + h[1:]), h[:-1]
        rows[0, 1], rows[1, 0], rows[1, -1], rows[2, -2] = 1.0, -1.0, 1.0, -1.0
        b[1:-1] = 6.0 * np.diff(chord)
        for end, k in ((0, 0), (-1, n - 4)) if n > 3 else ():
            second = np.diff(chord[k : k + 3]) / (x[k + 2 : k + 4] - x[k : k + 2])
            b[end] = 6.0 * h[end] * (second[1] - second[0]) / (x[k + 3] - x[k])
        m = solve_banded((1, 1), rows, b)
    return np.append(chord - h * (2.0 * m[:-1] + m[1:]) / 6.0, chord[-1] + h[-1] * (m[-2] + 2.0 * m[-1]) / 6.0)


def scaled(function: Function, scale: float) -> Function:
    """Return scale · f."""
    if function.constant is not None or scale == 0.0:
        return constant(scale * (function.constant or 0.0))
    jet = function.jet
    return Function(lambda c: tuple(scale * part for part in jet(c)), identity=function.identity and scale == 1.0)  # type: ignore[arg-type, return-value]


def composed(outer: Function, inner: Function) -> Function:
    """Return outer(inner(c)), by the chain rule."""
    if outer.constant is not None or inner.identity:
        return outer
    if inner.constant is not None:
        return constant(float(outer.jet(np.array([inner.constant]))[0][0]))

    def jet(c: Array) -> tuple[Array, Array, Array]:
        x, x1, x2 = inner.jet(c)
        f, f1, f2 = outer.jet(x)
        return f, f1 * x1, f2 * x1**2 + f1 * x2

    return Function(jet, identity=outer.identity and inner.identity)


def read_function(document: Document, parent: Element, label: str) -> Function:
    """Return the only function among the children of an element. label: of the function, for messages

    Raises ModelError for functions of several coordinates and of other kinds.
    """
    found = [child for child in parent if child.tag in TAGS or child.tag.endswith(("Function", "Spline"))]
    if len(found) != 1:
        document.fail(parent, f"expected one {label}, got {len(found)}")
    element = found[0]
    if element.tag == "Constant":
        return constant(document.number(element, "value"))
    if element.tag == "LinearFunction":
        return polynomial(document.numbers(element, "coefficients", 2))
    if element.tag == "PolynomialFunction":
        return polynomial(document.numbers(element, "coefficients"))
    if element.tag in SPLINES:
        return _read_spline(document, element)
    if element.tag == "MultiplierFunction":
        inner = document.child(element, "function")
        return scaled(read_function(document, inner, "function"), document.number(element, "scale"))
    document.fail(element, f"expected a function of the kinds {', '.join(TAGS)}")


def _read_spline(document: Document, element: Element) -> Function:
    x, y = document.numbers(element, "x"), document.numbers(element, "y")
    if len(x) != len(y) or len(x) < 2:
        document.fail(element, f"expected as many x as y, at least 2, got {len(x)} and {len(y)}")
    if not (np.diff(x) > 0).all():
        document.fail(element, "expected increasing x")
    return simm_spline(x, y)
