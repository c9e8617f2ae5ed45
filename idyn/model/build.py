"""Pinocchio's model of a URDF, checked before and after: nothing may be lost. An error is what cannot be simulated, or what
Pinocchio's parser would change without a word; a warning is what no real robot has, but has an effect that can be computed;
a note is what has no effect, or is often left out."""

from collections import Counter, deque
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import numpy as np
import pinocchio as pin

from idyn.errors import InputError, ModelError
from idyn.model.description import Description
from idyn.model.tree import Limits
from idyn.model.urdf import ROOT_JOINT, lines_of, link_of, parse_urdf, with_counted_turns, without_shapes

ROUNDING = 1e-6  # a principal moment may miss a bound by this share of the largest one: URDFs give moments with few digits
ROUNDING_RADIUS = 1e-6  # a radius of gyration below this is rounding [m]: the link is a point mass
MAX_GYRATION = 1.5  # root mean square distance of mass from its centre beyond which an inertia is doubtful [m]
MAX_MASS = 1e6  # of a link [kg]

MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


DYNAMICS = {"damping": "N·m·s/rad", "friction": "N·m", "stiffness": "N·m/rad"}  # of a joint besides its motor; stiffness: MJCF


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of the inspection."""

    severity: str  # error, warning or note
    where: str  # name of a link or joint
    message: str
    element: str = ""  # link or joint, empty if it is of neither


class _Wrong(Exception):
    """A value of the URDF that is an error; the message names it."""


def inspect_urdf(robot: ElementTree.Element) -> list[Finding]:
    """Check inertias and masses link by link, before fixed joints merge links, and axes and limits of the joints."""
    findings: list[Finding] = []
    for check, elements in ((_inspect_link, robot.findall("link")), (_inspect_joint, robot.findall("joint"))):
        for element in elements:
            where = element.get("name", "?")
            try:
                found = check(element)
            except _Wrong as wrong:
                found = [("error", str(wrong))]
            findings += [Finding(severity=how, where=where, message=message, element=element.tag) for how, message in found]
    notes = [(note.get("where", ""), note.get("message", "")) for note in robot.iterfind("idyn/note")]
    return findings + [Finding(severity="warning", where=where, message=message) for where, message in notes]


def inspect_limits(limits: Limits, joint_names: tuple[str, ...]) -> list[Finding]:
    """Return notes about actuated joints without limits of torque or speed."""
    findings = []
    for i, name in enumerate(joint_names):
        if not np.isfinite(limits.tau_max[i]):
            message = "no effort limit (missing or 0): the torque is not limited"
            findings.append(Finding(severity="note", where=name, message=message))
        if not np.isfinite(limits.v_max[i]):
            findings.append(Finding(severity="note", where=name, message="no velocity limit"))
    return findings


def _inspect_link(link: ElementTree.Element) -> list[tuple[str, str]]:
    inertial = link.find("inertial")
    if inertial is None:
        return []
    _check_origin(inertial)
    mass_element, inertia = inertial.find("mass"), inertial.find("inertia")
    if mass_element is None or inertia is None:
        raise _Wrong("inertial: expected a mass and an inertia; the parser ignores both when one is missing")
    mass = _number(mass_element, "value", "mass")
    if not 0 <= mass <= MAX_MASS:
        raise _Wrong(f"mass: expected 0 to {MAX_MASS:g} kg, got {mass:g}")
    xx, yy, zz, xy, xz, yz = (_number(inertia, name, f"inertia {name}") for name in MOMENTS)
    moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    rounding = ROUNDING * np.abs(moments).max() + mass * ROUNDING_RADIUS**2
    for name, moment in zip(MOMENTS[:3], (xx, yy, zz), strict=True):
        if moment < -rounding:
            raise _Wrong(f"inertia {name}: expected ≥ 0 kg·m², got {moment:g}")
    if mass == 0:
        return [("note", "mass 0 kg: the link has no mass")]
    # principal moments are ≥ 0, and none is larger than the sum of the others
    low, middle, high = np.where(np.abs(moments) < rounding, 0.0, moments).tolist()
    values, found = f"principal moments {low:.3g}, {middle:.3g}, {high:.3g} kg·m²", []
    if low < 0:
        found.append(("warning", f"{values}: the smallest is negative: no rigid body has this inertia"))
    elif high > low + middle + rounding:
        rank = " of rank one" if middle == 0 else ""
        found.append(("warning", f"inertia{rank}: {values} violate the triangle inequality: no rigid body has this inertia"))
    radius = float(np.sqrt(max(moments.sum(), 0.0) / (2 * mass)))
    if not radius < MAX_GYRATION:
        said = f"inertia: {mass:g} kg with moments up to {moments[2]:.3g} kg·m² are spread over {radius:.2g} m"
        found.append(("warning", f"{said} from the centre of mass: probably a placeholder"))
    return found


def _inspect_joint(joint: ElementTree.Element) -> list[tuple[str, str]]:
    kind = joint.get("type")
    _check_origin(joint)
    found = [*_inspect_axis(joint, kind), *_inspect_range(joint, kind)]
    if (mimic := joint.find("mimic")) is not None:
        law = f"{mimic.get('multiplier', '1')} · {mimic.get('joint', '?')} + {mimic.get('offset', '0')}"
        why = f"nothing holds the joint at {law}; it moves on its own, with a motor unless `unactuated` names it"
        found.append(("warning", f"mimic is ignored: {why}"))
    if (dynamics := joint.find("dynamics")) is not None:
        own = {name: _number(dynamics, name, f"dynamics {name}") for name in DYNAMICS if name in dynamics.attrib}
        unused = [f"{name} {value:g} {DYNAMICS[name]}" for name, value in own.items() if value]
        found += [("note", f"dynamics: {', '.join(unused)}: not part of the prediction")] if unused else []
    return found


def _inspect_axis(joint: ElementTree.Element, kind: str | None) -> list[tuple[str, str]]:
    if kind in ("fixed", "floating"):
        return []
    element = joint.find("axis")
    axis = [1.0, 0.0, 0.0] if element is None else _vector(element, "xyz", "axis")
    text, length = " ".join(f"{x:g}" for x in axis), float(np.linalg.norm(axis))
    if length < ROUNDING:
        raise _Wrong(f"axis: expected a unit vector, got {text}")
    if kind == "planar" and axis != [0.0, 0.0, 1.0]:
        why = "a planar joint moves in the xy plane of its frame for any axis: use 0 0 1 and rotate the joint origin"
        raise _Wrong(f"axis: {why}")
    if abs(length - 1) > 1e-3:
        return [("warning", f"axis: {text} is normalised, its length is {length:.4g}")]
    return []


def _inspect_range(joint: ElementTree.Element, kind: str | None) -> list[tuple[str, str]]:
    """Check the limits of position, torque and speed; continuous joints have no limits of position."""
    limit = joint.find("limit")
    if limit is None:
        if kind in ("revolute", "prismatic"):
            raise _Wrong(f"limit: missing; a {kind} joint needs one")
        return []
    for name in ("effort", "velocity"):
        if name in limit.attrib and (value := _number(limit, name, f"limit {name}")) < 0:
            raise _Wrong(f"limit {name}: expected ≥ 0 (0: not limited), got {value:g}")
    if kind not in ("revolute", "prismatic"):
        return []
    lower, upper = (_number(limit, name, f"limit {name}") if name in limit.attrib else 0.0 for name in ("lower", "upper"))
    if lower == upper == 0:
        return [("note", "limit: lower and upper are 0 or missing: the position is not limited")]
    if lower >= upper:
        raise _Wrong(f"limit: expected lower < upper, got {lower:g} and {upper:g}")
    return []


def _check_origin(element: ElementTree.Element) -> None:
    origin = element.find("origin")
    for name in () if origin is None else ("xyz", "rpy"):
        if origin is not None and name in origin.attrib:
            _vector(origin, name, f"origin {name}")


def _vector(element: ElementTree.Element, name: str, what: str) -> list[float]:
    text = element.get(name, "")
    words = text.split()
    if "${" in text or "$(" in text:
        raise _Wrong(f"{what}: '{text}' is an expression of xacro: expand the file by xacro first")
    if len(words) != 3:
        raise _Wrong(f"{what}: expected 3 numbers, got {len(words)}")
    return [_finite(word, what) for word in words]


def _number(element: ElementTree.Element, name: str, what: str) -> float:
    text = element.get(name)
    if text is None:
        raise _Wrong(f"{what}: missing")
    return _finite(text, what)


def _finite(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value) or "_" in text:
        raise _Wrong(f"{what}: expected a finite number, got '{text[:40]}'")
    return value


MAX_LINKS = 2000
MAX_DEPTH = 500  # joints between the root and a link: the parsers are recursive
MAX_VELOCITIES = 250  # workspaces of Pinocchio grow with the cube of their number: 2.3 GB at 250

VELOCITIES = {"fixed": 0, "revolute": 1, "continuous": 1, "prismatic": 1, "planar": 3, "floating": 6}
"""Number of the velocities of each type of joint."""

RESERVED = ("universe", ROOT_JOINT)  # names of the first joints of Pinocchio


def inspect_structure(robot: ElementTree.Element) -> list[Finding]:
    """Return the errors of names, sizes and connections."""
    links, joints = robot.findall("link"), robot.findall("joint")
    if len(links) > MAX_LINKS or len(joints) > MAX_LINKS:
        return [_error("robot", f"expected at most {MAX_LINKS} links, got {len(links)}, and {len(joints)} joints")]
    names = [link.get("name", "") for link in links]
    return [
        *_inspect_names("link", names),
        *_inspect_names("joint", [joint.get("name", "") for joint in joints]),
        *_inspect_joints(joints, set(names)),
        *_inspect_tree(joints, names),
    ]


def _inspect_names(kind: str, names: list[str]) -> list[Finding]:
    found = [_error(name or "?", f"expected each {kind} once, got {n}", kind) for name, n in Counter(names).items() if n > 1]
    found += [_error("?", f"a {kind} has no name")] if "" in names else []
    taken = f"a {kind} must not have this name, which Pinocchio uses"
    return found + [_error(name, taken, kind) for name in RESERVED if name in names]


def _inspect_joints(joints: list[ElementTree.Element], links: set[str]) -> list[Finding]:
    found, velocities = [], 0
    for joint in joints:
        name, kind = joint.get("name", "?"), joint.get("type", "")
        velocities += VELOCITIES.get(kind, 0)
        if kind not in VELOCITIES:
            found.append(_error(name, f"type: expected one of {', '.join(VELOCITIES)}, got '{kind[:40]}'", "joint"))
        for end in ("parent", "child"):
            if (link := link_of(joint, end)) not in links:
                found.append(_error(name, f"{end}: no link named '{link[:40]}'", "joint"))
    if velocities > MAX_VELOCITIES:
        found.append(_error("robot", f"expected at most {MAX_VELOCITIES} velocities of joints, got {velocities}"))
    return found


def _inspect_tree(joints: list[ElementTree.Element], links: list[str]) -> list[Finding]:
    """Each link but the root is the child of one joint, and is connected to the root by at most MAX_DEPTH joints."""
    count = Counter(link_of(joint, "child") for joint in joints)
    found = [_error(link, f"the link is the child of {n} joints, expected one", "link") for link, n in count.items() if n > 1]
    roots = [link for link in links if link not in count]
    if len(roots) != 1:
        return [*found, _error("robot", f"expected one root link, got {', '.join(roots[:8]) or 'none'}")]
    children: dict[str, list[str]] = {}
    for joint in joints:
        children.setdefault(link_of(joint, "parent"), []).append(link_of(joint, "child"))
    depth, queue = {roots[0]: 0}, deque(roots)
    while queue:
        link = queue.popleft()
        new = {child: depth[link] + 1 for child in children.get(link, ()) if child not in depth}
        depth |= new
        queue += new
    found += [_error(link, "the link is not connected to the root", "link") for link in links if link not in depth]
    deepest = max(depth, key=lambda link: depth[link])
    if depth[deepest] > MAX_DEPTH:
        found.append(_error(deepest, f"expected at most {MAX_DEPTH} joints between the root and a link, got {depth[deepest]}"))
    return found


def _error(where: str, message: str, element: str = "") -> Finding:
    return Finding(severity="error", where=where, message=message, element=element)


SHOWN = 8  # number of errors in one message
SINGULAR = 1e-13  # a pivot of the mass matrix below this share of its diagonal element is rounding


def read_text(path: str | Path) -> str:
    """Return the text of a file. Raises ModelError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read ({error})") from error


