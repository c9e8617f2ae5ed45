"""`idyn serve`: build a server from settings and run it."""

import logging
import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import Any

from controllers.build import build_controller, changed, check_ground, controller_from_snapshot, load_controller
from controllers.controller import Controller
from controllers.floors import floor_warning
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError, missing_extra
from idyn.model.robot import Robot
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Entry, LogError, Recorder
from transport.protocol.errors import printable
from transport.server.process import Systemd, on_core, real_time, steady
from transport.server.reconfigure import ControllerBuilder
from transport.server.service import Service
from transport.server.sessions.latches import Fault
from transport.server.settings import ServerSettings, endpoint, robot_endpoint
from transport.server.sockets.router import Router
from transport.server.sockets.scheduling import Anticipation
from transport.startup.warm_up import warm_up

log = logging.getLogger(__name__)


def keep_fault(fault: Fault, directory: Path, controller: Controller, settings: ServerSettings) -> None:
    """Write the exchanges of a fault to a new log in `directory`. An error is logged, not raised.

    Runs outside of the server's loop, so that a slow disk does not delay torques.
    """
    path = directory / f"fault-{fault.session:016x}-{fault.t_ns}.mcap"
    record = {"fault": {"reason": fault.reason, "t_ns": str(fault.t_ns), "session": str(fault.session)}}
    try:
        recorder = Recorder(path, attachments(controller.snapshot(), settings), metadata(controller.robot, None) | record)
        for exchange in fault.exchanges:
            recorder.put(Entry(b"", fault.t_ns, exchange.state, exchange.torque, about_state=True, answered=True))
        recorder.close()
    except (LogError, OSError) as error:
        log.error("session %d: the fault log cannot be written (%s)", fault.session, error)


def prometheus() -> Any:
    """Return the package prometheus_client. Raises ConfigError without it."""
    try:
        import prometheus_client  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing_extra("server.metrics_port", "serving metrics", "prometheus-client", "metrics") from None
    return prometheus_client


@contextmanager
def metrics(service: Service, port: int | None, host: str) -> Iterator[str]:
    """Context in which metrics can be fetched by HTTP. Yield their address, '' without a port.

    port: None: no metrics; 0: any free one
    Raises ConfigError without the package, and if the port cannot be bound.
    """
    if port is None:
        yield ""
        return
    package = prometheus()
    registry = package.CollectorRegistry()
    registry.register(Collector(service))
    try:
        server, thread = package.start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigError("server.metrics_port", f"cannot bind {host}:{port} ({error.strerror or error})") from None
    address = f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    log.info("metrics at %s", address)
    try:
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Collector:
    """Reads the statistics of a service whenever they are fetched, in the thread that fetches them."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        """Yield all metrics: times in seconds, counts since the start of the server."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - an extra

        timings = self._service.timings
        stats = timings.report(self._service.dispatcher, None)
        for name, value, text in (
            ("messages", stats.received, "Messages of all clients, valid or not"),
            ("states", stats.states, "States of clients with a session, answered or not"),
            ("torques", stats.torques, "Torque messages computed"),
            ("deadline_misses", stats.deadline_misses, "Answers later than deadline_us"),
            ("dropped", stats.dropped, "Messages of other clients that were not answered"),
            ("step_seconds", timings.total_ns * 1e-9, "Time spent in steps of the controller"),
            ("others_seconds", timings.others_ns * 1e-9, "Time spent on clients other than the controlling one"),
        ):
            yield CounterMetricFamily(f"idyn_{name}", text, value)
        refused = CounterMetricFamily("idyn_refused", "Refused messages by error code", labels=["code"])
        for code, count in stats.refused.items():
            refused.add_metric([code], count)
        yield refused
        yield GaugeMetricFamily("idyn_step_seconds_max", "Longest step of the controller", stats.step_us_max * 1e-6)
        yield GaugeMetricFamily("idyn_fault", "1: the robot is stopped until a reset", stats.fault is not None)
        comm = stats.comm
        if comm is None:
            return
        yield GaugeMetricFamily("idyn_lost_states", "States of the session that never arrived", comm.lost)
        if comm.rtt_p50_us is not None and comm.rtt_p99_us is not None:
            trips = GaugeMetricFamily("idyn_round_trip_seconds", "Round trips that the client reports", labels=["quantile"])
            trips.add_metric(["0.5"], comm.rtt_p50_us * 1e-6)
            trips.add_metric(["0.99"], comm.rtt_p99_us * 1e-6)
            yield trips


