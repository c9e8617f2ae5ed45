"""Contact models below the same planner and gains: `idyn compare contact-models [--tsid PYTHON]`."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from controllers.build import build_controller
from controllers.contact.source import ContactSource
from controllers.controller import Controller
from controllers.feedforward import FeedForward, Forecast, Target
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Kinematics
from sim_harness.measure.metrics import SETTLED, Summary, normal_forces
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Line, Plot, picture
from sim_harness.report.tables import Table
from sim_harness.robot.lying import PerturbationSettings
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import Plan, build_plan, load_plan, terrain_of, with_controller
from sim_harness.studies.study import Figures, Picture, Study, Sweep, grouped
from sim_harness.studies.tasks import Peer
from sim_harness.world.world import contact_jacobian


class Answers:
    """What TSID computed. normal: bytes of a configuration → normal forces [N] (contacts); failed: ticks without a solution"""

    def __init__(self) -> None:
        self.normal: dict[bytes, Array] = {}
        self.failed = 0


class Sticking(FeedForward):
    """Feed-forward torque of TSID: a quadratic program for the demanded joint accelerations.

    Its constraints are the dynamics, feet that do not accelerate, forces inside the friction pyramid, and the torque limits.
    """

    def __init__(self, robot: Robot, source: ContactSource, peer: Peer, answers: Answers) -> None:
        super().__init__(robot, source)
        self._keys, self._peer, self._answers = robot.spheres.keys, peer, answers

    def forecast(self, at: Kinematics, contacts: ContactSet, target: Target) -> Forecast:
        """Return TSID's torque; without a solution its last one."""
        contacts = self._source.pick(contacts, target.schedule)
        tick = self._peer.accelerate(at.q, at.v, target.demand, np.isin(self._keys, contacts.keys).astype(float))
        self._answers.normal[at.q.tobytes()] = tick.normal
        self._answers.failed += not tick.ok
        return Forecast(tau=tick.tau, contacts=contacts, message="" if tick.ok else "TSID found no solution")


SECONDS, SEEDS = 8.0, 2
"""Simulated time of a run [s]; runs of each robot."""

ROBOTS = ("go2", "a1")

AFTER, STRIDE = 0.02, 5
"""Time after a touch-down in which the forces are judged apart [s]; slip is measured in every fifth tick."""


class Scene(NamedTuple):
    """A task. mu: friction coefficient of model and world; angle: of a slope to climb [rad]; speed: that is asked for [m/s]"""

    mu: float
    angle: float = 0.0
    speed: float = 0.4


SCENES = {
    "flat, μ 0.8": Scene(0.8),
    "flat, 1 m/s, μ 0.8": Scene(0.8, speed=1.0),
    "ice, μ 0.15": Scene(0.15),
    "ice, 0.2 m/s, μ 0.15": Scene(0.15, speed=0.2),
    "15° up, μ 0.4": Scene(0.4, float(np.radians(15.0))),
    "20° up, μ 0.5": Scene(0.5, float(np.radians(20.0))),
}
"""Scenes by name. The friction of the slopes is 1.49 and 1.37 times the least with which a robot can stand there."""


class Outcome(NamedTuple):
    """Figures of a run."""

    summary: Summary
    force: float  # mean |error of the predicted Σ f_N| [N]
    after: Array  # the same by the time since a touch-down, up to `AFTER` (ticks)
    slip: float  # mean speed along the ground of feet that carry load [m/s]
    failed: float  # share of ticks without a solution


def plan_of(robot: str, scene: Scene) -> Plan:
    """Return the plan of a trot in MuJoCo with foot switches."""
    settings = load_plan(f"trot-{robot}", SECONDS, engine="mujoco").settings
    noise = PerturbationSettings(shift=0.001, speed=0.01)
    settings = msgspec.structs.replace(settings, contacts="binary", mu=scene.mu, perturbation=noise, laws=("coulomb",))
    changes: dict[str, Any] = {"reference": {"path": {"waypoints": [[20.0, 0.0]], "speed": scene.speed}}}
    if scene.angle:
        changes["contact"] = {"terrain": {"kind": "slope", "angle": scene.angle, "direction": 0.0}}
    return with_controller(build_plan(settings), changes)


def outcome_of(robot: str, scene: Scene, law: str, tsid: Path | None, seed: int) -> Outcome:
    """Return the figures of a run. tsid: interpreter with TSID, whose contact model replaces that of the law; None: the law"""
    plan = with_controller(plan_of(robot, scene), {"law": law})
    own, answers = build_controller(plan.controller), Answers()
    drive = partial(run_in_process, plan, law, lambda *_: None, seed=seed)
    if tsid is None:
        run = drive(controller=own)
    else:
        normal = [-np.sin(scene.angle), 0.0, np.cos(scene.angle)]
        fields: dict[str, Any] = {"mu": scene.mu, "margin": 0.0, "normal": normal, "accelerates": True}
        with closing(Peer("tsid", tsid, own.robot, own.stance, **fields)) as peer:
            made = partial(Sticking, peer=peer, answers=answers)
            run = drive(controller=Controller(plan.controller, own.robot, own.stance, made))
    trace = run.trace
    predicted, simulated = normal_forces(trace)
    if tsid is not None:
        predicted = np.array([answers.normal.get(q.tobytes(), np.array([np.nan])).sum() for q in trace.q])
    error = np.abs(predicted - simulated)
    after = by_touch_down(error, trace, plan.controller.period)
    return Outcome(
        summary=run.summary,
        force=float(np.nanmean(error[SETTLED:])),
        after=after,
        slip=slip_of(trace, own.robot, terrain_of(plan)),
        failed=answers.failed / len(trace),
    )


