"""Spikes and freezes of single sensors of a robot that stands or trots, with a measured and with an estimated base.

    pytest -m long -s tests/sim_harness/test_spoiled_sensors.py

prints the cases that fell; `python tests/sim_harness/spoiled_sensors.py` those of all robots.
"""

from functools import cache
from itertools import product

import pytest
from fast import every
from spoiled_sensors import SPIKES, Rig, cases, freeze, spike

IMU = ("base attitude", "base rate", "specific force")
GAITS, BASES = ("stand", "trot"), ("measured", "estimated")


@cache
def rig(gait: str, base: str) -> Rig:
    return Rig(gait, base)


@every("gait", GAITS)
def test_one_sample_of_the_gyro_is_replaced(gait: str) -> None:
    ran = rig(gait, "estimated").run(spike("base rate", 7.0), 1.0)
    assert not ran.fell
    assert set(ran.modes) <= {"ok", "degraded"}


@every("gait", GAITS)
def test_a_frozen_imu_is_named_and_the_robot_holds_its_posture(gait: str) -> None:
    ran = rig(gait, "estimated").run(freeze(IMU, 0.4), 1.0)
    assert not ran.fell
    assert ran.named.startswith("the rate of the base has been frozen for")
    assert "failsafe:damping" not in ran.modes


def test_a_robot_without_noise_comes_to_rest_without_an_alarm() -> None:
    ran = Rig("stand", "estimated", noise=False).run(seconds=4.0)
    assert ran.modes["ok"] >= 3995
    assert "frozen" not in ran.named


def test_a_torque_sensor_of_1e300_is_harmless() -> None:
    assert not rig("stand", "estimated").run(spike("joint torque", SPIKES["joint torque"][-1]), 1.0).fell


@pytest.mark.long
def test_nearly_all_faults_of_sensors_are_harmless_and_the_others_named() -> None:
    runs, fell = 0, {}
    for gait, base in product(GAITS, BASES):
        for name, change in cases(base):
            ran, runs = rig(gait, base).run(change), runs + 1
            if ran.fell:
                fell[f"{gait}, {base}: {name}"] = ran.named
    print(f"{runs - len(fell)} of {runs} without a fall; fell: {fell}")
    assert all(fell.values())
    assert len(fell) <= 0.05 * runs
