"""Fields of a snapshot's dicts as values: one of one dict, or a column of all entries; what is wrong is named.

A file may hold anything anywhere: lists where texts are wanted, and lists in lists whose text would never end.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from stridetool.core.memory.recorded import Frames, PoolId
from stridetool.errors import InputError

_MAX = 1 << 64
_SHOWN = 40  # characters of a wrong value


def shown(value: Any) -> str:
    """A wrong value in a message: numbers and texts shortened, of anything else what it is."""
    if isinstance(value, str):
        return repr(value[:_SHOWN])
    if isinstance(value, int | float | None):
        return str(value)[:_SHOWN]
    return f"a {type(value).__name__}"


def integer(
    row: Mapping[str, Any], key: str, place: str, *, default: int | None = None, least: int = 0, end: int = _MAX
) -> int:
    """A number within [least, end)."""
    value = row.get(key, default)
    if type(value) is not int or not least <= value < end:
        raise InputError(f"{place}.{key} is {shown(value)}, which is no {key}")
    return value


def entries(row: Mapping[str, Any], key: str, place: str = "") -> list[Any]:
    """A list; an empty one where there is none."""
    value = row.get(key, [])
    if not isinstance(value, list):
        raise InputError(f"{place}{'.' if place else ''}{key} is no list")
    return value


def pool_id(value: Any, place: str) -> PoolId:
    """A pair of numbers, which JSON writes as a list."""
    if isinstance(value, list | tuple) and len(value) == 2 and all(type(v) is int and 0 <= v < _MAX for v in value):
        return value[0], value[1]
    raise InputError(f"{place} is no pair of numbers")


def column(rows: list[dict[str, Any]], name: str, default: Any) -> list[Any]:
    """One field of all entries."""
    try:
        return list(map(itemgetter(name), rows))  # no Python call for each of a million entries
    except KeyError:
        return [row.get(name, default) for row in rows]


def addresses(rows: list[dict[str, Any]]) -> list[Any]:
    """Where entries are about, or what was free when a request failed."""
    try:
        return list(map(itemgetter("addr"), rows))
    except KeyError:
        return [row["addr"] if "addr" in row else row.get("device_free") for row in rows]


def numbers(values: list[Any], where: str, name: str, *, least: int = 0) -> list[int]:
    """A column of integers, checked as a whole; the first entry that is wrong is looked for only if one is."""
    if not values or (set(map(type, values)) == {int} and least <= min(values) and max(values) < _MAX):
        return values
    index = next(i for i, v in enumerate(values) if type(v) is not int or not least <= v < _MAX)
    raise InputError(f"{where}[{index}].{name} is {shown(values[index])}, which is no {name} of an entry")


def pools(values: list[Any], where: str) -> list[PoolId | None]:
    """The pools that entries name (None: too old to say): few different ones, each checked once."""
    try:
        different = set(values)
    except TypeError:  # lists, of a JSON
        return [None if value is None else pool_id(value, f"{where}[{i}].pool_id") for i, value in enumerate(values)]
    checked = {value: pool_id(value, f"{where}[…].pool_id") for value in different if value is not None}
    return list(map(checked.get, values))  # equal is not enough: (1.0, True) is (1, 1)


def stacks(rows: list[dict[str, Any]], where: str) -> list[Frames]:
    """The stacks of entries; what their frames hold is only looked at where one is shown."""
    values = column(rows, "frames", ())
    if not set(map(type, values)) <= {list, tuple}:
        for index, value in enumerate(values):
            if not isinstance(value, list | tuple):
                raise InputError(f"{where}[{index}].frames is no list")
    return values
