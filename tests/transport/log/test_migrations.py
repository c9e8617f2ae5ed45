"""Logs of older versions are read with today's settings, or refused by the name of the setting."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fast import every
from standin import SpringDamper, from_snapshot

from controllers.build import changed
from controllers.config.loading import load, parse
from controllers.config.tables import kind_of
from controllers.contact.ground import AnyTerrain
from controllers.planners import path as path_constants
from controllers.planners import steps
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from transport.log.provenance import (
    MIGRATIONS,
    SETTINGS_VERSION,
    MigrationError,
    attachments,
    metadata,
    migrated,
    recorded_settings,
    settings_version,
)
from transport.log.reader import LogReader
from transport.log.recorder import LogError, Recorder
from transport.log.replay import replay
from transport.server.settings import PlausibilitySettings, ServerSettings, WatchdogSettings

OLD_GAIT = {"touchdown_speed": 0.15, "redirect": 0.75, "touching": 1e-4, "settle": 0.1}
OLD_PATH = {"heading": 0.7, "turn_gain": 3.0, "turn_acceleration": 2.0}
OLD_SERVER = {"anticipation": {"lead_us": 400.0}}
"""Settings of version 0 that version 1 does not have, with the values that logs carry."""


def version_0() -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the trotting quadruped and its server, as a log of version 0 carries them."""
    controller = msgspec.to_builtins(load("controllers", "quadruped-trot", ControllerSettings))
    controller["reference"]["gait"] |= OLD_GAIT
    controller["reference"]["path"] |= OLD_PATH
    server = msgspec.to_builtins(ServerSettings(controller="quadruped-trot"))
    del server["anticipation_us"], server["start"], server["watchdog"]["silence_ms"], server["session_bits"]
    return controller, server | OLD_SERVER


def test_settings_of_version_0_are_migrated():
    old = version_0()
    controller, server = migrated(*old, version=0)
    assert old == version_0()
    assert parse(controller, ControllerSettings, "controller") == load("controllers", "quadruped-trot", ControllerSettings)
    watchdog = WatchdogSettings(silence_ms=1e6)
    added = {"anticipation_us": 400.0, "start": "motion", "session_bits": 64}
    expected = ServerSettings(controller="quadruped-trot", watchdog=watchdog, **added)
    assert parse(server, ServerSettings, "server") == expected


def test_current_settings_are_unchanged():
    """Also without a version: settings changed before logs carried one. Other references have no gait to migrate."""
    shipped = load("controllers", "quadruped-trot", ControllerSettings)
    own, server = msgspec.to_builtins(shipped), msgspec.to_builtins(ServerSettings(controller="quadruped-trot"))
    for version in range(SETTINGS_VERSION + 1):
        assert migrated(own, server, version) == (own, server)
    standing = msgspec.to_builtins(changed(shipped, {"reference": "hold"}))
    assert migrated(standing, {}, version=0) == (standing, {})


GROUNDS = {
    ("estimated", "flat"): ("apart", "estimated"),
    ("felt", "slope"): ("apart", "felt"),
    ("flat", "stairs"): ("apart", "flat"),
    ("felt", "standing"): ("apart", "felt"),
    ("told", "standing"): ("apart", "estimated"),
    ("told", "flat"): ("flat", "flat"),
    ("flat", "flat"): ("flat", "flat"),
    ("told", "slope"): ("slope", "told"),
}
"""What gait and law believed before version 4 → kind of the terrain, what the gait knows."""


def test_the_grounds_of_gait_and_law_become_one_terrain():
    """One that both believe where they agreed; otherwise both are kept. Contacts have the terrain of the law in any case."""
    for (gait, law), expected in GROUNDS.items():
        controller = msgspec.to_builtins(load("controllers", "quadruped-trot", ControllerSettings))
        controller["contact"]["terrain"] = {"kind": law, "friction": {"low": 0.2}}
        controller["reference"]["ground"] = gait
        terrain = parse(migrated(controller, {}, version=3)[0], ControllerSettings, "controller").contact.terrain
        assert (kind_of(terrain), terrain.known) == expected
        assert type(terrain.build()) is type(parse({"kind": law}, AnyTerrain, "terrain").build())
        assert terrain.build().friction is not None


