"""Tables of settings before they are typed: expand shorthands, check names, merge overrides. Settings that choose code are
families of tables told apart by the key `kind`, `law = { kind = "coulomb", edges = 8 }`; a string stands for the table of
that kind, a table without `kind` is of the default kind of its field, a table in place of a list is the only one of the
list."""

from collections.abc import Iterable
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from idyn.errors import ConfigError, nearest

KIND = "kind"

Table = dict[str, Any]

Choice = str | Table  # the name of a kind, or a table to merge into the configured one


def kind_of(settings: Any) -> str | None:
    """Return the kind of settings or of their type; None if they belong to no family."""
    return settings.__struct_config__.tag if hasattr(settings, "__struct_config__") else None


def named(choice: Choice) -> str:
    """Return a name for a choice, for labels and folders: its kind and its other settings, as in `coulomb-edges-8`."""
    if isinstance(choice, str):
        return choice
    return "-".join([str(choice.get(KIND, "")), *(f"{key}-{value}" for key, value in choice.items() if key != KIND)])


def merged(base: Table, changes: Table, where: str | None = None) -> Table:
    """Return `base` with `changes` merged in, table by table. A table of another kind replaces the old one.

    where: if given, `base` is complete: an unknown key raises a ConfigError whose path starts with `where`
    """
    result = dict(base)
    for key, value in changes.items():
        if not isinstance(key, str):
            raise ConfigError(where or "settings", f"expected names of settings as keys, got {key!r:.40}")
        inside = None if where is None else f"{where}.{key}"
        if inside is not None and key not in base:
            raise ConfigError(inside, f"no such setting{nearest(key, base)}")
        result[key] = _merge_value(base.get(key), value, inside)
    return result


def _merge_value(base: Any, value: Any, where: str | None) -> Any:
    if isinstance(base, dict) and KIND in base and isinstance(value, str):
        value = {KIND: value}
    elif isinstance(base, str) and isinstance(value, dict):
        base = {KIND: base}
    if not isinstance(base, dict) or not isinstance(value, dict):
        return value
    other = KIND in base and value.get(KIND, base[KIND]) != base[KIND]
    return value if other else merged(base, value, where)


def expand(data: Any, wanted: Any, where: str, default_kind: str | None = None) -> Any:
    """Expand the shorthands in parsed TOML; return a form that `msgspec.convert` accepts.

    wanted: type of the result
    where: first part of the path in errors
    default_kind: kind of a table that names none
    Raises ConfigError for an unknown setting, kind or value, and lists the valid ones.
    """
    _check_range(data, wanted, where)
    members = list(members_of(wanted))
    items = [get_args(each)[0] for each in members if get_args(each)[1:] == (Ellipsis,)]
    structs = _structs(members)
    if isinstance(data, str):
        _check_choice(data, members, where)
        known = [kind_of(each) for each in structs if kind_of(each)]
        return _expand_table({KIND: data}, structs, where, where, None) if known and str not in members else data
    if isinstance(data, dict):
        if structs:
            return _expand_table(data, structs, where, f"{where}.{KIND}", default_kind)
        if len(items) == 1 and _structs(members_of(items[0])):
            return [expand(data, items[0], where)]
        values = [get_args(each)[1] for each in members if get_origin(each) is dict]
        return {key: expand(value, values[0], f"{where}.{key}") for key, value in data.items()} if values else data
    if isinstance(data, list | tuple):
        return [expand(value, items[0], f"{where}[{i}]") for i, value in enumerate(data)] if items else data
    return data


def _structs(members: Iterable[Any]) -> list[type[msgspec.Struct]]:
    """Return the types of tables among the members of a union type."""
    return [each for each in members if isinstance(each, type) and issubclass(each, msgspec.Struct)]


def _expand_table(
    data: Table, structs: list[type[msgspec.Struct]], where: str, kind_path: str, default_kind: str | None
) -> Table:
    """Expand a table and the tables inside it, to be converted to one of `structs`.

    where, kind_path: paths in errors, of the table and of its kind
    """
    family = {kind: each for each in structs if (kind := kind_of(each))}
    if family and KIND not in data and default_kind is not None:
        data = {KIND: default_kind, **data}
    kind = data.get(KIND) if family else None
    if kind is not None and (not isinstance(kind, str) or kind not in family):
        raise ConfigError(kind_path, f"no kind named '{kind}'{nearest(str(kind), family)}, expected one of {', '.join(family)}")
    if kind is None and len(structs) > 1:
        raise ConfigError(kind_path, f"expected one of {', '.join(family)}")
    struct = structs[0] if kind is None else family[kind]
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    result: Table = {}
    for key, value in data.items():
        if key in fields:
            result[key] = expand(value, fields[key].type, f"{where}.{key}", kind_of(fields[key].default))
        elif family and key == KIND:
            result[key] = value
        else:
            others = [name for name, each in family.items() if key in each.__struct_fields__]
            owner = "" if kind is None else f" of '{kind}'"
            hint = f"; it belongs to {', '.join(others)}" if others else nearest(key, fields)
            raise ConfigError(f"{where}.{key}", f"no such setting{owner}{hint}")
    return result


def within(low: float, high: float, unit: str) -> msgspec.Meta:
    """Return the bounds of a setting, both allowed, for `Annotated[float, within(…)]`. Errors name bounds and unit."""
    return msgspec.Meta(extra={"within": (low, high, unit)})


def _check_range(data: Any, wanted: Any, where: str) -> None:
    """Check a number against the bounds that `within` gives its type. Raises ConfigError with bounds and unit."""
    if isinstance(data, bool) or not isinstance(data, int | float):
        return
    for part in get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,):
        for bounds in getattr(part, "__metadata__", ()):
            extra = bounds.extra or {} if isinstance(bounds, msgspec.Meta) else {}
            low, high, unit = extra.get("within", (data, data, ""))
            if not low <= data <= high and unit:
                raise ConfigError(where, f"expected {low:g} to {high:g} {unit}, got {data:g}")


def _check_choice(word: str, members: Iterable[Any], where: str) -> None:
    """Check a string against the enumerations among `members`. Raises ConfigError if none contains it."""
    words = [str(each) for enum in members if isinstance(enum, type) and issubclass(enum, Enum) for each in enum]
    if words and word not in words:
        raise ConfigError(where, f"unknown value '{word}'{nearest(word, words)}, expected one of {', '.join(words)}")


def members_of(wanted: Any) -> Iterable[Any]:
    """Yield the members of a union type, without annotations."""
    origin = get_origin(wanted)
    if origin in (Union, UnionType, Annotated):
        parts = get_args(wanted)[:1] if origin is Annotated else get_args(wanted)
        for part in parts:
            yield from members_of(part)
    else:
        yield wanted
