"""The states of a session as a picture: `python docs/tools/session_states.py` writes docs/images/session.svg.

`TRANSITIONS` is what it draws; a test runs each of them against the server.
"""

from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).parents[1] / "images" / "session.svg"

STATES = {"absent": (110, 150), "running": (430, 150), "latched": (750, 150), "ended": (430, 290)}
"""Name → centre of its box."""


class Transition(NamedTuple):
    """From and to which state; what the client does; the answer. path: of the arrow; text: where it stands; end: of its text"""

    origin: str
    target: str
    cause: str
    answer: str
    path: str
    text: tuple[int, int]
    anchor: str = "middle"


TRANSITIONS = (
    Transition("absent", "running", "hello", "welcome, mode ok", "M180,140 H358", (270, 132)),
    Transition(
        "absent", "latched", "hello, robot latched", "welcome, mode latched", "M110,124 C160,9 700,9 750,122", (430, 28)
    ),
    Transition("running", "running", "state", "torque", "M395,124 C380,74 480,74 465,122", (430, 76)),
    Transition("running", "latched", "outage of latch_ms, or a fault", "error latched_fault", "M500,140 H678", (590, 132)),
    Transition("latched", "latched", "state", "error latched_fault", "M785,124 C840,84 860,150 822,150", (800, 88), "start"),
    Transition("latched", "running", "reset of a robot at rest", "reset_ack", "M680,164 H502", (590, 190)),
    Transition("running", "ended", "stop", "stop_ack", "M445,176 V262", (456, 212), "start"),
    Transition("latched", "ended", "stop", "stop_ack", "M750,176 C750,250 640,290 502,290", (716, 272), "start"),
    Transition("ended", "running", "hello", "welcome, mode ok", "M415,264 V178", (404, 212), "end"),
    Transition("absent", "absent", "state", "error not_controlling", "M75,176 C40,240 140,240 125,178", (110, 244)),
)


def picture() -> str:
    """Return the SVG: what the client sends, or what happens, in bold; the server's answer below it."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 330" font-family="sans-serif" font-size="13">',
        "<title>States of a session: what the client sends (bold) and what the server answers</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
        '<path d="M0,0 L8,4 L0,8 z" fill="#37474f"/></marker></defs>',
        '<rect width="940" height="330" fill="#ffffff"/>',
    ]
    parts += [f'<path d="{each.path}" fill="none" stroke="#37474f" marker-end="url(#tip)"/>' for each in TRANSITIONS]
    for each in TRANSITIONS:
        (x, y), anchor = each.text, each.anchor
        parts.append(f'<text x="{x}" y="{y - 12}" text-anchor="{anchor}" font-weight="bold">{each.cause}</text>')
        parts.append(f'<text x="{x}" y="{y + 3}" text-anchor="{anchor}" fill="#455a64">{each.answer}</text>')
    for name, (x, y) in STATES.items():
        parts.append(f'<rect x="{x - 70}" y="{y - 26}" width="140" height="52" rx="8" fill="#eceff1" stroke="#37474f"/>')
        parts.append(f'<text x="{x}" y="{y + 5}" text-anchor="middle" font-size="15">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
