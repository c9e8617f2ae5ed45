"""Live view of a run: a page of the browser with frames from a local web server in a process of lower priority.

It requests a frame when it has shown the last one, and the loop answers at its next tick. The loop never waits.
"""

import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from controllers.build import build_controller, controller_from_snapshot
from controllers.controller import Controller
from controllers.settings import ControllerSettings
from idyn.errors import IdynError
from sim_harness.measure.trace import Row, TraceWriter
from sim_harness.view.film import displayable, frame_of
from sim_harness.view.page import library, live_page


class Stream:
    """Server of `page` at `url`, and of published events at `url` + "frames", on the loopback interface.

    Slow clients miss events. Threads are daemons.
    """

    def __init__(self, page: str) -> None:
        self._published = threading.Condition()
        self._number, self._event = 0, b""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(page.encode(), self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, event: dict[str, Any]) -> None:
        """Publish an event, which replaces the last one."""
        data = json.dumps(event, separators=(",", ":"), allow_nan=False).encode()
        with self._published:
            self._number, self._event = self._number + 1, data
            self._published.notify_all()

    def after(self, number: int) -> tuple[int, bytes]:
        """Wait for an event newer than `number`; return its number and its data."""
        with self._published:
            self._published.wait_for(lambda: self._number > number)
            return self._number, self._event

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _handler(page: bytes, stream: Stream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/":
                self._head("text/html; charset=utf-8")
                self.wfile.write(page)
            elif self.path == "/frames":
                self._head("text/event-stream")
                self._follow()
            else:
                self.send_error(404)

        def _head(self, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()

        def _follow(self) -> None:
            number = 0
            try:
                while True:
                    number, event = stream.after(number)
                    self.wfile.write(b"data: " + event + b"\n\n")
            except OSError:  # the browser closed the connection
                return

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests."""

    return Handler


log = logging.getLogger(__name__)

RATE = 30.0  # largest number of frames per second
START_S = 120.0  # longest time until the view is ready [s]


class ViewFailed(IdynError):
    """The live view did not start."""


class LiveView:
    """Context manager of a live view.

    with LiveView(controller) as view:
        run_served(…, watch=view.watch)

    url: address of the page on this machine
    """

    def __init__(self, controller: ControllerSettings) -> None:
        """controller: settings whose robot and ground the view draws. Raises ConfigError without the extra `[viz]`."""
        library()
        context = multiprocessing.get_context("spawn")
        self._rows, self._child = context.Pipe()
        arguments = build_controller(controller).snapshot(), self._child
        self._process = context.Process(target=_serve, args=arguments, name="idyn view", daemon=True)
        self._due = 0.0
        self.url = ""

    def __enter__(self) -> "LiveView":
        self._process.start()
        self._child.close()
        try:
            if not self._rows.poll(START_S):
                raise ViewFailed(f"the live view was not ready after {START_S:g} s")
            self.url = self._rows.recv()
        except EOFError:
            raise ViewFailed("the process of the live view ended before it was ready") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._rows.close()  # this ends the process
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def watch(self, label: str, trace: TraceWriter) -> None:
        """Send the last row of the trace if a frame is due and was requested. Pass this method as `watch` of a run."""
        now = time.perf_counter()
        if now < self._due:
            return
        self._due = now + 1 / RATE
        try:
            if self._rows.poll():
                self._rows.recv()
                self._rows.send((label, trace.last()))
        except (OSError, EOFError) as error:
            log.warning("the live view ended (%s); the run continues without it", error or type(error).__name__)
            self._due = float("inf")


def _serve(snapshot: dict[str, Any], rows: Connection) -> None:
    """Serve the page and its frames until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)
    controller = controller_from_snapshot(snapshot)
    stream = Stream(live_page(controller))
    rows.send(stream.url)
    try:
        while True:
            rows.send("next")
            label, row = rows.recv()
            if displayable(row.q):
                stream.publish(_frame(controller, label, row))
            time.sleep(1 / RATE)
    except (EOFError, OSError):
        stream.close()


def _frame(controller: Controller, label: str, row: Row) -> dict[str, Any]:
    mu = controller.settings.contact.mu
    arrays = frame_of(controller.robot, controller.terrain, row.q, (row.simulated, row.predicted), mu)
    return {"label": label, "t": row.t, "mode": row.mode} | {name: a.round(5).ravel().tolist() for name, a in arrays.items()}
