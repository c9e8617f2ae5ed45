"""How to answer a prediction: everything besides the law and the data."""

from idyn.contact.ground import Ground
from idyn.types import Consistency, Record, Selection


class Options(Record, frozen=True):
    """Everything about a prediction besides the law: how to choose among equals, what to do with impossible demands, what the
    ground is believed to do, and whether the last tick's basis is tried first.

    bounded: where friction has no bounds and the answer asks more than the motors or the force limit give, Coulomb's law
        answers when its answer asks less
    force_limit: what a contact may carry, in weights of the robot; inf: whatever the equations allow
    """

    selection: Selection = Selection.TORQUE
    consistency: Consistency = Consistency.PROJECT
    bounded: bool = False
    force_limit: float = 20.0
    warm_start: bool = True
    ground: Ground = Ground()
