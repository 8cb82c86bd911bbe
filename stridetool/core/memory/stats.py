"""The counters behind `memory_stats()`: few of them while the allocator runs, torch's 120 names when asked.

A `Tally` counts for the small or for the large blocks what changes with every allocation. Sums over both are
formed when they are read; only their peaks must be followed, by the allocator, as it goes.
"""

from __future__ import annotations

from stridetool.core.memory.settings import as_signed


class Counter:
    """A number that rises and falls: `current`, its `peak`, and the sum of all rises."""

    __slots__ = ("current", "peak", "rises")

    def __init__(self) -> None:
        self.current = 0
        self.peak = 0
        self.rises = 0

    def up(self, amount: int) -> None:
        """Rise."""
        self.current += amount
        self.rises += amount
        self.peak = max(self.peak, self.current)

    def down(self, amount: int) -> None:
        """Fall."""
        self.current -= amount

    def reset_peak(self) -> None:
        """The peak is what is held now."""
        self.peak = self.current


class Counters:
    """One counter each for all blocks, the large and the small ones."""

    __slots__ = ("all", "large", "small")

    def __init__(self) -> None:
        self.all, self.large, self.small = Counter(), Counter(), Counter()

    def up(self, is_small: bool, amount: int) -> None:
        """Rise, in the kind and in the sum."""
        (self.small if is_small else self.large).up(amount)
        self.all.up(amount)

    def down(self, is_small: bool, amount: int) -> None:
        """Fall, in the kind and in the sum."""
        (self.small if is_small else self.large).down(amount)
        self.all.down(amount)

    def reset_peak(self) -> None:
        """All three."""
        for counter in (self.all, self.large, self.small):
            counter.reset_peak()


class Tally:
    """Blocks of one kind. `x` is the number now, `x_rises` the sum of all rises, `x_peak` the highest `x`.

    `pending` blocks were freed but wait for another stream: they are active and not allocated. An active peak
    that is below the allocated one is simply not up to date: the higher of the two is the answer.
    `sibling` is the tally of the other kind, `peaks` are those of their sums.
    """

    __slots__ = (
        "active_bytes_peak",
        "active_peak",
        "bytes",
        "bytes_peak",
        "bytes_rises",
        "count",
        "count_peak",
        "count_rises",
        "peaks",
        "pending",
        "pending_bytes",
        "requested",
        "requested_peak",
        "requested_rises",
        "sibling",
        "split",
        "split_bytes",
        "split_bytes_peak",
        "split_bytes_rises",
        "split_peak",
        "split_rises",
    )

    sibling: Tally
    peaks: Peaks

    def __init__(self) -> None:
        self.count = self.count_peak = self.count_rises = 0
        self.bytes = self.bytes_peak = self.bytes_rises = 0
        self.requested = self.requested_peak = self.requested_rises = 0
        self.pending = self.pending_bytes = self.active_peak = self.active_bytes_peak = 0
        self.split = self.split_peak = self.split_rises = 0
        self.split_bytes = self.split_bytes_peak = self.split_bytes_rises = 0

    @property
    def returned(self) -> int:
        """Blocks that came back, and wait for no stream."""
        return self.count_rises - self.count - self.pending

    def first_split(self, rest: int) -> None:
        """A whole segment was cut: `rest` bytes of it are free beside a block."""
        self.split_rises += 1
        self.split += 1
        self.split_peak = max(self.split_peak, self.split)
        self.peaks.split = max(self.peaks.split, self.split + self.sibling.split)
        self.split_bytes_rises += rest
        self.split_bytes += rest
        self.split_bytes_peak = max(self.split_bytes_peak, self.split_bytes)
        self.peaks.split_bytes = max(self.peaks.split_bytes, self.split_bytes + self.sibling.split_bytes)

    def reset_peaks(self) -> None:
        """Every peak is what is held now."""
        self.count_peak, self.bytes_peak, self.requested_peak = self.count, self.bytes, self.requested
        self.active_peak, self.active_bytes_peak = self.count + self.pending, self.bytes + self.pending_bytes
        self.split_peak, self.split_bytes_peak = self.split, self.split_bytes


class Peaks:
    """The peaks of the sums over both kinds."""

    __slots__ = ("active", "active_bytes", "bytes", "count", "requested", "split", "split_bytes")

    def __init__(self) -> None:
        self.count = self.bytes = self.requested = 0
        self.active = self.active_bytes = self.split = self.split_bytes = 0


_NUMBERS = (
    "num_alloc_retries",
    "num_device_alloc",
    "num_device_free",
    "num_oom_rejections",
    "num_ooms",
    "num_sync_all_streams",
)


