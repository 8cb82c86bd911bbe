"""Every tensor in what a pickle would make, under the name by which a program would reach it.

`model.layers.0.weight` for dicts and modules (whose parameters stand where `state_dict` puts them), `[0]` for lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stridetool.core.tensor_file import FileTensor
from stridetool.errors import InputError
from stridetool.sources.pickle_records import Dict, Made
from stridetool.sources.torch_storages import MAX_BYTES, StorageClaims
from stridetool.sources.torch_tensors import call_path, rebuild

MAX_VISITS = 2_000_000
MAX_TENSORS = 100_000
_MAX_NAME = 4096
_SAME_HASH = (1 << 61) - 1  # Python's hash of an integer is its rest by this
_ALL_NAMES = 32 << 20  # characters
_ROOT = "tensor"  # where the file holds nothing but one tensor
_MAPPINGS = ("collections.OrderedDict", "collections.defaultdict", "collections.Counter")
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")

Named = tuple[str, Any]  # (what it adds to the name, value)


def tensors_of(root: Any, prefix: str, claims: StorageClaims) -> list[FileTensor]:
    """All tensors below `root`, in order. Raises InputError for one that torch would refuse, and past the limits."""
    found, active, objects = list[FileTensor](), set[int](), set[int]()
    pending: list[tuple[str, str, Any, bool]] = [(prefix, "", root, False)]  # (name so far, the rest, value, leave)
    visits = characters = 0
    while pending:
        above, part, value, leave = pending.pop()
        if leave:
            active.discard(id(value))
            continue
        name = above + (part if above else part.removeprefix("."))
        visits += 1
        characters += len(name)
        if visits > MAX_VISITS or len(found) > MAX_TENSORS or len(name) > _MAX_NAME or characters > _ALL_NAMES:
            raise InputError(f"more tensors or names than can be listed ({MAX_TENSORS:,} tensors)")
        if id(value) in active or id(value) in objects:
            continue
        rebuilt = rebuild(value, name or _ROOT, claims) if isinstance(value, Made) else None
        if rebuilt is not None and rebuilt.tensor is not None:
            found.append(rebuilt.tensor)
        elif rebuilt is None and isinstance(value, Made) and call_path(value) not in _MAPPINGS:
            objects.add(id(value))  # an object is shown once, where it is met first
        children = rebuilt.parts if rebuilt else _children(value)
        worth = [(name, part, child, False) for part, child in children if _can_hold(child)]
        if worth:
            active.add(id(value))
            pending.append(("", "", value, True))
            pending.extend(reversed(worth))
    return found


def _can_hold(value: Any) -> bool:
    return isinstance(value, Made | Dict | list | tuple) and bool(value)


def _children(value: Any) -> Iterator[Named]:
    """What a container or an object holds, each with what it adds to the name."""
    if isinstance(value, list | tuple):
        yield from ((f"[{i}]", item) for i, item in enumerate(value) if _can_hold(item))
    elif isinstance(value, Dict):
        yield from _entries(value.pairs)
    elif isinstance(value, Made):
        yield from _object(value)


def _object(made: Made) -> Iterator[Named]:
    """An object: what it was called with, its state, and what was put into it."""
    if call_path(made) not in _MAPPINGS:
        for state in made.state if isinstance(made.state, tuple) else (made.state,):
            yield from _attributes(state) if isinstance(state, Dict) else (("", state),)
    yield from (("", item) for item in (made.args if isinstance(made.args, tuple) else (made.args,)))
    yield from _children(made.items)
    yield from _entries(made.pairs)


def _attributes(state: Dict) -> Iterator[Named]:
    for key, value in _entries_once(state.pairs):
        if key in _MODULE_PARTS and isinstance(value, Dict | Made):
            yield from _entries(value.pairs)
        else:
            yield f".{_key_text(key)}", value


def _entries(pairs: list[tuple[Any, Any]]) -> Iterator[Named]:
    yield from ((f".{_key_text(key)}", value) for key, value in _entries_once(pairs) if _can_hold(value))


def _entries_once(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The entries that a dict would keep: of a key that stands twice, the last value."""
    plain = [key for key, _ in pairs if _is_plain(key)]
    if len(set(plain)) == len(plain):
        return pairs
    kept = {key: value for key, value in pairs if _is_plain(key)}
    others = [(key, value) for key, value in pairs if not _is_plain(key)]
    return [*kept.items(), *others]


def _is_plain(key: Any) -> bool:
    """A text or a number (1, 1.0 and True are one key to Python); integers so large that many share a hash are none."""
    return isinstance(key, str | float) or (isinstance(key, int) and abs(key) < _SAME_HASH)


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key[:_MAX_NAME]
    if key is None or isinstance(key, float) or (isinstance(key, int) and abs(key) <= MAX_BYTES):
        return str(key)
    if isinstance(key, bytes):
        return key[: _MAX_NAME // 4].decode("utf-8", "backslashreplace")
    if isinstance(key, tuple):
        return f"({', '.join(_key_text(part) for part in key[:8] if not isinstance(part, tuple))})"
    return f"<{call_path(key)}>" if isinstance(key, Made) else "<key>"
