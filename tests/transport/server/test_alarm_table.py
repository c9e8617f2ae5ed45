"""docs/reference/alarms.md has the table of alarms, as the code gives it."""

from pathlib import Path

from controllers.monitor.alarm_settings import AlarmSettings
from controllers.monitor.alarms import ALARMS
from controllers.monitor.alarms import ROWS as POWER
from controllers.monitor.switches import ROWS
from transport.server.alarm_table import table


def test_the_documentation_has_the_table():
    document = (Path(__file__).parents[3] / "docs" / "reference" / "alarms.md").read_text(encoding="utf-8")
    between = document.split("<!-- alarms -->\n")[1].split("<!-- /alarms -->")[0]
    assert between.strip() == table().strip()


def test_every_setting_belongs_to_an_alarm():
    used = {name for each in ALARMS for name in (each.threshold, each.also, each.stop) if name}
    used |= {setting for _, _, setting, _, _ in ROWS}
    used |= {limit for _, _, limits, _ in POWER for limit in limits} | {"power_stop"}
    assert used == set(AlarmSettings.__struct_fields__)
