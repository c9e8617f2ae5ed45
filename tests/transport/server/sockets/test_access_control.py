"""Keys and roles over a real socket: who may connect, and what each role may do."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fast import full
from standin import MS, SpringDamper, from_snapshot, standing

from controllers.config.loading import parse
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from sim_harness.commands.main import main
from transport.keys import Keys, client_keys, make_keys, read_secret
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.hello import ClientKind
from transport.protocol.messages.requests import Config, ConfigGet, ConfigSet
from transport.protocol.messages.state import StateMessage
from transport.robot.client import RobotClient
from transport.robot.conversation import ConnectionFailed, hello_for
from transport.robot.observer import Observer
from transport.robot.planner import PlannerClient
from transport.server.reconfigure import ControllerBuilder
from transport.server.service import Service
from transport.server.settings import ServerSettings, endpoint
from transport.server.sockets.anticipation import Anticipation
from transport.server.sockets.router import Router

ROLES = ("control", "watch", "configure")
CHANGE = ConfigSet(settings={"feedback": {"kp": 5.0}})


class Place:
    """A server's address and the keys of its clients, by role; 'stranger' is one that it does not know."""

    def __init__(self, folder: Path) -> None:
        public = {name: make_keys(folder, name)[2] for name in ("server", "stranger", *ROLES)}
        self.keys = {name: client_keys(folder / f"{name}.key_secret", public["server"]) for name in (*ROLES, "stranger")}
        curve = {
            "secret": str(folder / "server.key_secret"),
            "clients": {role: {"key": public[role], "role": role} for role in ROLES},
        }
        self.settings = parse({"controller": "standin", "curve": curve, "max_state_age_ms": 1000.0}, ServerSettings, "server")
        self.address = ""

    def client(self, robot: Robot, name: str | None, kind: ClientKind = "sim", connect_ms: int = 20_000) -> RobotClient:
        keys: Keys | None = None if name is None else self.keys[name]
        return RobotClient(
            self.address, hello_for(robot, 1e-3, kind=kind), deadline_ms=20_000, connect_ms=connect_ms, keys=keys
        )


@pytest.fixture
def place(robot: Robot, tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    builder = ControllerBuilder(from_snapshot, in_thread=False)
    service = Service(SpringDamper(robot), place.settings, shadow=SpringDamper(robot), builder=builder)
    stop = threading.Event()
    anticipation = Anticipation(lead_us=250.0)
    with Router(service, "tcp://127.0.0.1:*", lambda faults: None, anticipation, place.settings.curve) as router:
        place.address = router.endpoint
        thread = threading.Thread(target=router.run, args=(stop,))
        thread.start()
        yield place
        stop.set()
        thread.join()


def state(robot: Robot) -> StateMessage:
    return StateMessage(q=standing(robot).tobytes(), vel=np.zeros(robot.nv).tobytes(), t_robot=MS)


def test_a_robot_with_a_known_key_is_controlled(robot: Robot, place: Place) -> None:
    with place.client(robot, "control") as client:
        client.hello()
        assert client.exchange(state(robot)) is not None
        refused = client.ask(CHANGE)
        assert isinstance(refused, ErrorMessage)
        assert "'control' may not send 'config_set'" in refused.message


@full
@pytest.mark.parametrize("name", [None, "stranger"])
def test_unknown_keys_get_no_connection(robot: Robot, place: Place, name: str | None) -> None:
    with place.client(robot, name, connect_ms=500) as client, pytest.raises(ConnectionFailed):
        client.hello()
    with place.client(robot, "control") as client:
        client.hello()


@pytest.mark.parametrize(
    ("name", "says"),
    [(None, "it admits keys only, and this client has none"), ("stranger", "it does not list this client's key")],
)
def test_who_watches_is_told_why_no_answer_comes(
    place: Place, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str | None, says: str
) -> None:
    keys = None if name is None else place.keys[name]
    options = [] if keys is None else ["--secret", f"{tmp_path}/{name}.key_secret", f"--server-key={keys.server.decode()}"]
    assert main(["top", place.address, "--once", *options]) == 2
    assert says in capsys.readouterr().err
    with pytest.raises(ConnectionFailed, match=says):
        PlannerClient(place.address, "planner", timeout_ms=300, keys=keys)


@pytest.mark.parametrize("curve", [True, False])
def test_a_client_with_the_key_of_another_server_is_told(robot: Robot, place: Place, tmp_path: Path, curve: bool) -> None:
    other = make_keys(tmp_path, "other")[2]
    keys = client_keys(tmp_path / "watch.key_secret", other)
    says = "its key is another than" if curve else "it has no keys, and this client expects one"
    service = Service(SpringDamper(robot), ServerSettings(controller="standin"))
    with Router(service, f"ipc://{tmp_path}/open", lambda faults: None, Anticipation(0.0)) as unprotected:
        address = place.address if curve else unprotected.endpoint
        with Observer(address, timeout_ms=300, keys=keys) as observer, pytest.raises(ConnectionFailed, match=says):
            observer.ask(ConfigGet())


@pytest.mark.parametrize("role", ["watch", "configure"])
def test_a_client_without_the_control_role_may_be_a_shadow(robot: Robot, place: Place, role: str) -> None:
    with place.client(robot, role) as client, pytest.raises(ConnectionFailed, match="only be a shadow"):
        client.hello()
    with place.client(robot, role, kind="shadow") as client:
        assert client.hello().dry_run
        answer = client.exchange(state(robot))
        assert answer is not None
        assert answer.dry_run


def test_only_the_configure_role_changes_settings(robot: Robot, place: Place) -> None:
    with place.client(robot, "watch") as client:
        assert isinstance(client.ask(CHANGE), ErrorMessage)
        assert isinstance(client.ask(ConfigGet()), Config)
    with place.client(robot, "configure") as client:
        assert isinstance(client.ask(CHANGE), Config)


def test_secret_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    public_file, secret_file, _ = make_keys(tmp_path, "robot")
    assert secret_file.stat().st_mode & 0o777 == 0o600
    assert read_secret(secret_file)[1] not in public_file.read_bytes()
    with pytest.raises(ConfigError, match="never overwritten"):
        make_keys(tmp_path, "robot")
    with pytest.raises(ConfigError, match="0600"):
        read_secret(public_file)
    for mode in (0o640, 0o604, 0o660):
        secret_file.chmod(mode)
        with pytest.raises(ConfigError, match=f"0600.*{mode:04o}"):
            read_secret(secret_file)
    with pytest.raises(ConfigError, match="not a readable key"):
        read_secret(tmp_path / "none")


def test_addresses_of_other_machines_need_keys_or_an_explicit_setting(tmp_path: Path) -> None:
    place = Place(tmp_path)
    open_to_all = ServerSettings(controller="standin", endpoint="tcp://0.0.0.0:5555")
    with pytest.raises(ConfigError, match="keys"):
        endpoint(open_to_all)
    assert endpoint(ServerSettings(controller="standin", endpoint="tcp://0.0.0.0:5555", curve=place.settings.curve))


def test_the_keys_command_makes_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "robot", "--out", str(tmp_path / "keys")]) == 0
    public, _ = read_secret(tmp_path / "keys" / "robot.key_secret")
    assert f"public key: {public.decode()}" in capsys.readouterr().out
    assert main(["keys", "robot", "--out", str(tmp_path / "keys")]) == 2
