"""The report of `alloc-report`: one allocator's memory, its history, and what other settings would have made of it."""

from __future__ import annotations

import msgspec

from stridetool.report.inspect import Source


class DeviceFacts(msgspec.Struct, frozen=True):
    """`total_bytes` is what the allocator can get: the device's capacity, or what a recording shows; None: unknown."""

    name: str
    total_bytes: int | None
    simulated: bool


class Fragmentation(msgspec.Struct, frozen=True, kw_only=True):
    """`requested + internal == active` and `allocated + pending_free + external == reserved`.

    Internal: bytes of active blocks beyond what was asked for. External: bytes of free blocks. Of these,
    `releasable_bytes` are whole segments (whole pages of expandable ones) that empty_cache gives back, and the
    rest is pinned by live blocks beside it.
    """

    reserved_bytes: int
    allocated_bytes: int
    pending_free_bytes: int
    active_bytes: int
    requested_bytes: int
    internal_bytes: int
    external_bytes: int
    largest_free_bytes: int
    releasable_bytes: int
    pinned_free_bytes: int


class FreeMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Free memory that only requests of one pool and one stream can use."""

    pool: str
    stream: int
    free_bytes: int
    blocks: int
    largest_bytes: int


class BlockRow(msgspec.Struct, frozen=True):
    """A range of a segment; `requested_size` is 0 where it is inactive."""

    address: str
    size: int
    requested_size: int
    state: str


class SegmentRow(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that came from the device in one piece, or a contiguous mapped range."""

    address: str
    total_size: int
    stream: int
    segment_type: str
    pool_id: tuple[int, int] = (0, 0)
    is_expandable: bool
    blocks: tuple[BlockRow, ...]


class Timeline(msgspec.Struct, frozen=True):
    """The state after some events, those with the most allocated bytes of their part of the trace among them."""

    index: tuple[int, ...]
    allocated_bytes: tuple[int, ...]
    reserved_bytes: tuple[int, ...]


