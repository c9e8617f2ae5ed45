"""`idyn explain`: files that OpenSim takes, a report, a page in three dimensions; wrong options are named."""

import json

import numpy as np
import pytest
from measured import measured

from idyn.explain.explanation import explain, load_walker
from idyn.motion.plates import plates_of
from idyn.motion.storage import read_table
from sim_harness.commands.main import main


def test_a_walk_is_explained_into_files(tmp_path, capsys):
    """The forces in the file are those of the library; the page shows found and measured forces of both feet."""
    folder = measured("human-walk")
    model, motion = folder / "subject01.osim", folder / "walk_ik.mot"
    words = ["explain", str(motion), "--model", str(model), "--plates", str(folder / "walk_grf.mot"), "--view"]
    assert main([*words, "--out", str(tmp_path), "--json", str(tmp_path / "figures.json")]) == 0
    found = explain(load_walker(model), read_table(motion))
    plates = plates_of(read_table(tmp_path / "forces.mot"))
    np.testing.assert_allclose(plates[0].force, found.force("calcn_r"), atol=1e-6)
    moments = read_table(tmp_path / "moments.sto").columns
    np.testing.assert_allclose(moments["knee_angle_l"], found.moments[:, found.names.index("knee_angle_l")], atol=1e-6)
    page = (tmp_path / "view.html").read_text()
    assert all(f"{foot}, {what}" in page for foot in ("calcn_r", "calcn_l") for what in ("found", "plate"))
    rows = json.loads((tmp_path / "figures.json").read_text())["walk_ik"]
    errors = {row[0]: float(row[-1]) for row in rows[1:] if row[-1]}
    assert errors["calcn_r, vertical (y)"] < 0.05
    assert "calcn_r, vertical (y)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["walk.mot", "--model", "no.osim"], "no.osim: cannot be read"),
        (["a/walk.mot", "b/walk.mot"], "MOTION: expected files with different names"),
        (["walk.mot"], "walk.mot: cannot be read"),
        (["walk.mot", "--cutoff", "-1"], "filter.cutoff: expected a number > 0 [Hz], got -1.0"),
        (["walk.mot", "--mu", "0"], "distribution.mu: expected a number > 0, got 0.0"),
    ],
)
def test_wrong_options_are_named(words, message, tmp_path, capsys):
    model = ["--model", str(measured("human-walk") / "subject01.osim")]
    files = [str(tmp_path / word) if word.endswith((".mot", ".osim")) else word for word in words]
    assert main(["explain", *files, *([] if "--model" in words else model), "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err.replace(f"{tmp_path}/", "")
