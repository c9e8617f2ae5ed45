"""Settings of the server: bounds with units, ports, and paths relative to the file."""

import pytest
from fast import every_row

from controllers.config.loading import find, load
from idyn import ConfigError, load_controller
from transport.server.settings import CurveSettings, ServerSettings, endpoint, robot_endpoint

QUADRUPED = find("robots", "quadruped").parent / "quadruped.urdf"


def test_paths_in_a_file_are_relative_to_it(tmp_path, monkeypatch):
    folder = tmp_path / "robots"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    (folder / "server.toml").write_text(
        'controller = "sub/../controller.toml"\nendpoint = "ipc://run/socket"\nlog_directory = "logs"\n'
        '[curve]\nsecret = "keys/a.key_secret"\nclients = {}\n'
    )
    (folder / "controller.toml").write_text('robot = "robot.toml"\n')
    (folder / "robot.toml").write_text('urdf = "mine.urdf"\ncontact = [{ frame = "LF_FOOT" }]\nstanding = { LF_Y_3 = 1.0 }')
    (folder / "mine.urdf").write_text(QUADRUPED.read_text(encoding="utf-8"))
    (folder / "sub").mkdir()
    server = load("server", "robots/server.toml", ServerSettings)
    monkeypatch.chdir(folder / "sub")
    assert server.endpoint == f"ipc://{folder}/run/socket"
    assert (server.log_directory, server.curve.secret) == (f"{folder}/logs", f"{folder}/keys/a.key_secret")
    assert load_controller(server.controller).robot.na == 12
    path = tmp_path / "server.toml"  # other names stay
    path.write_text('controller = "quadruped"\nendpoint = "ipc://@abstract"\nlog_directory = "/var/log/idyn"\n')
    server = load("server", str(path), ServerSettings)
    assert (server.controller, server.endpoint, server.log_directory) == ("quadruped", "ipc://@abstract", "/var/log/idyn")


@every_row(
    ("anticipation_us = -1", "anticipation_us", "0 to 100000 µs, got -1"),
    ("release_ms = nan", "release_ms", "ms, got nan"),
    ("watchdog = { hold_ms = 0 }", "watchdog.hold_ms", "ms, got 0"),
    ("log_part_mb = 0", "log_part_mb", "MB, got 0"),
    ("core = -1", "core", ">= 0"),
)
def test_server_settings_have_bounds_with_units(setting, where, says, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f'controller = "quadruped"\n{setting}\n')
    with pytest.raises(ConfigError, match=says) as caught:
        load("server", str(path), ServerSettings)
    assert caught.value.path == f"server.mine.{where}"


def test_addresses(monkeypatch, tmp_path):
    """Ports are numbers from 0 to 65535, or *. Other machines need keys or an explicit setting."""

    def bound(address: str, **more: object) -> str:
        return endpoint(ServerSettings(controller="x", endpoint=address, **more))

    for port in ("-1", "http", "", "1e3", "80 "):
        with pytest.raises(ConfigError, match=r"server.endpoint: expected a port from 0 to 65535"):
            bound(f"tcp://127.0.0.1:{port}")
    for address in ("tcp://0.0.0.0:5555", "tcp://*:5555", "http://x", "tcp://example.org:1"):
        with pytest.raises(ConfigError, match=r"server\.endpoint"):
            bound(address)
    here = [f"tcp://127.0.0.1:{port}" for port in ("0", "65535", "*")]
    for address in (*here, "tcp://localhost:5", "ipc://@idyn", "ipc:///x/y"):
        assert bound(address) == address
    for permitted in ({"insecure": True}, {"curve": CurveSettings(secret="server.key_secret", clients={})}):
        assert bound("tcp://0.0.0.0:1", **permitted) == "tcp://0.0.0.0:1"
    for address in ("http://x", "tcp://0.0.0.0:1", "ipc:///x/y"):
        with pytest.raises(ConfigError, match=r"server\.robot_endpoint"):
            robot_endpoint(ServerSettings(controller="x", endpoint="ipc:///x/y", robot_endpoint=address))
    assert robot_endpoint(ServerSettings(controller="x")) is None
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert endpoint(ServerSettings(controller="x")) == f"ipc://{tmp_path}/idyn/idyn.sock"
    assert (tmp_path / "idyn").stat().st_mode & 0o777 == 0o700
    (tmp_path / "idyn").chmod(0o755)
    with pytest.raises(ConfigError, match="0700"):
        endpoint(ServerSettings(controller="x"))