class Exactness(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the recorded addresses the allocator predicts from the same requests, and what was assumed.

    `first_miss` is an index into the recorded entries. `policy` is the order of free blocks that predicts more.
    """

    predicted: int
    total: int
    first_miss: int | None
    assumed: tuple[str, ...]
    policy: str = "2.14"


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """Whether any setting could save the run: `live_bytes` (asked for) plus the request against `usable_bytes`, what
    the device can give. `at` is the event that failed; None: this is the peak of what was asked for, as recorded.
    `had_bytes` is what the device could give to the failed run, where more is to be had now (`--capacity`)."""

    live_bytes: int
    request_bytes: int
    usable_bytes: int
    no_setting_helps: bool
    at: int | None = None
    had_bytes: int | None = None


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The same requests under other settings. `start` is `cold` (live memory placed afresh), `warm` (where it was)
    or `empty` (a trace from its beginning); `cost` says what else the settings bring with them."""

    settings: str
    start: str
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    ooms: int
    retries: int
    device_calls: int
    smallest_capacity_bytes: int | None
    fits: bool
    cost: tuple[str, ...] = ()
    fraction: float | None = None


class Recommendation(msgspec.Struct, frozen=True):
    """The settings to paste, and why these."""

    settings: str
    why: str


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A live block, and the free memory of its segment that cannot go back as long as it lives."""

    address: str
    size: int
    requested_size: int
    pinned_bytes: int
    segment: str
    site: str


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the program and the live memory that was asked for there."""

    site: str
    blocks: int
    nbytes: int


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """What growth is looked for over: a few of the events at which steps end, of as many as were `seen`. They end
    where an annotation of this name begins (`#` for digits); None: where live memory is at a low."""

    ends: tuple[int, ...]
    seen: int
    annotation: str | None = None


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """A place whose live memory goes on growing: bytes at each of the ends in the report's `steps`, the growth over
    all of these, and `step_bytes`, that of one step, in their later half."""

    site: str
    grown_bytes: int
    step_bytes: int
    at_steps: tuple[int, ...]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What happened over the whole history (with `--at`, up to that event), as replayed.

    `peak_at`: the first event after which `peak_allocated_bytes` were allocated; None where nothing ever was.

    `retries`: how often the cache was emptied to find memory for one request (`num_alloc_retries` of torch); of a
    recording, as its entries show. None where these cannot tell it from calls of empty_cache or from settings that
    give memory back. `ends_at_failure`: nothing was asked for behind the last failure; what would have come is unknown.
    """

    events: int
    allocations: int
    ooms: tuple[int, ...] = ()
    retries: int | None = None
    device_calls: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    peak_at: int | None = None
    ends_at_failure: bool = False


class Untried(msgspec.Struct, frozen=True):
    """Settings under which a trace cannot be replayed, and why."""

    settings: str
    reason: str


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="device"):
    """One device of one process. `floor_bytes` is the peak of live requested bytes, failed requests among them:
    no allocator that serves all of them reserves less. `packing_bytes` is the best placement in one arena that was
    found in short time. `next_step` is a command that looks for a setting, where requests fail and that is open, or
    that runs a script further with the setting that helps. `given_bytes` is the memory that a recording is judged under
    instead of its own; `certificate` and the rows of `what_if` are about that, all else is as it was recorded.
    `has_history`: it is known what happened, and not only how things stood; else tries of settings say little.
    `at`: everything here is about the history up to this event, and the memory after it; None: about all of it.
    """

    source: Source
    device: DeviceFacts
    settings: str
    stats: dict[str, int]
    fragmentation: Fragmentation
    segments: tuple[SegmentRow, ...]
    timeline: Timeline
    exactness: Exactness | None = None
    certificate: Certificate | None = None
    floor_bytes: int
    packing_bytes: int | None = None
    what_if: tuple[WhatIf, ...] = ()
    untried: tuple[Untried, ...] = ()
    recommended: Recommendation | None = None
    outcome: Outcome | None = None
    free_memory: tuple[FreeMemory, ...] = ()
    pins: tuple[Pin, ...] = ()
    sites: tuple[Site, ...] = ()
    leaks: tuple[Leak, ...] = ()
    steps: Steps | None = None
    at: int | None = None
    next_step: str | None = None
    has_history: bool = False
    given_bytes: int | None = None

    @property
    def is_hopeless(self) -> bool:
        """Whether it is proven that no setting helps."""
        return self.certificate is not None and self.certificate.no_setting_helps

    @property
    def is_cut(self) -> bool:
        """Whether the history ends at a failure, so that what would have come is unknown."""
        return self.outcome is not None and self.outcome.ends_at_failure

    def cold_try(self, settings: str) -> WhatIf | None:
        """What came of these settings from a fresh start, where they were tried."""
        return next((row for row in self.what_if if row.settings == settings and row.start != "warm"), None)


class MessageReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="message"):
    """What an out-of-memory message alone says. Bytes are as exact as the message; None: it does not say.

    `verdict` names the causes, the largest first.
    """

    source: Source
    era: str
    device: int
    wanted_bytes: int
    total_bytes: int | None
    free_bytes: int | None
    allocated_bytes: int | None
    reserved_bytes: int | None
    unallocated_bytes: int | None
    private_pool_bytes: int
    foreign_bytes: int | None
    verdict: str
    recommended: Recommendation | None = None


class DevicesReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="devices"):
    """Several targets, devices or ranks. `outliers` are indices into `devices`. Out-of-memory messages are apart."""

    devices: tuple[DeviceReport, ...]
    outliers: tuple[int, ...] = ()
    messages: tuple[MessageReport, ...] = ()


AllocReport = DeviceReport | DevicesReport | MessageReport


class EventLine(msgspec.Struct, frozen=True, tag_field="type", tag="event"):
    """A line of `--events`: one event and the state after it. `address` is null where no memory was handed out.

    `nbytes` is the size asked for: of what the event allocates, frees or uses, of memory that the device gives or
    takes, or of the device itself; null for an event about no size. `site` is the place in the program that the event
    names, null where none is known.
    """

    index: int
    op: str
    id: str | int | float | bool | None
    address: str | None
    oom: bool
    reserved_bytes: int
    allocated_bytes: int
    active_bytes: int
    requested_bytes: int
    segments: int
    inactive_split_bytes: int
    nbytes: int | None
    site: str | None
