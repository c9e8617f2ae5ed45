"""The iteration scheme of the paper behind the engine `newton`, with its variants, for comparison  [Macklin §6 to 8]."""

from typing import Annotated, Literal

import msgspec

from sim_harness.engines.newton.engine import Newton
from sim_harness.engines.newton.iteration import Rules
from sim_harness.engines.newton.passes import PassSettings

FUNCTIONS = ("fischer-burmeister", "minimum-map")
PRECONDITIONERS = ("unit", "time-step", "effective-mass")
SOLVERS = ("dense", "pcr", "pcg", "jacobi", "gauss-seidel")
"""Names in the order of the constants in `functions`, `rows` and `linear` of `sim_harness.engines.newton`."""


class Scheme(Newton, frozen=True, tag="newton-scheme"):
    """The engine `newton` with other `Rules`. Configuration files cannot select it.

    function, solver, linear_iterations, damping, regularisation: as in `Rules`; form: `Rules.weighted`, the paper's form
    finish: `Rules.exact`, exact steps
    preconditioner: r, which scales impulses to velocities: 1, dt² (dt for friction), or these times the effective mass (66)
    max_iterations: largest number of Newton steps and, if these fail, of sweeps over the contacts
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
    def pass_settings(self) -> PassSettings:
        return super().pass_settings._replace(
            preconditioner=PRECONDITIONERS.index(self.preconditioner), limit=self.max_iterations
        )

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
