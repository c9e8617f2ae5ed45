"""Logs of other versions are refused, and unknown settings by their names."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fast import every
from standin import SpringDamper, from_snapshot

from controllers.config.loading import load, parse
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from transport.log.provenance import (
    SETTINGS_VERSION,
    attachments,
    metadata,
    recorded_settings,
)
from transport.log.reader import LogReader
from transport.log.recorder import LogError, Recorder
from transport.log.replay import replay
from transport.server.settings import PlausibilitySettings, ServerSettings


def write(path: Path, robot: Robot, server: dict[str, Any], version: str) -> None:
    """An empty log with these server settings."""
    (snapshot, own, urdf), facts = attachments(SpringDamper(robot).snapshot(), Empty()), metadata(robot, seed=None)
    facts["settings"] = {"settings_version": version}
    Recorder(path, [snapshot, msgspec.structs.replace(own, data=json.dumps(server).encode()), urdf], facts).close()


class Empty(msgspec.Struct):
    """Settings without fields."""


def test_a_new_log_has_the_current_version(tmp_path, robot):
    path = tmp_path / "new.mcap"
    settings = ServerSettings(controller="standin", plausibility=PlausibilitySettings(joint_speed=math.inf))
    Recorder(path, attachments(SpringDamper(robot).snapshot(), settings), metadata(robot, seed=None)).close()
    with LogReader(path) as log:
        assert parse(recorded_settings(log)[1], ServerSettings, "server") == settings


SHIPPED = msgspec.to_builtins(ServerSettings(controller="standin"))


@every(
    ("server", "version", "says"),
    [
        *((SHIPPED, each, f"settings_version: expected .*got '{each}") for each in ("7", "5", "one", "")),
        ({"controller": "standin", "foresight": 1.0}, SETTINGS_VERSION, r"server\.foresight: no such setting"),
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
