"""URDFs of small mechanisms."""

from collections.abc import Sequence

Triple = Sequence[float] | float


def robot(name: str, *parts: str) -> str:
    return f'<robot name="{name}">{"".join(parts)}</robot>'


def link(name: str, mass: float = 0.0, inertia: Triple = 0.0, at: Triple = 0.0) -> str:
    """mass [kg], 0: none; inertia: about the axes [kg·m²]; at: centre of mass [m]; one number is three equal ones for inertia,
    and a height for `at`"""
    if not mass:
        return f'<link name="{name}"/>'
    x, y, z = (inertia,) * 3 if isinstance(inertia, float) else inertia
    moments = f'<inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/>'
    return f'<link name="{name}"><inertial><origin xyz="{_place(at)}"/><mass value="{mass}"/>{moments}</inertial></link>'


def joint(
    name: str, parent: str, child: str, *, axis: str = "", at: Triple = 0.0, kind: str = "", limits: Sequence[float] = ()
) -> str:
    """kind: by default `fixed` without an axis, else `revolute`; at: as of a link; limits: lower, upper, effort, velocity"""
    kind = kind or ("revolute" if axis else "fixed")
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="{_place(at)}"/>'
    ends += f'<axis xyz="{axis}"/>' if axis else ""
    if limits:
        ends += '<limit lower="{}" upper="{}" effort="{}" velocity="{}"/>'.format(*limits)
    return f'<joint name="{name}" type="{kind}">{ends}</joint>'


def _place(at: Triple) -> str:
    return f"0 0 {at}" if isinstance(at, float) else " ".join(map(str, at))
