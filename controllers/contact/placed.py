"""The kinematics of a state and the terrain at its contact spheres, computed once for contacts, foot switches and the tick."""

from idyn.contact.contacts import Surface, centres_of, surface_at
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array, Kinematics, State


class Placed:
    """Caches the kinematics of one state, until `take`."""

    def __init__(self, robot: Robot, terrain: Terrain, q: Array, v: Array) -> None:
        """q (nq), v (nv): any state"""
        self._robot, self._terrain = robot, terrain
        self._kinematics = robot.terms(q, v)
        self.reset()

    def reset(self) -> None:
        """Forget the state."""
        self._state: tuple[State, bytes, bytes] | None = None
        self._surface: Surface | None = None

    def at(self, state: State) -> Kinematics:
        """Return the kinematics of a state, computed unless they are cached."""
        own = self._state
        if self.take(state) is state:
            own, self._surface = (state, state.q.tobytes(), state.v.tobytes()), None
            self._kinematics = self._robot.kinematics(state)
        self._state = own
        return self._kinematics

    def surface(self, state: State) -> Surface:
        """Return the terrain at all contact spheres in a state, and cache it."""
        at = self.at(state)
        if self._surface is None:
            self._surface = surface_at(centres_of(self._robot, at, self._robot.spheres), self._terrain)
        return self._surface

    def known_surface(self) -> Surface | None:
        """Return the terrain at all contact spheres in the state of the last call of `at`, None if it was not needed so far."""
        return None if self._state is None else self._surface

    def take(self, state: State) -> Kinematics | State:
        """Return the kinematics of a state if they are cached and it was not modified since, else the state. Forgets the cached
        one."""
        own, self._state = self._state, None
        same = own is not None and state is own[0] and state.q.tobytes() == own[1] and state.v.tobytes() == own[2]
        return self._kinematics if same else state
