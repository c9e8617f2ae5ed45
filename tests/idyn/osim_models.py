"""Small OpenSim models as text, for tests."""


def offset(name: str, parent: str, place: str = "0 0 0", turn: str = "0 0 0") -> str:
    return (
        f'<PhysicalOffsetFrame name="{name}"><socket_parent>{parent}</socket_parent>'
        f"<translation>{place}</translation><orientation>{turn}</orientation></PhysicalOffsetFrame>"
    )


def coordinate(name: str, locked: str = "false", value: str = "0") -> str:
    return (
        f'<Coordinate name="{name}"><default_value>{value}</default_value><range>-3 3</range>'
        f"<locked>{locked}</locked><prescribed>false</prescribed></Coordinate>"
    )


def joint(kind: str, name: str, sockets: tuple[str, str], coordinates: str, frames: str = "", transform: str = "") -> str:
    return (
        f'<{kind} name="{name}"><socket_parent_frame>{sockets[0]}</socket_parent_frame>'
        f"<socket_child_frame>{sockets[1]}</socket_child_frame><coordinates>{coordinates}</coordinates>"
        f"<frames>{frames}</frames>{transform}</{kind}>"
    )


def body(name: str, mass: str = "2", centre: str = "0 -0.5 0", inertia: str = "0.1 0.02 0.1 0 0 0") -> str:
    return f'<Body name="{name}"><mass>{mass}</mass><mass_center>{centre}</mass_center><inertia>{inertia}</inertia></Body>'


LINEAR = '<LinearFunction name="function"><coefficients>1 0</coefficients></LinearFunction>'
ZERO = '<Constant name="function"><value>0</value></Constant>'


def transform(**axes: tuple[str, str, str]) -> str:
    """A SpatialTransform. axes: name of an axis → (coordinates, direction, function); the others are constant 0"""
    default = dict(zip(("rotation1", "rotation2", "rotation3"), ("0 0 1", "1 0 0", "0 1 0"), strict=True))
    default |= dict(zip(("translation1", "translation2", "translation3"), ("1 0 0", "0 1 0", "0 0 1"), strict=True))
    rows = []
    for name, direction in default.items():
        used, along, function = axes.get(name, ("", direction, ZERO))
        rows.append(
            f'<TransformAxis name="{name}"><coordinates>{used}</coordinates><axis>{along}</axis>{function}</TransformAxis>'
        )
    return f"<SpatialTransform>{''.join(rows)}</SpatialTransform>"


def model(bodies: str, joints: str, constraints: str = "", version: str = "40000") -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8" ?>\n<OpenSimDocument Version="{version}">\n<Model name="small">\n'
        f"<gravity>0 -9.80665 0</gravity>\n<BodySet><objects>\n{bodies}\n</objects></BodySet>\n"
        f"<JointSet><objects>\n{joints}\n</objects></JointSet>\n"
        f"<ConstraintSet><objects>{constraints}</objects></ConstraintSet>\n</Model>\n</OpenSimDocument>\n"
    )


def pendulum() -> str:
    """A body that hangs at the ground by a pin, its centre of mass 0.5 m below."""
    return model(body("bob"), joint("PinJoint", "pin", ("/ground", "/bodyset/bob"), coordinate("angle")))


FREE = (("rotation1", "tilt", "0 0 1"), ("rotation2", "list", "1 0 0"), ("rotation3", "turn", "0 1 0"))
MOVES = (("translation1", "tx", "1 0 0"), ("translation2", "ty", "0 1 0"), ("translation3", "tz", "0 0 1"))


def person() -> str:
    """A trunk of 60 kg that moves freely, with two legs that turn at the hips, feet of 1 kg and toes.

    In the neutral position, `ty` above the ground, the soles are 0.954 m below the trunk's origin.
    """
    axes = {axis: (f"trunk_{name}", along, LINEAR) for axis, name, along in (*FREE, *MOVES)}
    names = "".join(coordinate(f"trunk_{name}") for _, name, _ in (*FREE, *MOVES))
    bodies = body("trunk", "60", "0.05 0.2 0", "3 2 3 0 0 0")
    joints = joint("CustomJoint", "root", ("/ground", "/bodyset/trunk"), names, "", transform(**axes))
    for side, z in (("r", "0.1"), ("l", "-0.1")):
        bodies += body(f"calcn_{side}", "1", "0.1 0 0", "0.01 0.01 0.01 0 0 0") + body(f"toes_{side}", "0.1", "0 0 0")
        hip = offset("hip", "/bodyset/trunk", f"0 0 {z}") + offset("ankle", f"/bodyset/calcn_{side}", "0.05 0.9 0")
        joints += joint("PinJoint", f"hip_{side}", ("hip", "ankle"), coordinate(f"hip_{side}"), hip)
        ball = offset("ball", f"/bodyset/calcn_{side}", "0.18 0 0")
        joints += joint("WeldJoint", f"ball_{side}", ("ball", f"/bodyset/toes_{side}"), "", ball)
    return model(bodies, joints)
