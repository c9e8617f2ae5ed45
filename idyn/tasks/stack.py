"""What is asked for in one tick: tasks, limits and contact modes."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from idyn.errors import InputError, nearest
from idyn.model.collisions import SelfCollision
from idyn.tasks.forces import ContactTask
from idyn.tasks.held import OPEN, SLIDE, STICK
from idyn.tasks.motion import MotionTask
from idyn.types import Array, ContactSet, Record

MOST_LEVELS = 16


class Mode(StrEnum):
    """Intended behaviour of a contact."""

    STICK = "stick"  # no relative motion, force inside the friction cone
    SLIDE = "slide"  # stays closed, moves along the surface; friction opposes the motion
    OPEN = "open"  # no force; the bodies may separate


KINDS: dict[str, int] = {Mode.OPEN: OPEN, Mode.SLIDE: SLIDE, Mode.STICK: STICK}
"""Contact mode → its number in kernels."""

MODES = (Mode.OPEN, Mode.SLIDE, Mode.STICK)
"""Contact modes in the order of their numbers."""


class TaskLimits(Record, frozen=True):
    """Limits of the solution. All of them are met if some motion and forces meet them; otherwise they are violated as little as
    possible, and the outcome names them.

    friction_margin: share of the friction coefficient that is not used, in [0, 1)
    normal_force: least normal force of contacts that stick or slide [N]
    pressure_margin: share in [0, 1) by which the area of a flat sole is smaller, about the mean of its contacts, in which the
        centre of pressure stays
    torque: share of the robot's torque limits that may be used; inf: no limit
    joints: whether position and velocity limits of the robot's joints hold, and `angles`
    angles: of some joints the least and largest angle [rad or m], which hold besides the robot's; ±inf: none. Bounds of these
        joints act over 8 ms, so that noise of speeds does not shake them: the speed towards a near limit is at most 31 s⁻¹
        times the way that is left
    braking: deceleration that is reserved for stopping at position limits [rad/s²]
    acceleration, speed: largest of a joint [rad/s², rad/s]; the joints' own speed limits hold besides
    singular: share of the usual length of a task's row, in the metric of the posture, below which what contacts and tasks
        above it leave of the row is damped: it asks the joints for at most 1.15 / `singular` times the usual accelerations, and
        is not met; 0: no damping
    self_collision: distances that links keep from each other; None: links may collide
    """

    friction_margin: float = 0.05
    normal_force: float = 1.0
    pressure_margin: float = 0.0
    torque: float = 1.0
    joints: bool = True
    angles: tuple[tuple[str, float, float], ...] = ()
    braking: float = 100.0
    acceleration: float = 1e4
    speed: float = np.inf
    singular: float = 0.02
    self_collision: SelfCollision | None = None

    def __post_init__(self) -> None:
        for name in ("friction_margin", "pressure_margin", "singular"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(f"limits.{name}", f"expected a number in [0, 1), got {getattr(self, name)!r}")
        if not 0.0 <= self.normal_force < np.inf:
            raise InputError("limits.normal_force", f"expected a finite number ≥ 0, got {self.normal_force!r}")
        for name in ("torque", "acceleration", "speed", "braking"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"limits.{name}", f"expected a number > 0, got {getattr(self, name)!r}")
        for each in self.angles if isinstance(self.angles, tuple) else (self.angles,):
            match each:
                case (str(), float() | int() as least, float() | int() as largest) if least < largest:
                    continue
            raise InputError("limits.angles", f"expected (joint, least, largest) with least < largest, got {each!r}")
        if not isinstance(self.self_collision, SelfCollision | None):
            raise InputError("limits.self_collision", f"expected a SelfCollision or None, got {self.self_collision!r}")


class TaskStack(Record, frozen=True):
    """Tasks with their limits, and the modes of the contacts.

    tasks: motion and contact tasks, see `idyn.tasks`; no two with the same `name`, unless it is ""
    limits: of the solution
    modes: intended modes of contacts by key; all other contacts stick if they touch (gap ≤ `Ground.touching`). A contact that
        shall stick or slide and has a gap is asked to close it within one period
    """

    tasks: Sequence[MotionTask | ContactTask] = ()
    limits: TaskLimits = TaskLimits()
    modes: Mapping[str, Mode | str] = {}

    def __post_init__(self) -> None:
        names = set[str]()
        for i, task in enumerate(self.tasks):
            if not isinstance(task, (MotionTask, ContactTask)):
                raise InputError(f"tasks[{i}]", f"expected a task, got {type(task).__name__}")
            if not (isinstance(task.level, int) and 0 <= task.level < MOST_LEVELS):
                raise InputError(f"tasks[{i}].level", f"expected an integer from 0 to {MOST_LEVELS - 1}, got {task.level!r}")
            if type(task.weight) is float:
                sound = 0.0 < task.weight < np.inf
            else:
                weight = np.asarray(task.weight, dtype=np.float64)
                sound = bool(((weight > 0.0) & (weight < np.inf)).all())
            if not sound:
                raise InputError(f"tasks[{i}].weight", f"expected finite numbers > 0, got {task.weight!r}")
            if task.name and task.name in names:
                raise InputError(f"tasks[{i}].name", f"expected a name that no task before it has, got {task.name!r}")
            names.add(task.name)
        for key, mode in self.modes.items():
            if mode not in list(Mode):
                raise InputError(f"modes.{key}", f"expected one of {', '.join(Mode)}, got {mode!r}")

    def fill_kinds(self, contacts: ContactSet, kinds: Array) -> None:
        """Fill the intended mode of each contact as a number (n), see `KINDS`; −1 where none is given. Raises InputError for
        unknown keys."""
        kinds.fill(-1)
        for key, mode in self.modes.items():
            if key not in contacts.keys:
                raise InputError(f"modes.{key}", f"no contact with this key{nearest(key, contacts.keys)}")
            kinds[contacts.keys.index(key)] = KINDS[mode]
