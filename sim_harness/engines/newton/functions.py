"""Complementarity functions, and the compliance W of friction  [Macklin §4, App. A].

Fischer–Burmeister φ = a + r p − √(a² + r² p²), minimum map φ = min(a, r p):
    φ(a, r p) = 0   ⟺   0 ≤ a ⟂ p ≥ 0         any r > 0, here in (m/s)/(N·s), a speed and an impulse
    v_T + W p_T = 0   ⟺   Coulomb friction, at a fixed point of W(‖v_T‖, ‖p_T‖, μ p_N)
Differences from the paper: differences of nearly equal numbers are written as quotients. At a = p = 0 β is r, not 1. The first
term in the denominator of (102) and (104) is ‖v_T‖, not its square. W of Fischer–Burmeister is limited to 10⁹ times its scale;
the paper's formula changes sign there (friction of twice the cone).
"""

import numpy as np

from idyn.jit.compiled import compiled

FISCHER_BURMEISTER, MINIMUM_MAP = 0, 1

LEAST = 1e-9
"""Lower bound of the denominator of W, as a share of r μ p_N."""

TINY = 1e-300
"""Below this √(a² + r² p²) both arguments count as 0."""


@compiled
def complementarity(function: int, a: float, p: float, r: float) -> tuple[float, float, float]:
    """Return φ(a, r p), ∂φ/∂a and ∂φ/∂p."""
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
    """Return W ≥ 0 of a pressing contact [(m/s)/(N·s)].

    speed: ‖v_T‖ [m/s]
    impulse: ‖p_T‖ [N·s]
    bound: μ p_N > 0, may be inf [N·s]
    r: scale of impulses [(m/s)/(N·s)]
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
