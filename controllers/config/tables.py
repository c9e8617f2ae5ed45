"""Tables of settings before they are typed: words written out, names looked up, changes put in.

Settings that choose code are families of tables that differ in `kind`, each kind with settings of its own:

    law = { kind = "coulomb", edges = 8 }

A word in the place of such a table is the table of that kind, as it is by default. A table that names no kind is of the kind
that is there without it.
"""

from collections.abc import Iterable
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from idyn.errors import ConfigError, nearest

KIND = "kind"

Table = dict[str, Any]

Choice = str | Table
"""A kind by its word, or a table, put into what is there."""


def kind_of(settings: Any) -> str | None:
    """The kind of settings, or of their type; None of what has no kind."""
    return settings.__struct_config__.tag if hasattr(settings, "__struct_config__") else None


def named(choice: Choice) -> str:
    """A choice as a name for people and folders: its kind and what else it says, as in `coulomb-edges-8`."""
    if isinstance(choice, str):
        return choice
    return "-".join([str(choice.get(KIND, "")), *(f"{key}-{value}" for key, value in choice.items() if key != KIND)])


def merged(base: Table, changes: Table, where: str | None = None) -> Table:
    """`base` with `changes` put in, table by table. A table of another kind takes the place of the one that was there.

    where: given, `base` has all keys there are: one that is not there raises a ConfigError headed by it
    """
    result = dict(base)
    for key, value in changes.items():
        inside = None if where is None else f"{where}.{key}"
        if inside is not None and key not in base:
            raise ConfigError(inside, f"no such setting{nearest(key, base)}")
        result[key] = _put_in(base.get(key), value, inside)
    return result


def _put_in(base: Any, value: Any, where: str | None) -> Any:
    if isinstance(base, dict) and KIND in base and isinstance(value, str):
        value = {KIND: value}
    elif isinstance(base, str) and isinstance(value, dict):
        base = {KIND: base}
    if not isinstance(base, dict) or not isinstance(value, dict):
        return value
    other = KIND in base and value.get(KIND, base[KIND]) != base[KIND]
    return value if other else merged(base, value, where)


def written_out(data: Any, wanted: Any, where: str, usual: str | None = None) -> Any:
    """Parsed TOML with words in the place of tables written out, in a form that `msgspec.convert` takes.

    wanted: the type that it is to become; where: heads the path in errors; usual: the kind of a table that names none
    Raises ConfigError for a setting, a kind or a word that does not exist, with those that do.
    """
    members = list(members_of(wanted))
    structs = [each for each in members if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if isinstance(data, str):
        _check_word(data, members, where)
        known = [kind_of(each) for each in structs if kind_of(each)]
        return _table({KIND: data}, structs, where, where, None) if known and str not in members else data
    if isinstance(data, dict):
        if structs:
            return _table(data, structs, where, f"{where}.{KIND}", usual)
        values = [get_args(each)[1] for each in members if get_origin(each) is dict]
        return {key: written_out(value, values[0], f"{where}.{key}") for key, value in data.items()} if values else data
    if isinstance(data, list | tuple):
        items = [get_args(each)[0] for each in members if get_args(each)[1:] == (Ellipsis,)]
        return [written_out(value, items[0], f"{where}[{i}]") for i, value in enumerate(data)] if items else data
    return data


def _table(data: Table, structs: list[type[msgspec.Struct]], where: str, named_at: str, usual: str | None) -> Table:
    """A table that one of `structs` is to be made of, its own tables written out. named_at: where its kind is named."""
    family = {kind: each for each in structs if (kind := kind_of(each))}
    if family and KIND not in data and usual is not None:
        data = {KIND: usual, **data}
    kind = data.get(KIND) if family else None
    if kind is not None and (not isinstance(kind, str) or kind not in family):
        raise ConfigError(named_at, f"no kind named '{kind}'{nearest(str(kind), family)}, expected one of {', '.join(family)}")
    if kind is None and len(structs) > 1:
        raise ConfigError(named_at, f"expected one of {', '.join(family)}")
    struct = structs[0] if kind is None else family[kind]
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    result: Table = {}
    for key, value in data.items():
        if key in fields:
            result[key] = written_out(value, fields[key].type, f"{where}.{key}", kind_of(fields[key].default))
        elif family and key == KIND:
            result[key] = value
        else:
            others = [name for name, each in family.items() if key in each.__struct_fields__]
            who = "" if kind is None else f" of '{kind}'"
            has = f"; it belongs to {', '.join(others)}" if others else nearest(str(key), fields)
            raise ConfigError(f"{where}.{key}", f"no such setting{who}{has}")
    return result


def _check_word(word: str, members: Iterable[Any], where: str) -> None:
    """Raises ConfigError for a word that is not in the enumeration that is wanted."""
    words = [str(each) for enum in members if isinstance(enum, type) and issubclass(enum, Enum) for each in enum]
    if words and word not in words:
        raise ConfigError(where, f"no '{word}'{nearest(word, words)}, expected one of {', '.join(words)}")


def members_of(wanted: Any) -> Iterable[Any]:
    """What a type may be: the members of a union, without annotations."""
    origin = get_origin(wanted)
    if origin in (Union, UnionType, Annotated):
        parts = get_args(wanted)[:1] if origin is Annotated else get_args(wanted)
        for part in parts:
            yield from members_of(part)
    else:
        yield wanted
