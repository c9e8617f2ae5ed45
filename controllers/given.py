"""What others give to a tick, as arrays of floats: states of any array type, references that were sent with a state."""

import msgspec
import numpy as np

from controllers.command import Reference, Schedule
from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.terms.inputs import check_size
from idyn.types import State


def given_state(state: State, robot: Robot) -> State:
    """Convert the entries of a state to float arrays. Raises InputError for wrong sizes."""
    state = State(q=np.array(state.q, np.float64), v=np.array(state.v, np.float64))
    check_size(robot, state)
    return state


def given_reference(given: Reference, robot: Robot) -> Reference:
    """Copy a reference. Raises InputError for a schedule of wrong size."""
    plan, feet = given.schedule, len(robot.spheres.keys)
    if plan is not None:
        if not len(plan.stance) == len(plan.time_to_switch) == feet:
            got = f"{len(plan.stance)} and {len(plan.time_to_switch)}"
            raise InputError("reference.schedule", f"expected {feet} entries each, one per contact, got {got}")
        plan = Schedule(stance=np.array(plan.stance, np.bool_), time_to_switch=np.array(plan.time_to_switch, np.float64))
    q, v, a = (np.array(rows, np.float64) for rows in (given.q, given.v, given.a))
    return msgspec.structs.replace(given, q=q, v=v, a=a, schedule=plan)
