"""Status of a solve or prediction, with a sentence of advice for each. Valid data never raise an exception during a tick."""

from enum import IntEnum


class Status(IntEnum):
    """Outcome of a solver or of a prediction. Compiled kernels return its integer value."""

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

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)

    @property
    def ok(self) -> bool:
        """Whether the requested law has a certified solution."""
        return self is Status.SOLVED

    @property
    def certified(self) -> bool:
        """Whether the solution is certified: that of the requested law or of another one."""
        return self is Status.SOLVED or self is Status.OTHER_LAW

    @property
    def sentence(self) -> str:
        """Meaning of the status, and advice."""
        return _SENTENCES[self]


STATUSES = tuple(Status)  # members by value: `STATUSES[2]` takes a tenth of the time of `Status(2)`

SOLVED, RAY, PIVOT_LIMIT, CYCLE, SINGULAR, NOT_CERTIFIED = (status.value for status in STATUSES[:6])
TOO_MANY_CONTACTS = Status.TOO_MANY_CONTACTS.value
"""Integer values of the members, for compiled code: returning an enum member to Python would take a microsecond."""

_SENTENCES = {
    Status.SOLVED: "solved and certified",
    Status.RAY: "no contact impulse realises this demand: it forces bodies into one another; set consistency to project",
    Status.PIVOT_LIMIT: "the pivoting reached its iteration limit; check the scaling of the model and the time step",
    Status.CYCLE: "the pivoting returned to an earlier basis; the next rung uses another pivoting rule",
    Status.SINGULAR: "a basis matrix is singular; check for duplicate contact points",
    Status.NOT_CERTIFIED: "the solution fails the certificate, a residual is too large; check units and gaps",
    Status.BACKEND_FAILED: "the QP back end failed; choose another one",
    Status.NON_FINITE: "the result is NaN or infinite; check for a singular mass matrix or a non-finite state",
    Status.TOO_MANY_CONTACTS: "the enumeration law supports two contacts at most; use the coulomb law",
    Status.OTHER_LAW: "the requested law has no certified solution, or it exceeds a limit; another law's solution is used",
}
