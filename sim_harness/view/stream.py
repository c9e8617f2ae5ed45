"""Local web server of a page and of a stream of events for it (Server-Sent Events)."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
