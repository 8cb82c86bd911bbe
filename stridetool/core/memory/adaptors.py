"""Behaviour around any allocator: recording a trace, a limit, injected failures. Each wraps an upstream one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from stridetool.core.drivers.device import Driver
from stridetool.core.memory.allocator import Allocator, Stats
from stridetool.core.memory.events import Event
from stridetool.core.storage import DataPtr
from stridetool.errors import ArgumentValueError, OutOfMemoryError


class Adaptor:
    """Hands everything on to `upstream`; those below change `allocate`."""

    def __init__(self, upstream: Allocator) -> None:
        self.upstream = upstream

    @property
    def driver(self) -> Driver:
        """The device below."""
        return self.upstream.driver

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """As upstream."""
        return self.upstream.allocate(nbytes, stream=stream)

    def empty_cache(self) -> None:
        """As upstream."""
        self.upstream.empty_cache()

    def stats(self) -> Stats:
        """As upstream."""
        return self.upstream.stats()

    def snapshot(self) -> dict[str, Any]:
        """As upstream."""
        return self.upstream.snapshot()


def _with_farewell(pointer: DataPtr, farewell: Callable[[], None]) -> DataPtr:
    """`pointer` as a new one that calls `farewell` just before it is released."""

    def release(address: int) -> None:
        farewell()
        pointer.release()

    return DataPtr(pointer.address, pointer.nbytes, pointer.device, release)


class RecordingAllocator(Adaptor):
    """Writes each allocation and release into `events`, a trace that a replay takes as it is."""

    def __init__(self, upstream: Allocator) -> None:
        super().__init__(upstream)
        self.events: list[Event] = []
        self._ids = itertools.count()

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """As upstream; an allocation that fails is in the trace too, with its free, as a replay may satisfy it."""
        identity = next(self._ids)
        self.events.append(Event("alloc", identity, nbytes, stream))
        try:
            pointer = self.upstream.allocate(nbytes, stream=stream)
        except OutOfMemoryError:
            self.events.append(Event("free", identity))
            raise
        return _with_farewell(pointer, lambda: self.events.append(Event("free", identity)))

    def empty_cache(self) -> None:
        """As upstream, and in the trace."""
        self.events.append(Event("empty_cache"))
        self.upstream.empty_cache()


class LimitingAllocator(Adaptor):
    """Refuses what would bring the bytes asked for, and not yet released, above `limit`."""

    def __init__(self, upstream: Allocator, limit: int) -> None:
        super().__init__(upstream)
        self.limit = limit
        self.live_bytes = 0

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """As upstream. Raises OutOfMemoryError at the limit."""
        if self.live_bytes + nbytes > self.limit:
            raise OutOfMemoryError(f"limit of {self.limit} bytes: {self.live_bytes} are live, {nbytes} more asked for")
        pointer = self.upstream.allocate(nbytes, stream=stream)
        self.live_bytes += nbytes
        return _with_farewell(pointer, lambda: self._forget(nbytes))

    def _forget(self, nbytes: int) -> None:
        self.live_bytes -= nbytes


class FailingAllocator(Adaptor):
    """Fails on purpose: every `every`-th request, and each one of more than `larger_than` bytes."""

    def __init__(self, upstream: Allocator, *, every: int | None = None, larger_than: int | None = None) -> None:
        super().__init__(upstream)
        if every is not None and every < 1:
            raise ArgumentValueError(f"every {every}-th request cannot fail", hint="1 fails each one")
        self.every = every
        self.larger_than = larger_than
        self.requests = 0

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """As upstream. Raises OutOfMemoryError when it is this request's turn."""
        self.requests += 1
        too_large = self.larger_than is not None and nbytes > self.larger_than
        if too_large or (self.every is not None and self.requests % self.every == 0):
            raise OutOfMemoryError(f"failure on purpose: request {self.requests} of {nbytes} bytes")
        return self.upstream.allocate(nbytes, stream=stream)
