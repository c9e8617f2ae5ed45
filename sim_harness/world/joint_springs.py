"""Springs in the joints, taken at the end of the step so that no stiffness makes it unstable."""

import msgspec
import numpy as np

from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem


def with_springs(problem: ForwardProblem, stiffness: Array, stretch: Array) -> ForwardProblem:
    """The step with springs −k (x + dt v⁺) in it: exact in any engine, as M v⁺ + dt² k v⁺ is (M + dt² k) v⁺.

    stiffness k [N/m, N·m/rad] and stretch x at the beginning of the step [m, rad] of all degrees of freedom (nv)
    """
    dt = problem.dt
    return msgspec.structs.replace(
        problem,
        M=problem.M + np.diag(dt * dt * stiffness),
        force=problem.force - stiffness * (stretch + dt * problem.v),
    )
