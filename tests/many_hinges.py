"""Quadrupeds whose legs have any number of hinges."""

import numpy as np
import urdf

from controllers.robot.kinematics import standing
from idyn import ContactPoint, Description, Robot

AXES = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}

LEGS = {  # number of hinges → axis, length of the link below [m], angle of the stance [rad]
    4: [("x", 0, 0), ("y", 0.15, 0.7), ("y", 0.15, -1.4), ("y", 0.06, 0.7)],
    5: [("x", 0, 0), ("y", 0.15, 0.7), ("y", 0.15, -1.4), ("y", 0.05, 0.7), ("x", 0.03, 0)],
    6: [("z", 0, 0), ("x", 0, 0), ("y", 0.15, 0.7), ("y", 0.15, -1.4), ("y", 0.05, 0.7), ("x", 0.03, 0)],
    7: [("z", 0, 0), ("x", 0, 0), ("y", 0.08, 0.7), ("z", 0.07, 0), ("y", 0.15, -1.4), ("y", 0.05, 0.7), ("x", 0.03, 0)],
}

PLACES = {"LF": (0.2, 0.1), "RF": (0.2, -0.1), "LH": (-0.2, 0.1), "RH": (-0.2, -0.1)}


def urdf_of(front, hind):
    """URDF of a 6 kg quadruped whose front and hind legs have so many hinges."""
    parts = [urdf.link("body", 5.0, 0.05)]
    for leg, (x, y) in PLACES.items():
        parent, at = "body", (x, y, 0)
        for i, (axis, length, _) in enumerate(LEGS[front if leg[1] == "F" else hind]):
            name, limits = f"{leg}_{i}", (-2.5, 2.5, 20, 25)
            parts.append(urdf.link(f"{name}_link", 0.04, 1e-4))
            parts.append(urdf.joint(name, parent, f"{name}_link", axis=AXES[axis], at=at, limits=limits))
            parent, at = f"{name}_link", (0, 0, -length)
        parts += [urdf.link(f"{leg}_foot"), urdf.joint(f"{leg}_end", parent, f"{leg}_foot", at=at)]
    return urdf.robot("hinges", *parts)


def angles_of(front, hind):
    """Angles of the stance by joint [rad]."""
    legs = {leg: LEGS[front if leg[1] == "F" else hind] for leg in PLACES}
    return {f"{leg}_{i}": angle for leg, hinges in legs.items() for i, (_, _, angle) in enumerate(hinges) if angle}


def quadruped_of(front, hind):
    contact = tuple(ContactPoint(frame=f"{leg}_foot", radius=0.01, mu=0.8) for leg in PLACES)
    robot = Robot(Description(urdf=urdf_of(front, hind), contact=contact))
    return robot, np.array(standing(robot, angles_of(front, hind)))
