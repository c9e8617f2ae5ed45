"""Checks of the tree of links and joints of a URDF: names, sizes, connections."""

from collections import Counter, deque
from xml.etree import ElementTree

from idyn.model.inspection import Finding
from idyn.model.urdf import ROOT_JOINT

MAX_LINKS = 2000
MAX_DEPTH = 500
"""Joints between the root and a link: the parsers are recursive."""

MAX_VELOCITIES = 250
"""Pinocchio's workspaces grow with the cube of their number: 2.3 GB at 250."""

VELOCITIES = {"fixed": 0, "revolute": 1, "continuous": 1, "prismatic": 1, "planar": 3, "floating": 6}
"""Number of the velocities of each type of joint."""

RESERVED = ("universe", ROOT_JOINT)
"""Names of Pinocchio's first joints."""


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
    found += [
        _error(name, f"a {kind} must not have this name, which Pinocchio uses", kind) for name in RESERVED if name in names
    ]
    return found


def _inspect_joints(joints: list[ElementTree.Element], links: set[str]) -> list[Finding]:
    found, velocities = [], 0
    for joint in joints:
        name, kind = joint.get("name", "?"), joint.get("type", "")
        velocities += VELOCITIES.get(kind, 0)
        if kind not in VELOCITIES:
            found.append(_error(name, f"type: expected one of {', '.join(VELOCITIES)}, got '{kind[:40]}'", "joint"))
        for end in ("parent", "child"):
            if (link := _end(joint, end)) not in links:
                found.append(_error(name, f"{end}: no link named '{link[:40]}'", "joint"))
    if velocities > MAX_VELOCITIES:
        found.append(_error("robot", f"expected at most {MAX_VELOCITIES} velocities of joints, got {velocities}"))
    return found


def _inspect_tree(joints: list[ElementTree.Element], links: list[str]) -> list[Finding]:
    """Each link but the root is the child of one joint, and is connected to the root by at most MAX_DEPTH joints."""
    count = Counter(_end(joint, "child") for joint in joints)
    found = [_error(link, f"the link is the child of {n} joints, expected one", "link") for link, n in count.items() if n > 1]
    roots = [link for link in links if link not in count]
    if len(roots) != 1:
        return [*found, _error("robot", f"expected one root link, got {', '.join(roots[:8]) or 'none'}")]
    children: dict[str, list[str]] = {}
    for joint in joints:
        children.setdefault(_end(joint, "parent"), []).append(_end(joint, "child"))
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


def _end(joint: ElementTree.Element, end: str) -> str:
    element = joint.find(end)
    return "" if element is None else element.get("link", "")


def _error(where: str, message: str, element: str = "") -> Finding:
    return Finding(severity="error", where=where, message=message, element=element)
