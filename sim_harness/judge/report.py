"""Verdicts as text and tables."""

from collections.abc import Sequence

import numpy as np

from sim_harness.judge.verdict import Kind, Verdict
from sim_harness.report.report import Report
from sim_harness.report.tables import Table

MOST = 10
"""Number of steps whose violations are listed one by one."""


def contact_table(given: Verdict, answer: Verdict) -> Table:
    """Return forces and velocities of each contact, given and of the certified answer."""
    rows = [["contact", "φ mm", "μ", "f given N", "f answer N", "u⁺ given mm/s", "u⁺ answer mm/s"]]
    b = given.step.problem
    for k in range(len(b.mu)):
        forces = [verdict.step.p.reshape(-1, 3)[k] / b.dt for verdict in (given, answer)]
        speeds = [1e3 * (b.J @ verdict.step.v_plus).reshape(-1, 3)[k] for verdict in (given, answer)]
        cells = [" ".join(f"{x:.4g}" for x in row) for row in (*forces, *speeds)]
        rows.append([str(k), f"{1e3 * b.gaps[k]:.3g}", f"{b.mu[k]:g}", *cells])
    return rows


def figures_table(given: Verdict, answer: Verdict) -> Table:
    """Return the residual of each law and the energies, given and of the certified answer."""
    rows = [["figure", "unit", "given", "answer"]]
    rows += [[f"residual of {law}", "m/s", f"{given.laws[law]:.3g}", f"{answer.laws[law]:.3g}"] for law in given.laws]
    for name, what in {
        "kinetic": "change of kinetic energy", "forces": "work of forces", "contacts": "added by contacts",
        "friction": "work of friction at u⁺",
    }.items():  # fmt: skip
        rows.append([what, "J", f"{getattr(given.energy, name):.4g}", f"{getattr(answer.energy, name):.4g}"])
    return rows


def kinds_table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row for each kind of violation: steps, largest amount, and the step that has it."""
    rows = [["violation", "steps", "largest", "unit", "in"]]
    for kind in Kind:
        found = [(each, v.step.name) for v in verdicts for each in v.violations if each.kind is kind]
        if found:
            worst, name = max(found, key=lambda pair: pair[0].amount)
            steps = sum(kind in v.kinds for v in verdicts)
            rows.append([str(kind), f"{steps} of {len(verdicts)}", f"{worst.amount:.3g}", worst.unit, name])
    return rows


def report_of(title: str, verdicts: Sequence[Verdict], answers: Sequence[Verdict], law: str) -> Report:
    """Return the report of judged steps, with details of the worst one."""
    bad = sum(not verdict.good for verdict in verdicts)
    report = Report(f"Verdict on {title}", f"{len(verdicts)} steps, {bad} of them violate mechanics or Coulomb's law.")
    if not verdicts:
        return report
    if bad:
        report.table(kinds_table(verdicts))
    for verdict in [each for each in verdicts if not each.good][:MOST]:
        report.paragraph(f"{verdict.step.name}: {'; '.join(map(str, verdict.violations[:4]))}")
    worst = int(np.argmax([max((each.times for each in verdict.violations), default=0.0) for verdict in verdicts]))
    given, answer = verdicts[worst], answers[worst]
    state = "certified" if answer.good else f"not certified: {'; '.join(map(str, answer.violations[:3]))}"
    report.heading(f"{given.step.name}, beside the answer of {law} ({state})")
    report.table(figures_table(given, answer))
    report.table(contact_table(given, answer))
    return report
