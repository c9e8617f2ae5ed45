"""A gamepad by the library pygame (extra `gamepad`): what its sticks and buttons command."""

import os
from typing import Any

import msgspec
import numpy as np

from idyn.errors import ConfigError, missing_extra
from idyn.types import Array

FASTEST = np.array([0.5, 0.3, 1.0])  # velocity at full deflection: forward, left [m/s], turn [rad/s]
LEAN = np.array([0.15, 0.15])  # roll and pitch at full deflection [rad]
LIFT = 0.01  # change of the height by one press [m]
FULL, DEAD = 32767.0, 0.12  # largest value of an axis, and the share of it below which a stick counts as released

HELP = "left stick: move   right stick: turn   with RB held: roll, pitch   d-pad: up, down   A: stand   BACK: quit"


class Wish(msgspec.Struct):
    """What the user commands. velocity (3), height [m], attitude: roll, pitch [rad] (2); quits: whether to end; note: for the
    user"""

    velocity: Array = msgspec.field(default_factory=lambda: np.zeros(3))
    height: float = 0.0
    attitude: Array = msgspec.field(default_factory=lambda: np.zeros(2))
    quits: bool = False
    note: str = ""


class Sticks:
    """The state of a gamepad, from its events. pygame: the library"""

    def __init__(self, pygame: Any) -> None:
        self._pygame, self._leans = pygame, False
        self._axes: dict[int, float] = {}
        self.wish = Wish()

    def note(self, event: Any) -> None:
        """Take an event of the gamepad; other events have no effect."""
        pygame, wish = self._pygame, self.wish
        if event.type == pygame.CONTROLLERAXISMOTION:
            self._axes[event.axis] = event.value / FULL
        elif event.type == pygame.CONTROLLERBUTTONDOWN:
            if event.button == pygame.CONTROLLER_BUTTON_DPAD_UP:
                wish.height = round(wish.height + LIFT, 3)
            elif event.button == pygame.CONTROLLER_BUTTON_DPAD_DOWN:
                wish.height = round(wish.height - LIFT, 3)
            elif event.button == pygame.CONTROLLER_BUTTON_A:
                self._axes, wish.height = {}, 0.0
            elif event.button == pygame.CONTROLLER_BUTTON_RIGHTSHOULDER:
                self._leans = True
            elif event.button == pygame.CONTROLLER_BUTTON_BACK:
                wish.quits = True
        elif event.type == pygame.CONTROLLERBUTTONUP and event.button == pygame.CONTROLLER_BUTTON_RIGHTSHOULDER:
            self._leans = False
        elif event.type == pygame.CONTROLLERDEVICEREMOVED:
            self._axes, wish.quits, wish.note = {}, True, "the gamepad was disconnected"
        # axes are positive to the right and downwards
        forward, left = -self._axis(pygame.CONTROLLER_AXIS_LEFTY), -self._axis(pygame.CONTROLLER_AXIS_LEFTX)
        turn, back = -self._axis(pygame.CONTROLLER_AXIS_RIGHTX), self._axis(pygame.CONTROLLER_AXIS_RIGHTY)
        wish.velocity = FASTEST * (forward, left, 0.0 if self._leans else turn)
        wish.attitude = LEAN * (-turn, -back) if self._leans else np.zeros(2)

    def _axis(self, axis: int) -> float:
        """Return the deflection of an axis, −1 to 1, 0 within the dead zone."""
        value = min(max(self._axes.get(axis, 0.0), -1.0), 1.0)
        return 0.0 if abs(value) < DEAD else float(np.sign(value)) * (abs(value) - DEAD) / (1.0 - DEAD)


class Gamepad:
    """The first gamepad that is connected. name: as the library reports it"""

    def __init__(self) -> None:
        """Raises ConfigError without the library, and without a gamepad that it knows."""
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # events without a window
        os.environ.setdefault("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1")
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame  # noqa: PLC0415  (extra 'gamepad')
            from pygame._sdl2 import controller  # noqa: PLC0415
        except ImportError as error:
            raise missing_extra("--gamepad", "a gamepad", "pygame-ce", "gamepad") from error
        pygame.display.init()
        pygame.joystick.init()
        controller.init()
        self._pygame, self._sticks = pygame, Sticks(pygame)
        known = [i for i in range(pygame.joystick.get_count()) if controller.is_controller(i)]
        if not known:
            count = pygame.joystick.get_count()
            found = "none is connected" if not count else f"none of the {count} joysticks has a layout that SDL knows"
            raise ConfigError("--gamepad", f"expected a gamepad, {found}; on Linux it needs read access to /dev/input")
        self._device = controller.Controller(known[0])
        self.name: str = self._device.name

    def read(self) -> Wish:
        """Return what the user commands now."""
        for event in self._pygame.event.get():
            self._sticks.note(event)
        return self._sticks.wish

    def close(self) -> None:
        """Release the gamepad."""
        self._device.quit()
        self._pygame.quit()
