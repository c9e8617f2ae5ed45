"""A torque server in a process of its own, as users run it."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from controllers.settings import ControllerSettings
from idyn.errors import IdynError
from transport.serve import serve
from transport.server.settings import ServerSettings

START_S = 900.0
"""A server may take so long until it is ready [s]: on a new machine it compiles its kernels first."""


class ServerFailed(IdynError):
    """The server process ended, or never became ready."""


class ServerProcess:
    """Starts `serve` in a new process, waits until clients may connect, and stops it at the end.

    with ServerProcess(settings, log_path) as server:
        RobotClient(server.endpoint, …)
    """

    def __init__(
        self, settings: ServerSettings, controller: ControllerSettings | None = None, log_path: Path | None = None
    ) -> None:
        """Arguments as those of `serve`."""
        context = multiprocessing.get_context("spawn")
        self._news, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_run, args=(settings, controller, log_path, theirs), name="idyn server", daemon=True
        )
        self._theirs = theirs
        self.endpoint = ""

    def __enter__(self) -> "ServerProcess":
        self.process.start()
        self._theirs.close()
        try:
            if not self._news.poll(START_S):
                raise ServerFailed(f"the server was not ready after {START_S:g} s")
            kind, text = self._news.recv()
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
        """SIGTERM, so that the log is finished; SIGKILL when that is not heard."""
        self.process.terminate()
        self.process.join(10.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _run(settings: ServerSettings, controller: ControllerSettings | None, log_path: Path | None, news: Connection) -> None:
    try:
        serve(
            settings,
            controller_settings=controller,
            log_path=log_path,
            ready=lambda endpoint: news.send(("ready", endpoint)),
        )
    except IdynError as error:
        news.send(("error", str(error)))
