"""Plausibility checks of a URDF: inertias, masses, limits, planar joints."""

from xml.etree import ElementTree

import msgspec
import numpy as np

from idyn.model.tree import DUMMY_EFFORT, Limits


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of the inspection. where: link or joint; severity: 'error' (wrong physics) or 'note'"""

    severity: str
    where: str
    message: str


def inspect_urdf(urdf: str, limits: Limits, joint_names: tuple[str, ...]) -> list[Finding]:
    """Check inertias and masses link by link, before fixed joints merge links, and the limits of the actuated joints."""
    robot = ElementTree.fromstring(urdf)
    findings = [finding for link in robot.iter("link") for finding in _inspect_link(link)]
    findings += [finding for joint in robot.findall("joint") for finding in _inspect_joint(joint)]
    for i, name in enumerate(joint_names):
        if not np.isfinite(limits.tau_max[i]):
            message = f"no valid effort limit (missing, 0, or a placeholder ≥ {DUMMY_EFFORT:g}): the torque is not limited"
            findings.append(Finding(severity="note", where=name, message=message))
        if not np.isfinite(limits.v_max[i]):
            findings.append(Finding(severity="note", where=name, message="no velocity limit"))
    return findings


def _inspect_joint(joint: ElementTree.Element) -> list[Finding]:
    axis = joint.find("axis")
    along = [1.0, 0.0, 0.0] if axis is None else [float(x) for x in axis.get("xyz", "1 0 0").split()]
    if joint.get("type") != "planar" or along == [0.0, 0.0, 1.0]:
        return []
    message = "a planar joint moves in the xy plane of its frame for any axis: use the axis 0 0 1 and rotate the joint origin"
    return [Finding(severity="error", where=joint.get("name", "?"), message=message)]


def _inspect_link(link: ElementTree.Element) -> list[Finding]:
    name = link.get("name", "?")
    inertial = link.find("inertial")
    if inertial is None:
        return []
    mass_element, inertia = inertial.find("mass"), inertial.find("inertia")
    mass = float(mass_element.get("value", "0")) if mass_element is not None else 0.0
    if mass <= 0 or inertia is None:
        return [Finding(severity="note", where=name, message=f"mass {mass:g} kg or missing inertia: the link has no mass")]
    xx, yy, zz, xy, xz, yz = (float(inertia.get(key, "0")) for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"))
    moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if moments[0] < 0:
        return [Finding(severity="error", where=name, message=f"negative principal moment of inertia {moments[0]:.3g} kg·m²")]
    if moments[2] > (moments[0] + moments[1]) * (1 + 1e-6):
        message = (
            f"principal moments {moments[0]:.3g}, {moments[1]:.3g}, {moments[2]:.3g} kg·m² violate the triangle inequality: "
            "no rigid body has this inertia"
        )
        return [Finding(severity="error", where=name, message=message)]
    return []
