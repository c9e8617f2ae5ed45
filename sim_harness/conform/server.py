"""The conformance test of a foreign server."""

from collections.abc import Iterator

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.conform.probe import Bench
from sim_harness.conform.rules import Outcome
from sim_harness.conform.server_rules import RULES
from sim_harness.conform.server_safety_rules import RULES as SAFETY_RULES


def try_server(endpoint: str, robot: Robot, stance: Array, only: str = "") -> Iterator[Outcome]:
    """Yield the outcome of each rule.

    robot, stance: that the server controls, and a configuration in which it stands (nq); only: text of the rules to try
    """
    bench = Bench(endpoint, robot, stance)
    for rule in (each for each in (*RULES, *SAFETY_RULES) if only in each.claim):
        yield rule.judged(bench)
