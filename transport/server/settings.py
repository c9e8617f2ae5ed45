"""Settings of the server: `configs/server/*.toml`."""

import os
import tempfile
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.config.tables import Choice, Table
from idyn.errors import ConfigError

Role = Literal["control", "watch", "configure"]
PublicKey = Annotated[str, msgspec.Meta(min_length=40, max_length=40)]


class ClientKey(Settings, frozen=True):
    """key: the client's public key (Z85); role: what it may do: 'control' the robot, 'watch' as a shadow, or 'configure',
    which is to watch and to change settings while no client controls."""

    key: PublicKey
    role: Role = "control"


class CurveSettings(Settings, frozen=True):
    """secret: path of the server's secret key, see `idyn keys`; clients: who is let in, by a name for people"""

    secret: str
    clients: dict[str, ClientKey]


class WatchdogSettings(Settings, frozen=True):
    """hold_ms, latch_ms: no state for so long, and the session is marked hold, then latched until `reset`."""

    hold_ms: Positive = 20.0
    latch_ms: float = 100.0


class PlausibilitySettings(Settings, frozen=True):
    """The largest change from one state to the next beyond what the speeds explain; inf: any is believed.

    joint_position [rad], joint_speed [rad/s]; base_position [m], base_attitude [rad]; base_velocity [m/s], base_rate [rad/s]
    In the tick after a state that was passed over speeds may have changed by twice as much.
    As shipped they are twice and more what trots with pushes and hard landings make within a tick: light legs 8 rad/s, bases
    0.01 m/s and 0.2 rad/s. A leg that stumbles may change by 20 rad/s: passed over once, and believed in the next tick.
    """

    joint_position: Positive = 0.1
    joint_speed: Positive = 16.0
    base_position: Positive = 0.05
    base_attitude: Positive = 0.1
    base_velocity: Positive = 1.0
    base_rate: Positive = 4.0


class ServerSettings(Settings, frozen=True):
    """What `idyn serve` needs to know.

    controller: name of a file in `configs/controllers`, or a path to one
    law, selection: put into the controller's own
    endpoint: `ipc://<path>`, `ipc://@<abstract name>` or `tcp://<address>:<port>`; none: in the user's runtime folder
    insecure: allow a tcp address that other machines can reach without `curve`; anybody there may then command the robot
    curve: keys of server and clients; None: every client may do everything
    deadline_us: the answer's time budget, from the state's arrival [µs]
    anticipation_us: how long before a state is due the server wakes and stays awake [µs]; 0: never. It costs that
        share of a core: see `transport.server.sockets.anticipation`
    core: run the loop alone on this core; whatever else runs on the machine should keep off it (Linux)
    max_state_age_ms: a state that was under way for longer is refused [ms]
    plausibility: which states are believed
    release_ms: a controlling client that was silent for so long may be replaced by another one [ms]
    shadow: serve one shadow client beside the controlling one, with a controller of its own
    log_directory: where logs and fault records go; none: nothing is recorded
    log_part_mb, log_part_s: a log goes on in another file when one is this long [MB], or was begun so long ago [s]
    """

    controller: str
    law: Choice | None = None
    selection: str | None = None
    endpoint: str | None = None
    insecure: bool = False
    curve: CurveSettings | None = None
    deadline_us: Positive = 600.0
    watchdog: WatchdogSettings = WatchdogSettings()
    anticipation_us: NonNegative = 250.0
    core: int | None = None
    max_state_age_ms: Positive = 10.0
    plausibility: PlausibilitySettings = PlausibilitySettings()
    release_ms: float = 1000.0
    shadow: bool = False
    log_directory: str | None = None
    log_part_mb: Positive = 500.0
    log_part_s: Positive = 3600.0

    @property
    def changes(self) -> Table:
        """What is put into the controller's settings."""
        return {name: value for name in ("law", "selection") if (value := getattr(self, name)) is not None}

    def __post_init__(self) -> None:
        if not self.watchdog.hold_ms < self.watchdog.latch_ms <= self.release_ms:
            raise ConfigError(
                "server.watchdog.latch_ms",
                f"expected hold_ms {self.watchdog.hold_ms} < latch_ms ≤ release_ms {self.release_ms}, "
                f"got {self.watchdog.latch_ms}",
            )


def runtime_directory() -> Path:
    """A folder only this user can enter (mode 0700), for sockets. Raises ConfigError when somebody else made it."""
    root = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(root) / "idyn" if root else Path(tempfile.gettempdir()) / f"idyn-{os.getuid()}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or path.is_symlink():
        raise ConfigError("server.endpoint", f"{path} is not a folder of mode 0700 of this user")
    return path


def endpoint(settings: ServerSettings) -> str:
    """Where to bind. Raises ConfigError for an address that is unusable, or open to other machines without consent."""
    if settings.endpoint is None:
        return f"ipc://{runtime_directory() / 'idyn.sock'}"
    address = urlsplit(settings.endpoint)
    if address.scheme == "tcp":
        if not settings.insecure and settings.curve is None and not _is_loopback(address.hostname or ""):
            raise ConfigError(
                "server.endpoint",
                f"{settings.endpoint} can be reached from other machines; give [curve] keys, or set insecure = true",
            )
    elif address.scheme != "ipc":
        raise ConfigError("server.endpoint", f"expected ipc://… or tcp://…, got '{settings.endpoint}'")
    return settings.endpoint


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
