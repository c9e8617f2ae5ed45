"""`idyn bridge ros2`: its options. tests/transport/bridges/ros2 and tests/sim_harness/test_ros2_walk.py test the bridge."""

import pytest

from sim_harness.commands.main import main


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--rate", "0"], "--rate: expected a rate of 0 to 500 per second, got 0"),
        (["--rate", "nan"], "--rate: expected a rate of 0 to 500 per second, got nan"),
        (["--domain", "-1"], "--domain: expected a number ≥ 0, got '-1'"),
        (["--secret", "key"], "--secret: expected --secret and --server-key together"),
        (["--interface", "eth0"], "--yes: expected a terminal to confirm the checklist, or --yes"),
        ([], "no answer from ipc:///nowhere within 500 ms"),
        (["--interface", "eth0", "--read-only"], "no answer from ipc:///nowhere"),
        (["--interface", "eth0", "--yes"], "no answer from ipc:///nowhere"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_sent(words, problem, capsys):
    assert main(["bridge", "ros2", "ipc:///nowhere", *words]) == 2
    assert problem in capsys.readouterr().err


def test_a_domain_that_is_no_number_is_named(monkeypatch, capsys):
    monkeypatch.setenv("ROS_DOMAIN_ID", "home")
    assert main(["bridge", "ros2", "ipc:///nowhere"]) == 2
    assert "ROS_DOMAIN_ID: expected a number ≥ 0, got 'home'" in capsys.readouterr().err
