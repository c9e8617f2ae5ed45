"""Legs that are closed chains, cut at one joint or another."""

from idyn.model.description import Closure, ContactPoint, Description
from idyn.model.robot import Robot


def leg(cut):
    """One leg below a body: two thighs, two shanks, cut at the foot or at the hind knee."""

    def link(name, mass, centre):
        return (
            f'<link name="{name}"><inertial><origin xyz="0 0 {centre}"/><mass value="{mass}"/>'
            '<inertia ixx="0.002" iyy="0.003" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        )

    def joint(name, parent, child, z, kind="continuous"):
        return (
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="0 0 {z}"/><axis xyz="0 1 0"/></joint>'
        )

    links = [link("body", 3.0, 0.0), link("thigh", 0.1, -0.05), link("thigh2", 0.1, -0.05), link("shank", 0.1, -0.1)]
    joints = [joint("hip", "body", "thigh", 0), joint("hip2", "body", "thigh2", 0), joint("knee", "thigh", "shank", -0.1)]
    ends = [joint("end", "shank", "foot", -0.2, "fixed")]
    if cut == "foot":
        links.append(link("shank2", 0.1, -0.1))
        joints.append(joint("knee2", "thigh2", "shank2", -0.1))
        ends.append(joint("end2", "shank2", "foot2", -0.2, "fixed"))
        passive, closure = ("knee", "knee2"), Closure(first="foot", second="foot2")
    else:  # the hind shank hangs on the front one's end, upside down
        links.append(link("shank2", 0.1, 0.1))
        joints.append(joint("ankle", "shank", "shank2", -0.2))
        ends += [joint("end2", "shank2", "top", 0.2, "fixed"), joint("knee_place", "thigh2", "knee2_place", -0.1, "fixed")]
        passive, closure = ("knee", "ankle"), Closure(first="top", second="knee2_place")
    names = ["foot", *(["foot2"] if cut == "foot" else ["top", "knee2_place"])]
    empty = [f'<link name="{name}"/>' for name in names]
    urdf = f'<robot name="leg">{"".join([*links, *empty, *joints, *ends])}</robot>'
    contact = (ContactPoint(frame="foot", radius=0.0, mu=0.7),)
    return Robot(Description(urdf=urdf, contact=contact, unactuated=passive, closure=(closure,)))
