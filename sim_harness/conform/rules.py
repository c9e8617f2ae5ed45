"""Rules of the protocol, their outcomes, and the checks that they share."""

from collections.abc import Callable
from typing import Any, NamedTuple

from idyn.types import Record

WIRE = "reference/wire-protocol.md"
SAFETY = "concepts/safety.md"
CLIENT = "how-to/own-client.md"

Fields = dict[str, Any]
"""A message as a map, as decoded from MessagePack."""


class Broken(Exception):
    """A rule is broken. field: of which message; got: its value; expected: in words"""

    def __init__(self, field: str, got: object, expected: object) -> None:
        super().__init__(f"{field}: got {_short(got)}, expected {_short(expected)}")
        self.field = field


class NotSeen(Exception):
    """A rule cannot be judged: the other side leaves out an optional field, or has ended."""


class Outcome(NamedTuple):
    """What came out of one rule. state: passed, wrong or not seen; problem: with field, value and what was expected"""

    rule: str
    page: str
    state: str
    problem: str = ""

    def __str__(self) -> str:
        text = f"{self.state:8s}  {self.rule}"
        return text if self.state == "passed" else f"{text}\n          {self.problem} (docs/{self.page})"


class Rule(Record, frozen=True):
    """One rule. claim: what holds, as printed; page: page and anchor of the manual; check: raises Broken or NotSeen"""

    claim: str
    page: str
    check: Callable[[Any], None]

    def judged(self, subject: object) -> Outcome:
        """Return the outcome of the check."""
        try:
            self.check(subject)
        except Broken as broken:
            return Outcome(self.claim, self.page, "wrong", str(broken))
        except NotSeen as reason:
            return Outcome(self.claim, self.page, "not seen", str(reason))
        return Outcome(self.claim, self.page, "passed")


class Rules(list[Rule]):
    """Rules in the order in which they are tried."""

    def add(self, claim: str, page: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        """Return a decorator that adds a check as a rule."""

        def decorate(check: Callable[[Any], None]) -> Callable[[Any], None]:
            self.append(Rule(claim=claim, page=page, check=check))
            return check

        return decorate


def expect(field: str, got: object, expected: object) -> None:
    """Raise Broken if a value differs from the expected one."""
    if got != expected or isinstance(got, bool) != isinstance(expected, bool):
        raise Broken(field, got, expected)


def expect_that(good: object, field: str, got: object, expected: str) -> None:
    """Raise Broken unless a condition holds. expected: the condition in words"""
    if not good:
        raise Broken(field, got, expected)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"
