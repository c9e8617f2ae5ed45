"""Complementarity as roots of functions, and the compliance W of friction  [Macklin §4, App. A].

Fischer–Burmeister φ = a + r p − √(a² + r² p²), minimum map φ = min(a, r p):
    φ(a, r p) = 0   ⟺   0 ≤ a ⟂ p ≥ 0         any r > 0, here in (m/s)/(N·s), a speed and an impulse
    v_T + W p_T = 0   ⟺   friction of v_T, where W(‖v_T‖, ‖p_T‖, μ p_N) has come to rest
Different from the paper: differences of nearly equal numbers are written as quotients; at a = p = 0 β is r, not 1; the first
term below the fraction of (102) and (104) is ‖v_T‖, not its square; W of Fischer–Burmeister is kept below 10⁹ times its scale,
where the paper's changes its sign (friction twice the cone).
"""

import numpy as np

from idyn.jit.compiled import compiled

FISCHER_BURMEISTER, MINIMUM_MAP = 0, 1

LEAST = 1e-9
"""Share of r μ p_N below which W's denominator is not let fall."""

TINY = 1e-300
"""Both arguments are 0."""


@compiled
def complementarity(function: int, a: float, p: float, r: float) -> tuple[float, float, float]:
    """φ(a, r p), ∂φ/∂a and ∂φ/∂p."""
    b = r * p
    if function == MINIMUM_MAP:
        return (a, 1.0, 0.0) if a <= b else (b, 0.0, r)
    s = np.hypot(a, b)
    if s <= TINY:
        return 0.0, 0.0, r
    phi = 2.0 * a * b / (a + b + s) if a + b > 0.0 else a + b - s
    alpha = b * b / (s * (s + a)) if a > 0.0 else 1.0 - a / s
    beta = a * a / (s * (s + b)) if b > 0.0 else 1.0 - b / s
    return phi, alpha, r * beta


@compiled
def friction_compliance(function: int, speed: float, impulse: float, bound: float, r: float) -> float:
    """W ≥ 0 [(m/s)/(N·s)] of a contact that presses.

    speed: ‖v_T‖ [m/s]; impulse: ‖p_T‖; bound: μ p_N > 0, may be inf [N·s]; r [(m/s)/(N·s)]
    """
    if bound == np.inf:
        return 0.0
    slack = r * (bound - impulse)
    if function == MINIMUM_MAP:
        return 0.0 if speed <= slack else (speed - slack) / bound
    root = np.hypot(speed, slack)
    above = speed * speed / (root + slack) if slack > 0.0 else root - slack
    if above <= 1e-15 * (root + abs(slack)):
        return 0.0
    return r * above / max(speed + r * bound - root, LEAST * r * bound)
