"""How a solve ended: never an exception on data, always a sentence an operator can act on; and what an answer claims."""

from enum import IntEnum


class Status(IntEnum):
    """Outcome of a solver or of a whole prediction. The integer is what compiled kernels return."""

    SOLVED = 0
    RAY = 1
    PIVOT_LIMIT = 2
    CYCLE = 3
    SINGULAR = 4
    NOT_CERTIFIED = 5
    BACKEND_FAILED = 6
    NON_FINITE = 7
    TOO_MANY_CONTACTS = 8
    OTHER_LAW = 9

    @property
    def ok(self) -> bool:
        """The law asked for solved it."""
        return self is Status.SOLVED

    @property
    def certified(self) -> bool:
        """Whether the answer may be used: the law's own, or another law's."""
        return self is Status.SOLVED or self is Status.OTHER_LAW

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


STATUSES = tuple(Status)
"""By value: `STATUSES[2]` costs a tenth of `Status(2)`."""

SOLVED, RAY, PIVOT_LIMIT, CYCLE, SINGULAR, NOT_CERTIFIED = (status.value for status in STATUSES[:6])
TOO_MANY_CONTACTS = Status.TOO_MANY_CONTACTS.value
"""As compiled code returns them: a member would cost a microsecond to hand out."""

_SENTENCES = {
    Status.SOLVED: "solved and certified",
    Status.RAY: "no contact impulse realises this demand: it forces bodies into one another; allow the consistency step",
    Status.PIVOT_LIMIT: "the pivoting used up its allowance; look for a badly scaled model or a wrong time step",
    Status.CYCLE: "the pivoting came back to an earlier basis; the next rung uses another rule",
    Status.SINGULAR: "a basis matrix is singular; look for duplicated contact points",
    Status.NOT_CERTIFIED: "a solution came back but its residual is too large to be trusted; look at units and gaps",
    Status.BACKEND_FAILED: "the QP back end gave up; choose another one",
    Status.NON_FINITE: "the result is not finite; look for a singular mass matrix or a non-finite state",
    Status.TOO_MANY_CONTACTS: "the enumeration law takes two contacts at most; use the coulomb law",
    Status.OTHER_LAW: "the law asked for has no answer that can be certified, or asks too much; another law's is certified",
}


class Conditions(IntEnum):
    """What a certificate has to check besides dynamics: the law's own statement of complementarity."""

    FREE = 0
    NO_SLIP = 1
    COULOMB = 2
    CONVEX = 3
    GIVEN = 4  # the impulses are data: nothing is claimed of them
    CONE = 5
    COMPLIANT = 6
    EXACT_CONE = 7
