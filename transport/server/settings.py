"""Settings of the server: `configs/server/*.toml`."""

import os
import tempfile
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from controllers.config.loading import Positive, Settings
from controllers.config.tables import Choice, Table, within
from idyn.errors import ConfigError
from transport.server.process import RealTime

Role = Literal["control", "watch", "configure", "plan", "estop"]
Milliseconds = Annotated[float, within(0.1, 1e6, "ms")]
Start = Literal["rest", "lying", "motion"]
PublicKey = Annotated[str, msgspec.Meta(min_length=40, max_length=40)]


class ClientKey(Settings, frozen=True):
    """A client that may connect."""

    key: PublicKey  # the client's public key (Z85)
    # 'control' the robot, 'watch' as a shadow, 'configure': watch, and change settings while no client controls; 'plan': send
    # commands; 'estop': stop the robot
    role: Role = "control"


class CurveSettings(Settings, frozen=True):
    """Encryption and access control. secret: path of the server's secret key, see `idyn keys`; clients: by any name"""

    secret: str
    clients: dict[str, ClientKey]


class WatchdogSettings(Settings, frozen=True):
    """Times without a state [ms]."""

    hold_ms: Milliseconds = 20.0  # from here on the watchdog level is `hold`
    latch_ms: Milliseconds = 100.0  # from here on states are refused until `reset`
    # as latch_ms, on the server's clock alone, however little the robot's clock has advanced; not for simulations
    silence_ms: Milliseconds = 250.0


class PlausibilitySettings(Settings, frozen=True):
    """Bounds of the plausibility check: largest change between states, minus the change that the speeds explain; inf: no bound.

    joint_position [rad], joint_speed [rad/s]; base_position [m], base_attitude [rad]; base_velocity [m/s], base_rate [rad/s];
    specific_force of an IMU [m/s²]
    The bounds of speeds are doubled in the tick after a rejected state.
    The defaults are at least twice the largest changes per tick in trots with pushes and hard landings: 8 rad/s of light legs,
    0.01 m/s and 0.2 rad/s of bases. A leg that stumbles may change by 20 rad/s: that state is rejected, the next one accepted.
    """

    joint_position: Positive = 0.1
    joint_speed: Positive = 16.0
    base_position: Positive = 0.05
    base_attitude: Positive = 0.1
    base_velocity: Positive = 1.0
    base_rate: Positive = 4.0
    specific_force: Positive = 150.0
    # time for which the rate of the base, or all speeds of the joints, may stay the same to the last bit while the other
    # changes; then the sensor is frozen, and states are refused [s]
    repeated: Positive = 0.005
    most_rejected: Positive = 5.0  # more rejected states are a fault, also when accepted ones lie between them
    recovery: Positive = 50.0  # number of accepted states that make up for one rejected state


