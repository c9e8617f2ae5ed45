"""List all settings that a TOML file may contain, with type, default and meaning, from the structs and their comments."""

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from controllers.config.tables import kind_of, members_of

_FIELD = re.compile(r"^(\w+(?:, \w+)*)( \[[^\]]*\])?:\s*(.*)$")  # a line that explains fields: names, perhaps a unit, text
_LINE = re.compile(r"    (\w+): [^#]+?(?:# (.+))?$")  # a field, perhaps with a comment
_SEVERAL = re.compile(r"(\w+(?:, \w+)+): (.+)$")  # a comment on several fields

_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


class Setting(NamedTuple):
    """One setting. path: as in the file, `law(coulomb).edges` for a table of kind 'coulomb'; default: 'required' without one"""

    path: str
    type: str
    default: str
    meaning: str


def settings_of(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a struct, depth first, as paths that start with `prefix`."""
    yield from _settings_of(struct, prefix, ())


def _settings_of(struct: type[msgspec.Struct], prefix: str, parents: tuple[Any, ...]) -> Iterator[Setting]:
    explained = meanings(struct)
    for field in msgspec.structs.fields(struct):
        path = f"{prefix}{field.name}"
        yield Setting(path, _type_text(field.type), _default(field), explained.get(field.name, ""))
        for inner in _structs_in(field.type):
            if inner not in parents:
                kind = kind_of(inner)
                yield from _settings_of(inner, f"{path}({kind})." if kind else f"{path}.", (*parents, struct))


def _structs_in(wanted: Any) -> Iterator[type[msgspec.Struct]]:
    for member in members_of(wanted):
        if isinstance(member, type) and issubclass(member, msgspec.Struct):
            yield member
        else:
            for part in get_args(member):
                yield from _structs_in(part)


def meanings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the explanation of each field of a struct and its bases: the comment behind the field or above it, where
    `a, b: …` is about several; or a paragraph of the docstring."""
    found: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        found |= _documented(each.__dict__.get("__doc__") or "", struct.__struct_fields__)
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            found |= _commented(each)
    return found


def _documented(text: str, fields: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    names: list[str] = []
    indent = 0
    for line in text.splitlines():
        match, depth = _FIELD.match(line.strip()), len(line) - len(line.lstrip())
        if match and all(name in fields for name in match[1].split(", ")):
            names, indent = match[1].split(", "), depth
            found.update(dict.fromkeys(names, f"{match[3]}{match[2] or ''}"))
        elif names and line.strip() and depth > indent:
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
        else:
            names = []
    return found


@cache
def _commented(struct: type[msgspec.Struct]) -> dict[str, str]:
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(struct).splitlines():
        if line.startswith("    # "):
            above.append(line[6:])
            continue
        if (field := _LINE.match(line)) and (text := field[2] or " ".join(above)):
            shared = _SEVERAL.match(text)
            found |= dict.fromkeys(shared[1].split(", "), shared[2]) if shared else {field[1]: text}
        above = []
    return found


def _type_text(wanted: Any) -> str:
    """Return a type in words: `float ≥ 0`, `one of a, b`, `table`."""
    union = type(wanted).__name__ in ("UnionType", "_UnionGenericAlias", "Union")
    return " or ".join(dict.fromkeys(map(_member_text, get_args(wanted) if union else [wanted])))


def _member_text(member: Any) -> str:
    origin, parts = get_origin(member), get_args(member)
    if origin is Annotated:
        bounds = [(sign, getattr(meta, key, None)) for meta in parts[1:] for key, sign in _BOUNDS.items()]
        given = ", ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)
        return f"{_type_text(parts[0])} {given}".strip()
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin in (tuple, list):
        items = [each for each in parts if each is not Ellipsis]
        count = "list of" if Ellipsis in parts or origin is list else f"{len(items)} ×"
        return f"{count} {' or '.join(dict.fromkeys(map(_type_text, items)))}"
    if origin is dict:
        return "table"
    if member is type(None):
        return "nothing"
    if isinstance(member, type) and issubclass(member, Enum):
        return f"one of {', '.join(str(each.value) for each in member)}"
    if isinstance(member, type) and issubclass(member, msgspec.Struct):
        return "table"
    return str(getattr(member, "__name__", member))


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if isinstance(value, msgspec.Struct):
        return kind_of(value) or "table"
    return "nothing" if value is None else str(msgspec.to_builtins(value))
