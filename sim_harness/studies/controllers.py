"""The controllers that the paper compares [ZD §7.3], and ours: name → changes to the settings of a controller.

Everything else is the same for all of them: robot, feedback gains, reference, limits, contacts and their μ.

- The predictive laws run as in the paper. LCP laws use the impulses of the pivoting solver, without selection. The no-slip law
  starts from the active contacts of the last tick [ZD §4.6], the Coulomb law always starts cold [ZD §5.3]. The QP laws minimise
  the kinetic energy [ZD Eq. 69, 95–98], with the second stage, least torque [ZD §6.2.4], or without it (one-stage).
- In the comparisons the torque of the joint PID is added to that of every controller, as in the authors' experiments.
- `consistency` is set by the experiment, the same for all predictive laws: it concerns the demand, not the law. The authors
  did not check their demands [ZD §8.2] and regularised problems without a solution. `off` corresponds to this exactly.
- ID(t−1) and ID(t−2) use measured contact forces; feasibility of the demand does not apply.
- PID uses no model.
- Ours: the same LCP laws, warm-started and with selection; and Coulomb's law relaxed to cones (Anitescu), also a QP, but not
  the paper's. `mindiff` is [ZD Alg. 3] for at most two contacts.
"""

from typing import Any, NamedTuple

_PAPER = {"selection": "off", "bounded": False}
_QP = {"selection": "torque", "bounded": False}
_SENSED = {"consistency": "off", "selection": "off"}
_OURS = {"selection": "torque", "bounded": False, "warm_start": True}


class ComparedController(NamedTuple):
    """A controller of the comparisons. title: as in the paper; changes: to the settings of a controller"""

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
        "LCP,∞ on yielding ground (ours)", {"law": "no-slip", **_PAPER, "warm_start": True, "ground": "yielding"}
    ),
    "mindiff": ComparedController("MINDIFF, n ≤ 2", {"law": "enumeration", **_PAPER, "warm_start": True}),
}
