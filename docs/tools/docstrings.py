"""An extension of Griffe: docstrings of this project as Markdown, for the reference of the library.

The docstrings list fields and arguments in lines `name: text`. Markdown would join such lines; here each becomes an item of
a list.
"""

import re
from typing import Any

from griffe import Extension, Object

_FIELD = re.compile(r"^(\w+(?:, \w+)*)((?: \([^)]*\)| \[[^\]]*\][^:]{0,20})?): (.*)$")


class Fields(Extension):
    """Turn `name: text` lines of docstrings into lists."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Return a docstring with its `name: text` lines, and the indented lines that continue them, as items of a list."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        field = _FIELD.match(line)
        if field:
            if not inside:
                lines.append("")
            lines.append(f"- `{field[1]}`{field[2]}: {field[3]}")
        elif inside and line.startswith("    "):
            lines[-1] += f" {line.strip()}"
            continue
        else:
            if inside and line.strip():
                lines.append("")
            lines.append(line)
        inside = bool(field)
    return "\n".join(lines)
