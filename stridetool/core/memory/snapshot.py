"""The allocator's state in the form of `torch.cuda.memory._snapshot()` (2.14), which torch's viewer opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stridetool.core.memory import recorded
from stridetool.core.memory.blocks import ALLOCATED, FREE, PENDING, UNMAPPED, Block, Segment
from stridetool.core.memory.settings import Settings, as_signed

if TYPE_CHECKING:
    from stridetool.core.memory.heap import Heap, TraceEntry

_STATES = {FREE: recorded.INACTIVE, ALLOCATED: recorded.ALLOCATED, PENDING: recorded.PENDING}


def snapshot(heap: Heap) -> dict[str, Any]:
    """Segments by address, the trace of each device up to this one, and the settings."""
    if heap.trace is not None:
        heap.note_snapshot()
    index = heap.driver.device.index or 0
    traces: list[list[dict[str, Any]]] = [[] for _ in range(index + 1)]
    traces[index] = [_entry(entry, step) for step, entry in enumerate(heap.trace or ())]
    return {
        "segments": segments(heap),
        "device_traces": traces,
        "allocator_settings": settings_entry(heap.settings),
        "external_annotations": [],
        "host_segments": [],
        "host_traces": [],
    }


def segments(heap: Heap) -> list[dict[str, Any]]:
    """One entry per segment, and per contiguous mapped range of an expandable one."""
    device = heap.driver.device.index or 0
    rows = []
    for segment in sorted(heap.segments.values(), key=lambda segment: segment.address):
        rows += [_segment(segment, run, device) for run in _mapped_runs(segment.blocks())]
    return rows


def _mapped_runs(blocks: list[Block]) -> list[list[Block]]:
    runs: list[list[Block]] = [[]]
    for block in blocks:
        if block.state == UNMAPPED:
            runs.append([])
        else:
            runs[-1].append(block)
    return [run for run in runs if run]


def _segment(segment: Segment, run: list[Block], device: int) -> dict[str, Any]:
    active = [block for block in run if block.state != FREE]
    return {
        "device": device,
        "address": run[0].address,
        "total_size": sum(block.size for block in run),
        "allocated_size": sum(block.size for block in active if block.state == ALLOCATED),
        "active_size": sum(block.size for block in active),
        "requested_size": sum(block.requested for block in active),
        "stream": segment.stream,
        "segment_type": "small" if segment.pool.is_small else "large",
        "segment_pool_id": segment.pool.identity,
        "is_expandable": segment.page > 0,
        "frames": [],
        "blocks": [_block(block) for block in run],
    }


def _block(block: Block) -> dict[str, Any]:
    return {
        "address": block.address,
        "size": block.size,
        "requested_size": block.requested,
        "state": _STATES[block.state],
        "frames": [],
    }


def _entry(entry: TraceEntry, step: int) -> dict[str, Any]:
    """As torch writes it without recorded frames; the step stands for the time, which a replay does not know."""
    place = "device_free" if entry.action == "oom" else "addr"
    return {
        "action": entry.action,
        place: entry.address,
        "size": entry.size,
        "stream": entry.stream,
        "time_us": step,
        "compile_context": "N/A",
        "user_metadata": "",
        "pool_id": entry.pool_id,
    }


def settings_entry(settings: Settings) -> dict[str, Any]:
    """`allocator_settings` of a snapshot, with torch's names; -1 is "no limit"."""
    return {
        "PYTORCH_CUDA_ALLOC_CONF": settings.text or str(settings),
        "max_split_size": as_signed(settings.max_split_size),
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        "pinned_num_register_threads": settings.pinned_num_register_threads,
        "release_lock_on_cudamalloc": settings.release_lock_on_cudamalloc,
        "pinned_use_cuda_host_register": settings.pinned_use_cuda_host_register,
        "graph_capture_record_stream_reuse": settings.graph_capture_record_stream_reuse,
        "max_round_threshold": as_signed(settings.pinned_max_round_threshold),
        "max_cached_size": as_signed(settings.pinned_max_cached_size),
        "roundup_power2_divisions": {
            str(1 << i): divisions for i, divisions in enumerate(settings.roundup_power2_divisions)
        },
    }
