"""Engines timed side by side: counts, refusals, and the shipped tables of [D15]."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast, full

from controllers.config.loading import find
from idyn.errors import ConfigError
from sim_harness.compare.race.report import race_figure, race_outcomes, race_table
from sim_harness.compare.race.run import March, Race, Stopwatch, Trial, run_race, standings
from sim_harness.compare.report import Finding, comparison_report
from sim_harness.compare.settings import load_comparison
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.no_slip import NoSlip
from sim_harness.report.tables import text_table

TABLES = ("d15-table-1", "d15-table-2", "d15-table-3")


def short(name, **changes):
    race = load_comparison(name).race
    return msgspec.structs.replace(race, duration=3 * race.dt, trials=2, lasting=2, **changes)


@full
@pytest.mark.parametrize("name", first_is_fast(TABLES))
def test_every_engine_of_a_table_is_timed_and_reported(name, tmp_path):
    settings, seen = short(name), []
    race = run_race(settings, lambda *news: seen.append(news))
    assert seen[-1][:2] == (2 * len(settings.runner),) * 2
    for trials in race.trials.values():
        assert len(trials) == 2
        assert all(len(t.iterations) == 3 and 0 < t.engine < t.total for t in trials)
        assert trials[0].contacts > 0
    comparison = msgspec.structs.replace(load_comparison(name), race=settings)
    comparison_report([Finding(name=name, comparison=comparison, results={}, race=race)]).write(tmp_path)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert settings.reference in (tmp_path / "report.html").read_text()


def test_ratios_of_means_are_listed_beside_the_published_ones():
    settings = load_comparison("d15-table-1").race
    times = {runner.title: 3e-3 if "Lemke" in runner.title else 1e-3 for runner in settings.runner}

    def trial(total, engine):
        return Trial(total=total, engine=engine, iterations=[2, 4], contacts=36.0, unsolved=0.5, moved=0.0123)

    race = Race(
        trials={title: [trial(t, t / 2), trial(2 * t, t / 2)] for title, t in times.items()},
        lasting={title: trial(1.0, 1.0) for title in times},
    )
    first = standings(settings, race)[0]
    assert (first.total_ratio, first.engine_ratio) == pytest.approx((3.0, 3.0))
    assert first.paper_ratio == pytest.approx(10.9681 / 1.6680)
    assert (first.iterations, first.most, first.unsolved) == (3.0, 4, 0.5)
    assert [outcome.holds for outcome in race_outcomes(settings, race)] == [True, False]
    assert "4500.0 ± 2121.3" in text_table(race_table(settings, standings(settings, race)))
    assert "moved in 1 s, mm" in race_table(settings, standings(settings, race))[0]
    assert first.moved == 0.0123
    assert race_figure(standings(settings, race))[:4] == b"\x89PNG"


def test_a_timed_engine_differs_only_by_its_friction():
    runner = load_comparison("d15-table-1").race.runner[0]
    watch = Stopwatch(runner)
    march = March("quadruped", 1, watch, 1e-3)
    problems = []
    solve, own = watch.solve, PolygonLcp()
    march.world.engine = type("Spy", (), {"solve": staticmethod(lambda p: problems.append(p) or solve(p))})()
    march.step()
    expected = own.solve(msgspec.structs.replace(problems[0], mu=np.full(4, 100.0)))
    np.testing.assert_array_equal(march.world.v, expected.v_plus)
    assert watch.contacts == [4]


@every("points", [1, 3])
def test_a_march_lifts_two_feet_in_turn(points):
    march = March("quadruped", points, NoSlip(), 1e-3)
    lifted = []
    for _ in range(400):
        assert march.step().status.ok
        feet = march.world.contacts
        lifted.append(
            [min([g for k, g in zip(feet.keys, feet.gaps, strict=True) if k.startswith(leg)], default=0.01) for leg in LEGS]
        )
    high = np.array(lifted) > 1e-3
    assert (high.any(axis=0)).all()
    assert not high.all(axis=1).any()
    assert march.world.q[2] > 0.15


LEGS = sorted({re.split(r"[_.]", key)[0] for key in March("quadruped", 1, NoSlip(), 1e-3).world.contacts.keys})


@every(
    ("old", "new", "said"),
    [
        ('reference = "no-slip (modified PPM)"', 'reference = "nobody"', "race.reference: expected one of"),
        ('scene = "grasp-boxes"', 'robot = "quadruped"\nscene = "grasp-boxes"', "race.scene: expected a scene or a robot"),
        ("duration = 0.1", "duration = 0.001", "race.duration: expected at least one step"),
        ('solver = "qp"', 'solver = "simplex"', "solver"),
        ("mu = 100.0", "mu = -1.0", "mu"),
    ],
)
def test_invalid_races_are_refused(tmp_path, old, new, said):
    text = Path(find("experiments", "d15-table-1")).read_text()
    assert old in text
    path = tmp_path / "race.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        load_comparison(str(path))
