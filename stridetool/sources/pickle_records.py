"""What the inert pickle machine builds in place of objects: names, calls, dicts and references that do nothing.

Globals become `Global`, whatever a pickle would call or instantiate becomes `Made`, dicts become lists of pairs (no
key is hashed), persistent references stay references. Lists, tuples, texts and numbers are Python's own. They are
plain slotted classes, because a hostile pickle makes a million of them.
"""

from __future__ import annotations

from typing import Any

from stridetool.errors import InputError

_MAX_KEY_DEPTH = 4


class Global:
    """A module and a name in it."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


class Dict:
    """A dict: its entries in order, with keys that stand twice."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        self.pairs = pairs


class Made:
    """What a pickle would make by calling or instantiating `function`: arguments, state, and what is put into it."""

    __slots__ = ("args", "function", "items", "pairs", "state")

    def __init__(self, function: Any, args: Any) -> None:
        self.function, self.args = function, args
        self.state: Any = None
        self.items: list[Any] = []
        self.pairs: list[tuple[Any, Any]] = []

    @property
    def path(self) -> str:
        """`module.name` of what is called, or "" where that is no global."""
        return self.function.path if isinstance(self.function, Global) else ""


class Persistent:
    """A reference to something beside the pickle."""

    __slots__ = ("id",)

    def __init__(self, id: Any) -> None:
        self.id = id


def entries(flat: list[Any]) -> list[tuple[Any, Any]]:
    """The entries of a dict from keys and values in turn. Raises InputError for a key that no dict can have."""
    if len(flat) % 2:
        raise InputError("a dict with a key and no value")
    for key in flat[::2]:
        _check_key(key, 0)
    return list(zip(flat[::2], flat[1::2], strict=True))


def _check_key(key: Any, depth: int) -> None:
    if isinstance(key, list | Dict | bytearray):
        raise InputError("a dict key that cannot be hashed")
    if isinstance(key, tuple):
        if depth > _MAX_KEY_DEPTH:
            raise InputError("a dict key of deeply nested tuples")
        for item in key:
            _check_key(item, depth + 1)
