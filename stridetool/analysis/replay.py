"""Run an allocation trace through the caching allocator on a simulated device: what-if, and the check of it.

A trace is checked and numbered once (`compile_events`), and may then run many times under other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from stridetool.analysis.conditions import UNLIMITED, Conditions
from stridetool.core.collections_off import without_collections
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.blocks import Block
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.events import Event
from stridetool.core.memory.messages import TOO_LARGE
from stridetool.errors import InputError, OutOfMemoryError

# NULL is an allocation of 0 bytes, HUGE one that torch refuses before its allocator sees it.
ALLOC, FREE, NULL, HUGE, RECORD_STREAM, OTHER = range(6)
MAX_NBYTES = 1 << 63
STREAMS = 1 << 64

Row = tuple[int, int, int, int]  # (code, slot, nbytes, stream)
OnEvent = Callable[[int, Event, int | None, bool, CachingAllocator], None]


@dataclass(frozen=True, slots=True)
class Program:
    """A trace that is known to be sound: every free has its allocation, every size is a size.

    A slot is an allocation's place in a table; it is used again after the free.
    """

    events: list[Event]
    rows: list[Row]
    slots: int


class Warm(NamedTuple):
    """Memory that is there already: `place` gives the blocks of the allocations among the first `rows` events."""

    place: Callable[[CachingAllocator], list[Block]]
    rows: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Where a trace ended under some settings. `ooms` and `skipped` are indices of events: allocations that
    failed, and frees and uses of those."""

    allocator: CachingAllocator
    driver: SimDriver
    events: int
    ooms: tuple[int, ...]
    skipped: tuple[int, ...]

    @property
    def stats(self) -> dict[str, int]:
        """The flat keys of `torch.cuda.memory_stats()`."""
        return self.allocator.memory_stats()

    @property
    def peak_reserved_bytes(self) -> int:
        """The most that was held from the device."""
        return self.allocator.statistics.reserved.all.peak

    @property
    def peak_allocated_bytes(self) -> int:
        """The most that was handed out."""
        return self.allocator.statistics.peaks.bytes

    @property
    def retries(self) -> int:
        """Allocations for which the cache was emptied."""
        return self.allocator.statistics.num_alloc_retries

    @property
    def device_calls(self) -> int:
        """Calls that obtained or gave back device memory."""
        return self.allocator.statistics.num_device_alloc + self.allocator.statistics.num_device_free


def compile_events(events: Iterable[Event]) -> Program:
    """A checked program. Raises InputError that names the first event that makes no sense.

    The loop calls nothing for an allocation or a free, of which there are millions.
    """
    kept = list(events)
    rows: list[Row] = []
    live: dict[Any, int] = {}  # id → slot
    spare: list[int] = []
    slots = 0
    for event in kept:
        op, identity, nbytes, stream, _ = event
        try:
            if op == "free":
                slot = live.pop(identity)
                spare.append(slot)
                rows.append((FREE, slot, 0, 0))
            elif op == "alloc":
                sized = type(nbytes) is int and 0 <= nbytes < MAX_NBYTES
                if not sized or type(stream) is not int or not 0 <= stream < STREAMS or identity in live:
                    raise _refused(len(rows), event, live)
                if spare:
                    slot = spare.pop()
                else:
                    slot = slots
                    slots += 1
                live[identity] = slot
                rows.append((ALLOC if 0 < nbytes < TOO_LARGE else HUGE if nbytes else NULL, slot, nbytes, stream))
            elif op == "record_stream" and _is_stream(stream):
                rows.append((RECORD_STREAM, live[identity], 0, stream))
            elif op in _OTHERS and _is_sound(event):
                rows.append((OTHER, 0, nbytes, 0))
            else:
                raise _refused(len(rows), event, live)
        except (KeyError, TypeError):  # an id that is not live, or is no plain value
            raise _refused(len(rows), event, live) from None
    return Program(kept, rows, slots)


def _is_size(nbytes: object) -> bool:
    return type(nbytes) is int and 0 <= nbytes < MAX_NBYTES


def _is_stream(stream: object) -> TypeGuard[int]:
    return type(stream) is int and 0 <= stream < STREAMS


def _is_sound(event: Event) -> bool:
    """Whether an event that is about no allocation has the values that its kind needs."""
    if event.op == "set_capacity":
        return _is_size(event.nbytes)
    if event.op == "event_complete":
        return event.stream is None or _is_stream(event.stream)
    return (event.op != "set_fraction" or 0.0 <= event.fraction <= 1.0) and not isinstance(event.id, (list, dict))


def _refused(index: int, event: Event, live: dict[Any, int]) -> InputError:
    """What is wrong with an event that makes no sense."""
    op, identity, nbytes, stream, fraction = event
    if isinstance(identity, (list, dict)):
        problem = "an id is a plain value"
    elif op in ("free", "record_stream") and identity not in live:
        problem = f"id {identity!r} is not allocated"
    elif op == "alloc" and identity in live:
        problem = f"id {identity!r} is allocated already"
    elif op in ("alloc", "set_capacity") and not _is_size(nbytes):
        problem = f"{nbytes!r} is no number of bytes"
    elif op in ("alloc", "record_stream", "event_complete"):
        problem = f"{stream!r} is no stream"
    elif op == "set_fraction":
        problem = f"fraction {fraction!r} is not within [0, 1]"
    else:
        problem = f"unknown op {op!r}"
    return InputError(f"cannot replay event {index} ({op}): {problem}")


