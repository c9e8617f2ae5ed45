"""Load scenes from TOML, expand copies, chains and arches, check them, and list the engines they support."""

from collections.abc import Iterable

import msgspec
import numpy as np
from scipy.optimize import brentq

from controllers.config.loading import load, parse
from controllers.config.tables import kind_of
from idyn.errors import ConfigError, nearest
from idyn.types import Array
from sim_harness.studies.formulas import FORMULAS
from sim_harness.studies.scenes.measures import QUANTITIES
from sim_harness.studies.scenes.polyhedra import CENTRED, Corners, hull_of
from sim_harness.studies.scenes.scene import Closure
from sim_harness.studies.scenes.scene_model import SceneModel
from sim_harness.studies.scenes.scene_settings import (
    ArchSettings,
    BodySettings,
    JointSettings,
    SceneSettings,
    Shape,
    Vector,
    check_finite,
)
from sim_harness.world.worlds import AnyEngine


def expanded(settings: SceneSettings) -> SceneSettings:
    """Return the scene with every body listed. Raises ConfigError for a scene without bodies or an invalid arch."""
    check_finite("scene", settings)
    bodies = [each for body in settings.body for each in copies_of(body)]
    bodies += [block for arch in settings.arch for block in blocks_of(arch)]
    if not bodies:
        raise ConfigError("scene.body", "expected at least one body")
    return msgspec.structs.replace(settings, body=tuple(bodies), arch=())


def copies_of(body: BodySettings) -> list[BodySettings]:
    """Return the copies of a body."""
    if body.copies == 1:
        return [body]
    one = msgspec.structs.replace(body, copies=1, chained=False)
    return [
        msgspec.structs.replace(
            one,
            name=f"{body.name}-{k}",
            position=moved(body.position, body.apart, k),
            joint=body.joint if isinstance(body.joint, str) else tuple(_moved(joint, body.apart, k) for joint in body.joint),
            parent=f"{body.name}-{k - 1}" if body.chained and k else body.parent,
        )
        for k in range(body.copies)
    ]


def moved(place: Vector, apart: Vector, times: int) -> Vector:
    """Return place + times · apart [m] (3)."""
    x, y, z = (a + times * step for a, step in zip(place, apart, strict=True))
    return x, y, z


def _moved(joint: JointSettings, apart: Vector, times: int) -> JointSettings:
    return joint if joint.anchor is None else msgspec.structs.replace(joint, anchor=moved(joint.anchor, apart, times))


def blocks_of(arch: ArchSettings) -> list[BodySettings]:
    """Return the blocks of an arch, equally long along the catenary z = rise − a (cosh(x/a) − 1).

    Raises ConfigError when the arch is too thick for its curvature.
    """
    half = arch.span / 2
    a = brentq(lambda a: a * (np.cosh(half / a) - 1.0) - arch.rise, half / 50.0, 50.0 * half**2 / arch.rise)
    lengths = np.linspace(-1.0, 1.0, arch.blocks + 3) * a * np.sinh(half / a)  # arc lengths from the crown
    x = a * np.arcsinh(lengths / a)
    middle = np.column_stack([x, np.zeros_like(x), arch.rise - a * (np.cosh(x / a) - 1.0)])
    across = np.column_stack([np.tanh(x / a), np.zeros_like(x), 1.0 / np.cosh(x / a)])  # outward normals
    crown, ends = arch.thickness
    reach = 0.5 * (crown + (ends - crown) * (x / half) ** 2)[:, None] * across
    if not (np.diff((middle - reach)[:, 0]) > 0.0).all():
        raise ConfigError(
            f"scene.arch '{arch.name}'.thickness",
            f"expected a thickness for which the blocks do not overlap on the inside, got {arch.thickness}",
        )
    return [
        _block(arch, k, np.array([line[i] for line in (middle - reach, middle + reach) for i in (k, k + 1)]))
        for k in range(len(x) - 1)
    ]


def _block(arch: ArchSettings, index: int, profile: Array) -> BodySettings:
    """Return one block of an arch; profile: corners in the plane y = 0 [m] (4, 3)."""
    sides = np.array([[0.0, side * arch.width / 2, 0.0] for side in (-1.0, 1.0)])
    corners = (profile[None] + sides[:, None]).reshape(-1, 3)
    centre = hull_of(tuple(map(tuple, corners.tolist()))).centre
    return BodySettings(
        name=f"{arch.name}-{index}",
        shape=Shape(hull=tuple(map(tuple, (corners - centre).tolist()))),
        density=arch.density,
        material=arch.material,
        position=tuple(centre.tolist()),
        joint="free" if 0 < index <= arch.blocks else "fixed",
    )


CLOSED = 1e-9  # largest error of a closure at the beginning [m, rad]; a larger one contradicts the other joints


def load_scene(name_or_path: str, duration: float | None = None) -> SceneSettings:
    """Read and check a scene; duration: replaces the scene's [s]. Raises ConfigError that names the first invalid field."""
    settings = parse(load("experiments", name_or_path, dict), SceneSettings, "scene")
    if duration is not None:
        settings = msgspec.structs.replace(settings, duration=duration)
    return check_scene(expanded(settings))


