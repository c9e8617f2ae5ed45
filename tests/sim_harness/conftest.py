"""Shared by the tests of the simulated world: a short comparison, in this process."""

import pytest

from sim_harness.compare import jobs

COMPARISON = """
title = "two laws"
experiment = "sway"
controllers = ["id-qp-mu", "pid"]
quantities = ["tracking", "torque-rate"]
figures = ["tracking", "torque-rate", "forces", "path"]
seeds = 1
[changes]
duration = 0.04
[[scene]]
name = "short"
[[check]]
claim = "PID is worse"
quantity = "tracking"
larger = ["pid"]
smaller = ["id-qp-mu"]
[paper.short]
id-qp-mu = [0.5]
pid = "fell"
"""


@pytest.fixture
def comparison(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(COMPARISON)
    return str(path)


@pytest.fixture
def here(monkeypatch):
    """Jobs run in this process; returns the names of those that ran."""
    done = []

    def execute(executor, function, tasks, count):
        for i, task in enumerate(tasks):
            function(*task)
            done.append(task[0].folder.name)
            yield i, None

    monkeypatch.setattr(jobs, "run_tasks", execute)
    return done
