"""The caching allocator: torch 2.14's algorithm over any driver, so that a GPU, a simulated device and every report
run the same code.

What it does with blocks is in `heap.py`; here is what a program or a replay calls. `csrc/` is a second implementation
for sweeps of settings, where there is a C compiler: tests/memory/test_compiled_replay.py holds it to this one.

Faults of torch 2.14 that are reproduced, and repaired by `policy="fixed"`:

- after cached memory was released, the pools are not searched again, so that a request fails and the same
  request succeeds a moment later (pytorch#189504, #191302);
- the two rules of `max_split_size` also reject expandable blocks, so that both settings together leak reserved
  memory (pytorch#123548, #193400);
- the out-of-memory text counts free memory of private pools as allocated (met in vllm#41268).

`policy="2.11"` orders free blocks as releases up to 2.11 do: by size and address, not by age of the segment.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from stridetool.core.drivers.device import Driver
from stridetool.core.memory import growth, private, snapshot, streams
from stridetool.core.memory.allocator import Stats
from stridetool.core.memory.blocks import ALLOCATED, Block
from stridetool.core.memory.heap import Heap
from stridetool.core.memory.messages import TOO_LARGE, more_than_an_exbibyte
from stridetool.core.memory.returns import Returns
from stridetool.core.memory.settings import DEFAULT, Settings
from stridetool.core.storage import DataPtr


class CachingAllocator(Heap):
    """Caches the memory of `driver` as torch's native CUDA allocator does under `settings`.

    `fraction` < 1 limits what is reserved to that part of the device, and overrides the settings' fraction.
    The raw methods (`malloc`, `free`, …) are for one thread at a time; `allocate` is safe from any thread.
    """

    def __init__(
        self, driver: Driver, settings: Settings = DEFAULT, *, policy: str = "2.14", fraction: float = 1.0
    ) -> None:
        super().__init__(driver, settings, policy=policy, fraction=fraction)
        self._live: dict[int, Block] = {}
        self._returns = Returns(self._free_address)

    def record_stream(self, block: Block, stream: int) -> None:
        """After its free, `block` waits for the work that `stream` has then been given."""
        if stream != block.segment.stream and block.state == ALLOCATED:
            self.uses.setdefault(block, {})[stream] = None

    def process_events(self) -> None:
        """Bring blocks back whose streams are done; every malloc begins so."""
        streams.process_events(self)

    def empty_cache(self) -> None:
        """Give back every segment, and every page, that holds no block."""
        growth.release_cached(self)

    def pool_create(self, pool: object, *, use_on_oom: bool = False, no_split: bool = False) -> None:
        """As torch.cuda.MemPool(): a private pool under the name `pool`."""
        private.create(self, pool, use_on_oom=use_on_oom, no_split=no_split)

    def pool_begin(self, pool: object) -> None:
        """Allocate from `pool` until `pool_end`. Raises InputError for a pool that does not exist."""
        private.begin(self, pool)

    def pool_end(self, pool: object) -> None:
        """End what `pool_begin` began."""
        private.end(self, pool)

    def pool_destroy(self, pool: object) -> None:
        """Nobody will allocate from `pool` any more: what is free in it goes back, the rest when it is free."""
        private.destroy(self, pool)

    def record_history(self, enabled: bool = True, *, max_entries: int | None = None) -> None:
        """Keep a trace of the last `max_entries` actions (None: of all) for `snapshot()`, or stop doing so."""
        self.trace = deque(maxlen=max_entries) if enabled else None

    @property
    def allocated_bytes(self) -> int:
        """Bytes of blocks that are handed out."""
        return self.statistics.allocated_bytes

    @property
    def active_bytes(self) -> int:
        """Those, and the bytes of freed blocks that still wait for a stream."""
        return self.statistics.active_bytes

    @property
    def requested_bytes(self) -> int:
        """What was asked for, of the active blocks."""
        return self.statistics.small.requested + self.statistics.large.requested

    @property
    def reserved_bytes(self) -> int:
        """Bytes held from the driver."""
        return self.statistics.reserved.all.current

    @property
    def inactive_split_bytes(self) -> int:
        """Free bytes of segments that also hold other blocks; expandable ones do not count."""
        return self.statistics.small.split_bytes + self.statistics.large.split_bytes

    @property
    def segment_count(self) -> int:
        """Segments held from the driver; expandable ones do not count."""
        return self.statistics.segment.all.current

    def reset_peak(self) -> None:
        """As torch.cuda.reset_peak_memory_stats."""
        self.statistics.reset_peaks()

    def memory_stats(self) -> dict[str, int]:
        """The flat keys of `torch.cuda.memory_stats()`."""
        return self.statistics.flat(self.max_split)

    def stats(self) -> Stats:
        """The bytes held now and at most."""
        statistics = self.statistics
        return Stats(
            allocated_bytes=self.allocated_bytes,
            peak_allocated_bytes=statistics.peaks.bytes,
            reserved_bytes=self.reserved_bytes,
            peak_reserved_bytes=statistics.reserved.all.peak,
            active_bytes=self.active_bytes,
            requested_bytes=self.requested_bytes,
            allocations=statistics.small.count + statistics.large.count,
        )

    def snapshot(self) -> dict[str, Any]:
        """All memory in the form of `torch.cuda.memory._snapshot()`: pickled, torch's viewer opens it."""
        return snapshot.snapshot(self)

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """`nbytes` bytes for `stream` (a null address for 0). Raises OutOfMemoryError with torch's text."""
        if nbytes == 0:
            return DataPtr(0, 0, self.driver.device)
        if nbytes >= TOO_LARGE:
            raise more_than_an_exbibyte()
        with self._returns:
            block = self.malloc(nbytes, stream)
            self._live[block.address] = block
        return DataPtr(block.address, nbytes, self.driver.device, self._returns)

    def use_on_stream(self, pointer: DataPtr, stream: int) -> None:
        """As Tensor.record_stream: the memory of `pointer` is also used by `stream`."""
        if pointer.address:
            with self._returns:
                self.record_stream(self._live[pointer.address], stream)

    def _free_address(self, address: int) -> None:
        self.free(self._live.pop(address))
