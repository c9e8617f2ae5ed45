"""The divergent component of motion (DCM, capture point) of a linear inverted pendulum, in the plane.

    ξ = c + ċ/ω,   ω = √(g/h)        c: centre of mass, h: its height above the ground
    ξ̇ = ω (ξ − p),  c̈ = ω² (c − p)    p: centre of pressure

While p moves at a constant rate ṗ for the duration D,

    ξ(0) = p(0) + ṗ/ω + (ξ(D) − p(D) − ṗ/ω) e^{−ωD}

so that a plan of p gives ξ by recursion from its end, where the errors vanish [Englsberger].
"""

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from idyn.types import Array


class Span(NamedTuple):
    """A part of a plan: duration [s], and the centre of pressure at its start and end, between which it moves at a constant
    rate [m] (2)."""

    duration: float
    start: Array
    end: Array


def planned_dcm(spans: Sequence[Span], omega: float) -> Array:
    """Return ξ at the beginning of a plan [m] (2) that ends at rest above the last centre of pressure. omega [1/s]"""
    dcm = spans[-1].end
    for span in reversed(spans):
        if span.duration > 0.0:
            lead = (span.end - span.start) / (span.duration * omega)
            dcm = span.start + lead + (dcm - span.end - lead) * exp(-omega * span.duration)
    return dcm


def nearest_inside(point: Array, corners: Array) -> Array:
    """Return the point of the convex hull of `corners` (n, 2) that is nearest to `point` (2)."""
    hull = _hull(corners)
    if len(hull) == 1:
        return hull[0]
    nearest, least, inside = point, np.inf, len(hull) > 2
    for a, b in zip(hull, np.roll(hull, -1, axis=0), strict=True):
        edge, away = b - a, point - a
        inside = inside and edge[0] * away[1] - edge[1] * away[0] >= 0.0
        foot = a + min(max(float(edge @ away) / float(edge @ edge), 0.0), 1.0) * edge
        distance = float((point - foot) @ (point - foot))
        if distance < least:
            nearest, least = foot, distance
    return point if inside else nearest


def _hull(points: Array) -> Array:
    """Return the corners of the convex hull, counterclockwise (k, 2)."""
    ordered = sorted(set(map(tuple, points.tolist())))
    chains: list[list[tuple[float, float]]] = []
    for way in (ordered, ordered[::-1]):
        chain: list[tuple[float, float]] = []
        for p in way:
            while len(chain) > 1 and _left_turn(chain[-2], chain[-1], p) <= 0.0:
                chain.pop()
            chain.append(p)
        chains.append(chain[:-1])
    return np.array(chains[0] + chains[1] or ordered)


def _left_turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
