"""List all settings that a TOML file may contain: the structs of its type, their fields and defaults."""

from typing import Any, get_args

import msgspec

from controllers.config.tables import members_of


def structs(*wanted: Any) -> list[type[msgspec.Struct]]:
    """Return the structs in these types and, recursively, in their fields; each once, in order of first occurrence."""
    found: dict[type[msgspec.Struct], None] = {}

    def note(each: Any) -> None:
        for member in members_of(each):
            if not isinstance(member, type) or not issubclass(member, msgspec.Struct):
                for part in get_args(member):
                    note(part)
            elif member not in found:
                found[member] = None
                for field in msgspec.structs.fields(member):
                    note(field.type)

    for each in wanted:
        note(each)
    return list(found)


def defaults(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the default of each field as text: 'required' without one, the type's name for a struct."""
    return {field.name: _default(field) for field in msgspec.structs.fields(struct)}


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return type(value).__name__ if isinstance(value, msgspec.Struct) else repr(msgspec.to_builtins(value))
