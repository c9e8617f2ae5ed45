"""Engines judged by measured tosses: `idyn compare cube-tosses`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.spatial.transform import Rotation

from idyn.errors import ConfigError, nearest
from idyn.types import Array, Record
from sim_harness.report.plots import STYLE, Line, Plot, mpl, picture, plt, png
from sim_harness.report.tables import Table, listed
from sim_harness.shapes import look_of
from sim_harness.studies import toss_fits as fits
from sim_harness.studies.measured_tosses import CORNERS, EDGE, MASS, RATE, Toss, default_folder, load_tosses
from sim_harness.studies.scenes.scene_model import SceneModel
from sim_harness.studies.scenes.scene_settings import BodySettings, SceneSettings, Shape
from sim_harness.studies.study import Figures, Page, Picture, Study, Sweep
from sim_harness.studies.toss_fits import REFERENCE, Errors, Identified, Parameters
from sim_harness.studies.toss_forecasts import Block, Flight, Forecast, identify_flight
from sim_harness.view.film import Film, Ground
from sim_harness.view.page import drawn, page_with

SHOWN = 110
"""Samples of the curves over time: 0.74 s."""


class Outcome(Record, frozen=True):
    """Figures of an engine on n tosses."""

    identified: Identified  # its parameters
    windows: dict[str, Errors]  # name of the window → errors (n each)
    # depth, measured_depth: deepest penetration of a corner in the forecast and in the measurement [m] (n)
    depth: Array
    measured_depth: Array
    energy: Array  # mean |E − E_measured| over the energy at the first sample, above that at rest (n)
    # median over the tosses that last, while half of them do: "position" [block widths], "rotation" [°], "energy" [J],
    # "measured energy" [J] (SHOWN each)
    curves: dict[str, Array]
    forecasts: list[Forecast]  # of the whole tosses

    @property
    def failed(self) -> int:
        """Steps that the engine reported as failures, in whole tosses."""
        return sum(forecast.failed for forecast in self.forecasts)


def judge(entry: fits.Entry, flight: Flight, identified: Identified, tosses: Sequence[Toss]) -> Outcome:
    """Return the figures of an engine with given parameters."""
    forecaster = entry.build(flight, identified.values)
    block = flight.block(identified.values["inertia"])
    whole = [forecaster(toss, 0, len(toss)) for toss in tosses]
    errors = [fits.sample_errors(toss, 0, forecast) for toss, forecast in zip(tosses, whole, strict=True)]
    windows = {
        name: fits.means_of(errors) if samples is None else fits.window_errors(forecaster, tosses, samples)
        for name, samples in fits.WINDOWS.items()
    }
    both = zip(whole, tosses, strict=True)
    energies = [(energy_of(block, f.position, f.rotation), energy_of(block, t.position, t.rotation)) for f, t in both]
    rest = block.mass * block.gravity * block.half
    return Outcome(
        identified=identified,
        windows=windows,
        depth=np.array([depth_of(block, f.position, f.rotation) for f in whole]),
        measured_depth=np.array([depth_of(block, toss.position, toss.rotation) for toss in tosses]),
        energy=np.array([np.abs(E - true).mean() / (true[0] - rest) for E, true in energies]),
        curves={
            "position": _median([position for position, _ in errors]),
            "rotation": np.degrees(_median([rotation for _, rotation in errors])),
            "energy": _median([E for E, _ in energies]),
            "measured energy": _median([true for _, true in energies]),
        },
        forecasts=whole,
    )


def energy_of(block: Block, position: Array, rotation: Array) -> Array:
    """Return kinetic and potential energy between samples, with velocities from differences [J] (N − 1).

    position: of the geometric centre [m] (N, 3); rotation: (N, 3, 3)
    """
    centres = position + rotation @ block.centre
    v = RATE * np.diff(centres, axis=0)
    relative = np.einsum("nji,njk->nik", rotation[:-1], rotation[1:])
    spin = RATE * fits.angles_of(relative)
    height = 0.5 * (centres[1:, 2] + centres[:-1, 2])
    return 0.5 * block.mass * (v**2).sum(axis=1) + 0.5 * block.inertia * spin**2 + block.mass * block.gravity * height


def depth_of(block: Block, position: Array, rotation: Array) -> float:
    """Return the deepest penetration of a corner below the floor, ≥ 0 [m]."""
    lowest = position[:, 2] - block.half * np.abs(rotation[:, 2]).sum(axis=1)
    return float(max(0.0, -lowest.min()))


def _median(rows: Sequence[Array]) -> Array:
    """Return the median at each sample, over the rows that last so long (SHOWN); NaN where fewer than half do."""
    at = [[row[k] for row in rows if len(row) > k] for k in range(SHOWN)]
    return np.array([np.median(values) if 2 * len(values) >= len(rows) else np.nan for values in at])


Outcomes = Mapping[str, Outcome]
"""Name of the engine → its outcome."""

WHOLE = "whole toss"

CLAIMED = 2.0
"""A difference counts beyond this many standard errors of the paired differences."""


def whole_table(outcomes: Outcomes) -> Table:
    """Return the errors of whole tosses, and the paired differences to the reference engine."""
    columns = {
        "position mean": lambda o: f"{o.windows[WHOLE].position.mean():.4f}",
        "median [block widths]": lambda o: f"{np.median(o.windows[WHOLE].position):.4f}",
        "rotation mean": lambda o: f"{np.degrees(o.windows[WHOLE].rotation.mean()):.2f}",
        "median [°]": lambda o: f"{np.degrees(np.median(o.windows[WHOLE].rotation)):.2f}",
    }
    reference = outcomes.get(REFERENCE)
    if reference is not None:
        other = reference.windows[WHOLE]
        columns |= {
            f"position minus {REFERENCE}": lambda o: paired(o.windows[WHOLE].position - other.position, ".4f"),
            f"rotation minus {REFERENCE} [°]": lambda o: paired(np.degrees(o.windows[WHOLE].rotation - other.rotation), ".2f"),
        }
    return listed("whole toss", outcomes.items(), columns)


def windows_table(outcomes: Outcomes) -> Table:
    """Return the errors at the end of windows from measured states: mean, and median over tosses."""
    columns = {}
    for name in fits.WINDOWS:
        if name != WHOLE:
            columns[f"{name}: position [block widths]"] = lambda o, name=name: _both(o.windows[name].position, ".4f")
            columns[f"{name}: rotation [°]"] = lambda o, name=name: _both(np.degrees(o.windows[name].rotation), ".2f")
    return listed("end of window, mean (median)", outcomes.items(), columns)


def parameters_table(outcomes: Outcomes) -> Table:
    """Return the parameters of each engine with their 95 % intervals."""
    names = [name for name in fits.BOUNDS if any(name in o.identified.values for o in outcomes.values())]
    columns: dict[str, Callable[[Outcome], str]] = {}
    for name in names:
        unit = f" [{fits.BOUNDS[name].unit}]" if fits.BOUNDS[name].unit else ""
        columns[f"{name.replace('_', ' ')}{unit}"] = partial(_interval, name=name)
    columns["loss of the fit"] = lambda o: f"{o.identified.loss:.4f}" if o.identified.evaluations else "–"
    return listed("parameters", outcomes.items(), columns)


def physics_table(outcomes: Outcomes) -> Table:
    """Return penetration, energy and failures."""
    columns = {
        "deepest corner, median [mm]": lambda o: f"{1e3 * np.median(o.depth):.2f}",
        "deepest corner, largest [mm]": lambda o: f"{1e3 * o.depth.max():.2f}",
        "energy error, mean [%]": lambda o: f"{100.0 * o.energy.mean():.1f}",
        "failed steps": lambda o: f"{o.failed}",
        "tosses beyond 45° on average": lambda o: f"{np.count_nonzero(o.windows[WHOLE].rotation > np.pi / 4)}",
    }
    return listed("whole toss", outcomes.items(), columns)


def paired(differences: Array, form: str) -> str:
    """Return mean ± standard error of paired differences, marked where the mean is beyond `CLAIMED` standard errors."""
    mean, error = differences.mean(), differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else np.inf
    if not differences.any():
        return "–"
    mark = "" if abs(mean) <= CLAIMED * error else " better" if mean < 0.0 else " worse"
    return f"{mean:+{form}} ± {error:{form}}{mark}"


def _both(values: Array, form: str) -> str:
    return f"{values.mean():{form}} ({np.median(values):{form}})"


def _interval(outcome: Outcome, name: str) -> str:
    found = outcome.identified
    if name not in found.values:
        return "–"
    if name not in found.intervals:
        return f"{found.values[name]:.3g}"
    low, high = found.intervals[name]
    return f"{found.values[name]:.3g} ({low:.3g} to {high:.3g})"


SIDES = np.array([(i, j) for i in range(8) for j in range(i) if np.abs(CORNERS[i] - CORNERS[j]).sum() == 2.0])
"""Pairs of corners with a common edge."""

INSTANTS = 5
"""Instants at which a block is drawn."""


def curves(outcomes: Mapping[str, Outcome]) -> bytes:
    """Draw the median errors and the median energy over time."""
    t = np.arange(1, SHOWN + 1) / RATE
    panels = []
    for what, label in (("position", "position [block widths]"), ("rotation", "rotation [°]"), ("energy", "energy [J]")):
        lines: dict[str, Line] = {name: (t, outcome.curves[what]) for name, outcome in outcomes.items()}
        if what == "energy":
            lines["measured"] = (t, next(iter(outcomes.values())).curves["measured energy"], "k--")
        axes = {"ylabel": label, "xlabel": "time [s]" if what == "energy" else ""}
        panels.append(Plot(lines=lines, legend=what == "position", axes=axes))
    return picture(panels, size=(9, 9))


def tosses_in_space(outcome: Outcome, tosses: Sequence[Toss]) -> bytes:
    """Draw the best, the middle and the worst toss of an engine, measured (black) and forecast (red)."""
    errors = outcome.windows[WHOLE].position
    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=(13, 5))
        for k, (label, number) in enumerate(best_median_worst(errors).items()):
            axis = figure.add_subplot(1, 3, k + 1, projection="3d")
            toss, forecast = tosses[number], outcome.forecasts[number]
            _draw(axis, toss.position, toss.rotation, "black")
            _draw(axis, forecast.position, forecast.rotation, "tab:red")
            axis.set(title=f"{label}: {errors[number]:.3f} block widths", xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
            axis.set_aspect("equal")
            axis.locator_params(nbins=4)
        return png(figure)


def best_median_worst(errors: Array) -> dict[str, int]:
    """Return the numbers of the tosses with the smallest, the middle and the largest error (n)."""
    order = errors.argsort().tolist()
    return {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}


def _draw(axis: Any, position: Array, rotation: Array, colour: str) -> None:
    """Draw the path of a block, and its edges at `INSTANTS` instants."""
    axis.plot(*position.T, color=colour, linewidth=1.0)
    for k in np.linspace(0, len(position) - 1, INSTANTS).astype(int):
        corners = position[k] + 0.5 * EDGE * CORNERS @ rotation[k].T
        edges = np.insert(corners[SIDES], 2, np.nan, axis=1).reshape(-1, 3)  # a gap after each edge
        axis.plot(*edges.T, color=colour, linewidth=0.5)


NAMES = ("measured", "forecast")

GLASS, STEP, AROUND = 0.5, 0.1, 0.3
"""Opacity of the forecast block; spacing of the grid lines of the ground, and how far it is drawn beyond the blocks [m]."""


def tosses_page(shown: Mapping[str, tuple[Toss, Forecast]]) -> str:
    """Return a page with an animation for each label. Raises ConfigError without the extra `viz`."""
    blocks = tuple(BodySettings(name=name, shape=Shape(box=(EDGE,) * 3), mass=MASS, touches=False) for name in NAMES)
    model = SceneModel(SceneSettings(about="", engines=("lcp",), dt=1.0 / RATE, duration=1.0, body=blocks))
    look = look_of(model.robot, [])
    forecast = int(model.joints[1])
    shapes = [msgspec.structs.replace(each, opacity=GLASS) if each.joint == forecast else each for each in look.shapes]
    looks = {model.robot.urdf_sha256: msgspec.structs.replace(look, shapes=shapes)}
    runs = [_run(label, model, film_of(model, *each)) for label, each in shown.items()]
    return page_with("measured tosses and their forecasts", looks, runs, live=False)


def film_of(model: SceneModel, toss: Toss, forecast: Forecast) -> Film:
    """Return the animation of a toss: the world, the joints of both blocks, and a pose without shape for the camera."""
    count = len(toss)
    poses = np.zeros((count, len(model.robot.tree.support) + 1, 7))
    poses[..., 6] = 1.0
    blocks: tuple[Toss | Forecast, ...] = toss, forecast
    for joint, block in zip(model.joints, blocks, strict=True):
        poses[:, joint] = np.hstack([block.position, Rotation.from_matrix(block.rotation).as_quat()])
    poses[:, -1, :3] = toss.position[0]
    centres, t, mode = np.stack([toss.position, forecast.position], axis=1), np.arange(count) / RATE, np.zeros(count, np.int64)
    nothing = dict.fromkeys(("normals", "world", "predicted"), np.zeros_like(centres)) | {"friction": np.zeros((count, 2))}
    return Film(t=t, poses=poses, points=centres, centre=toss.position, known=False, mode=mode, **nothing)


def _run(label: str, model: SceneModel, film: Film) -> dict[str, Any]:
    """Return an animation in the format of the player."""
    return {
        "label": label,
        "robot": model.robot.urdf_sha256,
        "base": film.poses.shape[1] - 1,
        "places": NAMES,
        "grounded": len(NAMES),
        "modes": (label,),
        "unpredicted": True,
    } | drawn(film, _ground(film.points), 2.0 * MASS * 9.81, 2.0 * EDGE)


def _ground(points: Array) -> Ground:
    """Return the floor around the blocks."""
    near = points.reshape(-1, 3)[:, :2]
    low, high = np.floor((near.min(axis=0) - AROUND) / STEP), np.ceil((near.max(axis=0) + AROUND) / STEP)
    x, y = (np.arange(low[i], high[i] + 1) * STEP for i in range(2))
    return Ground(x=x, y=y, z=np.zeros((len(x), len(y))))


SWEEP = "engines"

PARAMETERS_FILE = "parameters.json"
"""Name of the file with the parameters that a study identifies."""

GIVEN = "mujoco, source's constants"
"""Row of MuJoCo with the constants of the source of the data and its default contact: nothing is identified."""

GIVEN_FLIGHT = Flight(gravity=9.81, centre=(0.0, 0.0, 0.0))
GIVEN_VALUES = {"mu": 0.18, "inertia": 0.295, "time_constant": 0.02, "damping_ratio": 1.0}


def study(out: Path, engines: str | None, data: Path | None, parameters: Path | None) -> Study:
    """Return the study.

    out: folder for the file with the identified parameters; those of the same data and rules in it are not identified again
    engines: their names, separated by commas; None: all that are installed
    data: folder with measured tosses, or an .npz file; None: `default_folder`
    parameters: file with parameters; nothing is identified then. With `data` all its tosses are judged

    Raises ConfigError for unknown engines, and for data or parameters that are missing or malformed.
    """
    names = [name for name in (engines or "").split(",") if name]
    for name in names:
        if name not in fits.ENTRIES:
            raise ConfigError("--engines", f"unknown engine '{name}'{nearest(name, fits.ENTRIES)}")
    tosses = load_tosses(default_folder() if data is None else data)
    longest, shortest = max(samples for samples in fits.WINDOWS.values() if samples), min(map(len, tosses))
    if shortest < longest:
        raise ConfigError("--data", f"expected at least {longest} samples per toss, got a toss of {shortest}")
    known = None if parameters is None else fits.load_parameters(parameters)
    for name in names:
        if known is not None and name not in known.engines:
            raise ConfigError("--parameters", f"expected parameters of '{name}', got those of {', '.join(known.engines)}")
    chosen = names or [name for name in fits.installed() if known is None or name in known.engines]
    fitted, judged = ([], tosses) if known is not None and data is not None else _parts(tosses)
    if known is None:
        begun = Parameters(flight=identify_flight(fitted), tosses=len(fitted), rules=fits.rules(), engines={})
        known = fits.resumed(out / PARAMETERS_FILE, begun)
    outcome = partial(_outcome, known, fitted, judged, None if parameters is not None else out / PARAMETERS_FILE)
    rows = [*chosen, *([GIVEN] if REFERENCE in chosen else [])]
    over_time = "Median errors and energy over time, while half of the tosses last. Dashed: measured."
    three = f"Best, median and worst toss of {chosen[0]}: measured"

    def page(found: Figures) -> str:
        return _page(found[SWEEP][chosen[0]], judged)

    return Study(
        "Engines judged by measured tosses of a block",
        _lead(known, len(judged), parameters),
        sweeps={SWEEP: Sweep((rows,), outcome)},
        tables=(
            lambda found: whole_table(found[SWEEP]),
            lambda found: windows_table(found[SWEEP]),
            lambda found: parameters_table(found[SWEEP]),
            lambda found: physics_table(found[SWEEP]),
        ),
        pictures=(
            Picture("errors", over_time, lambda found: curves(found[SWEEP])),
            Picture("tosses", f"{three} black, forecast red.", lambda found: tosses_in_space(found[SWEEP][chosen[0]], judged)),
        ),
        pages=(Page("tosses in three dimensions", f"{three}, and the forecast transparent.", page),),
        notes=_notes,
    )


def _outcome(known: Parameters, fitted: Sequence[Toss], judged: Sequence[Toss], file: Path | None, name: str) -> Outcome:
    """Return the outcome of an engine, which is identified first unless its parameters are known; keep the file up to date."""
    if name == GIVEN:
        given = Identified(values=GIVEN_VALUES, intervals={}, loss=0.0, evaluations=0)
        return judge(fits.ENTRIES[REFERENCE], GIVEN_FLIGHT, given, judged)
    if name not in known.engines:
        known.engines[name] = fits.identify(fits.ENTRIES[name], known.flight, fitted)
        if file is not None:
            fits.save_parameters(file, known)
    return judge(fits.ENTRIES[name], known.flight, known.engines[name], judged)


def _parts(tosses: Sequence[Toss]) -> tuple[list[Toss], list[Toss]]:
    """Return the tosses for fits and those for the judge. Raises ConfigError for too few tosses."""
    fitted, judged = ([tosses[i] for i in part] for part in fits.split(len(tosses)))
    if len(fitted) < fits.EVERY or not judged:
        raise ConfigError("--data", f"expected at least {fits.EVERY + 2} tosses to identify parameters, got {len(tosses)}")
    return fitted, judged


def _lead(known: Parameters, judged: int, parameters: Path | None) -> str:
    """Return the first paragraph: what is judged, where the parameters come from, and the body."""
    flight = known.flight
    source = f"those of {parameters.name}" if parameters is not None else f"identified on {known.tosses} other tosses"
    centre = ", ".join(f"{1e3 * c:.1f} ± {1e3 * e:.1f}" for c, e in zip(flight.centre, flight.centre_error, strict=True))
    return (
        f"{judged} tosses, each forecast from its first measured state alone. Parameters: {source}. Body, from "
        f"{flight.tosses} free flights: gravity {flight.gravity:.3f} ± {flight.gravity_error:.3f} m/s² in measured lengths, so "
        f"lengths are {flight.scale:.4f} of metres; centre of mass at ({centre}) mm."
    )


def _page(outcome: Outcome, tosses: Sequence[Toss]) -> str:
    """Return the animation of the best, the median and the worst toss of an engine."""
    errors, shown = outcome.windows[WHOLE].position, {}
    for label, number in best_median_worst(errors).items():
        shown[f"{label}, {errors[number]:.3f} block widths"] = tosses[number], outcome.forecasts[number]
    return tosses_page(shown)


def _notes(found: Figures) -> list[str]:
    """Return what the columns mean, and the penetration of the measured block."""
    depth = np.median([1e3 * np.median(outcome.measured_depth) for outcome in found[SWEEP].values()])
    return [
        "Errors: mean over the samples of a toss after the first, then over tosses; a block width is 0.1048 m. Windows: error "
        "of the last sample, mean over the windows of a toss, then over tosses. Differences are paired toss by toss, with one "
        "standard error; better and worse: beyond two. Parameters: with 95 % intervals by a bootstrap over tosses. Energy "
        "error: mean difference to the measured energy, as a share of that of the first sample above rest.",
        f"Deepest corner of the measured block: {depth:.2f} mm (median).",
    ]
