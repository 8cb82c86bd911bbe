"""What an out-of-memory message alone tells: who holds the memory, and whether a setting can help."""

from __future__ import annotations

from stridetool.core.memory.oom_message import OomMessage
from stridetool.report.alloc import MessageReport
from stridetool.report.envelope import Finding
from stridetool.report.inspect import Source
from stridetool.units import format_bytes

_TOLERANCE = 8 << 20  # bytes; messages round to hundredths of a GiB
_NEARLY_FULL = 0.02  # of what is usable
_RECORD = (
    "call torch.cuda.memory._record_memory_history() at the start and torch.cuda.memory._dump_snapshot('oom.pickle') "
    "where it fails, then stride-tool alloc-report oom.pickle --sweep"
)


def diagnose(source: Source, message: OomMessage) -> tuple[MessageReport, tuple[Finding, ...]]:
    """The report of a message, and what to do."""
    unallocated = _difference(message.reserved_bytes, message.allocated_bytes)
    foreign = None
    if message.total_bytes is not None and message.free_bytes is not None and message.reserved_bytes is not None:
        foreign = max(0, message.total_bytes - message.free_bytes - message.reserved_bytes)
    verdict, hint = _verdict(message, unallocated, foreign)
    report = MessageReport(
        source=source,
        era=message.era,
        device=message.device,
        wanted_bytes=message.wanted_bytes,
        total_bytes=message.total_bytes,
        free_bytes=message.free_bytes,
        allocated_bytes=message.allocated_bytes,
        reserved_bytes=message.reserved_bytes,
        unallocated_bytes=unallocated,
        private_pool_bytes=message.private_pool_bytes,
        foreign_bytes=foreign,
        verdict=verdict,
    )
    return report, tuple(_findings(message, foreign, hint))


def _difference(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(0, first - second)


def _usable(message: OomMessage, foreign: int | None) -> int | None:
    """What the allocator could have at most."""
    if message.total_bytes is None or foreign is None:
        return message.allowed_bytes
    usable = message.total_bytes - foreign
    return usable if message.allowed_bytes is None else min(usable, message.allowed_bytes)


def _verdict(message: OomMessage, unallocated: int | None, foreign: int | None) -> tuple[str, str | None]:
    wanted, usable = message.wanted_bytes, _usable(message, foreign)
    live = None if message.allocated_bytes is None else message.allocated_bytes - message.private_pool_bytes
    if live is None or usable is None or unallocated is None:
        return "the message says too little to tell why", _RECORD
    numbers = f"{format_bytes(live)} live and {format_bytes(wanted)} asked for, of {format_bytes(usable)} usable"
    if live + _asked(wanted) > usable + _TOLERANCE:
        return f"no setting helps: {numbers}", "less must be live: smaller batches, checkpointing, offloading, sharding"
    outside = _outside(message)
    if outside is not None:
        return outside
    return _within(message.private_pool_bytes, unallocated, usable, wanted, numbers)


def _outside(message: OomMessage) -> tuple[str, str] | None:
    """The verdict where the device had room and refused all the same."""
    free, wanted = message.free_bytes, message.wanted_bytes
    if free is None or free <= wanted + _TOLERANCE or message.allowed_bytes is not None:
        return None
    return (
        f"the device had room: {format_bytes(free)} free when {format_bytes(wanted)} could not be had",
        "no setting is at fault: another process had the memory at that moment, or a limit of the system, of a "
        "container or of MIG applies; run it again beside nvidia-smi",
    )


def _within(private: int, unallocated: int, usable: int, wanted: int, numbers: str) -> tuple[str, str]:
    """The verdict on memory that the allocator holds and nobody uses."""
    if unallocated + private < _NEARLY_FULL * usable:
        return (
            f"nearly full: only {format_bytes(unallocated)} is reserved but unallocated: {numbers}",
            "settings can gain no more than that; less must be live, or other processes must hold less",
        )
    if unallocated < _NEARLY_FULL * usable:
        return (
            f"private pools: {format_bytes(private)} belong to CUDA graphs or MemPools, and what is free there serves "
            f"nobody else: {numbers}",
            "capture fewer graphs or let them share a pool (torch.cuda.graph_pool_handle), and delete those not needed",
        )
    return (
        f"fragmentation: {format_bytes(unallocated)} is reserved but unallocated, in pieces or of other streams and "
        f"pools, so that no {format_bytes(wanted)} fit: {numbers}",
        f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True is the first to try; to find the best, {_RECORD}",
    )


def _asked(wanted: int) -> int:
    """What the program asked for at least: the message names the segment, which is 20 MiB for a request of 1 to 10."""
    return (1 << 20) + 1 if wanted == 20 << 20 else max(1, wanted - (2 << 20) + 1)


def _findings(message: OomMessage, foreign: int | None, hint: str | None) -> list[Finding]:
    found = []
    if hint:
        found.append(Finding("out-of-memory", "warning", "the device ran out of memory", None, hint))
    if message.wanted_bytes == 20 << 20:
        text = "20 MiB is a segment: the request itself was between 1 and 10 MiB"
        found.append(Finding("segment-size", "info", text))
    if message.private_pool_bytes:
        text = (
            f"{format_bytes(message.private_pool_bytes)} of what counts as allocated is free memory of private pools "
            "(CUDA graphs, MemPool), which only these pools can use"
        )
        found.append(Finding("private-pools", "warning", text))
    others = max(message.others_bytes, (foreign or 0) if message.process_bytes is None else 0)
    if foreign is not None:  # "Process N has …" may be this very run, seen from outside its container
        others = min(others, foreign)
    if others > 1 << 30:
        text = f"about {format_bytes(others)} is held outside this allocator: other processes, the CUDA context, NCCL"
        found.append(Finding("foreign-memory", "info", text, None, "nvidia-smi lists the processes"))
    if message.allowed_bytes is not None:
        text = f"a memory fraction limits this process to {format_bytes(message.allowed_bytes)}"
        found.append(Finding("memory-fraction", "warning", text))
    return found
