"""Plot of a run: displacements of the bodies, contact forces, energy, residuals and iterations."""

import numpy as np

from sim_harness.report.plots import png, rows
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.residuals import NAMES
from sim_harness.scenes.results.measures import Outcome
from sim_harness.scenes.results.recording import Recording

MOST = 8
"""Largest number of bodies that are plotted."""


def picture(settings: SceneSettings, run: Recording, outcome: Outcome) -> bytes:
    """Return the plot as PNG."""
    figure, axes = rows(5)
    moving = [i for i, body in enumerate(settings.body) if body.joint != "fixed"][:MOST]
    for i in moving:
        name, away = settings.body[i].name, run.centres[:, i] - run.centres[0, i]
        axes[0].plot(run.t, 1e3 * np.linalg.norm(away, axis=1), label=name)
        axes[1].plot(run.t[1:], np.linalg.norm(run.force[:, i], axis=1))
    axes[0].set_ylabel("distance from\nthe start [mm]")
    axes[0].legend(ncols=4, fontsize=8)
    axes[1].set_ylabel("contact\nforce [N]")
    axes[2].plot(run.t, run.energy, color="0.3")
    axes[2].set_ylabel("energy [J]")
    for i, name in enumerate(NAMES):
        if run.residuals[:, i].any():
            axes[3].semilogy(run.t[1:], np.maximum(run.residuals[:, i], 1e-20), linewidth=0.8, label=name.replace("_", " "))
    if np.isfinite(run.accuracy[:, 0]).any():
        axes[3].semilogy(run.t[1:], np.maximum(run.accuracy[:, 0], 1e-20), linewidth=0.8, label="$e_m$ (1)")
    axes[3].set_ylabel("residuals\n[SI]")
    axes[3].legend(ncols=5, fontsize=8)
    axes[4].plot(run.t[1:], run.iterations, linewidth=0.8, color="0.3")
    axes[4].plot(run.t[1:][~run.ok], run.iterations[~run.ok], "x", color="tab:red", label="not solved")
    axes[4].set_ylabel("iterations")
    axes[0].set_title(f"{settings.about}: {outcome.engine}")
    return png(figure)
