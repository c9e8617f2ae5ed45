"""The table of all alarms, generated from the code: what is measured, threshold, times and action."""

import re
from collections.abc import Iterator

from controllers.config.listing import meanings
from controllers.monitor.alarms import ALARMS, POWER, POWER_STOP, AlarmSettings
from controllers.monitor.reality import RealitySettings
from controllers.monitor.switches import CONTRADICTIONS
from transport.server.sessions.plausibility import FLICKERS, WINDOW_S
from transport.server.settings import PlausibilitySettings

HEADER = ("alarm", "measure", "threshold", "`degraded` after", "stops after")


def rows() -> Iterator[tuple[str, ...]]:
    settings, reality, jumps = AlarmSettings(), RealitySettings(), PlausibilitySettings()
    for each in ALARMS:
        if each.threshold:
            compared, after = _compared(each.threshold, *filter(None, [each.also])), f"{1e3 * each.after:g} ms"
        else:
            compared = "motion or force mismatch beyond `reality.degraded`", f"`reality.degraded` {reality.degraded:g}"
            after = f"{1e3 * reality.patience:g} ms (`reality.patience`)"
        yield each.name, *compared, after, f"{1e3 * getattr(settings, each.stop):g} ms more (`{each.stop}`)"
    yield (
        "implausible state",
        "change since the last state, minus what the speeds explain",
        "`[plausibility]` of the server",
        "the second of `recovery` states",
        f"two in a row, or more than {jumps.most_rejected:g} (`most_rejected`), of which {jumps.recovery:g} accepted states "
        "(`recovery`) make up for one",
    )
    changes = f"changes of a switch in {1e3 * WINDOW_S:g} ms; it counts as closed"
    yield ("flickering foot switch", changes, f"{FLICKERS:g}", "0 ms", "–")
    for row in CONTRADICTIONS:
        yield f"foot switch {row.name}", *_compared(row.threshold), f"{1e3 * row.after:g} ms", "–"
    for name, limits in POWER.items():
        yield name, *_compared(*limits), "0 ms", f"{1e3 * POWER_STOP:g} ms beyond `{limits[1]}`"


def _compared(*names: str) -> tuple[str, str]:
    """Return what is compared with thresholds, from the comments of the settings, and the thresholds with their unit."""
    found = re.fullmatch(r"(.*) \[(.+)\](.*)", meanings(AlarmSettings)[names[0]])
    assert found, names
    thresholds = (f"`{name}` {getattr(AlarmSettings(), name):g} {found[2]}".rstrip(" –") for name in names)
    return found[1] + found[3], ", ".join(thresholds)


def table() -> str:
    """Return the table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (HEADER, ("---",) * len(HEADER), *rows()))
