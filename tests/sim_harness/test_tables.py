"""Tables fit a terminal of 100 columns, and their headings are explained."""

import math
import re

import msgspec
from fast import every
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compare_claims import FELL, SUMMARY

from sim_harness.commands.main import main
from sim_harness.report.report import Report
from sim_harness.report.tables import FIRST, REST, WIDTH, table, text_summary, text_table

CELL = st.text("abcdefgh 0123456789.", max_size=30).map(lambda text: " ".join(text.split()))


def test_a_narrow_table_has_one_line_per_row():
    rows = [["law", "tilt mrad", "verdict"], ["cone", "1.5", "stood 1.0 s"], ["no-slip", "12.0", "fell"]]
    assert text_table(rows).splitlines() == [
        "law      tilt mrad  verdict",
        "cone           1.5  stood 1.0 s",
        "no-slip       12.0  fell",
    ]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(CELL, min_size=12, max_size=12), min_size=2, max_size=5))
def test_a_wide_table_is_folded_without_loss(rows):
    """Every line fits; all words are there, those of the first column once for each block."""
    text = text_table(rows)
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    words = sorted(word for row in rows for cell in row[1:] for word in cell.split())
    blocks = text.count("\n\n") + 1 if all(row[0] for row in rows) else None
    found = sorted(text.split())
    if blocks is not None:
        assert found == sorted(words + blocks * [word for row in rows for word in row[0].split()])
    assert not [word for word in words if word not in found]


def test_names_too_long_for_a_line_are_broken():
    rows = [["law", "verdict"], ["x" * 150, "fell"]]
    text = text_table(rows)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.count("x") == 150


@every("label", ["coulomb", "a/long/path/to/a/folder/with/a/run/log.mcap #2"])
def test_the_summary_fits_and_explains_its_headings(label):
    run = msgspec.structs.replace(
        SUMMARY, label=label, torque_rate_max=1.2345e9, force_error=math.nan, round_trip_p50=1e4, round_trip_p99=1e5
    )
    fell = msgspec.structs.replace(run, verdict=FELL)
    text = text_summary([run, fell])
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "nan" not in text
    legend = " ".join(text.split("\n\n")[-1].split())
    explained = {part.split(":")[0] for part in re.split(r"; ", legend)}
    assert explained == {each.name for each in (*FIRST, *REST)} - {"verdict", "max |dτ/dt|"}
    for columns in (FIRST, REST):
        assert all(len(row) == 1 + len(columns) for row in table([run, fell], columns))


def test_simulate_prints_lines_of_100_columns(capsys):
    assert main(["simulate", "stand", "--seconds", "0.01"]) in (0, 1)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= WIDTH


def test_paragraphs_of_a_report_are_wrapped_in_the_terminal_only():
    report = Report("title", "lead")
    report.paragraph("word " * 60)
    assert max(map(len, report.text.splitlines())) <= WIDTH
    assert "word " * 60 in report.html