def simulated(conditions: Conditions) -> tuple[SimDriver, CachingAllocator]:
    """A device under `conditions`, and an empty allocator on it."""
    driver = SimDriver(
        conditions.capacity or UNLIMITED,
        address_policy=conditions.address_policy,
        stream_events=conditions.stream_events,
    )
    settings, policy, fraction = conditions.settings, conditions.policy, conditions.fraction
    return driver, CachingAllocator(driver, settings, policy=policy, fraction=fraction)


def replay(
    events: Iterable[Event] | Program,
    conditions: Conditions,
    *,
    on_event: OnEvent | None = None,
    history: bool = False,
    warm: Warm | None = None,
    stop_at_oom: bool = False,
) -> ReplayResult:
    """Run `events` on a simulated device under `conditions`.

    `on_event(index, event, address, out_of_memory, allocator)` sees the state after each event; the address is
    None for everything but an allocation of more than 0 bytes that succeeded. With `history` the allocator keeps
    a trace of its own actions, which its snapshot then holds. `warm` puts memory in place of the first allocations.
    Raises InputError for a trace that makes no sense. Running out of memory is a result, not an error; with
    `stop_at_oom` it is the end.
    """
    program = events if isinstance(events, Program) else compile_events(events)
    driver, allocator = simulated(conditions)
    if history:
        allocator.record_history()
    with without_collections():
        blocks = warm_up(program, allocator, driver, warm)
        first = 0 if warm is None else warm.rows
        manual = conditions.stream_events == "manual"
        ooms, skipped = _run(program, allocator, driver, blocks, first, manual, on_event, stop_at_oom)
    return ReplayResult(allocator, driver, len(program.rows), tuple(ooms), tuple(skipped))


def warm_up(program: Program, allocator: CachingAllocator, driver: SimDriver, warm: Warm | None) -> list[Block | None]:
    """The table of live blocks, with those that are there from the beginning.

    Raises OutOfMemoryError when the device is smaller than what is held then.
    """
    blocks: list[Block | None] = [None] * program.slots
    if warm is not None:
        placed = iter(warm.place(allocator))
        for index, (code, slot, _, _) in enumerate(program.rows[: warm.rows]):
            if code == ALLOC:
                blocks[slot] = next(placed)
            else:
                _other(index, program.events[index], allocator, driver, False)
    return blocks


def _run(
    program: Program,
    allocator: CachingAllocator,
    driver: SimDriver,
    blocks: list[Block | None],
    first: int,
    manual: bool,
    on_event: OnEvent | None,
    stop_at_oom: bool,
) -> tuple[list[int], list[int]]:
    """The loop: indices of failed allocations, and of the events that these leave without effect."""
    ooms: list[int] = []
    skipped: list[int] = []
    failed: set[int] = set()
    malloc, free = allocator.malloc, allocator.free
    rows = program.rows[first:] if first else program.rows
    for index, (code, slot, nbytes, stream) in enumerate(rows, first):
        block: Block | None = None
        if code == FREE:
            block = blocks[slot]
            if block is not None:
                free(block)
                blocks[slot] = None
            elif slot in failed:
                failed.remove(slot)
                skipped.append(index)
        elif code == ALLOC:
            try:
                blocks[slot] = block = malloc(nbytes, stream)
            except OutOfMemoryError:
                ooms.append(index)
                failed.add(slot)
                if stop_at_oom:
                    break
        elif code == RECORD_STREAM:
            block = blocks[slot]
            if block is not None:
                allocator.record_stream(block, stream)
            elif slot in failed:
                skipped.append(index)
        elif code == HUGE:
            ooms.append(index)
            failed.add(slot)
        elif code == OTHER:
            _other(index, program.events[index], allocator, driver, manual)
        if on_event is not None:
            address = block.address if block is not None and code == ALLOC else None
            on_event(index, program.events[index], address, bool(ooms) and ooms[-1] == index, allocator)
    return ooms, skipped


def _other(index: int, event: Event, allocator: CachingAllocator, driver: SimDriver, manual: bool) -> None:
    if event.op == "event_complete" and not manual:
        return
    try:
        _OTHERS[event.op](event, allocator, driver)
    except InputError as error:
        raise InputError(f"cannot replay event {index} ({event.op}): {error.message}", hint=error.hint) from error


_OTHERS: dict[str, Callable[[Event, CachingAllocator, SimDriver], object]] = {
    "empty_cache": lambda event, allocator, driver: allocator.empty_cache(),
    "event_complete": lambda event, allocator, driver: driver.complete(event.stream),
    "sync": lambda event, allocator, driver: driver.synchronize(),
    "set_capacity": lambda event, allocator, driver: driver.set_capacity(event.nbytes),
    "set_fraction": lambda event, allocator, driver: allocator.set_fraction(event.fraction),
    "reset_peak": lambda event, allocator, driver: allocator.reset_peak(),
    "pool_create": lambda event, allocator, driver: allocator.pool_create(event.id),
    "pool_begin": lambda event, allocator, driver: allocator.pool_begin(event.id),
    "pool_end": lambda event, allocator, driver: allocator.pool_end(event.id),
    "pool_destroy": lambda event, allocator, driver: allocator.pool_destroy(event.id),
}
