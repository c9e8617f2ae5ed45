"""Newton's law of restitution of the rigid engines, on a point and on a ball, which need no solver to know the outcome."""

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast

from controllers.config.loading import parse
from idyn.errors import ConfigError
from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import ForwardProblem
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.engines.no_slip import NoSlip
from sim_harness.scenes.load import check_scene
from sim_harness.scenes.recording import run_scene
from sim_harness.scenes.scene_settings import BodySettings, GroundSettings, SceneSettings, Shape
from sim_harness.world.worlds import AnyEngine

ENGINES = (PolygonLcp, Dissipation, NoSlip, Newton)


def point(speed, gap, slip=1.0):
    """A point of 2 kg that moves down onto the floor without gravity, and along it at `slip` [m/s]."""
    return ForwardProblem(
        M=2.0 * np.eye(3),
        h=np.zeros(3),
        v=np.array([slip, 0.0, -speed]),
        J=np.eye(3),
        force=np.zeros(3),
        mu=np.array([0.1]),
        gaps=np.array([gap]),
        dt=1e-3,
    )


@every("engine", ENGINES)
def test_an_impact_is_reversed_by_the_coefficient(engine):
    slip = 0.0 if engine is Dissipation else 1.0  # its sliding contacts open faster: the modelling error of its docstring
    solution = engine(restitution=0.4).solve(point(speed=2.0, gap=1e-3, slip=slip))
    assert solution.status.ok
    assert solution.v_plus[2] == pytest.approx(0.8, rel=1e-6)
    assert solution.p[0, 2] == pytest.approx(2.0 * 2.8, rel=1e-6)
    friction = {NoSlip: -2.0, Dissipation: 0.0}.get(engine, -0.1 * 2.0 * 2.8)
    assert solution.p[0, 0] == pytest.approx(friction, rel=1e-3, abs=1e-9)


@every("engine", ENGINES)
@every(("speed", "gap"), [(2.0, 0.01), (0.01, 0.0), (-1.0, 0.0)])
def test_far_slow_and_opening_contacts_do_not_bounce(engine, speed, gap):
    bouncing, plain = (each.solve(point(speed, gap)) for each in (engine(restitution=0.4), engine()))
    np.testing.assert_array_equal(bouncing.v_plus, plain.v_plus)


@pytest.mark.full
@pytest.mark.parametrize("engine", first_is_fast([PolygonLcp, Newton]))
def test_a_ball_bounces_to_the_square_of_the_coefficient(engine):
    ball = BodySettings(name="ball", shape=Shape(sphere=0.05), mass=1.0, position=(0.0, 0.0, 0.55))
    settings = check_scene(
        SceneSettings(about="", engines=("lcp",), dt=1e-3, duration=0.8, body=(ball,), ground=GroundSettings())
    )
    heights = run_scene(settings, engine(restitution=0.6)).centres[:, 0, 2] - 0.05
    low = int(heights[:400].argmin())  # it falls for 0.32 s
    assert heights[low:].max() == pytest.approx(0.6**2 * 0.5, rel=0.02)


@every("value", [-0.1, 1.1, float("nan")])
def test_a_coefficient_outside_0_to_1_is_refused(value):
    for engine in ENGINES:
        kind = msgspec.structs.fields(engine) and engine.__struct_config__.tag
        with pytest.raises(ConfigError) as caught:
            parse({"kind": kind, "restitution": value}, AnyEngine, "engine")
        assert caught.value.path == "engine.restitution"
