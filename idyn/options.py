"""Options of a prediction."""

from typing import Any, ClassVar, Self

import msgspec

from idyn.contact.ground import Ground
from idyn.types import Consistency, Record, Selection


class Options(Record, frozen=True):
    """Settings of a prediction other than the law. The defaults are those of the server: robots stand with them on ground that
    yields. `paper` is the paper's method.

    selection: objective of the choice among equivalent impulses
    consistency: treatment of demands that no contact impulse can realise
    bounded: if friction is unlimited and the solution exceeds torque limits or the force limit, solve Coulomb's law too, and
        return its solution if that exceeds the limits less
    force_limit: maximum contact force, in weights of the robot; inf: no limit
    warm_start: start from the basis of the last tick
    ground: contact compliance model
    outcomes: budget of the search for other motions under the same torques, which fills `Prediction.unique`: largest number of
        singular combinations of contact modes, see `idyn.all_outcomes`; 0: no search. It takes 20 ms with four contacts
    """

    advised: ClassVar[bool] = True
    """Whether unsuitable settings are logged once, see `idyn.prediction.solve`."""

    selection: Selection = Selection.FORCE
    consistency: Consistency = Consistency.HOLD
    bounded: bool = True
    force_limit: float = 20.0
    warm_start: bool = True
    ground: Ground = Ground()
    outcomes: int = 0

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the options of the paper: rigid ground, and the smallest torques among equivalent impulses  [ZD §4.6]. Robots
        fall with them on ground that yields. changes: other values of fields"""
        paper = cls(selection=Selection.TORQUE, consistency=Consistency.PROJECT, bounded=False, ground=Ground.paper())
        return msgspec.structs.replace(paper, **changes)


class Unadvised(Options, frozen=True):
    """Options of predictions for which `idyn.prediction.solve` does not hold: the demand is feasible by construction, or drags
    contacts on purpose."""

    advised: ClassVar[bool] = False
