"""The paper's scheme of the engine `newton` and its variants, for comparison with the engine  [Macklin §6 to 8]."""

from typing import Annotated, Literal

import msgspec

from sim_harness.engines.newton.engine import Newton
from sim_harness.engines.newton.iteration import Rules
from sim_harness.engines.newton.passes import Way

FUNCTIONS = ("fischer-burmeister", "minimum-map")
PRECONDITIONERS = ("unit", "time-step", "effective-mass")
SOLVERS = ("dense", "pcr", "pcg", "jacobi", "gauss-seidel")
"""In the order of the constants of `functions`, `rows` and `linear` in `sim_harness.engines.newton`."""


class Scheme(Newton, frozen=True, tag="newton-scheme"):
    """The engine with other `Rules`; no kind of its own in any file.

    function, form ("weighted" is the paper's), solver, linear_iterations, damping, regularisation: see there
    finish: exact steps
    preconditioner: r, which makes impulses comparable with speeds: 1, dt² (friction dt), or times the effective mass (66)
    max_iterations: allowance of Newton's steps and, where those fail, of sweeps over the contacts
    """

    function: Literal["fischer-burmeister", "minimum-map"] = "fischer-burmeister"
    preconditioner: Literal["unit", "time-step", "effective-mass"] = "effective-mass"
    solver: Literal["dense", "pcr", "pcg", "jacobi", "gauss-seidel"] = "dense"
    form: Literal["divided", "weighted"] = "weighted"
    finish: bool = False
    damping: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.75
    regularisation: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1e-6
    linear_iterations: Annotated[int, msgspec.Meta(ge=1, le=100000)] = 40
    max_iterations: Annotated[int, msgspec.Meta(ge=1, le=1000000)] = 10000

    @property
    def way(self) -> Way:
        return super().way._replace(preconditioner=PRECONDITIONERS.index(self.preconditioner), limit=self.max_iterations)

    @property
    def rules(self) -> Rules:
        return Rules(
            function=FUNCTIONS.index(self.function),
            weighted=self.form == "weighted",
            solver=SOLVERS.index(self.solver),
            linear_iterations=self.linear_iterations,
            damping=self.damping,
            regularisation=self.regularisation,
            exact=self.finish,
            tolerance=self.tolerance,
        )