def by_touch_down(error: Array, trace: Trace, dt: float) -> Array:
    """Return the mean error of the ticks by their time since a touch-down, up to `AFTER` (ticks); NaN without one.

    error: NaN in ticks without a prediction [N] (n)
    """
    loaded = np.nan_to_num(trace.simulated[..., 0]) > 0.0
    begins = np.flatnonzero((loaded[1:] & ~loaded[:-1]).any(axis=1)) + 1
    count = round(AFTER / dt)
    rows = begins[(begins > SETTLED) & (begins + count <= len(error))][:, None] + np.arange(count)
    known = np.isfinite(error[rows])
    with np.errstate(invalid="ignore"):
        return np.where(known, error[rows], 0.0).sum(axis=0) / known.sum(axis=0)


def slip_of(trace: Trace, robot: Robot, terrain: Terrain) -> float:
    """Return the mean speed along the ground of feet that carry load [m/s]."""
    speeds: list[float] = []
    for k in range(SETTLED, len(trace), STRIDE):
        contacts = contacts_from_geometry(robot, trace.q[k], terrain, margin=np.inf)
        axes = robot.terms(trace.q[k], trace.v[k]).axes
        motion = (contact_jacobian(axes, robot.tree.support, contacts) @ trace.v[k]).reshape(-1, 3)
        load = dict(zip(trace.places, np.nan_to_num(trace.simulated[k, :, 0]), strict=True))
        speeds += [float(np.hypot(*row[:2])) for key, row in zip(contacts.keys, motion, strict=True) if load[key] > 0.0]
    return float(np.mean(speeds)) if speeds else float("nan")


TSID = "TSID: feet stick"

HEAD = (
    *("scene", "robot", "contact model", "upright", "forward [m/s]", "slip of loaded feet [mm/s]", "tracking [mrad]"),
    *("mean |dτ/dt| [N·m/s]", "error of Σ f_N [% of weight]", "after touch-down [% of weight]", "no solution [%]"),
)


def models_table(found: Figures) -> Table:
    """Return the figures of each contact model, means over the seeds; those of a robot that falls until it falls."""
    body = []
    for key, outcomes in grouped(found["runs"], 0, 1, 2).items():
        falls = [each.summary.verdict.text for each in outcomes if not each.summary.upright]
        ended = f"{len(outcomes) - len(falls)} of {len(outcomes)}" + (f" ({'; '.join(falls)})" if falls else "")
        means = np.mean([_row(each) for each in outcomes], axis=0)
        body.append([*key, ended, *(f"{value:.3g}" for value in means)])
    return [[*HEAD], *body]


def _row(outcome: Outcome) -> list[float]:
    """Return the figures of a run in the order of `HEAD`, from the speed on."""
    s = outcome.summary
    forces = 100.0 * outcome.force / s.weight, 100.0 * float(np.nanmean(outcome.after)) / s.weight
    return [s.forward, 1e3 * outcome.slip, 1e3 * s.tracking, s.torque_rate, *forces, 100.0 * outcome.failed]


def touch_down_picture(found: Figures) -> bytes:
    """Draw the error of the predicted forces over the time since a touch-down, one panel per scene."""
    lines: dict[str, dict[str, Line]] = {}
    for (scene, robot, model), outcomes in grouped(found["runs"], 0, 1, 2).items():
        error = np.mean([100 * o.after / o.summary.weight for o in outcomes], axis=0)
        time = 1e3 * AFTER * np.arange(len(error)) / len(error)
        lines.setdefault(scene, {})[f"{robot}, {model}"] = time, error
    labels = {"xlabel": "time since touch-down [ms]", "ylabel": "|error of Σ f_N| [% of weight]"}
    panels = [Plot(lines=each, legend=True, axes={"title": scene} | labels) for scene, each in lines.items()]
    return picture(panels, size=(7.0, 2.4 * len(panels)))


def study(tsid: Path | None, seeds: int | None) -> Study:
    """Return the study. tsid: interpreter of an environment with TSID, None: without it; seeds: per robot, None: `SEEDS`"""
    models: dict[str, tuple[str, Path | None]] = {"coulomb": ("coulomb", None), "no-slip": ("no-slip", None)}
    if tsid is not None:
        models[TSID] = "coulomb", tsid
    notes = [
        "Planner, gains, limits, foot switches and starts are the same; only the torque that realises the demanded joint "
        "accelerations is computed otherwise. Slip: mean speed along the ground of feet that carry load. Σ f_N: sum of the "
        "normal forces that the model predicts, against MuJoCo's in the same tick; after touch-down: in its first "
        f"{1e3 * AFTER:.0f} ms. Figures of a robot that falls are those until it falls."
    ]
    if tsid is None:
        notes.append("Left out: TSID (--tsid PYTHON not given).")

    def measure(scene: Scene, robot: str, model: tuple[str, Path | None], seed: int) -> Outcome:
        return outcome_of(robot, scene, *model, seed)

    return Study(
        "Contact models",
        f"Trots of {SECONDS:g} s in MuJoCo on its default ground, with the friction that model and world share.",
        sweeps={"runs": Sweep((SCENES, ROBOTS, models, range(seeds or SEEDS)), measure)},
        tables=(models_table,),
        pictures=(Picture("contact-models", "Error of the predicted forces after a touch-down.", touch_down_picture),),
        notes=lambda _: notes,
    )
