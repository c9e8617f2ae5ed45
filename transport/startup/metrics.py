"""Prometheus metrics of a server, by the package prometheus-client (extra `metrics`), on a thread and a port of their own.

Nothing is counted for them: at each request they read the counters that the server has anyway. Its loop shares Python's global
lock with that thread, so that a request may delay a tick by up to `transport.server.realtime.SWITCH_INTERVAL` a few times.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from idyn.errors import ConfigError, missing_extra
from transport.server.service import Service

log = logging.getLogger(__name__)


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