class Statistics:
    """All counters of one allocator."""

    __slots__ = (
        "large",
        "num_alloc_retries",
        "num_device_alloc",
        "num_device_free",
        "num_oom_rejections",
        "num_ooms",
        "num_sync_all_streams",
        "oversize_allocations",
        "oversize_segments",
        "peaks",
        "private",
        "reserved",
        "segment",
        "small",
    )

    def __init__(self) -> None:
        self.small, self.large, self.peaks = Tally(), Tally(), Peaks()
        self.small.sibling, self.large.sibling = self.large, self.small
        self.small.peaks = self.large.peaks = self.peaks
        self.reserved, self.segment = Counters(), Counters()
        self.oversize_allocations, self.oversize_segments = Counter(), Counter()
        self.private: dict[tuple[int, int], Counters] = {}
        self.num_alloc_retries = self.num_ooms = self.num_oom_rejections = 0
        self.num_sync_all_streams = self.num_device_alloc = self.num_device_free = 0

    @property
    def allocated_bytes(self) -> int:
        """Bytes of blocks that are handed out."""
        return self.small.bytes + self.large.bytes

    @property
    def active_bytes(self) -> int:
        """Those, and the bytes of freed blocks that still wait for a stream."""
        return self.allocated_bytes + self.small.pending_bytes + self.large.pending_bytes

    def reset_peaks(self) -> None:
        """As torch.cuda.reset_peak_memory_stats does."""
        small, large, peaks = self.small, self.large, self.peaks
        small.reset_peaks()
        large.reset_peaks()
        peaks.count, peaks.bytes = small.count + large.count, small.bytes + large.bytes
        peaks.requested = small.requested + large.requested
        peaks.active = peaks.count + small.pending + large.pending
        peaks.active_bytes = peaks.bytes + small.pending_bytes + large.pending_bytes
        peaks.split, peaks.split_bytes = small.split + large.split, small.split_bytes + large.split_bytes
        for counters in (self.reserved, self.segment, *self.private.values()):
            counters.reset_peak()
        self.oversize_allocations.reset_peak()
        self.oversize_segments.reset_peak()

    def flat(self, max_split_size: int) -> dict[str, int]:
        """The flat keys of `torch.cuda.memory_stats()`, sorted as torch sorts them."""
        values: dict[str, int] = {}
        _write_tallies(values, self.small, self.large, self.peaks)
        for name, counters in (("reserved_bytes", self.reserved), ("segment", self.segment)):
            _write_counters(values, name, counters)
        for (first, second), counters in self.private.items():
            _write_counters(values, f"reserved_bytes_by_private_pools.{first}_{second}", counters)
        for name in ("oversize_allocations", "oversize_segments"):
            _write_counter(values, name, getattr(self, name))
        for name in _NUMBERS:
            values[name] = getattr(self, name)
        values["max_split_size"] = as_signed(max_split_size)
        return dict(sorted(values.items()))


def _write(values: dict[str, int], name: str, current: int, peak: int, rises: int) -> None:
    values[f"{name}.current"] = current
    values[f"{name}.peak"] = peak
    values[f"{name}.allocated"] = rises
    values[f"{name}.freed"] = rises - current


def _write_counter(values: dict[str, int], name: str, counter: Counter) -> None:
    _write(values, name, counter.current, counter.peak, counter.rises)


def _write_counters(values: dict[str, int], name: str, counters: Counters) -> None:
    _write_counter(values, f"{name}.all", counters.all)
    _write_counter(values, f"{name}.large_pool", counters.large)
    _write_counter(values, f"{name}.small_pool", counters.small)


def _figures(tally: Tally) -> dict[str, tuple[int, int, int]]:
    """(current, peak, rises) of each of torch's names."""
    return {
        "allocation": (tally.count, tally.count_peak, tally.count_rises),
        "allocated_bytes": (tally.bytes, tally.bytes_peak, tally.bytes_rises),
        "requested_bytes": (tally.requested, tally.requested_peak, tally.requested_rises),
        "active": (tally.count + tally.pending, max(tally.active_peak, tally.count_peak), tally.count_rises),
        "active_bytes": (
            tally.bytes + tally.pending_bytes,
            max(tally.active_bytes_peak, tally.bytes_peak),
            tally.bytes_rises,
        ),
        "inactive_split": (tally.split, tally.split_peak, tally.split_rises),
        "inactive_split_bytes": (tally.split_bytes, tally.split_bytes_peak, tally.split_bytes_rises),
    }


def _write_tallies(values: dict[str, int], small: Tally, large: Tally, peaks: Peaks) -> None:
    of_all = {
        "allocation": peaks.count,
        "allocated_bytes": peaks.bytes,
        "requested_bytes": peaks.requested,
        "active": max(peaks.active, peaks.count),
        "active_bytes": max(peaks.active_bytes, peaks.bytes),
        "inactive_split": peaks.split,
        "inactive_split_bytes": peaks.split_bytes,
    }
    large_figures = _figures(large)
    for name, (current, peak, rises) in _figures(small).items():
        _write(values, f"{name}.small_pool", current, peak, rises)
        _write(values, f"{name}.large_pool", *large_figures[name])
        _write(values, f"{name}.all", current + large_figures[name][0], of_all[name], rises + large_figures[name][2])
