"""What an out-of-memory message alone tells: who holds the memory, and whether a setting can help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stridetool.core.memory.oom_message import OomMessage, OtherProcess
from stridetool.report.alloc import MessageReport, Recommendation
from stridetool.report.envelope import Finding
from stridetool.report.inspect import Source
from stridetool.units import format_bytes

_TOLERANCE = 8 << 20  # bytes; messages round to hundredths of a GiB
_NEARLY_FULL = 0.02  # of what is usable
_CONTEXT = 1 << 30  # bytes; a CUDA context, its libraries and NCCL hold this much in any process
_NAMED = 8  # processes, in a line
_EXPANDABLE = "expandable_segments:True"
_RECORD = (
    "call torch.cuda.memory._record_memory_history() at the start and torch.cuda.memory._dump_snapshot('oom.pickle') "
    "where it fails, then stride-tool alloc-report oom.pickle --sweep"
)


class _Memory(NamedTuple):
    """Who holds the device, in bytes. `others` is what other processes hold, `context` what this process
    holds outside the allocator, and `unnamed` what the message ascribes to nobody."""

    live: int
    unallocated: int
    capacity: int
    usable: int  # what the allocator could have at most
    others: int
    context: int
    unnamed: int

    def lacking(self, message: OomMessage) -> int:
        """Bytes that the request would not find even if the allocator could use all that it may have."""
        return max(0, self.live + _asked(message.wanted_bytes) - self.usable - _TOLERANCE)


class _Cause(NamedTuple):
    """A reason for the failure, and how much memory could be had back from it."""

    code: str
    nbytes: int
    text: str
    hint: str


def diagnose(source: Source, message: OomMessage) -> tuple[MessageReport, tuple[Finding, ...]]:
    """The report of a message, and what to do."""
    foreign = _foreign(message)
    memory = _memory(message, foreign)
    causes = [] if memory is None else _causes(message, memory)
    report = MessageReport(
        source=source,
        era=message.era,
        device=message.device,
        wanted_bytes=message.wanted_bytes,
        total_bytes=message.total_bytes,
        free_bytes=message.free_bytes,
        allocated_bytes=message.allocated_bytes,
        reserved_bytes=message.reserved_bytes,
        unallocated_bytes=_difference(message.reserved_bytes, message.allocated_bytes),
        private_pool_bytes=message.private_pool_bytes,
        foreign_bytes=foreign,
        verdict="the message says too little to tell why" if memory is None else _verdict(message, memory, causes),
        recommended=None if memory is None else _recommended(message, memory, causes),
    )
    return report, tuple(_findings(message, causes))


def _difference(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(0, first - second)


def _foreign(message: OomMessage) -> int | None:
    """What is neither free nor held by the allocator."""
    if message.total_bytes is None or message.free_bytes is None:
        return None
    return _difference(message.total_bytes - message.free_bytes, message.reserved_bytes)


def _memory(message: OomMessage, foreign: int | None) -> _Memory | None:
    """None where the message lacks a number that everything depends on."""
    limits = [] if message.allowed_bytes is None else [message.allowed_bytes]
    if message.total_bytes is not None and foreign is not None:
        limits.append(message.total_bytes - foreign)
    if not limits or message.allocated_bytes is None or message.reserved_bytes is None:
        return None
    others, context, unnamed = _outside(message, message.reserved_bytes, foreign or 0)
    return _Memory(
        live=max(0, message.allocated_bytes - message.private_pool_bytes),
        unallocated=max(0, message.reserved_bytes - message.allocated_bytes),
        capacity=min(limits) if message.total_bytes is None else message.total_bytes,
        usable=min(limits),
        others=others,
        context=context,
        unnamed=unnamed,
    )


def _outside(message: OomMessage, reserved: int, foreign: int) -> tuple[int, int, int]:
    """What is held outside the allocator: by others, by this process, and unnamed."""
    others = min(sum(other.nbytes for other in _others(message)), foreign)
    if message.process_bytes is None:
        return others, 0, foreign - others
    return others, min(max(0, message.process_bytes - reserved), foreign - others), 0


def _others(message: OomMessage) -> tuple[OtherProcess, ...]:
    """The processes that are another one.

    Seen from within a container, this very run is a "Process N" like all others: the one that holds what the allocator
    has reserved and little more.
    """
    if message.process_bytes is not None or sum(other.nbytes for other in message.others) <= (_foreign(message) or 0):
        return message.others
    reserved = message.reserved_bytes or 0
    able = [other for other in message.others if other.nbytes + _TOLERANCE >= reserved]
    this = min(able, key=lambda other: other.nbytes, default=None)
    return tuple(other for other in message.others if other is not this)


def _causes(message: OomMessage, memory: _Memory) -> list[_Cause]:
    """What explains the failure: what leaves nothing else to explain, then who holds memory, the largest first."""
    lacking, holders = memory.lacking(message), list(_holders(message, memory))
    if not lacking and _had_room(message):
        return [_room(message), *holders]
    if not lacking:
        holders += _within(message, memory)
    holders.sort(key=lambda cause: -cause.nbytes)
    if sum(cause.nbytes for cause in holders) < lacking:
        return [_TOO_MUCH, *holders]
    return holders or [_nearly_full(memory)]


_TOO_MUCH = _Cause(
    "too-much-live",
    0,
    "no setting helps",
    "less must be live: smaller batches, checkpointing, offloading, sharding",
)


def _holders(message: OomMessage, memory: _Memory) -> Iterator[_Cause]:
    """Who keeps the device's memory from the allocator. Under a memory fraction that is the fraction alone."""
    if memory.usable == message.allowed_bytes:
        if memory.lacking(message):
            yield _fraction(memory)
        return
    if memory.others > _NEARLY_FULL * memory.capacity:
        yield _other_processes(memory, _others(message))
    if memory.context > _CONTEXT:
        text = f"this process holds {format_bytes(memory.context)} outside PyTorch's allocator"
        hint = "CUDA contexts, NCCL and cuDNN hold it, or another library: see which of them can hold less"
        yield _Cause("non-torch-memory", memory.context - _CONTEXT, text, hint)
    if memory.unnamed > _CONTEXT:
        size = format_bytes(memory.unnamed)
        text = f"about {size} is held outside this allocator (other processes, the CUDA context, NCCL)"
        yield _Cause("foreign-memory", memory.unnamed - _CONTEXT, text, "nvidia-smi lists the processes")


