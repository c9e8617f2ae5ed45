"""The messages as a JSON Schema and as a page, generated from their classes.

python tests/message_pages.py FOLDER: writes `messages.schema.json` and `messages.md` there
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec

from transport.protocol.messages import FromClient, FromServer, Message
from transport.protocol.messages.base import MOST, SCHEMA

Json = dict[str, Any]

VECTOR: Json = {
    "description": "In MessagePack `bin` of little-endian float64, or a list of numbers; both are read, `bin` is written.",
    "type": "array",
    "items": {"type": "number"},
    "maxItems": MOST,
}

COMMENT = re.compile(r"^    (\w+): [^#\n]*#\s*(.+)$", re.MULTILINE)
"""A field with its comment."""

HEAD = f"""# Messages

Generated, like the [JSON Schema](messages.schema.json), from the classes in `transport/protocol/messages` by
`python tests/message_pages.py docs/reference`. Schema version {SCHEMA}.

- The key `t` of a message is its type, as in the headings; every message has `v`, the schema version.
- A field with an asterisk is required. Others may be omitted, and may be nil in a message of the server.
- An unknown field in a message of a client is refused; servers may add fields.
- A vector is `bin` of little-endian float64, or a list of numbers. nq, nv, na: lengths of configuration, velocity, torques.
- A count is an integer from 0 on.

[Wire protocol](wire-protocol.md) explains the conventions and the course of a session.
"""


def schema() -> Json:
    """Return the JSON Schema of all messages, as decoded from MessagePack, with vectors as lists."""
    _, definitions = msgspec.json.schema_components([Message])
    classes = _classes()
    for name, definition in definitions.items():
        notes = _notes(classes[name]) if name in classes else {}
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])  # as Python does itself from 3.13 on
        properties = definition.get("properties", {})
        for field, each in properties.items():
            properties[field] = _simplified(each) | ({"description": notes[field]} if field in notes else {})
    definitions["Vector"] = VECTOR
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Messages of idyn, schema version {SCHEMA}",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in get_args(Message)],
        "$defs": dict(definitions),
    }


def page() -> str:
    """Return the reference page: the fields of each message and of each part of messages."""
    definitions = schema()["$defs"]
    sections = [HEAD]
    senders = (("From the client", FromClient), ("From the server", FromServer))
    kinds = {kind.__name__: kind.__struct_config__.tag for _, union in senders for kind in get_args(union)}
    for title, union in senders:
        sections.append(f"## {title}\n")
        sections += [_section(f"`{kinds[kind.__name__]}`", definitions[kind.__name__]) for kind in get_args(union)]
    sections.append("## Parts\n")
    parts = {name: each for name, each in definitions.items() if name not in kinds and name != "Vector"}
    sections += [_section(name, part) for name, part in sorted(parts.items())]
    return "\n".join(sections)


def _classes() -> dict[str, type]:
    """Return all classes of messages and of their parts, by name."""
    found: dict[str, type] = {}
    waiting: list[type] = [msgspec.Struct]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("transport.protocol.messages"):
            found[kind.__name__] = kind
    return found


def _notes(kind: type) -> dict[str, str]:
    """Return the comments of the fields of a class and of those that it inherits from."""
    bases = [base for base in reversed(kind.__mro__) if base.__module__.startswith("transport.protocol.messages")]
    return {field: note for base in bases for field, note in COMMENT.findall(inspect.getsource(base))}


def _simplified(field: Json) -> Json:
    """Return the schema of a field with vectors by reference."""
    variants = field.get("anyOf", [field])
    if not any("contentEncoding" in each for each in variants):
        return field
    kept = [each for each in variants if each.get("type") == "null"]
    vector = {"$ref": "#/$defs/Vector"}
    rest = {key: value for key, value in field.items() if key != "anyOf"}
    return rest | ({"anyOf": [vector, *kept]} if kept else vector)


def _section(title: str, definition: Json) -> str:
    about = " ".join(definition.get("description", "").split())
    lines = [f"### {title}\n", *([f"{about}\n"] if about else [])]
    if "enum" in definition:
        return "\n".join([*lines, f"One of {_type(definition)}.\n"])
    required = definition.get("required", [])
    shown = {name: field for name, field in definition["properties"].items() if name not in ("t", "v")}
    fields = [_entry(name, field, name in required) for name, field in shown.items()]
    return "\n".join([*lines, *fields, *([""] if fields else [])])


def _entry(name: str, field: Json, required: bool) -> str:
    mark, note = r"\*" if required else "", f": {field['description']}" if "description" in field else ""
    return f"- `{name}`{mark} {_type(field)}{note}"


def _type(field: Json) -> str:
    if "anyOf" in field:
        return " or ".join(_type(each) for each in field["anyOf"] if each.get("type") != "null")
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return "vector" if name == "Vector" else f"[{name}](#{name.lower()})"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        item = _type(field.get("items", {}))
        return f"list of {item}" if item.startswith("[") else f"{item}s"
    return "count" if field.get("minimum") == 0 else str(field.get("type", "any"))


def main() -> None:
    folder = Path(sys.argv[1])
    text = json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
    (folder / "messages.schema.json").write_text(text, encoding="utf-8")
    (folder / "messages.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
