"""Studies as data: which points are measured, and what the report has of them."""

import json

import numpy as np

from sim_harness.compare.study import Picture, Study, Sweep, measure, report_of
from sim_harness.report.plots import Plot, picture
from sim_harness.report.report import Report
from sim_harness.report.tables import crossed, listed

STUDY = Study(
    "Powers",
    "of numbers",
    sweeps={
        "powers": Sweep(((2, 3), {"squared": 2, "cubed": 3}), lambda base, exponent: base**exponent),
        "roots": Sweep(((4, 9),), np.sqrt),
    },
    tables=(
        lambda found: crossed("base", found["powers"], str),
        lambda found: listed("of", found["roots"].items(), {"root": "{:.0f}".format}),
    ),
    pictures=(Picture("a b, c", "roots", lambda found: picture([Plot(lines={"": ([1, 2], [*found["roots"].values()])})])),),
    notes=lambda found: [f"{len(found['powers'])} powers"],
)


def test_every_point_of_every_sweep_is_measured_once():
    seen = []
    found = measure(STUDY, lambda *news: seen.append(news))
    assert found["powers"] == {("2", "squared"): 4, ("2", "cubed"): 8, ("3", "squared"): 9, ("3", "cubed"): 27}
    assert found["roots"] == {"4": 2.0, "9": 3.0}
    assert seen[0] == (0, 6, "powers, 2, squared")
    assert seen[-1] == (5, 6, "roots, 9")


def test_the_report_has_tables_notes_and_pictures(tmp_path):
    report = report_of(STUDY, measure(STUDY, lambda *_: None))
    assert report.tables[0] == [["base", "squared", "cubed"], ["2", "4", "8"], ["3", "9", "27"]]
    assert report.tables[1] == [["of", "root"], ["4", "2"], ["9", "3"]]
    assert report.text.endswith("4 powers")
    page = report.write(tmp_path, figures={"not finite": np.inf})
    assert page.read_text().count("data:image/png") == 1
    assert json.loads((tmp_path / "summary.json").read_text()) == {"not finite": None}
    assert (tmp_path / "a-b-c.png").read_bytes()[1:4] == b"PNG"


def test_the_text_of_a_report_leaves_out_headings_without_text():
    report = Report("title", "lead")
    for level, text in ((2, "empty"), (2, "full"), (3, "part"), (3, "empty part"), (2, "empty, too")):
        report.heading(text, level)
        if text == "part":
            report.paragraph("words")
    assert report.text == "full\n\npart\n\nwords"