class ServerSettings(Settings, frozen=True):
    """Settings of `idyn serve`."""

    controller: str  # name of a file in `configs/controllers`, or a path to one
    # law, selection: replace those of the controller
    law: Choice | None = None
    selection: str | None = None
    # `ipc://<path>`, `ipc://@<abstract name>` or `tcp://<address>:<port>`; None: a socket in the user's runtime folder. This
    # path and those of `controller`, `curve.secret` and `log_directory` are relative to the TOML file
    endpoint: str | None = None
    # an address of its own for the robot, as `endpoint`, which is then that of all other clients. Their floods do not delay the
    # robot. Only keys of the roles 'control' and 'estop' are admitted there; None: one for all
    robot_endpoint: str | None = None
    # allow a tcp address that other machines can reach without `curve`; every client there can then command the robot
    insecure: bool = False
    curve: CurveSettings | None = None  # keys of server and clients; None: no access control
    deadline_us: Annotated[float, within(1, 1e6, "µs")] = 600.0  # time budget of an answer, from the arrival of the state [µs]
    watchdog: WatchdogSettings = WatchdogSettings()
    # time before a state is due from which the server polls for it [µs]; 0: no polling. It occupies a core for that time: see
    # `transport.server.sockets.scheduling`
    anticipation_us: Annotated[float, within(0, 1e5, "µs")] = 250.0
    # pin the loop to this core; other processes should not use it (Linux)
    core: Annotated[int, msgspec.Meta(ge=0)] | None = None
    # SCHED_FIFO for the loop, and locked memory (Linux). 'auto': as far as permitted; 'off': neither; 'required': an error
    # without both. The log says what was granted
    realtime: RealTime = "auto"
    max_state_age_ms: Milliseconds = 10.0  # states with a longer transmission delay are refused [ms]
    plausibility: PlausibilitySettings = PlausibilitySettings()  # bounds of the plausibility check
    release_ms: Milliseconds = 1000.0  # time without states after which another client may replace the controlling one [ms]
    # how the robot may be when a client takes control. 'rest': upright and nearly still, as for `reset`; 'lying': in any
    # attitude, but still; 'motion': not checked, for simulations that start in motion
    start: Start = "rest"
    # names of clients that may send commands, without `curve`; with it a key of the role 'plan' may
    planners: tuple[str, ...] = ()
    # names of clients that may stop the robot from any connection, without `curve`; with it a key of the role 'estop' may
    estops: tuple[str, ...] = ()
    # largest time between two messages of such clients; after it the robot is stopped [ms]. None: not watched
    estop_timeout_ms: Milliseconds | None = None
    # length of session numbers. 53 bits fit the numbers of every language; logs of older versions have 64
    session_bits: Annotated[int, msgspec.Meta(ge=32, le=64)] = 53
    shadow: bool = False  # serve one shadow client beside the controlling one, with a separate controller
    # port of Prometheus metrics by HTTP; 0: any free one; None: no metrics (extra 'metrics')
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    metrics_host: str = "127.0.0.1"  # address that they are bound to; whoever can reach it can read them
    log_directory: str | None = None  # folder of logs and fault logs; None: no logs
    # log_part_mb, log_part_s: length [MB] and age [s] at which a log continues in another file
    log_part_mb: Annotated[float, within(0.001, 1e6, "MB")] = 500.0
    log_part_s: Annotated[float, within(0.001, 1e7, "s")] = 3600.0

    @property
    def changes(self) -> Table:
        """Changes of the controller's settings: `law` and `selection`, if set."""
        return {name: value for name in ("law", "selection") if (value := getattr(self, name)) is not None}

    def __post_init__(self) -> None:
        hold, latch, silence = self.watchdog.hold_ms, self.watchdog.latch_ms, self.watchdog.silence_ms
        if not hold < latch <= self.release_ms:
            expected = f"hold_ms {hold} < latch_ms ≤ release_ms {self.release_ms}"
            raise ConfigError("server.watchdog.latch_ms", f"expected {expected}, got {latch}")
        if not latch <= silence:
            raise ConfigError("server.watchdog.silence_ms", f"expected ≥ latch_ms {latch}, got {silence}")


def runtime_directory() -> Path:
    """Return the folder of sockets, which only this user can access. Raises ConfigError for another owner or mode."""
    root = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(root) / "idyn" if root else Path(tempfile.gettempdir()) / f"idyn-{os.getuid()}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or path.is_symlink():
        raise ConfigError("server.endpoint", f"expected {path} to be a folder of this user with mode 0700")
    return path


def endpoint(settings: ServerSettings) -> str:
    """Return the address to bind. Raises ConfigError if it is malformed, or if other machines can reach it unprotected."""
    if settings.endpoint is None:
        return f"ipc://{runtime_directory() / 'idyn.sock'}"
    _check_address("server.endpoint", settings.endpoint, settings)
    return settings.endpoint


def robot_endpoint(settings: ServerSettings) -> str | None:
    """Return the robot's own address, None without one. Raises ConfigError as `endpoint`, and if it is that of the others."""
    own = settings.robot_endpoint
    if own is not None:
        _check_address("server.robot_endpoint", own, settings)
        if own == endpoint(settings) and not own.endswith((":0", ":*")):
            raise ConfigError("server.robot_endpoint", f"expected another address than `endpoint`, got {own}")
    return own


def _check_address(setting: str, endpoint: str, settings: ServerSettings) -> None:
    """Raise ConfigError if an address is malformed, or if other machines can reach it unprotected."""
    address = urlsplit(endpoint)
    if address.scheme == "tcp":
        _check_port(setting, endpoint)
        if not settings.insecure and settings.curve is None and not _is_loopback(address.hostname or ""):
            raise ConfigError(setting, f"other machines can reach {endpoint}; expected keys in [curve], or insecure = true")
    elif address.scheme != "ipc":
        raise ConfigError(setting, f"expected ipc://… or tcp://…, got '{endpoint}'")


def _check_port(setting: str, endpoint: str) -> None:
    """Raise ConfigError unless a tcp endpoint ends with a port; 0 and * are any free one."""
    port = endpoint.rpartition(":")[2]
    if port != "*" and not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(setting, f"expected a port from 0 to 65535, or *, got '{port}' in {endpoint}")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
