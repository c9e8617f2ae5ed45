"""From arrays that come from outside to a `Dynamics`: checked, copied, and the Jacobians made of them."""

from idyn.contact.ground import in_contact_rows
from idyn.jit.compiled import compiled
from idyn.model.closures import closure_rows
from idyn.solvers.linalg import copy, copy_rows
from idyn.terms.inputs import contact_flaw, finite, of_unit_length


@compiled
def fill(d, motion, bodies, frames, reals, last):
    """Copies the state, what Pinocchio made of it, and the contacts; fills J and p⁻ from the last tick's forces [N] (n, 3),
    which count for nothing when they are no numbers. Whether all else is sound.

    motion: q, v, applied (nv) or NOTHING; bodies: bodies, others; frames: points, normals, tangents; reals: mu, gaps
    last: (n, 3) or NO_FORCES
    """
    q, v, applied = motion
    n, nv = len(d.mu), len(d.v)
    shaped = (
        len(q) == d.nq
        and len(v) == nv
        and (len(applied) == 0 or len(applied) == nv)
        and (len(last) == 0 or last.shape == (n, 3))
    )
    for rows in bodies:
        shaped = shaped and len(rows) == n
    for vectors in frames:
        shaped = shaped and vectors.shape == (n, 3)
    for numbers in reals:
        shaped = shaped and len(numbers) == n
    if not (shaped and finite(q) and finite(v) and finite(applied) and of_unit_length(q, d.unit_spans)):
        return False
    copy(v, d.v)
    copy(d.own_h, d.h)
    copy_rows(d.own_M, d.M)
    copy_rows(d.own_axes, d.axes)
    for j in range(len(applied)):
        d.h[j] -= applied[j]
    copy(bodies[0], d.bodies)
    copy(bodies[1], d.others)
    copy_rows(frames[0], d.points)
    copy_rows(frames[1], d.normals)
    copy_rows(frames[2], d.tangents)
    copy(reals[0], d.mu)
    copy(reals[1], d.gaps)
    flaw, _ = contact_flaw(d, len(d.parents))
    if flaw != 0:
        return False
    _jacobian(d)
    closure_rows(d)
    recall(d, last)
    return True


@compiled
def recall(d, last):
    """p⁻ from the last tick's forces, as in `fill`, in a record that is filled."""
    in_contact_rows(last, d.tangents, d.normals, d.dt, d.last)
    if len(last) == 0 or not finite(d.last):
        d.last[:] = 0.0


@compiled
def _jacobian(d):
    """Rows s, t, n of the velocity v_O + ω × x that each degree of freedom gives to the contact point x."""
    J, axes, support = d.J, d.axes, d.support
    for i in range(len(d.gaps)):
        s, n, x, body, other = d.tangents[i], d.normals[i], d.points[i], support[d.bodies[i]], support[d.others[i]]
        t0, t1, t2 = n[1] * s[2] - n[2] * s[1], n[2] * s[0] - n[0] * s[2], n[0] * s[1] - n[1] * s[0]
        for j in range(len(axes)):
            if body[j] == other[j]:
                J[3 * i, j] = J[3 * i + 1, j] = J[3 * i + 2, j] = 0.0
                continue
            e, sign = axes[j], 1.0 if body[j] else -1.0
            v0 = sign * (e[0] + e[4] * x[2] - e[5] * x[1])
            v1 = sign * (e[1] + e[5] * x[0] - e[3] * x[2])
            v2 = sign * (e[2] + e[3] * x[1] - e[4] * x[0])
            J[3 * i, j] = s[0] * v0 + s[1] * v1 + s[2] * v2
            J[3 * i + 1, j] = t0 * v0 + t1 * v1 + t2 * v2
            J[3 * i + 2, j] = n[0] * v0 + n[1] * v1 + n[2] * v2
