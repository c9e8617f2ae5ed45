"""`idyn drive --gamepad`: what sticks and buttons command, with events of the library; no gamepad and no library."""

import os
import subprocess
import sys

import numpy as np
import pytest
from fast import every_row

from sim_harness.gamepad import FASTEST, LEAN, Sticks

os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"
pygame = pytest.importorskip("pygame", reason="extra 'gamepad'")

DRIVE = [sys.executable, "-m", "sim_harness", "drive", "ipc:///nowhere", "--gamepad"]


def axis(which, value):
    return pygame.event.Event(pygame.CONTROLLERAXISMOTION, axis=which, value=value, instance_id=0)


def press(button, down=True):
    kind = pygame.CONTROLLERBUTTONDOWN if down else pygame.CONTROLLERBUTTONUP
    return pygame.event.Event(kind, button=button, instance_id=0)


def wished(*events):
    sticks = Sticks(pygame)
    for event in events:
        sticks.note(event)
    return sticks.wish


@every_row(
    (pygame.CONTROLLER_AXIS_LEFTY, -32768, (1.0, 0.0, 0.0)),
    (pygame.CONTROLLER_AXIS_LEFTY, 32767, (-1.0, 0.0, 0.0)),
    (pygame.CONTROLLER_AXIS_LEFTX, -32768, (0.0, 1.0, 0.0)),
    (pygame.CONTROLLER_AXIS_RIGHTX, -32768, (0.0, 0.0, 1.0)),
    (pygame.CONTROLLER_AXIS_RIGHTY, -32768, (0.0, 0.0, 0.0)),
    (pygame.CONTROLLER_AXIS_LEFTY, -3500, (0.0, 0.0, 0.0)),  # within the dead zone
    (pygame.CONTROLLER_AXIS_TRIGGERLEFT, 32767, (0.0, 0.0, 0.0)),
)
def test_sticks_command_velocities(which, value, expected):
    wish = wished(axis(which, value))
    np.testing.assert_allclose(wish.velocity, FASTEST * expected, atol=1e-12)
    np.testing.assert_array_equal(wish.attitude, 0.0)
    assert not wish.quits


def test_a_stick_commands_in_proportion_beyond_its_dead_zone_and_none_when_it_is_disconnected():
    half = [wished(axis(pygame.CONTROLLER_AXIS_LEFTY, -value)).velocity[0] for value in (4000, 10000, 20000, 30000)]
    assert half == sorted(half)
    np.testing.assert_allclose(np.diff(half)[1:], np.diff(half)[1], rtol=1e-9)
    assert 0.0 < half[0] < 0.01
    wish = wished(axis(pygame.CONTROLLER_AXIS_LEFTY, -32768), pygame.event.Event(pygame.CONTROLLERDEVICEREMOVED, instance_id=0))
    assert wish.quits
    assert "disconnected" in wish.note
    np.testing.assert_array_equal(wish.velocity, 0.0)


def test_with_the_shoulder_button_held_the_right_stick_leans():
    lean = press(pygame.CONTROLLER_BUTTON_RIGHTSHOULDER)
    right, up = axis(pygame.CONTROLLER_AXIS_RIGHTX, 32767), axis(pygame.CONTROLLER_AXIS_RIGHTY, -32768)
    wish = wished(lean, right, up)
    np.testing.assert_allclose(wish.attitude, LEAN * (1.0, 1.0), atol=1e-12)  # to the right, nose down
    np.testing.assert_array_equal(wish.velocity, 0.0)
    released = wished(lean, right, up, press(pygame.CONTROLLER_BUTTON_RIGHTSHOULDER, down=False))
    np.testing.assert_array_equal(released.attitude, 0.0)
    assert released.velocity[2] == -FASTEST[2]


def test_buttons_change_the_height_and_stand():
    up, down = press(pygame.CONTROLLER_BUTTON_DPAD_UP), press(pygame.CONTROLLER_BUTTON_DPAD_DOWN)
    assert wished(down, down, down, up).height == -0.02
    wish = wished(down, axis(pygame.CONTROLLER_AXIS_LEFTY, -32768), press(pygame.CONTROLLER_BUTTON_A))
    assert wish.height == 0.0
    np.testing.assert_array_equal(wish.velocity, 0.0)
    assert wished(press(pygame.CONTROLLER_BUTTON_BACK)).quits


def in_a_terminal(**environment):
    """Run with a terminal as the standard input; return what it writes."""
    terminal, own = os.openpty()
    try:
        how = {"env": os.environ | environment, "timeout": 60, "capture_output": True, "text": True}
        run = subprocess.run(DRIVE, stdin=own, check=False, **how)
    finally:
        os.close(terminal)
        os.close(own)
    assert run.returncode != 0
    return run.stderr + run.stdout


@pytest.mark.full
@pytest.mark.skipif(bool(os.path.exists("/dev/input/js0")), reason="a gamepad is connected")
def test_without_a_gamepad_or_the_library_the_message_says_so(tmp_path):
    assert "expected a gamepad, none is connected" in in_a_terminal()
    (tmp_path / "pygame.py").write_text("raise ImportError('no pygame')\n")
    said = in_a_terminal(PYTHONPATH=str(tmp_path))
    assert "pip install" in said
    assert "[gamepad]'" in said
