"""The bundled quadruped, standing on a bench: sends its state 500 times per second and prints what the server says.

idyn serve quadruped --endpoint ipc:///tmp/torques
python stand.py ipc:///tmp/torques [SECONDS]
"""

import random
import signal
import sys
import time

from idyn_client import Client, Message, Phase, Robot, Vector

PERIOD_NS = 2_000_000
LEGS = [f"{leg}_{joint}" for leg in ("LF", "LH", "RF", "RH") for joint in ("X_1", "Y_2", "Y_3")]
STANCE = [0.0, 0.0, 0.161853, 0.0, 0.0, 0.0, 1.0]
for sign in (1.0, -1.0, -1.0, 1.0):
    STANCE += [sign * angle for angle in (0.112948, 0.567157, 1.53122)]

HELLO: Message = {
    "client": {"name": "python example", "kind": "robot"},
    "model": {"nq": 19, "nv": 18, "na": 12, "total_mass": 4.8},
    "joint_names": LEGS,
    "actuated": LEGS,
    "base": {"type": "free_flyer", "quat_order": "xyzw", "vel_frame": "local"},
    "dt_nominal": PERIOD_NS * 1e-9,
}
FEET: list[Message] = [{"frame": f"{leg}_FOOT"} for leg in ("LF", "LH", "RF", "RH")]


class Bench:
    """In place of sensors and drives. Replace it by your robot's."""

    def read(self) -> tuple[Vector, Vector]:
        """Return q and vel; the encoders are noisy by 10 µrad."""
        return STANCE[:7] + [angle + random.gauss(0.0, 1e-5) for angle in STANCE[7:]], [0.0] * 18

    def write(self, tau: Vector) -> None:
        """Apply torques for one period."""


def main() -> None:
    endpoint, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1e9
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
    signal.signal(signal.SIGINT, lambda *_: ends.append(1))
    client, bench = Client(endpoint, Robot(HELLO, damping=0.2)), Bench()
    begin = due = time.monotonic_ns()
    said, largest = "", 0.0
    while not ends and time.monotonic_ns() - begin < seconds * 1e9:
        now = time.monotonic_ns()
        q, vel = bench.read()
        tau = client.tick(now, q, vel, FEET)
        bench.write(tau)
        largest = max(largest, *map(abs, tau))
        if client.phase is Phase.LATCHED and max(map(abs, vel)) < 0.1:
            client.reset(now, q, vel)  # on a robot: only when somebody has agreed
        line = " ".join(word or "-" for word in (client.phase.value, client.status, client.refusal))
        if line != said:
            print(line, flush=True)
        said = line
        due = max(due + PERIOD_NS, time.monotonic_ns())  # late ticks are not made up for
        time.sleep(max(0, due - time.monotonic_ns()) * 1e-9)
    print(f"states {client.seq}, last answered {client.applied}, largest torque {largest:.3f} N·m", flush=True)
    client.close()


if __name__ == "__main__":
    main()
