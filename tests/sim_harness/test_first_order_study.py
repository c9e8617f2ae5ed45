"""The engine `first-order`: accuracy and speed in the study of a foundation, and its page."""

import time

import numpy as np
import pytest
from fast import every, full

from controllers.config.loading import parse
from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.engines.first_order import FirstOrder
from sim_harness.studies import first_order_study as page
from sim_harness.studies.first_order_study import exact_pendulum, pendulum
from sim_harness.world.worlds import AnyEngine


@full
def test_the_tables_have_eight_cells(monkeypatch):
    """All eight cells, of which one is computed here, at a tenth of its size."""
    monkeypatch.setattr(page, "SOFT_S", 0.02)
    found = page.cell(4, 1e7, 5.0)
    assert found.pressed == 16
    assert set(found.seconds) == {"first-order", "BDF", "RK45"}
    assert all(0.0 < seconds < np.inf for seconds in found.seconds.values())
    tables = page.time_table([found] * 8), page.error_table([found] * 8)
    assert [len(table) for table in tables] == [9, 9]
    assert tables[0][4][0] == "100 elements, 50 N"
    assert tables[0][4][3].endswith("(5550)")
    assert "(8.14e-01)" in tables[1][4][3]


class Counting:
    """The engine, and how many iterations each of its steps took."""

    def __init__(self):
        self.iterations = []

    def solve(self, problem):
        solution = FirstOrder().solve(problem)
        self.iterations.append(solution.iterations)
        return solution


@full
@pytest.mark.parametrize(("per_side", "modulus", "force"), page.CELLS)
def test_every_cell_of_the_table_has_bounded_errors(per_side, modulus, force):
    """At h = 0.01 s for 1 s: every step solved, in 2 to 5 iterations on the mean, whatever their number and stiffness (at 1e11
    N/m² some take 30 to 40, at rounding); 50 N lift an edge, 5 N none; errors below 1e-5 at the end, at 1e11 N/m² after
    0.02 s, where the reference needs half a million evaluations already."""
    on, engine = page.bed(per_side, modulus, force), Counting()
    pose, _, pressed = page.stepped(engine, on, page.DT, 1.0)
    assert np.mean(engine.iterations) <= 6
    assert max(engine.iterations) <= 50
    assert np.isfinite(pose.q).all()
    assert pressed == per_side**2 if force == 5.0 else 0.8 * per_side**2 < pressed < 0.95 * per_side**2
    sink = (page.MASS * page.GRAVITY + force) * page.DEPTH / (modulus * page.SIDE**2)
    assert 0.5 * page.SIDE - pose.q[2] == pytest.approx(sink, rel=1e-3 if force == 5.0 else 0.05)
    end = 1.0 if modulus < 1e9 else 0.02
    exact, _ = page.integrated(on, "DOP853", end, *page.TIGHT[modulus])
    assert page.distance(page.stepped(engine, on, page.DT, end)[0], exact) < 1e-5


@pytest.mark.bench
def test_the_time_of_a_step_grows_at_most_linearly_with_the_elements():
    """That of the published program grows with their cube (900 elements of 100: 25 to 65 times as long); here the unknowns are
    the cube's velocity."""
    engine, spent = FirstOrder(), {}
    for per_side in (10, 30):
        on = page.bed(per_side, 1e7, 50.0)
        page.stepped(engine, on, 0.01, 0.01)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            page.stepped(engine, on, 0.01, 0.3)
            times.append(time.perf_counter() - begin)
        spent[per_side] = min(times)
    print(f"\n100 elements: {spent[10]:.3f} s for 0.3 s, 900: {spent[30]:.3f} s")
    assert spent[30] < 27 * spent[10]


def test_errors_halve_with_the_step():
    """The pendulum's place and pivot's forces after 0.8 s. The error of its velocity falls with the square of the step, at any
    time: the place is late by half a step, the velocity is not."""
    exact = exact_pendulum(0.8)
    ends = [pendulum(dt, 0.8) for dt in (2e-3, 1e-3)]
    for name, ratio in (("q", 2.0), ("v", 4.0), ("forces", 2.0)):
        coarse, fine = (np.linalg.norm(getattr(end, name) - getattr(exact, name)) for end in ends)
        assert coarse / fine == pytest.approx(ratio, rel=0.02), name


@full
def test_errors_of_the_foundation_halve_with_the_step():
    on = page.bed(6, 1e3, 5.0)
    exact, _ = page.integrated(on, "DOP853", 0.5, 1e-11, 1e-13)
    errors = [page.distance(page.stepped(FirstOrder(), on, dt, 0.5)[0], exact) for dt in (1e-3, 5e-4)]
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.05)


@full
def test_errors_of_a_pendulum_with_a_stop_halve_with_the_step():
    """[Drumwright §5.4]: linear in the step once it resolves the stop."""
    exact = page.exact_limited_pendulum(1.0, page.STOP_K, page.STOP_B)
    errors = [page.limited_pendulum(dt, 1.0, page.STOP_K, page.STOP_B).q[0] - exact.q[0] for dt in (1e-4, 5e-5)]
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.05)


@full
def test_the_page_has_its_tables_and_picture(tmp_path, monkeypatch, capsys):
    small = page.Cell(
        seconds=dict.fromkeys(("first-order", "BDF", "RK45"), 0.1),
        errors=dict.fromkeys(("first-order", "1 ms", "BDF", "RK45"), 1e-6),
        pressed=1,
    )
    monkeypatch.setattr(page, "cell", lambda *_: small)
    monkeypatch.setattr(page, "STEPS", (8e-3, 4e-3))
    assert main(["compare", "first-order-study", "--out", str(tmp_path)]) == 0
    assert {"orders.png", "report.html"} == {path.name for path in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    assert "restitution" in printed
    assert "published" in printed


@every(
    ("wrong", "named"),
    [
        ({"stiffness": 0.0}, r"sim\.engine\.stiffness"),
        ({"dissipation": -1e-3}, r"sim\.engine\.dissipation"),
        ({"tangential": float("nan")}, r"sim\.engine\.tangential"),
        ({"friction": "pyramid"}, r"sim\.engine\.friction"),
        ({"normal_weight": -1.0}, r"sim\.engine\.normal_weight"),
        ({"candidates": "all"}, r"sim\.engine\.candidates"),
        ({"tolerance": 1.0}, r"sim\.engine\.tolerance"),
        ({"kp": 1.0}, r"sim\.engine\.kp"),
    ],
)
def test_invalid_settings_are_refused(wrong, named):
    with pytest.raises(ConfigError, match=named):
        parse({"kind": "first-order"} | wrong, AnyEngine, "sim.engine")
    assert parse("first-order", AnyEngine, "sim.engine") == FirstOrder()
