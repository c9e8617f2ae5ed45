"""All rungs of a law in order, kernels and Python rungs, whether earlier ones have an answer or not."""

import numpy as np

from idyn.contact.soft import NO_CONSTRAINTS, constraints_of
from idyn.laws.law import Rung, Start, law_data, no_kernel
from idyn.library.records import ArrayRecord
from idyn.prediction.solve import kernel_for, method_type
from idyn.terms.reduction import view
from idyn.terms.stages import Dynamics, Given, ReducedProblem


def problem_of(reduced):
    """A record with the numbers of a reduced problem and no robot behind it."""
    given, dynamics, problem = (ArrayRecord.__new__(kind) for kind in (Given, Dynamics, ReducedProblem))
    given.put(mu=np.ascontiguousarray(reduced.mu), last=reduced.last, independent=reduced.independent)
    dynamics.put(given=given)
    problem.put(dynamics=dynamics, Y=np.ascontiguousarray(reduced.Y), b=reduced.b, energy=reduced.energy)
    return problem


def attempts(law, problem, basis, robot=None):
    """Names and solutions. problem: a `ReducedProblem` or a `Reduced`; robot: for laws with parameters of the robot"""
    record = problem if isinstance(problem, ReducedProblem) else problem_of(problem)
    reduced, data = view(record), law_data(law, NO_CONSTRAINTS if robot is None else constraints_of(law.soft, robot))
    for rung in law.rungs:
        if rung.kernel is None:
            for found in rung.solve(reduced, basis):
                if found is None:
                    return
                yield found
            continue
        begins = rung.start in (Start.BASIS, Start.IMPULSES)
        if begins and basis is None and not rung.cold:
            continue
        start = np.zeros((len(reduced.mu), law.basis_width), bool) if basis is None or not begins else basis.copy()
        a = kernel_for(method_type(type(data)))(record, data, start, rung.kernel)
        if a.face.flags.shape[0] != len(reduced.mu):
            continue  # it does not apply
        yield rung.cold if rung.cold and basis is None else rung.name, a


class Wrapped:
    """A law with one rung that Python solves. solve: (law, problem, basis) → names and solutions"""

    kernel = staticmethod(no_kernel)

    def __init__(self, law, solve):
        self._law = law
        self.rungs = (Rung("wrapped", Start.COLD, solve=lambda problem, basis: solve(law, problem, basis)),)

    def __getattr__(self, name):
        return getattr(self._law, name)
