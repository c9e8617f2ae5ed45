"""What an experiment is to be: its settings, read and checked with all that they name."""

import msgspec
import numpy as np

from controllers.build import changed
from controllers.config.loading import NonNegative, Settings, load, parse
from controllers.config.tables import Choice, Table, kind_of
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.robot.foot_sensors import Report
from sim_harness.robot.imperfections.check import check_imperfections
from sim_harness.robot.imperfections.settings import ImperfectionSettings
from sim_harness.robot.perturbation import PerturbationSettings
from sim_harness.robot.pushes import PushSettings, push_of
from sim_harness.world.worlds import AnyEngine, check_engine
from transport.robot.failsafe import FailsafeSettings
from transport.server.settings import ServerSettings


class ExperimentSettings(Settings, frozen=True):
    """`configs/experiments/*.toml`.

    server: name or path of the server's configuration
    laws: run once with each, put into the controller's own
    controller: values that replace those of the server's controller, table by table
    engine: of its world
    duration: of one run [s]
    paced: in real time, with the server as slow as it is; otherwise in lock-step, as fast as possible, until a fall
    patience: paced, the world stands still for so long while a reply is late [s]: a slow machine then shows a slow walk. 0: it
        moves on, as a robot would
    failsafe: what the robot's own side does while no answer comes
    contacts: 'geometry' lets the server find them, 'message' sends what an ideal sensor would report, 'binary' which feet touch
    mu: friction coefficient of all contacts instead of the robot's and the terrain's own, may be inf; the controller believes
        in it too, unless its `contact.mu` says otherwise, or `robot.ground.mu` what the world has instead
    perturbation: of the first state, drawn from the seed of a run
    push: pushes
    robot: in what the simulated robot and its ground differ from what the controller believes
    """

    server: str
    laws: tuple[Choice, ...]
    duration: float
    controller: Table = msgspec.field(default_factory=dict)
    engine: AnyEngine = PolygonLcp()
    paced: bool = True
    patience: NonNegative = 0.0
    failsafe: FailsafeSettings = FailsafeSettings()
    contacts: Report = "geometry"
    mu: NonNegative | None = None
    perturbation: PerturbationSettings = PerturbationSettings()
    push: tuple[PushSettings, ...] = ()
    robot: ImperfectionSettings = ImperfectionSettings()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with everything loaded and checked."""

    settings: ExperimentSettings
    server: ServerSettings
    controller: ControllerSettings

    @property
    def ticks(self) -> int:
        """Of one run."""
        return round(self.settings.duration / self.controller.period)


def load_plan(name_or_path: str, duration: float | None = None, engine: str | None = None) -> Plan:
    """Read an experiment and all it names. Raises ConfigError before anything runs.

    engine: instead of the experiment's, with its own defaults: an engine's settings mean nothing to another
    """
    settings = load("experiments", name_or_path, ExperimentSettings)
    if engine is not None and engine != kind_of(settings.engine):
        settings = msgspec.structs.replace(settings, engine=parse(engine, AnyEngine, "engine"))
    if duration is not None:
        settings = msgspec.structs.replace(settings, duration=duration)
    return build_plan(settings)


def build_plan(settings: ExperimentSettings) -> Plan:
    """An experiment's settings with what they name. Raises ConfigError."""
    if not 0 < settings.duration < np.inf:
        raise ConfigError("experiment.duration", f"expected a finite number > 0, got {settings.duration}")
    if not settings.laws:
        raise ConfigError("experiment.laws", "expected at least one law")
    server = load("server", settings.server, ServerSettings)
    controller = load("controllers", server.controller, ControllerSettings)
    if settings.mu is not None:
        believed = msgspec.structs.replace(controller.contact, mu=settings.mu)
        controller = msgspec.structs.replace(controller, contact=believed)
    check_engine(settings.engine)
    plan = with_controller(Plan(settings=settings, server=server, controller=controller), settings.controller)
    for law in settings.laws:
        with_controller(plan, {"law": law}, "experiment.laws")
    robot, _ = load_robot(plan.controller.robot)
    check_imperfections(settings.robot, robot, plan.controller.period)
    for i, push in enumerate(settings.push):
        push_of(push, robot, f"experiment.push[{i}]")
    if plan.ticks < 1:
        period = plan.controller.period
        raise ConfigError("experiment.duration", f"expected a period of {period} s at least, got {settings.duration}")
    return plan


def with_controller(plan: Plan, changes: Table, where: str = "experiment.controller") -> Plan:
    """The plan with some of its controller's settings replaced, table by table. Raises ConfigError."""
    return msgspec.structs.replace(plan, controller=changed(plan.controller, changes, where))
