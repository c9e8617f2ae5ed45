"""The table of all alarms, generated from the code: what is measured, threshold, times and action."""

from collections.abc import Iterator

from controllers.monitor.alarms import ALARMS, POWER_STOP, AlarmSettings
from controllers.monitor.alarms import ROWS as POWER
from controllers.monitor.reality import RealitySettings
from controllers.monitor.switches import ROWS
from transport.server.sessions.plausibility import FLICKERS, WINDOW_S
from transport.server.settings import PlausibilitySettings

HEADER = ("alarm", "measure", "threshold", "`degraded` after", "stops after")


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table, with default settings."""
    settings, reality, jumps = AlarmSettings(), RealitySettings(), PlausibilitySettings()
    for each in ALARMS:
        if each.threshold:
            names = (each.threshold, each.also) if each.also else (each.threshold,)
            threshold = ", ".join(f"`{name}` {getattr(settings, name):g} {each.unit}".rstrip(" –") for name in names)
            after = f"{1e3 * each.after:g} ms"
        else:
            threshold, after = f"`reality.degraded` {reality.degraded:g}", f"{1e3 * reality.patience:g} ms (`reality.patience`)"
        stop = f"{1e3 * getattr(settings, each.stop):g} ms more (`{each.stop}`)"
        yield each.name, each.measure, threshold, after, stop
    yield (
        "implausible state",
        "change since the last state, minus what the speeds explain",
        "`[plausibility]` of the server",
        "the second of `recovery` states",
        f"two in a row, or more than {jumps.most_rejected:g} (`most_rejected`), of which {jumps.recovery:g} accepted states "
        "(`recovery`) make up for one",
    )
    yield (
        "flickering foot switch",
        f"changes of a switch in {1e3 * WINDOW_S:g} ms; it counts as closed",
        f"{FLICKERS:g}",
        "0 ms",
        "–",
    )
    for name, measure, setting, unit, after in ROWS:
        threshold = f"`{setting}` {getattr(settings, setting):g} {unit}".rstrip(" –")
        yield name, measure, threshold, after, "–"

    for name, measure, limits, unit in POWER:
        threshold = ", ".join(f"`{limit}` {getattr(settings, limit):g} {unit}" for limit in limits)
        yield name, measure, threshold, "0 ms", f"{1e3 * POWER_STOP:g} ms beyond `{limits[1]}`"


def table() -> str:
    """Return the table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (HEADER, ("---",) * len(HEADER), *rows()))
