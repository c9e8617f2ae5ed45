"""Options of a prediction."""

from idyn.contact.ground import Ground
from idyn.types import Consistency, Record, Selection


class Options(Record, frozen=True):
    """Settings of a prediction other than the law.

    selection: objective of the choice among equivalent impulses
    consistency: treatment of demands that no contact impulse can realise
    bounded: if friction is unlimited and the solution exceeds torque limits or the force limit, solve Coulomb's law too, and
        return its solution if that exceeds the limits less
    force_limit: maximum contact force, in weights of the robot; inf: no limit
    warm_start: start from the basis of the last tick
    ground: contact compliance model
    """

    selection: Selection = Selection.TORQUE
    consistency: Consistency = Consistency.PROJECT
    bounded: bool = False
    force_limit: float = 20.0
    warm_start: bool = True
    ground: Ground = Ground()