def test_a_setting_that_became_a_constant_is_dropped_at_its_value_and_refused_at_another():
    for version, migration in enumerate(MIGRATIONS):
        for path, constant in migration.constants.items():
            for value in (constant, 2.0 * constant):
                table = value
                for key in reversed(path.split(".")[1:]):
                    table = {key: table}
                if value == constant:
                    assert migrated({"robot": "go2"} | table, {}, version)[0]["robot"] == "go2"
                    continue
                says = f"{path} = {value}: this setting was removed and is now the constant {constant}"
                with pytest.raises(MigrationError, match=says):
                    migrated({"robot": "go2"} | table, {}, version)


def test_migrated_defaults_match_the_planner():
    """When one of them changes, its old value has no equivalent any more: a further migration has to say so."""
    constants = {name.rpartition(".")[2]: value for name, value in MIGRATIONS[0].constants.items()}
    assert math.cos(constants.pop("heading")) == path_constants.FACING
    assert constants == {
        "touchdown_speed": steps.TOUCHDOWN_SPEED,
        "redirect": steps.REDIRECT,
        "touching": steps.TOUCHING,
        "settle": steps.SETTLE,
        "turn_gain": path_constants.TURN_GAIN,
        "turn_acceleration": path_constants.TURN_ACCELERATION,
    }


def write(path: Path, robot: Robot, server: dict[str, Any], version: str | None) -> None:
    """An empty log with these server settings; version: None for a log without one."""
    (snapshot, own, urdf), facts = attachments(SpringDamper(robot).snapshot(), Empty()), metadata(robot, seed=None)
    del facts["settings"]
    if version is not None:
        facts["settings"] = {"settings_version": version}
    Recorder(path, [snapshot, msgspec.structs.replace(own, data=json.dumps(server).encode()), urdf], facts).close()


class Empty(msgspec.Struct):
    """Settings without fields."""


def test_a_log_of_version_0_is_replayed(tmp_path, robot):
    path, (_, server) = tmp_path / "old.mcap", version_0()
    write(path, robot, server, None)
    with LogReader(path) as log:
        assert settings_version(log.metadata) == 0
        assert recorded_settings(log)[1]["anticipation_us"] == 400.0
    assert replay(path, build=from_snapshot).complete


def test_a_new_log_has_the_current_version(tmp_path, robot):
    path = tmp_path / "new.mcap"
    settings = ServerSettings(controller="standin", plausibility=PlausibilitySettings(joint_speed=math.inf))
    Recorder(path, attachments(SpringDamper(robot).snapshot(), settings), metadata(robot, seed=None)).close()
    with LogReader(path) as log:
        assert settings_version(log.metadata) == SETTINGS_VERSION
        assert parse(recorded_settings(log)[1], ServerSettings, "server") == settings


SHIPPED = msgspec.to_builtins(ServerSettings(controller="standin"))


@every(
    ("server", "version", "says"),
    [
        *(
            (SHIPPED, each, f"settings_version: expected .*got '?{each}")
            for each in (str(SETTINGS_VERSION + 1), "-1", "one", "")
        ),
        ({"controller": "standin", "foresight": 1.0}, None, r"server\.foresight: no such setting"),
    ],
)
def test_an_unknown_version_or_setting_of_a_log_is_refused(tmp_path, robot, server, version, says):
    path = tmp_path / "run.mcap"
    write(path, robot, server, version)
    with pytest.raises(LogError, match=rf"run\.mcap: {says}"):
        replay(path, build=from_snapshot)


def test_a_toml_file_is_not_migrated(tmp_path):
    """The new key is named in the error."""
    path = tmp_path / "old.toml"
    path.write_text('controller = "quadruped"\n[anticipation]\nlead_us = 400.0\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"server\.old\.anticipation: no such setting .*anticipation_us"):
        load("server", str(path), ServerSettings)
