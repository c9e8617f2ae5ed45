"""A torque server in a process of its own."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from controllers.settings import ControllerSettings
from idyn.errors import IdynError
from transport.server.settings import ServerSettings
from transport.startup.serve import serve

START_S = 60.0  # longest time until a server is ready [s]


class ServerFailed(IdynError):
    """The server process ended before it was ready, or was not ready in time."""


class ServerProcess:
    """Context manager that starts `serve` in a new process, waits until clients can connect, and stops it at the end.

    with ServerProcess(settings, log_path) as server:
        RobotClient(server.endpoint, …)
    """

    def __init__(
        self, settings: ServerSettings, controller: ControllerSettings | None = None, log_path: Path | None = None
    ) -> None:
        """Arguments as in `serve`."""
        context = multiprocessing.get_context("spawn")
        self._receiver, self._sender = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_run, args=(settings, controller, log_path, self._sender), name="idyn server", daemon=True
        )
        self.endpoint = ""

    def __enter__(self) -> "ServerProcess":
        self.process.start()
        self._sender.close()
        try:
            if not self._receiver.poll(START_S):
                raise ServerFailed(f"the server was not ready after {START_S:g} s")
            kind, text = self._receiver.recv()
        except EOFError:
            raise ServerFailed("the server process ended before it was ready") from None
        except BaseException:
            self.stop()
            raise
        if kind == "error":
            self.stop()
            raise ServerFailed(text)
        self.endpoint = text
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Send SIGTERM, so that the server completes its log; SIGKILL if it does not end within 10 s."""
        self.process.terminate()
        self.process.join(10.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _run(settings: ServerSettings, controller: ControllerSettings | None, log_path: Path | None, sender: Connection) -> None:
    """Run the server; send ("ready", endpoint) or ("error", text)."""
    try:
        serve(
            settings,
            controller_settings=controller,
            log_path=log_path,
            ready=lambda endpoint: sender.send(("ready", endpoint)),
        )
    except IdynError as error:
        sender.send(("error", str(error)))
