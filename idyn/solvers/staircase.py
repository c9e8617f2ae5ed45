"""The smallest errors within the limits: level by level, the least ‖e_l‖ with N e ≥ c.

Dual active set [Goldfarb & Idnani 1983] with strict levels. The active rows are kept as a staircase: each is orthogonalised,
from the lowest level up, against the rows before it that ended there, and ends at the first level where a part of its own
remains; below it the row is zero. So a limit disturbs the lowest level that can give way. B = C N are the rows of the
staircase, of unit length in their level:

    e_l = Σ β_k B_kl,   β_k = C_k c − B_k,above · e_above      λ^l = Σ β_k C_k      over the rows k that end at level l

A limit is active if its first multiplier, from the highest level down, is positive. Above all levels stands one of slacks, one
for each row: limits that nothing meets together give way there by the least sum of squares.
"""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, stack_array
from idyn.solvers.linalg import axpy, copy, dot, fill, long_dot, magnitude
from idyn.solvers.pool import Pool, indices, matrix, vector, zero_matrix, zeros
from idyn.types import Array

INDEPENDENT = 1e-9
"""Share of its part in a level below which what remains of a row is rounding."""

CANCELS = 1e-3
"""Share below which so much of a row cancels that it is orthogonalised anew rather than rotated."""

SOFT, STEP = 1e-4, 10.0
"""Where the turns do not suffice, as limits nearly contradict each other, all levels are one: cost of the first one's errors
relative to that of slacks, and the ratio of the units of neighbouring levels."""

ROUNDING = 1e-12
"""Share of its terms below which a sum is zero."""

DEPENDENT = 1e-10
"""Share of a row below which another one does not contain it."""


class Active(NamedTuple):
    """Active limits: Q rows at most, the first `size[0]` in use."""

    soft: Array  # 0; or `SOFT` where all levels are one, in one element
    stretch: Array  # units of the errors (D)
    ends: Array  # of the errors of each level (T)
    numbers: Array  # of the limits (Q)
    size: Array  # number of rows in use, one element
    N: Array  # rows on the errors, of unit length on the coordinates (Q, D)
    sizes: Array  # squared lengths of the terms of N in each level, before they cancel (Q, T)
    c: Array  # (Q)
    B: Array  # staircase (Q, D)
    C: Array  # (Q, Q)
    level: Array  # where a row ends, −1: slacks (Q)
    beta: Array  # β (Q)
    e: Array  # errors (D)
    missed: Array  # slacks (Q)
    multipliers: Array  # of the slacks and of each level (1 + T, Q)


@compiled
def join(s: Active, q: int) -> float:
    """Orthogonalise row q against those before it and set where it ends. Return the squared length of its part there."""
    b, coefficients, soft = s.B[q], s.C[q, : q + 1], s.soft[0]
    copy(s.N[q], b)
    fill(coefficients, 0.0)
    coefficients[q] = 1.0
    for level in range(len(s.ends) - 1, -1, -1):
        first, last = s.ends[level - 1] if level > 0 else 0, s.ends[level]
        whole, square = dot(b[first:last], b[first:last]), 0.0
        for _ in range(2):  # once more where much cancels
            for k in range(q):
                if s.level[k] == level:
                    part = long_dot(b[first:last], s.B[k, first:last])
                    if soft > 0.0:
                        part += soft * dot(coefficients[: k + 1], s.C[k, : k + 1])
                    axpy(-part, s.B[k, :last], b[:last])
                    axpy(-part, s.C[k, : k + 1], coefficients[: k + 1])
            square = dot(b[first:last], b[first:last])
            if soft > 0.0:
                square += soft * dot(coefficients, coefficients)
            if square > 0.25 * max(whole, s.sizes[q, level]):
                break
        if square > INDEPENDENT * INDEPENDENT * max(whole, s.sizes[q, level]):
            _scale_row(s, q, level, square)
            return square
        fill(b[first:last], 0.0)
    for _ in range(2):
        for k in range(q):
            if s.level[k] < 0:
                axpy(-dot(coefficients[: k + 1], s.C[k, : k + 1]), s.C[k, : k + 1], coefficients[: k + 1])
    square = dot(coefficients, coefficients)
    _scale_row(s, q, -1, square)
    return square


@compiled
def _scale_row(s: Active, q: int, level: int, square: float) -> None:
    share = 1.0 / np.sqrt(square)
    for i in range(s.B.shape[1]):
        s.B[q, i] *= share
    for k in range(q + 1):
        s.C[q, k] *= share
    s.level[q] = level


