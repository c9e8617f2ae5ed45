"""What is wrong with a robot description, said before anything runs."""

from xml.etree import ElementTree

import msgspec
import numpy as np

from idyn.model.tree import DUMMY_EFFORT, Limits


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One remark: `where` names the link or joint, severity is 'error' (physics is wrong) or 'note' (worth knowing)."""

    severity: str
    where: str
    message: str


def inspect_urdf(urdf: str, limits: Limits, joint_names: tuple[str, ...]) -> list[Finding]:
    """Inertias link by link (as written, before fixed joints merge them), masses, and the actuated joints' limits."""
    robot = ElementTree.fromstring(urdf)
    findings = [finding for link in robot.iter("link") for finding in _inspect_link(link)]
    findings += [finding for joint in robot.findall("joint") for finding in _inspect_joint(joint)]
    for i, name in enumerate(joint_names):
        if not np.isfinite(limits.tau_max[i]):
            message = (
                f"no usable effort limit (absent, 0, or a placeholder of {DUMMY_EFFORT:g} or more): torques are not limited"
            )
            findings.append(Finding(severity="note", where=name, message=message))
        if not np.isfinite(limits.v_max[i]):
            findings.append(Finding(severity="note", where=name, message="no velocity limit"))
    return findings


def _inspect_joint(joint: ElementTree.Element) -> list[Finding]:
    axis = joint.find("axis")
    along = [1.0, 0.0, 0.0] if axis is None else [float(x) for x in axis.get("xyz", "1 0 0").split()]
    if joint.get("type") != "planar" or along == [0.0, 0.0, 1.0]:
        return []
    message = "a planar joint moves in the xy plane of its frame, whatever its axis: write 0 0 1, and turn its origin"
    return [Finding(severity="error", where=joint.get("name", "?"), message=message)]


def _inspect_link(link: ElementTree.Element) -> list[Finding]:
    name = link.get("name", "?")
    inertial = link.find("inertial")
    if inertial is None:
        return []
    mass_element, inertia = inertial.find("mass"), inertial.find("inertia")
    mass = float(mass_element.get("value", "0")) if mass_element is not None else 0.0
    if mass <= 0 or inertia is None:
        return [Finding(severity="note", where=name, message=f"inertial with mass {mass:g} kg or without inertia: weightless")]
    xx, yy, zz, xy, xz, yz = (float(inertia.get(key, "0")) for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"))
    moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if moments[0] < 0:
        return [Finding(severity="error", where=name, message=f"negative principal moment of inertia {moments[0]:.3g} kg·m²")]
    if moments[2] > (moments[0] + moments[1]) * (1 + 1e-6):
        message = (
            f"principal moments {moments[0]:.3g}, {moments[1]:.3g}, {moments[2]:.3g} kg·m² break the triangle inequality: "
            "no body has this inertia"
        )
        return [Finding(severity="error", where=name, message=message)]
    return []