def _fraction(memory: _Memory) -> _Cause:
    beyond = memory.capacity - memory.others - memory.context - memory.unnamed - memory.usable
    return _Cause(
        "memory-fraction",
        max(0, beyond),
        f"a memory fraction limits this process to {format_bytes(memory.usable)}",
        "raise it: torch.cuda.set_per_process_memory_fraction, or per_process_memory_fraction in the settings",
    )


def _other_processes(memory: _Memory, others: tuple[OtherProcess, ...]) -> _Cause:
    pids = ", ".join(str(other.pid) for other in others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    who = f"another process ({pids}) holds" if len(others) == 1 else f"other processes ({pids}) hold"
    return _Cause(
        "other-process",
        memory.others,
        f"{who} {format_bytes(memory.others)} of the device's {format_bytes(memory.capacity)}",
        "nvidia-smi lists the processes: end those that are left over, or run where the device is free",
    )


def _had_room(message: OomMessage) -> bool:
    free = message.free_bytes
    return free is not None and free > message.wanted_bytes + _TOLERANCE and message.allowed_bytes is None


def _room(message: OomMessage) -> _Cause:
    """The device had room and refused all the same."""
    free, wanted = format_bytes(message.free_bytes or 0), format_bytes(message.wanted_bytes)
    return _Cause(
        "refused",
        0,
        f"the device had room: {free} free when {wanted} could not be had",
        "no setting is at fault: another process had the memory at that moment, or a limit of the system, of a "
        "container or of MIG applies; run it again beside nvidia-smi",
    )


def _within(message: OomMessage, memory: _Memory) -> Iterator[_Cause]:
    """Memory that the allocator holds and nobody uses."""
    private, enough = message.private_pool_bytes, _NEARLY_FULL * memory.usable
    if memory.unallocated >= enough:
        yield _Cause(
            "fragmentation",
            memory.unallocated,
            f"fragmentation: {format_bytes(memory.unallocated)} is reserved but unallocated, in pieces or of other "
            f"streams and pools, so that no {format_bytes(message.wanted_bytes)} fit",
            f"{_EXPANDABLE} is the first to try; to find the best, {_RECORD}",
        )
    if private and memory.unallocated + private >= enough and (private >= enough or memory.unallocated < enough):
        yield _Cause(
            "private-pools",
            private,
            f"private pools: {format_bytes(private)} belong to CUDA graphs or MemPools, and what is free there serves "
            "nobody else",
            "capture fewer graphs or let them share a pool (torch.cuda.graph_pool_handle), and delete those not needed",
        )


def _nearly_full(memory: _Memory) -> _Cause:
    text = f"nearly full: only {format_bytes(memory.unallocated)} is reserved but unallocated"
    hint = "settings can gain no more than that; less must be live, or other processes must hold less"
    return _Cause("nearly-full", memory.unallocated, text, hint)


def _verdict(message: OomMessage, memory: _Memory, causes: list[_Cause]) -> str:
    """The first cause with the numbers that prove it, then the others."""
    first, *more = causes
    is_helpless = memory.lacking(message) and first.code not in ("too-much-live", "memory-fraction")
    numbers = (
        f"{format_bytes(memory.live)} live and {format_bytes(message.wanted_bytes)} asked for, "
        f"of {format_bytes(memory.usable)} usable"
    )
    return f"{first.text}{'; no setting helps' if is_helpless else ''}: {numbers}" + "".join(
        f"; also {cause.text}" for cause in more
    )


def _recommended(message: OomMessage, memory: _Memory, causes: list[_Cause]) -> Recommendation | None:
    """The setting that joins free pieces, where these and what the device still has are enough for the request."""
    gain = memory.unallocated + (message.free_bytes or 0)
    if all(cause.code != "fragmentation" for cause in causes) or gain + _TOLERANCE < _asked(message.wanted_bytes):
        return None
    why = f"{format_bytes(memory.unallocated)} is reserved but unallocated, and expandable segments join free pieces"
    return Recommendation(_EXPANDABLE, why)


def _asked(wanted: int) -> int:
    """What the program asked for at least: the message names the segment, which is 20 MiB for a request of 1 to 10."""
    return (1 << 20) + 1 if wanted == 20 << 20 else max(1, wanted - (2 << 20) + 1)


def _findings(message: OomMessage, causes: list[_Cause]) -> Iterator[Finding]:
    hint = causes[0].hint if causes else _RECORD
    yield Finding("out-of-memory", "warning", "the device ran out of memory", None, hint)
    yield from (Finding(cause.code, "warning", cause.text, None, cause.hint) for cause in causes[1:])
    if message.messages > 1:
        text = (
            f"the text holds {message.messages:,} out-of-memory messages: this is the last, on GPU {message.device} "
            f"for {format_bytes(message.wanted_bytes)}"
        )
        yield Finding("several-messages", "info", text, None, "paste another one alone to have it diagnosed")
    if message.wanted_bytes == 20 << 20:
        text = "20 MiB is a segment: the request itself was between 1 and 10 MiB"
        yield Finding("segment-size", "info", text)
    if message.private_pool_bytes and all(cause.code != "private-pools" for cause in causes[1:]):
        text = (
            f"{format_bytes(message.private_pool_bytes)} of what counts as allocated is free memory of private pools "
            "(CUDA graphs, MemPool), which only these pools can use"
        )
        yield Finding("private-pools", "info", text)
    if message.allowed_bytes is not None and all(cause.code != "memory-fraction" for cause in causes):
        text = f"a memory fraction limits this process to {format_bytes(message.allowed_bytes)}"
        yield Finding("memory-fraction", "warning", text)
