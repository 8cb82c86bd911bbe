"""A copy explained in sentences, and the changes of layout that make it fast, each checked on its own walk."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from stridetool.analysis.copy_cost import FAST_RUN_BYTES, Cache, Machine, Walk, sets_used, touched_lines, walk
from stridetool.core.layout import Layout
from stridetool.report.bench import CopyCost, LayoutChange
from stridetool.units import format_bytes

_TLB_PAGES = 64  # pages whose addresses the first level of an ordinary processor remembers
_SHORT_LOOP = 16  # elements; below this an inner loop is mostly overhead
_WORTH = 1.3  # a change is named when the modelled traffic falls by this factor


def copy_cost(src: Layout, itemsize: int, unit: int, machine: Machine) -> CopyCost:
    """Why copying `src` (in steps of `unit` bytes) into contiguous memory costs what it costs."""
    now = walk(src, Layout.contiguous(src.sizes).strides, itemsize, unit, machine)
    return CopyCost(
        plan=now.plan.kind,
        plan_text=tuple(now.plan.explain()),
        inner_stride_bytes=now.inner_step,
        run_bytes=now.run_bytes,
        useful_bytes=now.useful_bytes,
        touched_line_bytes=now.touched_line_bytes,
        loop_traffic=now.loop_traffic,
        attainable_fraction=now.attainable_fraction,
        page_bytes=machine.page_bytes,
        inner_pages=now.inner_pages,
        reasons=tuple(_reasons(now, itemsize, machine)),
        changes=tuple(_changes(src, now, itemsize, unit, machine)),
    )


def _reasons(now: Walk, itemsize: int, machine: Machine) -> Iterator[str]:
    """The facts that decide, the heaviest first."""
    if now.plan.kind == "empty":
        yield "there is nothing to copy"
    elif now.plan.kind == "run":
        yield f"both sides are one run of {format_bytes(now.plan.nbytes)}: only the bandwidth of memory limits it"
    elif now.plan.kind == "rows":
        yield _rows(now)
    elif now.plan.kind == "splat":
        yield f"each element is repeated {now.plan.dims[0].size} times: it is read once, and writing is all the work"
    else:
        yield from _strided(now, itemsize, machine)
    yield from _waste(now, machine)


def _rows(now: Walk) -> str:
    if now.run_bytes >= FAST_RUN_BYTES:
        return f"rows of {format_bytes(now.run_bytes)} stay whole on both sides: about as fast as one long run"
    return (
        f"only {format_bytes(now.run_bytes)} are contiguous on both sides: every {format_bytes(now.run_bytes)} "
        "the copy starts anew"
    )


def _strided(now: Walk, itemsize: int, machine: Machine) -> Iterator[str]:
    step, line = abs(now.inner_step), machine.line_bytes
    if now.inner_step == -now.plan.width:
        yield "the source runs backwards: every byte of its lines is used, but elements must be turned round"
        return
    where = "in another cache line" if step >= line else f"{step // itemsize} elements further"
    yield (
        f"the innermost dimension of the result steps {format_bytes(step)} in the source: each element of "
        f"{itemsize} B lies {where}"
    )
    if machine.warp > 1:
        yield _warp(now, machine)
        return
    if now.plan.dims[0].size < _SHORT_LOOP:
        yield (
            f"that dimension has only {now.plan.dims[0].size} elements: a plain loop starts anew for each "
            f"{now.plan.dims[0].size}, and its overhead is most of the time"
        )
    yield from _refetches(now)
    yield from _conflicts(now, machine)
    if now.inner_pages > _TLB_PAGES and step >= machine.page_bytes:
        yield (
            f"each step is on another page of {format_bytes(machine.page_bytes)} ({now.inner_pages:,} in one inner "
            "loop): address translation misses too, unless huge pages back the memory"
        )


def _warp(now: Walk, machine: Machine) -> str:
    inner = now.plan.dims[0]
    threads = min(machine.warp, inner.size)
    sectors = ceil(touched_lines([inner._replace(size=threads)], now.plan.width, machine.line_bytes))
    enough = ceil(threads * now.plan.width / machine.line_bytes)
    return (
        f"a thread for each element of the result: the {threads} threads of a warp read {sectors} sectors of "
        f"{machine.line_bytes} B where {enough} would hold as much. A kernel that turns tiles in shared memory reads "
        "and writes whole sectors"
    )


def _refetches(now: Walk) -> Iterator[str]:
    """What a plain loop pays; a tiled kernel does not."""
    worst = max(now.loop_traffic, key=lambda traffic: traffic.line_bytes_fetched, default=None)
    if worst is None or worst.line_bytes_fetched < _WORTH * now.touched_line_bytes:
        return
    deepest = [t for t in now.loop_traffic if t.line_bytes_fetched >= _WORTH * now.touched_line_bytes][-1]
    yield (
        f"a plain loop fetches {format_bytes(deepest.line_bytes_fetched)} into L{deepest.level} for "
        f"{format_bytes(now.useful_bytes)} of data ({deepest.line_bytes_fetched / now.useful_bytes:.3g}×): a line "
        "leaves the cache before its next element is wanted. A kernel that works in tiles fetches it once"
    )


def _conflicts(now: Walk, machine: Machine) -> Iterator[str]:
    """Steps that are multiples of a large power of two use only a few sets of the cache."""
    cache = _last_own(machine)
    used, inner = sets_used(now.plan.dims[:1], now.plan.width, cache), now.plan.dims[0]
    if used * 8 <= cache.sets and inner.size > used * cache.ways:
        yield (
            f"the step is a multiple of a large power of two: all {inner.size:,} lines of an inner loop fall into "
            f"{used} of the {cache.sets:,} sets of L{cache.level}, where {used * cache.ways:,} lines find room"
        )


def _waste(now: Walk, machine: Machine) -> Iterator[str]:
    if now.amplification >= 1.5:
        yield (
            f"of each {machine.line_bytes} B line that memory delivers only "
            f"{max(1, round(machine.line_bytes / now.amplification))} B are wanted ({format_bytes(now.useful_bytes)} "
            f"of {format_bytes(now.touched_line_bytes)}): no kernel can pass {now.attainable_fraction:.0%} of the peak"
        )
    elif now.useful_bytes * 1.5 < now.plan.nbytes:
        yield (
            f"the result is {now.plan.nbytes / now.useful_bytes:.3g}× the size of what is read, so it can pass the "
            "peak, which reads as much as it writes"
        )


def _changes(src: Layout, now: Walk, itemsize: int, unit: int, machine: Machine) -> Iterator[LayoutChange]:
    """Changes that help, cheapest first: no copy, another order of the result, padding, another order of the source."""
    if now.plan.nbytes == 0:
        return
    if now.useful_bytes * 2 <= now.plan.nbytes:
        yield LayoutChange(
            changes="none",
            text=f"do not materialise it: the view costs nothing, the copy writes "
            f"{now.plan.nbytes / now.useful_bytes:.3g}× what there is; let the consumer read the view",
        )
    if now.is_fast:
        return
    if unit == itemsize:
        yield from _same_order(src, itemsize, machine)
        yield from _padded(src, now, itemsize, machine)
    if now.amplification >= 1.5 or now.plan.kind == "strided":
        yield _stored_apart(src, now)
    elif unit == itemsize and src.is_non_overlapping_and_dense():
        yield _made_in_order(src)


def _same_order(src: Layout, itemsize: int, machine: Machine) -> Iterator[LayoutChange]:
    """The result in the order of the source, which `preserve_format` means."""
    strides = src.preserve_format_strides()
    then = walk(src, strides, itemsize, itemsize, machine)
    if src.has_internal_overlap() is not False or not then.is_fast:
        return
    order = Layout(src.sizes, strides)
    named = next((f for f in ("channels_last", "channels_last_3d") if order.is_contiguous(f)), "preserve_format")
    what = "one run" if then.plan.kind == "run" else f"rows of {format_bytes(then.run_bytes)}"
    yield LayoutChange(
        changes="destination",
        text=f"let the result keep the order of the source, strides {strides}: then it is a copy of {what} "
        f"(torch: clone(memory_format=torch.{named}); NumPy: copy(order='K'))",
        sizes=src.sizes,
        strides=strides,
    )


def _padded(src: Layout, now: Walk, itemsize: int, machine: Machine) -> Iterator[LayoutChange]:
    """The source with one more cache line in each row, where its step only hits a few sets."""
    step = abs(now.inner_step)
    extra = machine.line_bytes // itemsize
    if now.refetch < _WORTH or step % machine.page_bytes or not extra:
        return
    pitch = step // itemsize
    strides = tuple(s // pitch * (pitch + extra) if s % pitch == 0 else s for s in src.strides)
    then = walk(Layout(src.sizes, strides), Layout.contiguous(src.sizes).strides, itemsize, itemsize, machine)
    if now.refetch / then.refetch >= _WORTH:
        yield LayoutChange(
            changes="source",
            text=f"allocate the rows of the source one cache line longer ({pitch + extra} elements apart instead of "
            f"{pitch}): even a plain loop then fetches {then.refetch:.3g}× instead of {now.refetch:.3g}× its lines",
            sizes=src.sizes,
            strides=strides,
        )


def _stored_apart(src: Layout, now: Walk) -> LayoutChange:
    strides = Layout.contiguous(src.sizes).strides
    why = "backwards" if now.inner_step == -now.plan.width else "between other data"
    return LayoutChange(
        changes="source",
        text=f"store this part by itself, contiguous, where it is made (now it lies {why}): copying it, "
        "or using it as it is, then reads one run",
        sizes=src.sizes,
        strides=strides,
    )


def _made_in_order(src: Layout) -> LayoutChange:
    """The source written in the order of the result by whoever makes it."""
    strides = Layout.contiguous(src.sizes).strides
    nhwc = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}.get(src.ndim)
    is_images = nhwc is not None and src.permute(nhwc).is_contiguous()
    name = "channels_last" if src.ndim == 4 else "channels_last_3d"
    how = f" (torch: make it with memory_format=torch.{name})" if is_images else ""
    return LayoutChange(
        changes="source",
        text=f"write the source in the order of the result where it is made{how}: this view of it is then contiguous, "
        "and there is nothing to copy",
        sizes=src.sizes,
        strides=strides,
    )


def _last_own(machine: Machine) -> Cache:
    return machine.inner[-1] if machine.inner else machine.caches[-1]