@compiled
def _settle(s: Active) -> None:
    """Fill errors, slacks and multipliers of the active rows as equations; once more for what rounding left of these."""
    q, rest = s.size[0], stack_array(len(s.c))
    copy(s.c, rest)
    fill(s.e, 0.0)
    fill(s.missed, 0.0)
    for level in range(len(s.multipliers)):
        fill(s.multipliers[level], 0.0)
    for _ in range(2):
        _correct(s, rest)
        left, largest = 0.0, 0.0
        for k in range(q):
            rest[k] = s.c[k] - long_dot(s.N[k], s.e) - s.missed[k]
            left, largest = max(left, abs(rest[k])), max(largest, abs(s.c[k]))
        if left <= ROUNDING * largest:
            break


@compiled
def _correct(s: Active, rest: Array) -> None:
    """Add to errors, slacks and multipliers what the rest of the equations asks for. rest: c − N e − slacks (Q)"""
    q, e, missed = s.size[0], stack_array(len(s.e)), stack_array(len(s.missed))
    fill(e, 0.0)
    fill(missed, 0.0)
    for level in range(-1, len(s.ends)):
        first, last = s.ends[level - 1] if level > 0 else 0, s.ends[level] if level >= 0 else 0
        for k in range(q):
            if s.level[k] != level:
                continue
            value, size = _sum(s.B[k, :first], e[:first])
            for j in range(k + 1):
                value += s.C[k, j] * (rest[j] - (missed[j] if level >= 0 else 0.0))
                size += abs(s.C[k, j] * rest[j])
            s.beta[k] = value if abs(value) > ROUNDING * size else 0.0
            axpy(s.beta[k], s.C[k, : k + 1], s.multipliers[level + 1, : k + 1])
        for k in range(q):
            if s.level[k] == level and level >= 0:
                axpy(s.beta[k], s.B[k, first:last], e[first:last])
            elif s.level[k] == level:
                axpy(s.beta[k], s.C[k, : k + 1], missed[: k + 1])
    for k in range(q if s.soft[0] > 0.0 else 0):
        axpy(s.soft[0] * s.beta[k], s.C[k, : k + 1], missed[: k + 1])
    axpy(1.0, e, s.e)
    axpy(1.0, missed, s.missed)


@compiled
def _sum(b: Array, e: Array) -> tuple[float, float]:
    """Return −b · e, and the sum of the sizes of its terms; by two sums side by side, see `long_dot`."""
    value, size, other, others, half = 0.0, 0.0, 0.0, 0.0, len(b) // 2
    for i in range(half):
        one, two = b[i] * e[i], b[half + i] * e[half + i]
        value, size, other, others = value - one, size + abs(one), other - two, others + abs(two)
    last = b[2 * half] * e[2 * half] if 2 * half < len(b) else 0.0
    return value + other - last, size + others + abs(last)


@compiled
def _leave(s: Active, k: int) -> None:
    """Remove row k. Rows behind it that contain it are freed of it one by one by what is left of it, (b, c): those of its level
    by a rotation; a row that ends above takes its place, and is what is left from there on."""
    q, level, b, c = s.size[0] - 1, s.level[k], stack_array(s.B.shape[1]), stack_array(len(s.c))
    fill(c, 0.0)
    copy(s.B[k], b)
    copy(s.C[k, : k + 1], c[: k + 1])
    sound = True
    for j in range(k + 1, q + 1):
        part, own = s.C[j, k], s.C[j, : j + 1]
        if part == 0.0:
            continue
        if s.level[j] > level:
            axpy(-part / c[k], b, s.B[j])
            axpy(-part / c[k], c[: j + 1], own)
        elif s.level[j] == level:
            length = np.sqrt(c[k] * c[k] + part * part)
            _combine(b, s.B[j], c[k] / length, part / length)
            _combine(c[: j + 1], own, c[k] / length, part / length)
        else:
            square = part / (c[k] * own[j])
            sound = sound and square * square > CANCELS * CANCELS * s.sizes[j, level]
            factor = c[k] / part
            for i in range(len(b)):
                b[i], s.B[j, i] = s.B[j, i], b[i] - factor * s.B[j, i]
            for i in range(j + 1):
                c[i], own[i] = own[i], c[i] - factor * own[i]
            level, s.level[j] = s.level[j], level
    s.size[0] = q
    for row in range(k, q):
        s.numbers[row], s.c[row], s.level[row] = s.numbers[row + 1], s.c[row + 1], s.level[row + 1]
        copy(s.N[row + 1], s.N[row])
        copy(s.sizes[row + 1], s.sizes[row])
        copy(s.B[row + 1], s.B[row])
        copy(s.C[row + 1, :k], s.C[row, :k])
        copy(s.C[row + 1, k + 1 : row + 2], s.C[row, k : row + 1])
    for row in range(q if sound else k, q):
        join(s, row)