def _warn_of_limits(robot: Robot) -> None:
    """Log which joints have no torque limit: the file has none, or 0, and the configuration no `tau_max`."""
    limits = zip(robot.joint_names, robot.limits.tau_max.tolist(), strict=True)
    if names := [name for name, most in limits if not math.isfinite(most)]:
        log.warning("no torque limit: %s; `tau_max` of the robot's configuration gives one", ", ".join(names))


def serve(
    settings: ServerSettings,
    *,
    controller_settings: ControllerSettings | None = None,
    log_path: Path | None = None,
    seed: int | None = None,
    ready: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Load the controller, bind the socket, and serve until SIGTERM, SIGHUP, SIGINT or `stop`.

    Running sessions are told that the server ends. A start that fails leaves no log behind.

    controller_settings: replace those of the configuration that `settings.controller` names
    log_path: file to record to; None: a new file in `settings.log_directory`, if that is set
    seed: seed of the run, recorded in the log
    ready: called with the robot's endpoint when clients can connect
    """
    if settings.metrics_port is not None:
        prometheus()  # its error before anything is loaded or opened
    stop, started = stop or threading.Event(), False
    stop_on_signals(stop)
    systemd = Systemd()
    systemd.status("loading")
    controller = _controller(settings, controller_settings)
    _warn_of_limits(controller.robot)
    shadow = controller_from_snapshot(controller.snapshot()) if settings.shadow else None
    for each in (controller, shadow):
        if each is not None:
            warm_up(each, settings)
    recorder = _open_recorder(controller, settings, log_path, seed)
    builder = ControllerBuilder(partial(_rebuilt, settings), in_thread=True)
    service = Service(controller, settings, shadow=shadow, recorder=recorder, builder=builder)
    try:
        anticipation = Anticipation(settings.anticipation_us)
        own, shared = robot_endpoint(settings), endpoint(settings)
        others = None if own is None else shared
        router = Router(
            service, own or shared, partial(_report, service, settings), anticipation, settings.curve, others_address=others
        )
        with (
            router,
            metrics(service, settings.metrics_port, settings.metrics_host),  # before threads are moved off the loop's core
            on_core(settings.core),
            steady(),
            real_time(settings.realtime),
        ):
            log.info("serving at %s", router.place)
            systemd.ready(f"serving at {router.place}")
            started = True
            if ready is not None:
                ready(router.endpoint)
            router.run(stop, systemd)
    finally:
        systemd.stopping()
        if recorder is not None:
            if not started:
                recorder.path.unlink(missing_ok=True)
            recorder.close()


def _rebuilt(settings: ServerSettings, snapshot: dict[str, Any]) -> Controller:
    other = controller_from_snapshot(snapshot)
    check_ground(other.settings)
    warm_up(other, settings)
    return other


def _report(service: Service, settings: ServerSettings, fault: Fault) -> None:
    log.error("session %d: fault: %s", fault.session, printable(fault.reason))
    if settings.log_directory is not None:
        arguments = fault, Path(settings.log_directory), service.controller, settings
        threading.Thread(target=keep_fault, args=arguments, name="fault").start()


def _controller(settings: ServerSettings, own: ControllerSettings | None) -> Controller:
    """Return the controller of `own`, or of the configuration that the settings name. Log what is doubtful about it."""
    if own is None:
        controller = load_controller(settings.controller, settings.changes)
    else:
        controller = build_controller(changed(own, settings.changes))
    for finding in controller.robot.inspect():
        if finding.severity == "warning":
            log.warning("%s.%s: %s", controller.robot.name, finding.where, finding.message)
    if warning := floor_warning(controller):
        log.warning("%s", warning)
    if settings.start == "lying" and (max_tilt := controller.settings.safety.max_tilt) < math.pi:
        raise ConfigError("server.start", f"'lying' needs `safety.max_tilt` ≥ π in the controller's settings, got {max_tilt:g}")
    return controller


def _open_recorder(
    controller: Controller, settings: ServerSettings, log_path: Path | None, seed: int | None
) -> Recorder | None:
    if log_path is None:
        if settings.log_directory is None:
            return None
        log_path = Path(settings.log_directory) / f"{controller.robot.name}-{monotonic_ns()}.mcap"
    return Recorder(
        log_path,
        attachments(controller.snapshot(), settings),
        metadata(controller.robot, seed),
        part_bytes=round(settings.log_part_mb * 1e6),
        part_s=settings.log_part_s,
    )


def stop_on_signals(stop: threading.Event) -> None:
    """Set `stop` on SIGTERM, SIGHUP and SIGINT. Only the main thread can install signal handlers."""
    if threading.current_thread() is threading.main_thread():
        for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(name, lambda *_: stop.set())