def build_model(description: Description, source: str) -> pin.Model:
    """Build Pinocchio's model. Raises InputError for `base`, ModelError for the URDF, with its errors by link and joint."""
    base = description.base
    if base not in ("free_flyer", "fixed"):
        raise InputError("base", f"expected 'free_flyer' or 'fixed', got '{base}'")
    try:
        model = _build_urdf(description, source)
    except (ElementTree.ParseError, ValueError, RuntimeError) as error:
        raise ModelError(f"{source}: not a URDF that Pinocchio can parse ({error})") from error
    if model.nv == 0:
        why = ": elements of xacro are not expanded, expand the file by xacro first" if "<xacro:" in description.urdf else ""
        raise ModelError(f"{source}: expected at least one moving joint, got none{why}")
    return model


def _build_urdf(description: Description, source: str) -> pin.Model:
    text = description.urdf
    robot = parse_urdf(text, source)
    _refuse(robot, text, source, inspect_structure(robot) or inspect_urdf(robot))
    root = (pin.JointModelFreeFlyer(),) if description.base == "free_flyer" else ()
    model = pin.buildModelFromXML(without_shapes(with_counted_turns(text, source)), *root)
    model.gravity.linear = np.array(description.gravity)
    _check_mass(robot, model, source)
    return model


def check_mass_matrix(model: pin.Model, data: pin.Data, names: tuple[str, ...], source: str) -> None:
    """Check that M is positive definite at the neutral position: M = U D Uᵀ has positive pivots D.

    names: of the velocities (nv)
    Raises ModelError with the outermost velocity whose pivot is not positive.
    """
    diagonal = np.diag(pin.crba(model, data, pin.neutral(model)))
    pin.cholesky.decompose(model, data)
    pivots = np.array(data.D)
    singular = np.flatnonzero(~(pivots > SINGULAR * diagonal) | ~np.isfinite(pivots))
    if len(singular):
        k = int(singular[-1])
        raise ModelError(
            f"{source}: {names[k]}: expected links with mass and inertia beyond this joint, or armature, got an inertia of "
            f"{pivots[k]:g} (kg·m² or kg): the mass matrix is not positive definite"
        )


def _check_mass(robot: ElementTree.Element, model: pin.Model, source: str) -> None:
    """Compare the mass of all links with that of the model: the parser leaves out what it does not understand."""
    masses = (link.find("inertial/mass") for link in robot.findall("link"))
    wanted = sum([float(mass.get("value", "0")) for mass in masses if mass is not None])
    got = sum(inertia.mass for inertia in model.inertias)
    if abs(got - wanted) > 1e-9 * wanted:
        raise ModelError(f"{source}: the links have {wanted:g} kg, Pinocchio's parser read {got:g} kg")


def _refuse(robot: ElementTree.Element, text: str, source: str, findings: list[Finding]) -> None:
    """Raise ModelError for the errors among the findings, with the line of each. robot: the element of the text"""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    places = {(part.tag, part.get("name", "?")): f"line {at}, {part.tag} " for part, at in lines_of(robot, text).items()}
    shown = [f"{places.get((each.element, each.where), '')}{each.where}: {each.message}" for each in errors[:SHOWN]]
    more = f"; and {len(errors) - SHOWN} more errors" if len(errors) > SHOWN else ""
    raise ModelError(f"{source}: {'; '.join(shown)}{more}")
