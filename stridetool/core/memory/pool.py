"""Whole storages, lent and taken back: for loops that need the same buffers again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stridetool.core.drivers.device import CPU, Device
from stridetool.core.memory.registry import allocator_for
from stridetool.core.storage import DataPtr, Storage
from stridetool.errors import ArgumentValueError


class StoragePool:
    """Lends storages of exact size on `device`, and keeps at most `max_kept_bytes` of those that came back.

    A storage that was taken back has no bytes any more, so that a tensor which still looks at it cannot reach
    memory that was lent to someone else. One that is never given back is freed as any other.
    """

    def __init__(self, device: Device = CPU, *, max_kept_bytes: int | None = None) -> None:
        self.device = device
        self.max_kept_bytes = max_kept_bytes
        self.kept_bytes = 0
        self._kept: dict[int, list[DataPtr]] = {}
        self._lent: dict[int, int] = {}  # id of the storage → its address

    def lend(self, nbytes: int) -> Storage:
        """A storage of `nbytes` bytes, contents undefined. Raises OutOfMemoryError."""
        kept = self._kept.get(nbytes)
        if kept:
            pointer = kept.pop()
            self.kept_bytes -= nbytes
        else:
            pointer = allocator_for(self.device).allocate(nbytes)
        storage = Storage(pointer, resizable=False)
        self._lent[id(storage)] = pointer.address
        return storage

    def take_back(self, storage: Storage) -> None:
        """Raises ArgumentValueError for a storage that was not lent from here, or is back already."""
        pointer = storage.pointer
        if self._lent.get(id(storage)) != pointer.address or not (pointer.address or pointer.nbytes == 0):
            raise ArgumentValueError("this storage was not lent from this pool, or has been taken back already")
        del self._lent[id(storage)]
        storage.pointer = DataPtr(0, 0, self.device)
        limit = self.max_kept_bytes
        if limit is None or self.kept_bytes + pointer.nbytes <= limit:
            self._kept.setdefault(pointer.nbytes, []).append(pointer)
            self.kept_bytes += pointer.nbytes
        else:
            pointer.release()

    @contextmanager
    def lent(self, nbytes: int) -> Iterator[Storage]:
        """A storage for the length of a `with` block."""
        storage = self.lend(nbytes)
        try:
            yield storage
        finally:
            self.take_back(storage)

    def empty_cache(self) -> None:
        """Give back what is kept."""
        for pointers in self._kept.values():
            for pointer in pointers:
                pointer.release()
        self._kept.clear()
        self.kept_bytes = 0
