"""References from a pickle to storages: what each claims, checked, and shared by key as torch shares it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stridetool.core.tensor_file import Note
from stridetool.errors import InputError
from stridetool.sources.pickle_records import Global, Persistent
from stridetool.sources.torch_types import dtype_of_storage, is_known_location, itemsize

MAX_BYTES = (1 << 63) - 1


class StorageClaim(msgspec.Struct, frozen=True):
    """What the pickle says of one storage. `view` is (key, first byte, bytes) of a part that has its own key."""

    key: str
    dtype: str
    nbytes: int
    location: str
    view: tuple[str, int, int] | None = None

    @property
    def name(self) -> str:
        """The key under which tensors know it."""
        return self.view[0] if self.view else self.key

    @property
    def seen_bytes(self) -> int:
        """Bytes that its tensors can see."""
        return self.view[2] if self.view else self.nbytes


class StorageClaims:
    """All storages that a pickle refers to, in order; the first reference to a key decides, as in torch."""

    def __init__(self, references: Iterable[Persistent]) -> None:
        self.by_key: dict[str, StorageClaim] = {}
        self.notes: list[Note] = []
        self._by_reference: dict[int, StorageClaim] = {}
        for reference in references:
            if not _is_module(reference):
                self._add(reference)

    def of(self, reference: Any) -> StorageClaim | None:
        """The storage behind a value of the pickle, or None when it is no reference to one."""
        return self._by_reference.get(id(reference)) if isinstance(reference, Persistent) else None

    def _add(self, reference: Persistent) -> None:
        new, integer_key = _claim(reference)
        known = self.by_key.setdefault(new.name, new)
        self._by_reference[id(reference)] = known
        if known is new:
            self.notes += _notes(new, integer_key)
        elif (known.dtype, known.nbytes) != (new.dtype, new.nbytes):
            self.notes.append(_two_types(known, new))


def referenced_class(reference: Any) -> Any:
    """What a value of the pickle stands for: old files wrap classes of modules with their source."""
    return reference.id[1] if isinstance(reference, Persistent) and _is_module(reference) else reference


def _is_module(reference: Persistent) -> bool:
    id_ = reference.id
    return isinstance(id_, tuple) and len(id_) == 4 and id_[0] == "module"


def _claim(reference: Persistent) -> tuple[StorageClaim, bool]:
    id_ = reference.id
    if not isinstance(id_, tuple) or not id_ or id_[0] != "storage":
        kind = id_[0] if isinstance(id_, tuple) and id_ else id_
        raise InputError(f"a persistent id that names no storage: {kind if isinstance(kind, str) else type(kind)!r}")
    if len(id_) not in (5, 6):
        raise InputError(f"a storage reference of {len(id_)} parts, where 5 or 6 are wanted")
    _, class_, key, location, numel = id_[:5]
    dtype = dtype_of_storage(class_.path) if isinstance(class_, Global) else None
    if dtype is None:
        raise InputError(f"unknown storage class {class_.path if isinstance(class_, Global) else type(class_)!r}")
    if not is_key(key) or not isinstance(location, str):
        raise InputError("a storage reference whose key or location is no string")
    nbytes = _count(numel) * itemsize(dtype)
    if nbytes > MAX_BYTES:
        raise InputError(f"storage {str(key)[:40]!r} claims {numel:,} elements: more than 63 bits of bytes")
    view = _view(id_[5], itemsize(dtype), nbytes) if len(id_) == 6 and id_[5] is not None else None
    return StorageClaim(str(key), dtype, nbytes, location, view), type(key) is int


def is_key(value: Any) -> bool:
    """Whether a value can be the key of a storage: a text, or an integer that has one."""
    return isinstance(value, str) or (type(value) is int and abs(value) <= MAX_BYTES)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_BYTES:
        raise InputError("a storage reference whose number of elements is no size")
    return value


def _view(metadata: Any, itemsize: int, nbytes: int) -> tuple[str, int, int]:
    if not isinstance(metadata, tuple) or len(metadata) != 3 or not is_key(metadata[0]):
        raise InputError("a storage view that is no (key, offset, size)")
    key, offset, size = metadata
    start, length = _count(offset) * itemsize, _count(size) * itemsize
    if start + length > nbytes:
        raise InputError(f"storage view {str(key)[:40]!r} reaches beyond its storage")
    return str(key), start, length


def _notes(claim: StorageClaim, integer_key: bool) -> list[Note]:
    notes = []
    if integer_key:
        notes.append(
            Note("storage-key", "warning", "the storage key is an integer, where torch writes a string", claim.key)
        )
    if not is_known_location(claim.location):
        notes.append(
            Note(
                "unknown-location", "warning", f"no device of torch is called {claim.location[:60]!r}", claim.key,
                "torch.load needs map_location='cpu'",
            )
        )  # fmt: skip
    return notes


def _two_types(first: StorageClaim, other: StorageClaim) -> Note:
    return Note(
        "storage-claimed-twice", "warning",
        f"referred to as {first.nbytes:,} B of {first.dtype} and as {other.nbytes:,} B of {other.dtype}: "
        "torch takes the first for both",
        first.key, "the file is damaged or made by hand: save it again",
    )  # fmt: skip
