"""Torch's texts for running out of memory, word for word (2.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stridetool.errors import OutOfMemoryError

if TYPE_CHECKING:
    from stridetool.core.memory.heap import Heap

_ADVICE = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    " to avoid fragmentation.  See documentation for Memory Management"
    "  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


def format_size(nbytes: int) -> str:
    """As torch writes sizes in this message: `N bytes` up to 1024, then KiB, MiB, GiB with two decimals."""
    if nbytes <= 1024:
        return f"{nbytes} bytes"
    for shift, unit in ((10, "KiB"), (20, "MiB")):
        if nbytes <= 1 << (shift + 10):
            return f"{nbytes / (1 << shift):.2f} {unit}"
    return f"{nbytes / (1 << 30):.2f} GiB"


TOO_LARGE = 1 << 60  # bytes; torch refuses them before its allocator sees them


def more_than_an_exbibyte() -> OutOfMemoryError:
    """For TOO_LARGE and above."""
    return OutOfMemoryError("CUDA out of memory. Tried to allocate more than 1EB memory.")


def rejected(nbytes: int) -> OutOfMemoryError:
    """Refused by `throw_on_cudamalloc_oom`."""
    return OutOfMemoryError(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
        f"per_process_memory_fraction limit. Requested size: {format_size(nbytes)}"
    )


def out_of_memory(heap: Heap, nbytes: int) -> OutOfMemoryError:
    """`nbytes` is the segment that did not fit: a request of 3 MB says 20.00 MiB.

    As in torch, free memory of private pools is counted as allocated; the policy `fixed` does not.
    """
    free, total = heap.driver.mem_info()
    allowed = f"{format_size(heap.allowed)} allowed; " if heap.allowed is not None else ""
    private = 0 if heap.repaired else _free_in_private_pools(heap)
    with_private = f"with {format_size(private)} allocated in private pools (e.g., CUDA Graphs), " if private else ""
    allocated = heap.statistics.allocated_bytes + private
    unallocated = heap.statistics.reserved.all.current - allocated
    return OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {format_size(nbytes)}. "
        f"GPU {heap.driver.device.index or 0} has a total capacity of {format_size(total)} "
        f"of which {format_size(free)} is free. {allowed}"
        f"Of the allocated memory {format_size(allocated)} is allocated by PyTorch, {with_private}"
        f"and {format_size(unallocated)} is reserved by PyTorch but unallocated.{_ADVICE}"
    )


def _free_in_private_pools(heap: Heap) -> int:
    return sum(
        key[0]
        for owner in heap.private.values()
        for pool in (owner.small, owner.large)
        for free in pool.free.values()
        for key in free
    )
