"""The verdict on a step: what its solution violates, and by how much; the residuals of each law; its energy.

Tolerances are a speed [m/s] and, for impulses, this speed over the contact's inverse mass tr(J_k M⁻¹ J_kᵀ) / 3.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec
import numpy as np

from idyn.certificate.certify import Contact, coulomb, exact_cone, no_slip, optimal
from idyn.certificate.momentum import COMPLEMENTARITY, worse
from idyn.errors import ConfigError
from idyn.laws import make_law
from idyn.types import Array, Record
from sim_harness.engines.engine import Engine
from sim_harness.judge.step import Step
from sim_harness.report.report import Report
from sim_harness.report.tables import Table
from sim_harness.world.worlds import ENGINES

TOLERANCE = 1e-6  # default tolerance [m/s]. Solutions in single precision, or of iterative solvers, need a larger one

POLYGON = make_law("coulomb").directions
"""Corners of the friction polygon of the laws `coulomb` and `cone` in the table of laws."""


class Kind(StrEnum):
    """Kinds of violations, in the order of reports."""

    MOMENTUM = "momentum does not balance"
    PENETRATES = "penetrates"
    PULLS = "pulls"
    OUTSIDE = "outside the friction cone"
    SLIPS = "slips below the friction limit"
    ENERGY = "contacts add energy"
    SIDEWAYS = "friction not against the sliding"
    PUSHES = "pushes while opening"


class Violation(Record, frozen=True):
    """A violation."""

    kind: Kind
    contact: int | None  # its index, None for all; amount in `unit`
    amount: float
    unit: str
    times: float  # amount over the tolerance

    def __str__(self) -> str:
        where = "" if self.contact is None else f"contact {self.contact} "
        return f"{where}{self.kind} by {self.amount:.3g} {self.unit}"


class Energy(Record, frozen=True):
    """Energy of a step [J]."""

    kinetic: float  # ½ v⁺ᵀMv⁺ − ½ vᵀMv
    forces: float  # work of force − h with the mean velocity
    # kinetic energy that the impulses add when they act after the forces, Σ p · (u_free + u⁺) / 2; at most 0 for every law of
    # friction and inelastic impact, except for what lifts a contact out of penetration
    contacts: float
    friction: float  # Σ p_T · u_T⁺, at most 0


class Verdict(Record, frozen=True):
    """A verdict. violations: by kind, the largest first; laws: law → largest residual of its conditions [m/s]; depth: of the
    deepest contact before the step [m]"""

    step: Step
    violations: tuple[Violation, ...]
    laws: dict[str, float]
    energy: Energy
    depth: float

    @property
    def good(self) -> bool:
        return not self.violations

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of the violations, each once."""
        return tuple(dict.fromkeys(each.kind for each in self.violations))


def judge(step: Step, tolerance: float = TOLERANCE) -> Verdict:
    """Judge a step. tolerance: largest error of a speed [m/s]"""
    b = step.problem
    p, u = step.p.reshape(-1, 3), (b.J @ step.v_plus).reshape(-1, 3)
    inverse = np.linalg.solve(b.M, b.J.T)
    scales = np.einsum("kij,jki->k", b.J.reshape(len(p), 3, -1), inverse.reshape(-1, len(p), 3)) / 3
    scales = np.where(scales > 0.0, scales, 1.0)
    opening = np.array([_opening(u[k, 2], b.gaps[k], b.dt) for k in range(len(p))])
    found = [_momentum(step, tolerance)]
    for k in range(len(p)):
        found += _contact(k, p[k], (u[k, 0], u[k, 1], opening[k]), b.mu[k], (tolerance, tolerance / scales[k]))
    energy = energy_of(step)
    found.append(_energy(step, energy, tolerance))
    order = list(Kind)
    kept = sorted((each for each in found if each.times > 1.0), key=lambda each: (order.index(each.kind), -each.times))
    scaled = scales[:, None] * p  # impulses times inverse masses [m/s]
    contacts = [
        Contact(s[0], s[1], s[2], v[0], v[1], w, mu, mu == np.inf)
        for s, v, w, mu in zip(scaled, u, opening.tolist(), b.mu.tolist(), strict=True)
    ]
    laws = {name: max((check(c) for c in contacts), default=0.0) for name, check in LAWS.items()}
    return Verdict(step=step, violations=tuple(kept), laws=laws, energy=energy, depth=float(max(0.0, -b.gaps.min(initial=0.0))))


def _opening(speed: float, gap: float, dt: float) -> float:
    """Return w [m/s]: u_N + φ/dt of an open contact. In penetration every speed from 0 to −φ/dt counts as w = 0."""
    if gap >= 0.0 or speed < 0.0:
        return speed + max(gap, 0.0) / dt
    return max(0.0, speed + gap / dt)


def _momentum(step: Step, tolerance: float) -> Violation:
    """Return the error of M (v⁺ − v) = Jᵀp + dt (force − h) in the row where it changes the velocity most."""
    b = step.problem
    error = np.abs(b.M @ (step.v_plus - b.v) - b.J.T @ step.p - b.dt * (b.force - b.h))
    times = error / np.diag(b.M) / tolerance
    row = int(times.argmax())
    return Violation(kind=Kind.MOMENTUM, contact=None, amount=float(error[row]), unit="N·s or N·m·s", times=float(times[row]))


