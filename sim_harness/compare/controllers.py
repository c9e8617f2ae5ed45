"""The controllers that the paper compares [ZD §7.3], and ours beside them: one table, name → what changes in a controller.

Everything else (robot, feedback gains, reference, limits) is the same for all of them, and so are the contacts and their μ.

- Predictive laws of the paper run as in the paper. LCP laws take the pivoting solver's own impulses, without selection; the
  no-slip law begins at the last tick's active contacts [ZD §4.6], the Coulomb law begins anew each time [ZD §5.3]. The QP laws
  minimise the kinetic energy [ZD Eq. 69, 95–98] and have their second stage, least torque [ZD §6.2.4], or none (one-stage).
- In the comparisons the joint PID's torque comes on top of every controller's, as the authors ran them.
- `consistency` is the experiment's, the same for all predictive laws: it is about the demand and not about the law. The authors
  did not check their demands [ZD §8.2] and regularised what had no solution; to the letter that is `off`.
- ID(t−1) and ID(t−2) believe what was measured; there is nothing to be made consistent.
- PID has no model at all.
- Ours: the same LCP laws, warm-started and with selection; and Coulomb's law relaxed to cones (Anitescu), a QP as well but not
  the paper's. `mindiff` is [ZD Alg. 3] for at most two contacts.
"""

from typing import Any, NamedTuple

_PAPER = {"selection": "off", "bounded": False}
_QP = {"selection": "torque", "bounded": False}
_SENSED = {"consistency": "off", "selection": "off"}
_OURS = {"selection": "torque", "bounded": False, "warm_start": True}


class ComparedController(NamedTuple):
    """title: as in the paper; changes: to the settings of any controller"""

    title: str
    changes: dict[str, Any]


CONTROLLERS = {
    "id-qp-mu": ComparedController("ID(t) QP,μ", {"law": "convex", **_QP}),
    "id-qp-mu-stage-1": ComparedController("ID(t) QP,μ stage I", {"law": "convex", **_PAPER}),
    "id-qp-mu-one-stage": ComparedController("ID(t) QP,μ one-stage", {"law": "convex-one-stage", **_PAPER}),
    "id-qp-inf": ComparedController("ID(t) QP,∞", {"law": "convex-infinite", **_QP}),
    "cone-mu": ComparedController("Coulomb relaxed to cones, μ (ours)", {"law": "cone", **_QP}),
    "cone-inf": ComparedController("Coulomb relaxed to cones, ∞ (ours)", {"law": "cone-infinite", **_QP}),
    "id-lcp-mu": ComparedController("ID(t) LCP,μ", {"law": "coulomb", **_PAPER, "warm_start": False}),
    "id-lcp-inf": ComparedController("ID(t) LCP,∞", {"law": "no-slip", **_PAPER, "warm_start": True}),
    "pid": ComparedController("PID", {"law": "pid", "torque_feedback": {"kp": 20.0, "kd": 0.1}}),  # the authors' gains
    "id-t-1": ComparedController("ID(t−1)", {**_SENSED, "law": {"kind": "sensed", "delay": 1}}),
    "id-t-2": ComparedController("ID(t−2)", {**_SENSED, "law": {"kind": "sensed", "delay": 2}}),
    "contact-free": ComparedController("contact-free", {"law": "contact-free", "consistency": "off", "selection": "off"}),
    "lcp-mu-selected": ComparedController("LCP,μ selected (ours)", {"law": "coulomb", **_OURS}),
    "lcp-inf-selected": ComparedController("LCP,∞ selected (ours)", {"law": "no-slip", **_OURS}),
    "lcp-inf-yielding": ComparedController(
        "LCP,∞ on yielding ground (ours)",
        {"law": "no-slip", **_PAPER, "warm_start": True, "ground": "yielding"},
    ),
    "mindiff": ComparedController("MINDIFF, n ≤ 2", {"law": "enumeration", **_PAPER, "warm_start": True}),
}