@compiled
def _combine(b: Array, row: Array, x: float, y: float) -> None:
    """Rotate: b ← x b + y row, row ← x row − y b."""
    for i in range(len(b)):
        b[i], row[i] = x * b[i] + y * row[i], x * row[i] - y * b[i]


@compiled
def restore(s: Active) -> int:
    """Remove rows whose first multiplier is negative, and settle. Return how many left."""
    left = 0
    while True:
        _settle(s)
        worst = -1
        for level in range(len(s.multipliers)):
            least, largest = 0.0, magnitude(s.multipliers[level, : s.size[0]])
            for k in range(s.size[0]):
                value = s.multipliers[level, k]
                if value < min(least, -ROUNDING * largest) and _is_first(s, level, k):
                    worst, least = k, value
            if worst >= 0:
                break
        if worst < 0:
            return left
        _leave(s, worst)
        left += 1


@compiled
def _is_first(s: Active, level: int, k: int) -> bool:
    """Return whether the multipliers of row k are zero above a level."""
    first = True
    for above in range(level):
        first = first and not abs(s.multipliers[above, k]) > ROUNDING * magnitude(s.multipliers[above, : s.size[0]])
    return first


@compiled
def admit(s: Active, violation: float) -> int:
    """Let row `size` join; rows whose multiplier would fall below zero first leave before. violation: c − N e. Return how many
    left."""
    left = 0
    while True:
        q = s.size[0]
        square = join(s, q)
        level, length, blocking = s.level[q], np.sqrt(square), -1
        for k in range(q):
            if (
                -s.C[q, k] * length > DEPENDENT
                and _is_first(s, level + 1, k)
                and (blocking < 0 or _sooner(s, level + 1, k, blocking))
            ):
                blocking = k
        ratio = max(s.multipliers[level + 1, blocking], 0.0) / (-s.C[q, blocking] * length) if blocking >= 0 else np.inf
        if blocking < 0 or not ratio * square < violation:  # true of what is not finite, too
            s.size[0] = q + 1
            return left
        violation -= ratio * square
        for k in range(q):
            s.multipliers[level + 1, k] += ratio * s.C[q, k] * length
        for row in range(len(s.multipliers)):
            for k in range(blocking, q - 1):
                s.multipliers[row, k] = s.multipliers[row, k + 1]
        # the new row moves down with those behind the one that leaves
        s.size[0] = q + 1
        _leave(s, blocking)
        s.size[0] = q - 1
        left += 1


@compiled
def _sooner(s: Active, first: int, k: int, other: int) -> bool:
    """Return whether the multipliers of row k reach zero before those of another one: compared from row `first` on, as the new
    row joins."""
    q = s.size[0]
    for row in range(first, len(s.multipliers)):
        one, two = s.multipliers[row, k] / -s.C[q, k], s.multipliers[row, other] / -s.C[q, other]
        if abs(one - two) > ROUNDING * max(abs(one), abs(two)):
            return one < two
    return False


@compiled
def no_rows(pool: Pool, D: int, ends: Array, most: int, soft: float) -> Active:
    """Return memory for active limits. most: Q; soft: 0, or `SOFT`, for which all levels become one"""
    stretch, one, size, softness = vector(pool, D), indices(pool, 1), indices(pool, 1), vector(pool, 1)
    fill(stretch, 1.0)
    one[0], size[0], softness[0] = D, 0, soft
    if soft > 0.0:
        for j in range(D):
            for end in ends[:-1]:
                stretch[j] *= STEP if j >= end else 1.0
        ends = one
    T = len(ends)
    return Active(
        softness,
        stretch,
        ends,
        indices(pool, most),
        size,
        matrix(pool, most, D),
        matrix(pool, most, T),
        vector(pool, most),
        matrix(pool, most, D),
        zero_matrix(pool, most, most),
        indices(pool, most),
        vector(pool, most),
        zeros(pool, D),
        zeros(pool, most),
        zero_matrix(pool, 1 + T, most),
    )