def _contact(k: int, p: Array, u: tuple[float, float, float], mu: float, least: tuple[float, float]) -> list[Violation]:
    """Return the violations of one contact, with their sizes.

    p: impulse [N·s] (3); u: tangential velocities and w [m/s]; least: tolerances of speed [m/s] and of impulse [N·s]
    """
    slow, small = least
    friction, slip = float(np.hypot(p[0], p[1])), float(np.hypot(u[0], u[1]))
    limit = mu * max(p[2], 0.0) if p[2] > small or mu < np.inf else 0.0
    found = [
        (Kind.PENETRATES, -u[2], "m/s", slow),
        (Kind.PULLS, -p[2], "N·s", small),
        (Kind.OUTSIDE, friction - limit, "N·s", small),
    ]
    if u[2] > slow:
        found.append((Kind.PUSHES, p[2], "N·s", small))
    elif friction < limit - small:
        found.append((Kind.SLIPS, slip, "m/s", slow))
    elif slip > slow and friction <= limit + small and p[0] * u[0] + p[1] * u[1] <= 0.0:
        # friction of μ p_N against the sliding; its direction is as uncertain as that of the velocity
        aside = float(np.hypot(p[0] + limit * u[0] / slip, p[1] + limit * u[1] / slip))
        found.append((Kind.SIDEWAYS, aside, "N·s", small + limit * slow / slip))
    return [
        Violation(kind=kind, contact=k, amount=float(amount), unit=unit, times=float(amount / least))
        for kind, amount, unit, least in found
    ]


def energy_of(step: Step) -> Energy:
    """Return the energy of a step."""
    b = step.problem
    net, p = b.force - b.h, step.p
    free, after = b.J @ (b.v + b.dt * np.linalg.solve(b.M, net)), b.J @ step.v_plus
    power = (p * after).reshape(-1, 3)
    return Energy(
        kinetic=float(step.v_plus @ b.M @ step.v_plus - b.v @ b.M @ b.v) / 2,
        forces=float(b.dt * net @ (b.v + step.v_plus) / 2),
        contacts=float(p @ (free + after) / 2),
        friction=float(power[:, :2].sum()),
    )


def _energy(step: Step, energy: Energy, tolerance: float) -> Violation:
    """Return the energy that contacts add, without the lifting of contacts out of penetration."""
    b, p = step.problem, step.p.reshape(-1, 3)
    after = (b.J @ step.v_plus).reshape(-1, 3)
    lift = np.maximum(p[:, 2], 0.0) @ np.clip(after[:, 2], 0.0, np.maximum(-b.gaps, 0.0) / b.dt)
    driven = np.maximum((p[:, :2] * after[:, :2]).sum(axis=1), 0.0).sum()
    least = tolerance * float(np.abs(p).sum()) + tolerance**2 * float(np.diag(b.M).min())
    amount = max(energy.contacts - float(lift), float(driven))
    return Violation(kind=Kind.ENERGY, contact=None, amount=amount, unit="J", times=amount / least)


def _by(check: Callable[[Contact, Array], None]) -> Callable[[Contact], float]:
    """Return a function that gives the largest residual of a law's conditions at one contact."""

    def largest(c: Contact) -> float:
        residuals = np.zeros(6)
        worse(residuals, COMPLEMENTARITY, max(-c.w, -c.pn, 0.0))
        check(c, residuals)
        return float(residuals.max())

    return largest


LAWS: dict[str, Callable[[Contact], float]] = {
    "no-slip": _by(no_slip),
    "coulomb": _by(lambda c, residuals: coulomb(c, POLYGON, residuals)),
    "exact-cone": _by(exact_cone),
    "cone": _by(lambda c, residuals: optimal(c, np.array([c.vs, c.vt, c.w]), POLYGON, residuals)),
}
"""Law → residual at a contact, by the conditions of the certificate. `coulomb` and `cone`: with the default polygon."""


ANSWERS = {"exact-cone": "newton", "coulomb": "lcp", "no-slip": "no-slip"}
"""Law → engine that solves it. The engines are rigid, so that solutions scale with the masses."""


def answer_to(step: Step, law: str = "exact-cone", tolerance: float = TOLERANCE) -> Verdict:
    """Solve a step under a law and judge the solution. Raises ConfigError for an unknown law."""
    if law not in ANSWERS:
        raise ConfigError("--law", f"expected one of {', '.join(ANSWERS)}, got '{law}'")
    engine: Engine = ENGINES[ANSWERS[law]]()
    b = step.problem
    unit = float(np.diag(b.M).max())  # engines have tolerances in N·s
    solution = engine.solve(msgspec.structs.replace(b, M=b.M / unit, h=b.h / unit, force=b.force / unit))
    return judge(Step(name=law, problem=b, p=unit * solution.p.ravel(), v_plus=solution.v_plus), tolerance)


MOST = 10  # number of steps whose violations are listed one by one


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
