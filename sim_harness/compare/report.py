"""The report of comparisons: what they found, and outcomes of their claims."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from sim_harness.compare.results import Outcome
from sim_harness.report.report import Report
from sim_harness.report.tables import listed


class Measured(Protocol):
    """What a comparison found: a matrix, or figures of a study."""

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of claims."""

    def add_to(self, report: Report, name: str) -> None:
        """Add tables and pictures. name: of the comparison"""

    def figures(self) -> dict[str, Any]:
        """Return the figures for `summary.json`."""


class Settled(Protocol):
    """Settings of a comparison. notes: paragraphs of the report"""

    title: str
    notes: tuple[str, ...]


class Finding(NamedTuple):
    """A comparison with what it found."""

    name: str
    comparison: Settled
    measured: Measured


WORDS = {True: "holds", False: "does not hold", None: "not decided"}


def comparison_report(findings: Sequence[Finding]) -> Report:
    """Return the report of all comparisons."""
    report = Report(
        "idyn compare: " + ", ".join(finding.name for finding in findings),
        "Every number is a mean over runs that begin in slightly different states, ± the standard deviation of several runs. "
        "Runs that a fall, a refusal or a stop cut short have a verdict, and no part in the means.",
    )
    for finding in findings:
        report.heading(f"{finding.name}: {finding.comparison.title}")
        finding.measured.add_to(report, finding.name)
        _add_claims(report, finding.comparison, finding.measured.outcomes())
    return report


def _add_claims(report: Report, comparison: Settled, outcomes: Sequence[Outcome]) -> None:
    if outcomes:
        report.heading("Claims", 3)
        # the measured value is from the scene with the smallest margin
        columns: dict[str, Callable[[Outcome], str]] = {"": lambda o: WORDS[o.holds], "measured": lambda o: o.measured}
        report.table(listed("claim", ((o.claim, o) for o in outcomes), columns))
    for outcome in outcomes:
        if outcome.holds is False and outcome.explanation:
            report.paragraph(f"{outcome.claim}: does not hold ({outcome.measured}). {outcome.explanation}")
    for note in comparison.notes:
        report.paragraph(note)


def figures_of(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the figures of all comparisons, by name, for `summary.json`."""
    return {
        name: {
            "title": comparison.title,
            **measured.figures(),
            "claims": [outcome._asdict() for outcome in measured.outcomes()],
        }
        for name, comparison, measured in findings
    }
