"""`idyn new` for bodies other than four feet on three joints: six legs, wheels on legs."""

import tomllib

from fast import every

from sim_harness.commands.main import main

FOOT = '<collision><origin xyz="0 0 -0.18"/><geometry><sphere radius="0.02"/></geometry></collision>'
WHEEL = '<collision><origin rpy="1.570796 0 0"/><geometry><cylinder radius="0.07" length="0.03"/></geometry></collision>'


def link(name, mass, z, moment, shape=""):
    moments = f'ixx="{moment}" iyy="{moment}" izz="{moment / 5}" ixy="0" ixz="0" iyz="0"'
    return (
        f'<link name="{name}"><inertial><origin xyz="0 0 {z}"/><mass value="{mass}"/><inertia {moments}/></inertial>'
        f"{shape}</link>"
    )


def joint(name, ends, place, axis, bounds):
    kind, limit = ("revolute", f'lower="{bounds[0]}" upper="{bounds[1]}"') if bounds else ("continuous", "")
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{ends[0]}"/><child link="{ends[1]}"/><origin xyz="{place}"/>'
        f'<axis xyz="{axis}"/><limit {limit} effort="25" velocity="20"/></joint>'
    )


def robot(places, wheels):
    """Return a URDF with a leg of three joints on each side at each of the places [m], which end in wheels or in spheres."""
    parts = [link("trunk", 5.0, 0.0, 0.1, '<collision><geometry><box size="0.5 0.2 0.08"/></geometry></collision>')]
    for i, x in enumerate(places):
        for side, s in (("l", 1), ("r", -1)):
            name = f"{side}{i}"
            parts += [link(f"{name}_hip", 0.3, 0.0, 1e-3), link(f"{name}_thigh", 0.4, -0.08, 2e-3)]
            parts += [link(f"{name}_shank", 0.15, -0.08, 6e-4, "" if wheels else FOOT)]
            parts += [joint(f"{name}_1", ("trunk", f"{name}_hip"), f"{x} {0.1 * s} 0", "1 0 0", (-0.8, 0.8))]
            parts += [joint(f"{name}_2", (f"{name}_hip", f"{name}_thigh"), f"0 {0.06 * s} 0", "0 1 0", (-1.5, 2.5))]
            parts += [joint(f"{name}_3", (f"{name}_thigh", f"{name}_shank"), "0 0 -0.18", "0 1 0", (-2.6, -0.2))]
            if wheels:
                parts += [link(f"{name}_wheel", 0.2, 0.0, 1e-3, WHEEL)]
                parts += [joint(f"{name}_4", (f"{name}_shank", f"{name}_wheel"), "0 0 -0.18", "0 1 0", None)]
    return f'<robot name="legs">{"".join(parts)}</robot>'


@every(("places", "wheels", "radius"), [((0.25, 0.0, -0.25), False, 0.02), ((0.2, -0.2), True, 0.07)])
def test_it_stands_in_its_own_world(tmp_path, capsys, places, wheels, radius):
    path, draft = tmp_path / "legs.urdf", tmp_path / "legs.toml"
    path.write_text(robot(places, wheels), encoding="utf-8")
    assert main(["new", str(path), "--out", str(draft)]) == 0
    said = capsys.readouterr().out
    contact = tomllib.loads(draft.read_text())["robot"]["contact"]
    assert len(contact) == 2 * len(places)
    assert {place["radius"] for place in contact} == {radius}
    assert all("offset" not in place for place in contact) == wheels  # a sphere about the axle
    assert ("a sphere of its radius about its axle" in said) == wheels
    assert main(["simulate", str(draft), "--seconds", "1"]) == 0
    assert "stood" in capsys.readouterr().out
