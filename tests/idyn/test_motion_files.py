"""Files of motions, and smoothing: what was written comes back, wrong files are refused by line, known series by formula."""

import numpy as np
import pytest
from scipy.signal import butter, freqz

from idyn.errors import InputError
from idyn.motion.smoothing import Filter, smooth
from idyn.motion.storage import Table, read_markers, read_table, write_table

MOT = "walk\nversion=1\nnRows=2\nnColumns=3\ninDegrees=yes\n\nendheader\ntime\ta\tb\n 0.0\t1\t-2\n 0.1\t3e0\t4.5\n"
TRC = (
    "PathFileType\t4\t(X/Y/Z)\tm.trc\nDataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\n60\t60\t2\t2\tmm\n"
    "Frame#\tTime\theel\t\t\ttoe\t\t\n\t\tX1\tY1\tZ1\tX2\tY2\tZ2\n\n1\t0.0\t1\t2\t3\t4\t5\t6\n2\t0.1\t7\t8\t9\t\t\t\n"
)


def written(tmp_path, text, name="m.mot"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_table_is_read_with_its_units(tmp_path):
    table = read_table(written(tmp_path, MOT))
    assert table.degrees
    assert table.time.tolist() == [0.0, 0.1]
    assert {name: column.tolist() for name, column in table.columns.items()} == {"a": [1.0, 3.0], "b": [-2.0, 4.5]}


def test_a_written_table_is_read_again(tmp_path):
    table = Table(np.array([0.0, 0.5, 1.0]), {"a": np.array([1.0, -2.5e-7, 1 / 3]), "b": np.arange(3.0)}, False)
    write_table(tmp_path / "t.sto", "a table", table)
    found = read_table(tmp_path / "t.sto")
    assert not found.degrees
    for name, column in table.columns.items():
        np.testing.assert_allclose(found.columns[name], column, rtol=1e-9)


def test_markers_are_in_metres_and_gaps_are_nan(tmp_path):
    markers = read_markers(written(tmp_path, TRC, "m.trc"))
    np.testing.assert_allclose(markers.positions["heel"], [[0.001, 0.002, 0.003], [0.007, 0.008, 0.009]])
    assert np.isnan(markers.positions["toe"][1]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("endheader", "end of header"), "expected a line 'endheader'"),
        (("time\ta", "t\ta"), "line 8: expected 'time' as the first column, got 't'"),
        (("\ta\tb", "\ta\ta"), "line 8: two columns are named 'a'"),
        (("3e0", "3x"), "line 10: expected numbers, got '0.1"),
        (("3e0", "nan"), "line 10: expected finite numbers"),
        (("\t4.5", ""), "line 10: expected 3 numbers, one for each column, got 2"),
        (("nRows=2", "nRows=3"), "nrows: the header promises 3, the table has 2"),
        (("nColumns=3", "nColumns=30"), "ncolumns: the header promises 30"),
        ((" 0.1", " -0.1"), "time: expected increasing times, got 0 s, then -0.1 s"),
        ((" 0.1\t3e0\t4.5\n", ""), "expected at least two rows of numbers, got 1"),
    ],
)
def test_wrong_tables_are_refused_by_line(tmp_path, change, message):
    assert change[0] in MOT
    with pytest.raises(InputError, match=message):
        read_table(written(tmp_path, MOT.replace(*change)))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="expected the header of a"):
        read_markers(written(tmp_path, MOT))
    with pytest.raises(InputError, match=r"line 3: expected Units m or mm, got 'inch'"):
        read_markers(written(tmp_path, TRC.replace("mm", "inch")))
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "missing.mot")
    (tmp_path / "binary.mot").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "binary.mot")


def test_the_filter_scales_a_sine_by_the_squared_gain_and_does_not_delay_it():
    """Away from the ends; the derivatives are those of the scaled sine."""
    time = np.arange(600) / 60.0
    w = 2 * np.pi * 4.0
    gain = abs(freqz(*butter(3, 6.0 / 30.0), worN=[4.0], fs=60.0)[1][0]) ** 2
    assert 0.5 < gain < 0.95
    found = smooth(time, np.sin(w * time)[:, None], Filter(cutoff=6.0))
    inner = slice(200, 400)
    np.testing.assert_allclose(found.values[inner, 0], gain * np.sin(w * time)[inner], atol=1e-6)
    np.testing.assert_allclose(found.first[inner, 0], gain * w * np.cos(w * time)[inner], atol=1e-3 * w)
    np.testing.assert_allclose(found.second[inner, 0], -gain * w**2 * np.sin(w * time)[inner], atol=1e-2 * w**2)


def test_a_straight_line_passes_unchanged_up_to_its_ends():
    time = np.arange(200) / 50.0
    found = smooth(time, (3.0 + 2.0 * time)[:, None], Filter())
    np.testing.assert_allclose(found.values[:, 0], 3.0 + 2.0 * time, atol=1e-9)
    np.testing.assert_allclose(found.first, 2.0, atol=1e-7)
    np.testing.assert_allclose(found.second, 0.0, atol=1e-4)


def test_no_filter_interpolates_the_samples():
    time = np.arange(30) / 30.0
    values = np.random.default_rng(3).normal(size=(30, 2))
    np.testing.assert_allclose(smooth(time, values, Filter(cutoff=np.inf)).values, values, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"cutoff": 0.0}, "cutoff"), ({"cutoff": float("nan")}, "cutoff"), ({"order": 0}, "order"), ({"order": 2.5}, "order"),
     ({"spline": 4}, "spline"), ({"padding": 0.0}, "padding"), ({"padding": 2.0}, "padding")],
)  # fmt: skip
def test_filter_settings_are_checked(settings, field):
    with pytest.raises(InputError, match=rf"filter\.{field}: expected"):
        Filter(**settings)


def test_series_that_cannot_be_filtered_are_refused():
    time = np.arange(20) / 10.0
    with pytest.raises(InputError, match="half the sampling rate, 5 Hz, got 6"):
        smooth(time, np.zeros((20, 1)), Filter(cutoff=6.0))
    with pytest.raises(InputError, match="at least 8 frames, got 7"):
        smooth(time[:7], np.zeros((7, 1)), Filter())
    with pytest.raises(InputError, match="expected uniform intervals"):
        smooth(time**1.1, np.zeros((20, 1)), Filter(cutoff=1.0))
