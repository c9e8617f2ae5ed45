"""Entries of the C interface: which contact is malformed, and the certificate of a given solution."""

from idyn.certificate.certify import CERTIFIED, Claim, Demanded, Solution, certify
from idyn.contact.ground import Material
from idyn.laws.law import LawData
from idyn.library.kernels import entry, stack_array
from idyn.library.records import Matrix, Vector, written
from idyn.prediction.solve import STATE
from idyn.solvers.linalg import fill
from idyn.terms.inputs import CONTACTS, Arrays, contact_flaw, read_given
from idyn.terms.stages import Given

FLAW = (Given,)
CERTIFY = Given, LawData, STATE, CONTACTS, (Matrix, Vector, Vector, Vector), written((Matrix, Vector))
"""Argument types of the entries."""


@entry(*FLAW)
def flaw_of(given: Given) -> tuple[int, int]:
    """Return the error of the contacts that `read_given` has refused, and its row, see `contact_flaw`."""
    return contact_flaw(given, len(given.model.parents))


@entry(*CERTIFY)
def certify_given(given: Given, law: LawData, state: Arrays, contacts: Arrays, solution: Arrays, out: Arrays) -> int:
    """Certify a solution of an open chain (no closures) by the law's conditions. Return 1 if it is certified, 0 if not, −1 for
    malformed data.

    state: (q, v, applied force, q̈ demanded); contacts: see `CONTACTS`
    solution: (contact forces of the last tick in the world (n, 3), impulses p (3n), v⁺ (nv), τ (na))
    out: (p in the world [N·s] (n, 3), residuals (6) and the change of the demand [rad/s])
    """
    (q, v, applied, asked), (last, p, v_plus, tau), (impulse, figures) = state, solution, out
    given.midway, given.contact_drift = law.midway, given.drift and law.drift
    if not read_given(given, (q, v, applied), contacts, last):
        return -1
    # the motion decides which demand is met
    met, change, a = stack_array(len(asked)), 0.0, given.model.a
    for k in range(len(asked)):
        met[k] = (v_plus[a[k]] - v[a[k]]) / given.dt
        change = max(change, given.dt * abs(met[k] - asked[k]))
    load, moments = stack_array(len(v)), stack_array(len(p))
    fill(load, 0.0)
    fill(moments, 0.0)
    material = Material(law.stiffness, law.dissipation, law.beta, law.sigma, law.touching_only, law.drift)
    claim = Claim(law.conditions, law.directions, law.unlimited, load[:0], 0.0, material, law.soft)
    answer = Solution(p, v_plus, tau, load, moments, load[:0], impulse)
    certify(given, Demanded(asked, met, change), claim, answer, figures[:6])
    figures[6] = change
    for k in range(6):
        if not figures[k] <= CERTIFIED:
            return 0
    return 1
