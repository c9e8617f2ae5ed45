"""The comparison of task controllers: references, the other projects' processes, and the page. The other projects need an
environment of their own and are not tested here: `idyn compare tasks --tsid PYTHON --placo PYTHON`."""

import sys
from pathlib import Path

import numpy as np
import pytest
from fast import every

from idyn import ConfigError, ContactPoint, Flat, Robot, contacts_from_geometry
from sim_harness.commands.main import main
from sim_harness.compare.tasks import study as tasks_study
from sim_harness.compare.tasks.peer import PeerController, contact_link, with_contact_links
from sim_harness.compare.tasks.runs import RUNS, circle, ramp, stance, targets_of


@every("curve", [ramp, lambda t: circle(t, 0.05, 1.0, (0, 2))])
def test_velocities_and_accelerations_of_references_are_derivatives(curve):
    t, h = np.linspace(-0.5, 3.0, 701), 1e-5
    before, now, after = curve(t - h), curve(t), curve(t + h)
    np.testing.assert_allclose(now.v, (after.x - before.x) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(
        now.a, (after.v - before.v) / (2 * h), atol=1e-3
    )  # third derivatives jump at the ends of the ramp


def test_contact_links_are_at_the_contact_points():
    robot, q = stance()
    contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
    base, urdf = with_contact_links(robot, q, contacts)
    links = tuple(ContactPoint(frame=contact_link(key)) for key in contacts.keys)
    copy = Robot(robot.description.__class__(urdf=urdf, contact=links))
    for key, point in zip(contacts.keys, contacts.points, strict=True):
        np.testing.assert_allclose(copy.frames.placement(contact_link(key), q).translation, point, atol=1e-12)
    np.testing.assert_allclose(copy.frames.placement(base, q).translation, q[:3], atol=1e-12)
    np.testing.assert_allclose(copy.terms(q, np.zeros(robot.nv)).M[:6, :6], robot.terms(q, np.zeros(robot.nv)).M[:6, :6])


@every(("python", "said"), [(sys.executable, "No module named 'tsid'"), ("/nowhere/python", "No such file")])
def test_an_environment_without_the_project_is_named(python, said):
    robot, q = stance()
    run = RUNS["trunk on a circle"]
    with pytest.raises(ConfigError, match=f"--tsid: .*{said}"):
        PeerController("tsid", Path(python), robot, q, run, targets_of(run, robot, q, 0.01))


def test_the_page_has_its_table_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tasks_study, "RUNS", {"a foot presses 45 N": RUNS["a foot presses 45 N"]})
    monkeypatch.setattr(tasks_study, "SECONDS", 0.3)
    assert main(["compare", "tasks", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "tasks.png"}
    printed = capsys.readouterr().out
    assert "a foot presses 45 N" in printed
    assert "Left out: tsid, placo" in printed


def test_an_interpreter_for_another_comparison_is_refused(capsys):
    assert main(["compare", "cone-study", "--tsid", "python"]) == 2
    assert "--tsid" in capsys.readouterr().err
