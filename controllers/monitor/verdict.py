"""The result of an alarm."""

from typing import NamedTuple


class Verdict(NamedTuple):
    """An alarm above its threshold. message: for the operator; stops: whether the robot must stop"""

    message: str
    stops: bool
