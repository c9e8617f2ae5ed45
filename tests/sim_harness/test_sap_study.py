"""The study of the engine `sap`: many bodies, long rolling, and its page."""

import numpy as np
import pytest
from fast import every, full

from controllers.config.loading import parse
from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.engines.sap import Sap
from sim_harness.studies import sap_study
from sim_harness.studies.sap_study import SCENES, Pile, effective_mass, pile, swing
from sim_harness.world.worlds import AnyEngine


@full
def test_forty_bodies_come_to_rest_in_their_bin():
    found = pile("near")
    assert len(found.t) == 1000
    assert found.momentum.max() < 1e-5
    assert found.iterations[-300:].mean() <= 6.0  # contacts of boxes within the margin come and go
    assert found.iterations.max() > 10
    assert found.contacts[-1] > 100


@pytest.mark.long
def test_ten_minutes_of_rolling_lose_the_published_energy():
    """About 10 % [SAP §VI-B], with a contact at each end of the cylinder: half of what one contact alone takes."""
    energy = swing("rolls", "midpoint", 0.02, 600.0).energy
    assert 0.85 < energy[-50:].mean() < 0.92


@full
@pytest.mark.parametrize("motion", SCENES)
def test_the_scenes_cylinders_swing_in_their_periods(motion):
    run = swing(motion, "midpoint", 0.02, 5.0)
    turns = np.flatnonzero((run.x[:-1] < 0) & (run.x[1:] >= 0))
    expected = 2 * np.pi * np.sqrt(effective_mass(motion) / 100.0)
    assert np.ptp(run.t[turns]) / (len(turns) - 1) == pytest.approx(expected, rel=0.01)


@full
def test_the_page_has_its_tables_and_pictures(tmp_path, monkeypatch, capsys):
    few = np.arange(1.0, 9.0)
    monkeypatch.setattr(
        sap_study, "pile", lambda _: Pile(t=few, iterations=few, momentum=1e-6 / few, contacts=few, seconds=few)
    )
    monkeypatch.setattr(sap_study, "LONG_S", 2.0)
    monkeypatch.setattr(sap_study, "ORDER_S", 1.0)
    assert main(["compare", "sap-study", "--out", str(tmp_path)]) == 0
    assert {"schemes.png", "clutter.png", "report.html"} == {path.name for path in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    assert "midpoint" in printed
    assert "order" in printed


@every(
    ("wrong", "named"),
    [
        ({"stiffness": -1.0}, r"sim\.engine\.stiffness"),
        ({"stiffness": float("nan")}, r"sim\.engine\.stiffness"),
        ({"dissipation": -1e-3}, r"sim\.engine\.dissipation"),
        ({"sigma": 0.0}, r"sim\.engine\.sigma"),
        ({"scheme": "trapezoid"}, r"sim\.engine\.scheme"),
        ({"candidates": "all"}, r"sim\.engine\.candidates"),
        ({"tolerance": 1.0}, r"sim\.engine\.tolerance"),
        ({"kp": 1.0}, r"sim\.engine\.kp"),
    ],
)
def test_invalid_settings_are_refused(wrong, named):
    with pytest.raises(ConfigError, match=named):
        parse({"kind": "sap"} | wrong, AnyEngine, "sim.engine")
    assert parse("sap", AnyEngine, "sim.engine") == Sap()
