"""The validate stage: checks the inputs and copies them into a `Given`."""

import numpy as np

from idyn.contact.ground import in_contact_rows
from idyn.jit.compiled import INDICES, MATRIX, VECTOR, compiled
from idyn.jit.entry import Borrowed
from idyn.jit.stack import stack_array
from idyn.solvers.vectors import copy, copy_rows, fill
from idyn.terms.inputs import contact_flaw, finite, of_unit_length
from idyn.terms.stages import Given
from idyn.types import Array

Arrays = tuple[Array, ...]

CONTACTS = Borrowed(INDICES, INDICES, MATRIX, MATRIX, MATRIX, VECTOR, VECTOR, VECTOR)
"""Argument types of the arrays of a `ContactSet`, in the order of its fields."""


@compiled
def read_given(given: Given, state: Arrays, contacts: Arrays, last: Array) -> bool:
    """Fill a `Given` from the state, Pinocchio's terms and the contacts. Return whether all inputs are valid;
    `idyn.terms.inputs.check` then finds the invalid field.

    state: (q (nq), v (nv), applied force (nv) or an empty array); contacts: see `CONTACTS`
    last: contact forces of the last tick in the world [N] (n, 3), or an empty array (0, 3)
    """
    # check shapes, finite values and unit quaternions
    (q, v, applied), (bodies, others, points, normals, tangents, mu, gaps, radii) = state, contacts
    n, nv = len(given.mu), len(given.v)
    shaped = (
        len(q) == given.model.nq
        and len(v) == nv
        and (len(applied) == 0 or len(applied) == nv)
        and (len(last) == 0 or last.shape == (n, 3))
        and len(bodies) == n
        and len(others) == n
        and points.shape == (n, 3)
        and normals.shape == (n, 3)
        and tangents.shape == (n, 3)
        and len(mu) == n
        and len(gaps) == n
        and len(radii) == n
    )
    if not (shaped and finite(q) and finite(v) and finite(applied) and of_unit_length(q, given.model.unit_spans)):
        return False
    # state and Pinocchio's terms; h minus the applied force
    copy(q, given.q)
    copy(v, given.v)
    copy(given.own_h, given.h)
    copy_rows(given.own_M, given.M)
    copy_rows(given.own_axes, given.axes)
    for k in range(len(given.ends)):
        copy_rows(given.own_ends[k], given.ends[k])
    for j in range(len(applied)):
        given.h[j] -= applied[j]
    # contacts
    copy(bodies, given.bodies)
    copy(others, given.others)
    copy_rows(points, given.points)
    copy_rows(normals, given.normals)
    copy_rows(tangents, given.tangents)
    copy(mu, given.mu)
    copy(gaps, given.gaps)
    copy(radii, given.radii)
    flaw, _ = contact_flaw(given, len(given.model.parents))
    if flaw != 0:
        return False
    for i in range(n):
        for c in range(3):
            given.points[i, c] -= given.own_origin[c]
            if given.midway:
                given.points[i, c] -= 0.5 * gaps[i] * normals[i, c]
    recall(given, last)
    given.dependent = given.contact_drift and _may_depend(given)
    return True


@compiled
def _may_depend(g: Given) -> bool:
    """Return whether contact rows may depend on each other: unless each body touches the ground by at most as many rows as it
    has degrees of freedom of its own, those that move no other body with a contact. Three points of a body count as six rows.
    """
    if len(g.ends) > 0:
        return True
    n, bodies, support, spare = len(g.mu), g.bodies, g.model.support, stack_array(len(g.model.parents), np.int64)
    for i in range(n):
        spare[bodies[i]] = 0
        if g.others[i] != 0:
            return True
    for j in range(len(g.v)):
        owner = -1
        for i in range(n):
            if support[bodies[i], j] and owner != bodies[i]:
                if owner >= 0:
                    owner = -1
                    break
                owner = bodies[i]
        if owner >= 0:
            spare[owner] += 1
    for i in range(n):
        points = 0
        for k in range(n):
            points += bodies[k] == bodies[i]
        if spare[bodies[i]] < min(3 * points, 6):
            return True
    return False


@compiled
def recall(given: Given, last: Array) -> None:
    """Fill p⁻ from the contact forces of the last tick in the world [N] (n, 3); zero if `last` is empty (0, 3) or contains NaN
    or infinite values."""
    in_contact_rows(last, given.tangents, given.normals, given.dt, given.last)
    if len(last) == 0 or not finite(given.last):
        fill(given.last, 0.0)


@compiled
def limit_friction(given: Given, most: float) -> None:
    """Reduce friction coefficients above `most` to it."""
    for i in range(len(given.mu)):
        given.mu[i] = min(given.mu[i], most)
