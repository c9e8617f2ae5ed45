"""The thresholds of the alarms, fitted on half of the cases and judged on the other half.

    pytest -m long -s tests/sim_harness/test_alarm_halves.py

prints both halves. Robots and cases are divided like a chessboard, so that each half has every robot and every kind of case.
The fit is the smallest factor on all thresholds of sensors, motors and roughness at which the first half has no false alarm.
"""

import msgspec
import numpy as np
import pytest
from test_wrong_robots import DISTURBED, ERROR, FAULTS, NAMED, ROBOTS
from wrong_robots import build, plan_of, provoke

from controllers.config.loading import parse
from controllers.monitor.alarms import AlarmSettings
from sim_harness.robot.imperfections import ImperfectionSettings
from sim_harness.run.plan import with_controller

SCALED = ("joint_drift", "base_drift", "attitude_drift", "joint_frozen", "joint_rigid", "base_frozen")
SCALED += ("motor", "roughness", "roughness_moving")
FACTORS = (0.25, 0.35, 0.5, 0.7, 1.0)
HALVES = ("fit", "judge")

WELL = ("quadruped", "go2", "a1", "solo12")
HEALTHY = [(robot, standing, case) for robot in WELL for standing in (False, True) for case in DISTURBED]
WRONG = [(robot, fault) for robot in ROBOTS for fault in FAULTS if fault != "drift 0.05 rad/s"]  # harmless within the run


def half_of(*indices):
    return HALVES[sum(indices) % 2]


def healthy(half):
    cases = list(DISTURBED)
    return [each for each in HEALTHY if half_of(WELL.index(each[0]), each[1], cases.index(each[2])) == half]


def wrong(half):
    faults = list(FAULTS)
    return [each for each in WRONG if half_of(ROBOTS.index(each[0]), faults.index(each[1])) == half]


def scaled(plan, factor):
    own = msgspec.structs.asdict(AlarmSettings())
    return with_controller(plan, {"alarms": {name: factor * own[name] for name in SCALED}})


def false_alarms(half, factor):
    """Return the healthy runs of a half with an answer that is not `ok`, and the number of runs."""
    found = []
    for robot, standing, case in healthy(half):
        plan = plan_of(robot, standing=standing, robot=parse(DISTURBED[case], ImperfectionSettings, "robot"))
        client, side = build(scaled(plan, factor))
        side.run(2.0)
        texts = [text for _, status, text in client.replies if status != "ok" and "torque limits" not in text]
        if texts:
            found.append((robot, standing, case, texts[0]))
    return found, len(healthy(half))


def faults(half, factor):
    """Return of the wrong robots of a half: the share named in time, the share not fallen before the stop, those that are
    neither, and their number. In time: within 55 ms or before an error of 0.1 rad, whichever is later."""
    named, kept, missed = [], [], []
    for robot, fault in wrong(half):
        found = provoke(scaled(plan_of(robot), factor), FAULTS[fault]())
        rate = next((float(word) for word in fault.split() if word.replace(".", "").isdigit()), None)
        named.append(found.named < (NAMED if rate is None else max(NAMED, ERROR / rate)))
        kept.append(found.stands or found.fell == np.inf)
        if not (named[-1] and kept[-1]):
            missed.append((robot, fault, round(found.named, 3)))
    return np.mean(named), np.mean(kept), missed, len(named)


@pytest.mark.long
def test_thresholds_that_fit_one_half_hold_on_the_other():
    fitted = None
    for factor in FACTORS:
        wrongly, runs = false_alarms("fit", factor)
        print(
            f"\nfactor {factor:g}: {len(wrongly)} of {runs} healthy runs of the fitted half with an alarm", *wrongly, sep="\n  "
        )
        if not wrongly:
            fitted = factor
            break
    assert fitted is not None
    for factor in sorted({fitted, 1.0}):
        for half in HALVES:
            wrongly, runs = false_alarms(half, factor)
            named, kept, missed, count = faults(half, factor)
            print(
                f"factor {factor:g}, half {half}: alarms in {len(wrongly)} of {runs} healthy runs; of {count} wrong robots "
                f"{named:.0%} named in time, {kept:.0%} stopped before a fall; others: {missed}; {wrongly}"
            )
            if half == "judge" and factor == 1.0:  # as shipped
                assert wrongly == []
                assert kept >= 0.9
