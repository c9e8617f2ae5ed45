"""Motors of a compiled MJCF: torque limits, and joints without a motor."""

from collections.abc import Iterator
from typing import Any

import numpy as np

Names = dict[tuple[str, int], str]  # kind and index → name
TRANSMISSIONS = {2: "a slider crank", 3: "a tendon", 4: "a site", 5: "a body"}  # types in MuJoCo besides joints


def actuator_problems(m: Any, names: Names) -> Iterator[str]:
    """Yield the actuators that do not turn one joint by a force."""
    for a in range(m.nu):
        kind, joint = int(m.actuator_trntype[a]), int(m.actuator_trnid[a, 0])
        if kind > 1:
            yield f"actuator '{names['actuator', a]}': acts on {TRANSMISSIONS.get(kind, 'no joint')}, not on a joint"
        elif m.jnt_type[joint] < 2:
            yield f"actuator '{names['actuator', a]}': acts on the free or ball joint '{names['joint', joint]}'"
        elif m.actuator_gaintype[a] > 1:
            yield f"actuator '{names['actuator', a]}': a muscle or a user's own gain"


def motors(m: Any, names: Names, axes: list[int]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the torque limits of the joints [N·m or N], and the joints without a motor. Without actuators all have motors.
    axes: the robot's joints with one axis

    A limit is the smallest of those that the file gives: `actuatorfrcrange` of the joint, and for each of its actuators gear
    times `forcerange`, and gear times gain times `ctrlrange` if the force is proportional to the control.
    """
    limits = {j: float(np.abs(m.jnt_actfrcrange[j]).max()) if m.jnt_actfrclimited[j] else np.inf for j in axes}
    driven = set()
    for a in range(m.nu):
        j, gear, force = int(m.actuator_trnid[a, 0]), abs(float(m.actuator_gear[a, 0])), np.inf
        if j not in limits:
            continue
        driven.add(j)
        if m.actuator_forcelimited[a]:
            force = float(np.abs(m.actuator_forcerange[a]).max())
        if m.actuator_gaintype[a] == 0 and m.actuator_biastype[a] == 0 and m.actuator_ctrllimited[a]:
            force = min(force, float(np.abs(m.actuator_ctrlrange[a]).max()) * abs(float(m.actuator_gainprm[a, 0])))
        limits[j] = min(limits[j], gear * force)
    passive = tuple(names["joint", j] for j in axes if m.nu and j not in driven)
    return {names["joint", j]: limits[j] for j in axes if np.isfinite(limits[j]) and names["joint", j] not in passive}, passive
