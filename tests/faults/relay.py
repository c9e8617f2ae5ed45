"""A relay between Unitree's simulator and a bridge, in a process of its own, in which something breaks after some time.

python relay.py FROM TO FAULT [BEGIN]: DDS domains of simulator and bridge, what breaks, seconds after the first command
"""

import random
import sys
import time
from collections.abc import Callable

import numpy as np

from transport.bridges.unitree.dds import Bus
from transport.bridges.unitree.messages import COMMAND, FAMILIES, STATE, Message

STOP = 1 << 5 | 1 << 9  # L2 and B

rng = random.Random(1)


class Frozen:
    """Repeats the first readings of the IMU."""

    def __init__(self) -> None:
        self.kept: dict[str, object] = {}

    def __call__(self, message: Message, passed: float) -> bool:
        for name in ("quaternion", "gyroscope", "accelerometer"):
            path = f"imu_state.{name}"
            message[path] = self.kept.setdefault(path, message[path].copy())
        return True


def put(path: str, value: float) -> Callable[[Message, float], bool]:
    def change(message: Message, passed: float) -> bool:
        message[path] = value
        return True

    return change


def spoiled(share: float) -> Callable[[Message, float], bool]:
    """Write a wrong checksum into some states."""

    def change(message: Message, passed: float) -> bool:
        message["crc"] = 7 if rng.random() < share else 0
        return True

    return change


def remote_stop(message: Message, passed: float) -> bool:
    remote = np.zeros(40)
    remote[2:4] = STOP & 0xFF, STOP >> 8
    message["wireless_remote"] = remote
    return True


FAULTS: dict[str, Callable[[Message, float], bool]] = {
    "1 % lost": lambda message, passed: rng.random() > 0.01,
    "10 % lost": lambda message, passed: rng.random() > 0.1,
    "20 ms lost": lambda message, passed: passed > 0.02,
    "50 ms lost": lambda message, passed: passed > 0.05,
    "300 ms lost": lambda message, passed: passed > 0.3,
    "cable": lambda message, passed: False,
    "some checksums": spoiled(0.1),
    "checksums": spoiled(1.0),
    "motor": put("motor_state.temperature", 95),
    "battery": put("power_v", 23.0),
    "IMU": Frozen(),
    "remote": remote_stop,
}
"""What breaks → function that changes a state, and says whether it arrives."""


def main() -> None:
    there, here, fault, begin = int(sys.argv[1]), int(sys.argv[2]), FAULTS[sys.argv[3]], float(sys.argv[4])
    family, (one, other) = FAMILIES["go"], (Bus(there), Bus(here))
    states, commands = one.reader(STATE, family.state), one.writer(COMMAND, family.command)
    out, orders = other.writer(STATE, family.state), None
    first: float | None = None
    while True:
        for message in states.take(0.02):
            passed = 0.0 if first is None else time.monotonic() - first - begin
            if passed <= 0.0 or fault(message, passed):
                out.write(bytes(message.data))
        if orders is None:  # the bridge must not see a writer of commands; a reader is none
            orders = other.reader(COMMAND, family.command)
        for order in orders.take():
            first = time.monotonic() if first is None else first
            commands.write(bytes(order.data))


if __name__ == "__main__":
    main()
