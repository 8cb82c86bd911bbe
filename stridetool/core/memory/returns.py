"""Give-backs that may come at any moment: from another thread, or from the garbage collector amid an allocation.

Python runs `DataPtr.__del__` wherever a reference dies, also inside the allocator's own code. So a give-back is
queued, and whoever holds the allocator finishes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from types import TracebackType


class Returns:
    """A lock around an allocator (`with`), and the deleter (a call) that never waits for it."""

    __slots__ = ("_free", "_lock", "_queue")

    def __init__(self, free: Callable[[int], None]) -> None:
        self._free = free
        self._lock = Lock()
        self._queue: deque[int] = deque()

    def __call__(self, address: int) -> None:
        """Give `address` back, now or as soon as the allocator is at rest."""
        self._queue.append(address)
        self._drain()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        self._drain()

    def _drain(self) -> None:
        # Looked at again after the release: a give-back that found the lock taken is finished here.
        while self._queue and self._lock.acquire(blocking=False):
            try:
                while self._queue:
                    self._free(self._queue.popleft())
            finally:
                self._lock.release()