def check_scene(s: SceneSettings) -> SceneSettings:
    """Check a scene and return it unchanged. Raises ConfigError that names the first invalid field."""
    check_finite("scene", s)
    if s.duration < s.dt:
        raise ConfigError("scene.duration", f"expected at least one step of {s.dt} s, got {s.duration}")
    names = [body.name for body in s.body]
    for i, body in enumerate(s.body):
        _check_body(f"scene.body[{i}]", body, names[:i])
    for i, closure in enumerate(s.closure):
        for name in filter(None, closure.bodies):
            _check_known(f"scene.closure[{i}].bodies", name, names)
        if closure.bodies[0] == closure.bodies[1]:
            raise ConfigError(f"scene.closure[{i}].bodies", f"expected two bodies, or one and '' (world), got {closure.bodies}")
    for i, force in enumerate(s.force):
        _check_known(f"scene.force[{i}].body", force.body, names)
    for i, measure in enumerate(s.measure):
        _check_known(f"scene.measure[{i}].quantity", measure.quantity, QUANTITIES)
        _check_known(f"scene.measure[{i}].body", measure.body or names[0], names)
        for engine in measure.engines:
            _check_known(f"scene.measure[{i}].engines", engine, engines_of(s))
    for i, measure in enumerate(s.measure):
        if measure.known is not None:
            _check_known(f"scene.measure[{i}].known", measure.known, FORMULAS)
            _check_uniform(s)
            FORMULAS[measure.known](s, names.index(measure.body) if measure.body else 0)
    engines_of(s)
    _check_closed(s)
    return s


def engines_of(settings: SceneSettings) -> dict[str, AnyEngine]:
    """Return the engines that a scene lists, by name. Raises ConfigError for an unknown engine or setting."""
    found = [parse(each, AnyEngine, f"scene.engines[{i}]") for i, each in enumerate(settings.engines)]
    return {str(kind_of(engine)): engine for engine in found}


def engine_named(settings: SceneSettings, name: str) -> AnyEngine:
    """Return an engine with the scene's settings, or with its defaults when the scene does not list it. Raises ConfigError."""
    listed = engines_of(settings)
    engine: AnyEngine = listed[name] if name in listed else parse(name, AnyEngine, "--engine")
    return engine


def _check_body(where: str, body: BodySettings, before: list[str]) -> None:
    if not body.name or body.name in (*before, "world", "ground"):
        raise ConfigError(f"{where}.name", f"expected a unique name other than 'world' and 'ground', got '{body.name}'")
    shape = body.shape
    count = sum(part is not None for part in (shape.box, shape.sphere, shape.cylinder, shape.hull))
    if count != 1:
        raise ConfigError(f"{where}.shape", f"expected exactly one of box, sphere, cylinder, hull, got {count}")
    if shape.hull is not None:
        _check_hull(f"{where}.shape.hull", shape.hull)
    if (body.mass is None) == (body.density is None) and (body.joint != "fixed" or body.parent):
        raise ConfigError(f"{where}.mass", "expected either mass or density, got both or neither")
    if body.inertia is not None and 2.0 * max(body.inertia) > sum(body.inertia):
        raise ConfigError(f"{where}.inertia", f"expected no moment larger than the sum of the others, got {body.inertia}")
    if body.joint != "free" and any((*body.velocity, *body.spin)):
        raise ConfigError(
            f"{where}.velocity", "expected zero velocity and spin for a body that is not free; use a joint's speed"
        )
    if body.parent:
        _check_known(f"{where}.parent", body.parent, before)
        if body.joint == "free":
            raise ConfigError(f"{where}.parent", f"expected no parent of a free body, got '{body.parent}'")
    if not body.joint:
        raise ConfigError(f"{where}.joint", "expected 'free', 'fixed' or at least one joint, got an empty list")
    for k, joint in enumerate(body.joints):
        _check_joint(f"{where}.joint[{k}]", joint)


def _check_uniform(s: SceneSettings) -> None:
    """Check that all bodies are of uniform density, which the formulas of known values take for granted."""
    for i, body in enumerate(s.body):
        if not body.uniform:
            field = "inertia" if body.inertia is not None else "mass_centre"
            raise ConfigError(
                f"scene.body[{i}].{field}", "expected uniform density in a scene with known values, whose formulas need it"
            )


def _check_hull(where: str, corners: Corners) -> None:
    try:
        centre = hull_of(corners).centre
    except ConfigError as error:
        raise ConfigError(where, error.message) from error
    if not np.abs(centre).max() <= CENTRED:
        raise ConfigError(where, f"expected corners relative to the centre of mass, got a centre of mass at {centre}")


def _check_joint(where: str, joint: JointSettings) -> None:
    if not any(joint.axis):
        raise ConfigError(f"{where}.axis", "expected a non-zero vector, got zero")
    if joint.stop is not None and not joint.stop[0] < joint.stop[1]:
        raise ConfigError(f"{where}.stop", f"expected (lower, upper) with lower < upper, got {joint.stop}")


def _check_known(where: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ConfigError(where, f"unknown name '{name}'{nearest(name, known)}")


def _check_closed(settings: SceneSettings) -> None:
    """Check that closures, closed at the reference configuration, are closed at the start and have zero velocity."""
    model = SceneModel(settings)
    q, v = model.start.q, model.start.v
    axes = model.terms(q, v)[2]
    for i, closure in enumerate(settings.closure):
        G, g = Closure(model, closure).rows(q, axes)
        for what, value, unit in (("an error of", g, "m or rad"), ("a velocity of", G @ v, "m/s or rad/s")):
            if np.abs(value).max() > CLOSED:
                worst = f"{np.abs(value).max():.3g} {unit}"
                raise ConfigError(
                    f"scene.closure[{i}]", f"expected start and speed of the joints to keep it closed, got {what} {worst}"
                )
