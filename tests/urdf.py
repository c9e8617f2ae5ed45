"""URDFs of small mechanisms."""

from collections.abc import Sequence

Place = Sequence[float] | float


def robot(name: str, *parts: str) -> str:
    return f'<robot name="{name}">{"".join(parts)}</robot>'


def link(name: str, mass: float = 0.0, inertia: Place = 0.0, at: Place = 0.0, more: str = "") -> str:
    """mass [kg], 0: none; inertia: about the axes [kg·m²], and its products xy, xz, yz; at: centre of mass [m]; one number is
    three equal ones for inertia, and a height for `at`; more: further elements"""
    if mass:
        values = [*((inertia,) * 3 if isinstance(inertia, float) else inertia), 0, 0, 0]
        moments = " ".join(f'{key}="{x}"' for key, x in zip(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), values, strict=False))
        more += f'<inertial><origin xyz="{_place(at)}"/><mass value="{mass}"/><inertia {moments}/></inertial>'
    return f'<link name="{name}">{more}</link>'


def touching(shape: str, at: Place = 0.0, rpy: str = "0 0 0") -> str:
    """A collision shape, such as `sphere radius="0.02"`."""
    return f'<collision><origin xyz="{_place(at)}" rpy="{rpy}"/><geometry><{shape}/></geometry></collision>'


def joint(name: str, parent: str, child: str, more: str = "", *, axis: str = "", at: Place = 0.0, rpy: str = "0 0 0",
          kind: str = "", limits: Sequence[float] = ()) -> str:  # fmt: skip
    """kind: by default `fixed` without an axis, else `revolute`; at, more: as of a link; limits: lower, upper, effort, speed"""
    kind = kind or ("revolute" if axis else "fixed")
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="{_place(at)}" rpy="{rpy}"/>{more}'
    ends += f'<axis xyz="{axis}"/>' if axis else ""
    if limits:
        ends += '<limit lower="{}" upper="{}" effort="{}" velocity="{}"/>'.format(*limits)
    return f'<joint name="{name}" type="{kind}">{ends}</joint>'


def _place(at: Place) -> str:
    return f"0 0 {at}" if isinstance(at, float) else " ".join(map(str, at))
