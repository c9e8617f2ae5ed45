"""The certified answer to a step: the solution of one of our engines, judged like the given one."""

import msgspec
import numpy as np

from idyn.errors import ConfigError
from sim_harness.engines.engine import Engine
from sim_harness.judge.step import Step
from sim_harness.judge.verdict import TOLERANCE, Verdict, judge
from sim_harness.world.worlds import ENGINES

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
