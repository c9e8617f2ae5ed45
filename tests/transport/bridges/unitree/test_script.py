"""Scripts of a bridge."""

import pytest

from idyn.errors import ConfigError
from transport.bridges.unitree.script import Step, parse_script


def test_steps_comments_and_empty_lines():
    text = "# first\nstand 5\n\nvelocity 0.3 -0.1 0 7\n  lie   # rest\n"
    assert parse_script(text, "x") == [Step("stand", 5.0), Step("velocity", 7.0, (0.3, -0.1, 0.0)), Step("lie")]


def test_joints_move_to_angles():
    (step,) = parse_script("move left_elbow=1.2 waist=-0.3 4", "x")
    assert (step.word, step.seconds, dict(step.joints)) == ("move", 4.0, {"left_elbow": 1.2, "waist": -0.3})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least one step"),
        ("stand 5\nrun 3", "line 2: expected one of stand, velocity, move, remote, lie, got 'run'"),
        ("stand", "line 1: 'stand': expected 1 numbers, got 0"),
        ("lie 3", "line 1: 'lie': expected 0 numbers, got 1"),
        ("stand -1", "line 1: expected seconds > 0, got '-1'"),
        ("stand nan", "line 1: expected a finite number, got 'nan'"),
        ("velocity 1 0 0", "line 1: 'velocity': expected 4 numbers, got 3"),
        ("move 3", "line 1: 'move': expected JOINT=ANGLE, got 3"),
        ("move elbow=1", "line 1: 'move': expected 1 numbers, got 0"),
        ("move elbow=up 3", "line 1: expected a finite number, got 'up'"),
        ("stand elbow=1 3", "line 1: 'stand': expected numbers, got elbow=1 3"),
        ("velocity inf 0 0 3", "line 1: expected a finite number, got 'inf'"),
    ],
)
def test_wrong_lines_are_named(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_script(text, "file.txt")
