"""JSON from untrusted headers: bounded in size and depth, exact in types, and with duplicate names kept."""

from __future__ import annotations

import json
from typing import Any

from stridetool.errors import InputError

MAX_VALUES = 1_500_000  # about 200 MB of Python objects at the very worst


class Pairs(list[tuple[str, Any]]):
    """The entries of a JSON object, in order, with those that stand twice."""

    __slots__ = ()


def parse(data: bytes) -> Any:
    """The one JSON value in `data` (UTF-8). Objects come back as `Pairs`, numbers with a point or exponent as float.

    Raises InputError for anything else, for NaN and infinities, and for more than `MAX_VALUES` values.
    """
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise InputError(f"the JSON holds more than {MAX_VALUES:,} values")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=Pairs,
            parse_constant=_no_constant,
            parse_int=_integer if b"-0" in data else None,
        )
    except UnicodeDecodeError as error:
        raise InputError(f"invalid UTF-8 at byte {error.start:,}") from error
    except RecursionError as error:
        raise InputError("the JSON is nested too deeply") from error
    except ValueError as error:
        raise InputError(f"invalid JSON: {error}") from error
    if b"\\ud" in data.lower():
        _refuse_lone_surrogates(value)
    return value


def _integer(text: str) -> int:
    """Minus zero is a float to readers that know unsigned numbers: they refuse it where a size is wanted."""
    if text == "-0":
        raise InputError("invalid JSON: -0 as an integer")
    return int(text)


def _no_constant(name: str) -> None:
    raise InputError(f"invalid JSON: {name}")


def _refuse_lone_surrogates(value: Any) -> None:
    """Half of a UTF-16 pair is no text: it cannot be written out again."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, list | tuple):
            pending.extend(item)
        elif isinstance(item, str) and any("\ud800" <= letter <= "\udfff" for letter in item):
            raise InputError("invalid JSON: half a surrogate pair in a string")
