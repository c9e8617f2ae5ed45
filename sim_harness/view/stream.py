"""A page and a stream of events for it, on this machine alone (Server-Sent Events)."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Stream:
    """Serves `page` at `url`, and at `url`frames what is published; who is slow misses some. Threads end with the process."""

    def __init__(self, page: str) -> None:
        self._news = threading.Condition()
        self._number, self._event = 0, b""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(page.encode(), self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, event: dict[str, Any]) -> None:
        """Make this the newest event."""
        data = json.dumps(event, separators=(",", ":"), allow_nan=False).encode()
        with self._news:
            self._number, self._event = self._number + 1, data
            self._news.notify_all()

    def after(self, number: int) -> tuple[int, bytes]:
        """Wait for an event newer than `number`: its own number, and the event."""
        with self._news:
            self._news.wait_for(lambda: self._number > number)
            return self._number, self._event

    def close(self) -> None:
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
            except OSError:  # the browser has gone
                return

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are no news."""

    return Handler
