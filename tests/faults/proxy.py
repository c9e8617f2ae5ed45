"""A TCP connection between robot and server that delays, or becomes silent, as real ones do."""

import random
import selectors
import socket
import threading
from collections import deque
from time import monotonic


class Line:
    """One direction of one connection: bytes come out in their order, each after its delay."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source, self.sink = source, sink
        self.under_way: deque[tuple[float, bytes]] = deque()
        self.last_due = 0.0


class Proxy:
    """Listens on a port of its own, forwards to `server`'s. delay, jitter: of every piece, uniform in delay ± jitter [s];
    dead: nothing passes, no end is closed"""

    def __init__(self, server: str, seed: int = 0) -> None:
        self.delay = self.jitter = 0.0
        self.dead = False
        self._server = ("127.0.0.1", int(server.rsplit(":", 1)[1]))
        self._random = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._lines: list[Line] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy")
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for end in {line.source for line in self._lines} | {self._listener}:
            end.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(self._patience()):
                if key.fileobj is self._listener:
                    self._connect()
                else:
                    self._read(key.data)
            self._deliver(monotonic())

    def _patience(self) -> float:
        due = min((line.under_way[0][0] for line in self._lines if line.under_way), default=None)
        return 0.01 if due is None or self.dead else min(0.01, max(0.0, due - monotonic()))

    def _connect(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._server)
        except OSError:  # nobody is there: the client is told so
            client.close()
            return
        for source, sink in ((client, server), (server, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = Line(source, sink)
            self._lines.append(line)
            self._selector.register(source, selectors.EVENT_READ, line)

    def _read(self, line: Line) -> None:
        try:
            data = line.source.recv(65536)
        except OSError:
            data = b""
        if data:
            late = self.delay + self.jitter * self._random.uniform(-1.0, 1.0)
            line.last_due = max(line.last_due, monotonic() + max(0.0, late))
            line.under_way.append((line.last_due, data))
        else:
            self._hang_up(line)

    def _hang_up(self, line: Line) -> None:
        """One end has closed: so is the other."""
        both = [other for other in self._lines if line.source in (other.source, other.sink)]
        for each in both:
            self._selector.unregister(each.source)
            self._lines.remove(each)
            each.source.close()

    def _deliver(self, now: float) -> None:
        for line in self._lines if not self.dead else ():
            while line.under_way and line.under_way[0][0] <= now:
                try:
                    line.sink.sendall(line.under_way.popleft()[1])
                except OSError:
                    break
