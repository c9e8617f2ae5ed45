"""Settings of an experiment, loaded and checked together with all configurations that they name."""

from typing import Literal

import msgspec
import numpy as np

from controllers.build import changed
from controllers.config.loading import NonNegative, Settings, load, parse
from controllers.config.tables import Choice, Table, kind_of, named
from controllers.contact.terrain import FlatSettings
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.robot.hardware import Report
from sim_harness.robot.imperfections.check import check_imperfections
from sim_harness.robot.imperfections.settings import ImperfectionSettings
from sim_harness.robot.lying import PerturbationSettings, Pose
from sim_harness.robot.pushes import PushSettings, push_of
from sim_harness.world.worlds import AnyEngine, check_engine
from transport.robot.failsafe import FailsafeSettings
from transport.server.settings import ServerSettings


class ExperimentSettings(Settings, frozen=True):
    """Settings of an experiment: `configs/experiments/*.toml`.

    server: name or path of the server's configuration
    laws: contact laws; there is one run with each, which replaces the law of the controller
    may_fail: those of the laws, by name, with which the robot is expected to fail, to show it; with the others it must not
    controller: values that replace those of the server's controller, table by table
    engine: contact model of the simulated world
    duration: of one run [s]
    paced: whether a run is in real time; otherwise world and server run in lock-step, as fast as possible, until a fall
    patience: longest time that the world of a paced run waits for a late reply [s]; a slow machine then slows the walk down.
        0: the world does not wait, like a real robot
    failsafe: settings of the robot's failsafe, which acts without answers
    contacts: 'geometry': the server finds contacts; 'message': the robot sends the contacts of an ideal sensor; 'binary': it
        sends which feet touch
    mu: friction coefficient of all contacts of the world instead of those of robot and terrain, may be inf; the controller
        believes it, too, unless it has a `contact.mu` of its own. In the world `robot.ground.mu` replaces it
    perturbation: of the initial state, drawn from the seed of a run
    lying: the robot lies on the ground at first, dropped with this side below, or in any attitude; '': it stands
    push: pushes
    robot: differences of the simulated robot and its ground from the controller's model
    """

    server: str
    laws: tuple[Choice, ...]
    duration: float
    may_fail: tuple[str, ...] = ()
    controller: Table = msgspec.field(default_factory=dict)
    engine: AnyEngine = PolygonLcp()
    paced: bool = True
    patience: NonNegative = 0.0
    failsafe: FailsafeSettings = FailsafeSettings()
    contacts: Report = "geometry"
    mu: NonNegative | None = None
    perturbation: PerturbationSettings = PerturbationSettings()
    lying: Pose | Literal[""] = ""
    push: tuple[PushSettings, ...] = ()
    robot: ImperfectionSettings = ImperfectionSettings()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with all configurations loaded and checked."""

    settings: ExperimentSettings
    server: ServerSettings
    controller: ControllerSettings

    @property
    def ticks(self) -> int:
        """Number of periods of one run."""
        return round(self.settings.duration / self.controller.period)

    def as_expected(self, law: str, good: bool) -> bool:
        """Return whether a run ended as the experiment expects. law: its name; good: whether the robot did its task"""
        return good or law in self.settings.may_fail


def load_plan(name_or_path: str, duration: float | None = None, engine: str | None = None) -> Plan:
    """Load and check an experiment and all configurations that it names. Raises ConfigError.

    duration: replaces the experiment's [s]; engine: replaces the experiment's, with the default settings of the new engine
    """
    settings = load("experiments", name_or_path, ExperimentSettings)
    if engine is not None and engine != kind_of(settings.engine):
        settings = msgspec.structs.replace(settings, engine=parse(engine, AnyEngine, "engine"))
    if duration is not None:
        settings = msgspec.structs.replace(settings, duration=duration)
    return build_plan(settings)


def build_plan(settings: ExperimentSettings) -> Plan:
    """Return the plan of an experiment: its settings, and all configurations that they name. Raises ConfigError."""
    if not 0 < settings.duration < np.inf:
        raise ConfigError("experiment.duration", f"expected a finite number > 0, got {settings.duration}")
    if not settings.laws:
        raise ConfigError("experiment.laws", "expected at least one law, got an empty list")
    names = [named(law) for law in settings.laws]
    for name in settings.may_fail:
        if name not in names:
            raise ConfigError("experiment.may_fail", f"expected names of its laws ({', '.join(names)}), got '{name}'")
    server = load("server", settings.server, ServerSettings)
    controller = load("controllers", server.controller, ControllerSettings)
    if settings.mu is not None and controller.contact.mu is None:
        contact = msgspec.structs.replace(controller.contact, mu=settings.mu)
        controller = msgspec.structs.replace(controller, contact=contact)
    check_engine(settings.engine)
    plan = with_controller(Plan(settings=settings, server=server, controller=controller), settings.controller)
    for law in settings.laws:
        with_controller(plan, {"law": law}, "experiment.laws")
    robot, _ = load_robot(plan.controller.robot)
    if settings.lying and not robot.floating:
        raise ConfigError("experiment.lying", "expected a robot with a floating base, got a fixed one")
    terrain = (settings.robot.ground.terrain or plan.controller.contact.terrain).world
    if settings.robot.hulls and not (isinstance(settings.engine, MujocoSettings) and isinstance(terrain, FlatSettings)):
        raise ConfigError("experiment.robot.hulls", "expected the engine 'mujoco' and flat ground")
    check_imperfections(settings.robot, robot, plan.controller.period)
    for i, push in enumerate(settings.push):
        push_of(push, robot, f"experiment.push[{i}]")
    if plan.ticks < 1:
        period = plan.controller.period
        raise ConfigError("experiment.duration", f"expected at least one period of {period} s, got {settings.duration}")
    return plan


def with_controller(plan: Plan, changes: Table, where: str = "experiment.controller") -> Plan:
    """Return the plan with changed settings of its controller, table by table. where: path in errors. Raises ConfigError."""
    return msgspec.structs.replace(plan, controller=changed(plan.controller, changes, where))
