"""The study of the engine `newton`: its page, and the error floor in single precision."""

import numpy as np
import pytest
from fast import every, full

from controllers.config.loading import parse
from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.engines.newton import Newton
from sim_harness.studies import newton_study
from sim_harness.studies.newton_study import beam, convergence, floor, linear_residuals, paper
from sim_harness.world.worlds import AnyEngine


@every("number", [np.float32, np.float64])
def test_the_error_floor_matches_the_precision(number):
    """Residuals end below (92), in single precision within a factor of ten of it, in double of thirty.

    Impulses do not end at (91) with the paper's ν = δ ‖r‖, which takes the residual itself for exact: they are hundreds of
    times as wrong; with Tisseur's ν, the rounding of a residual, it is a bound.
    """
    found = floor(number)
    assert found.residual_expected / (10 if number is np.float32 else 30) < found.residual < found.residual_expected
    assert 10 * found.error_expected < found.error < found.error_at_most


def test_relaxation_stagnates_on_a_stiff_beam_and_krylov_methods_converge():
    """Figures 11 and 18: one linear system, and a whole solve."""
    found = linear_residuals(beam())
    assert (np.diff(found["pcr"]) <= 1e-9 * found["pcr"][:-1]).all()
    assert (np.diff(found["pcg"]) > 0).any()
    assert found["gauss-seidel"][-1] > 1e-3
    assert found["jacobi"][-1] > 1.0
    assert max(found["pcr"][-1], found["pcg"][-1]) < 1e-9
    left = {solver: convergence(paper(solver=solver), beam()).after(100) for solver in ("dense", "pcr", "gauss-seidel")}
    assert left["dense"] < 1e-12
    assert left["pcr"] < 1e-6
    assert left["gauss-seidel"] > 1e-3


@full
def test_the_page_has_its_tables_and_pictures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(newton_study, "PROBLEMS", {name: beam for name in ("stack", "beam", "arch")})
    monkeypatch.setattr(newton_study, "ITERATIONS", 22)
    assert main(["compare", "newton-study", "--out", str(tmp_path)]) == 0
    assert {"convergence.png", "linear.png", "report.html"} == {path.name for path in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    for word in ("gauss-seidel", "effective-mass, minimum-map", "the engine: exact steps", "float32"):
        assert word in printed


@every(
    ("wrong", "named"),
    [
        ({"damping": 0.0}, r"sim\.engine\.damping"),
        ({"damping": 1.5}, r"sim\.engine\.damping"),
        ({"regularisation": -1e-6}, r"sim\.engine\.regularisation"),
        ({"tolerance": 0.0}, r"sim\.engine\.tolerance"),
        ({"max_iterations": 0}, r"sim\.engine\.max_iterations"),
        ({"linear_iterations": 0}, r"sim\.engine\.linear_iterations"),
        ({"recovery": -1.0}, r"sim\.engine\.recovery"),
        ({"recovery": float("nan")}, r"sim\.engine\.recovery"),
        ({"solver": "qr"}, r"sim\.engine\.solver"),
        ({"function": "mixed"}, r"sim\.engine\.function"),
        ({"preconditioner": "global"}, r"sim\.engine\.preconditioner"),
        ({"edges": 4}, r"sim\.engine\.edges"),
    ],
)
def test_invalid_settings_are_refused(wrong, named):
    with pytest.raises(ConfigError, match=named):
        parse({"kind": "newton"} | wrong, AnyEngine, "sim.engine")
    assert parse("newton", AnyEngine, "sim.engine") == Newton()
