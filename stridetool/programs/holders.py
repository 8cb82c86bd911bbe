"""Who keeps a storage alive when no variable names a tensor of it: a container, a closure, a graph, a cycle."""

from __future__ import annotations

import gc
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from stridetool.core.storage import Storage
from stridetool.core.tensor import Tensor
from stridetool.programs.interpreter import guarded

MAX_OBJECTS = 200_000
_MAX_HOLDERS = 3
_MAX_PATH = 200  # characters: a path of a linked list would be as long as the list
_FOREIGN = ("numpy", "torch")
_LEAVES = (str, bytes, int, float, complex, bool, type(None), types.ModuleType, types.CodeType)

CYCLE = "a reference cycle (gc.collect() frees it)"
UNKNOWN = "something that no variable leads to"


def holders(namespace: Mapping[str, Any], storages: Sequence[weakref.ref[Storage]]) -> dict[int, tuple[str, ...]]:
    """Storage serial → the paths that hold it, such as `cache['last']` or `graph of loss`.

    Walks at most `MAX_OBJECTS` objects from the variables of `namespace`. What they do not lead to is in a
    reference cycle when a collection frees it, which this function tries last.
    """
    found: dict[int, list[str]] = {serial: [] for serial in _alive(storages)}
    for serial, path in _walk(namespace):
        paths = found.get(serial)
        if paths is not None and len(paths) < _MAX_HOLDERS:
            paths.append(path)
    if not all(found.values()):
        gc.collect()
    alive = _alive(storages)
    return {serial: tuple(paths) or (UNKNOWN if serial in alive else CYCLE,) for serial, paths in found.items()}


def _alive(storages: Sequence[weakref.ref[Storage]]) -> set[int]:
    return {serial for serial in map(_serial, storages) if serial}


def _serial(storage: weakref.ref[Storage]) -> int:
    """The serial of a storage that is still there, else 0; no reference to it stays behind."""
    target = storage()
    return target.serial if target is not None else 0


def foreign_arrays(namespace: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Arrays of NumPy and torch that containers, closures and objects of the program hold, with the path to each.

    The parameters of a `torch.nn.Module` belong to it and are not listed; what a graph of torch keeps is not seen.
    """
    return (
        (value, path)
        for value, path in _visit(namespace)
        if guarded(_is_foreign_array, value, default=False) and path not in namespace
    )


def _is_foreign_array(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] in _FOREIGN and kind.__name__ in ("Tensor", "ndarray")


def _belongs_to_a_library(value: Any) -> bool:
    """Objects of torch and NumPy, and modules that a program derives from theirs: their insides are their own."""
    return any(kind.__module__.partition(".")[0] in _FOREIGN for kind in type(value).__mro__)


def _walk(namespace: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """The serial of every storage that the variables lead to, nearest first, with the path to it."""
    return ((value.serial, path) for value, path in _visit(namespace) if type(value) is Storage)


def _visit(namespace: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Every object that the variables lead to, nearest first, with the path to it; what is in a storage is left out."""
    queue: deque[tuple[Any, str]] = deque((v, k) for k, v in namespace.items() if not k.startswith("__"))
    seen: set[int] = set()
    while queue and len(seen) < MAX_OBJECTS:
        value, path = queue.popleft()
        if issubclass(type(value), _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        yield value, path
        if type(value) is not Storage and not guarded(_belongs_to_a_library, value, default=False):
            start = path if len(path) <= _MAX_PATH else f"{path[: _MAX_PATH // 2]}…"
            children = guarded(_first_children, value, start, MAX_OBJECTS - len(queue), default=None)
            queue.extend(_referents(value, start) if children is None else children)


def _first_children(value: Any, path: str, count: int) -> list[tuple[Any, str]] | None:
    return list(islice(_children(value, path), max(count, 0)))


def _referents(value: Any, path: str) -> list[tuple[Any, str]]:
    """What an object refers to, without a word from the object itself."""
    return [(item, path) for item in gc.get_referents(value)]


def _children(value: Any, path: str) -> Iterable[tuple[Any, str]]:
    if isinstance(value, Tensor):
        return ((value.untyped_storage(), path), (value.grad_fn, f"graph of {path}"))
    if isinstance(value, dict):
        return ((item, f"{path}[{_short(key)}]") for key, item in list(dict.items(value)))
    if isinstance(value, list | tuple | deque):
        return ((item, f"{path}[{i}]") for i, item in enumerate(value))
    if isinstance(value, types.FunctionType):
        return _of_function(value, path)
    if hasattr(value, "__dict__") and not (isinstance(value, type) and value.__module__ != "__main__"):
        attributes = ((item, f"{path}.{name}") for name, item in list(vars(value).items()))
        return chain(attributes, _referents(value, path))  # a cached function keeps its results beside its attributes
    if isinstance(value, type):
        return ()
    return _referents(value, path)


def _of_function(function: types.FunctionType, path: str) -> Iterator[tuple[Any, str]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield cell.cell_contents, f"{path} (closure over {name})"
        except ValueError:  # the cell is empty
            continue
    for default in function.__defaults__ or ():
        yield default, f"{path} (a default argument)"


def _short(key: object) -> str:
    text = repr(key) if isinstance(key, str | int | float | bool | tuple) else type(key).__name__
    return text if len(text) <= 40 else text[:39] + "…"
