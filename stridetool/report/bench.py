"""The report of `bench`: one copy per case, several kernels side by side, and why the copy costs what it costs.

Times are seconds, rates bytes per second with bytes read and written both counted (as STREAM counts them).
A fraction of the peak is against a contiguous copy of as many bytes, measured in the same rounds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Interval = tuple[float, float]  # (low, high): 95 %
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Samples = Annotated[tuple[Seconds, ...], msgspec.Meta(min_length=1)]


class PeakRow(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest contiguous copy of this machine: larger than its caches where memory allows."""

    bytes_per_second: float
    threads: int
    nbytes: int
    kernel: str


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel on one case.

    `samples[i]` are the seconds of one call, taken in round `rounds[i]`; in a round all kernels run once, in
    random order, so samples of a round pair. `dropped_samples` were disturbed by other processes and are not
    among the samples; `disturbed_samples` were disturbed too, but had to be kept to have five.
    """

    kernel: str
    median_seconds: Seconds
    interval_seconds: Interval
    samples: Samples
    rounds: tuple[int, ...]
    calls_per_sample: int
    dropped_samples: int
    disturbed_samples: int
    bytes_per_second: float
    fraction_of_peak: float
    ratio_to_fastest: float
    ratio_interval: Interval
    page_faults_per_call: float | None = None


class SkippedKernel(msgspec.Struct, frozen=True):
    """A kernel that did not run on this case, and why."""

    kernel: str
    reason: str


class LayoutChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of layout that makes a copy fast. `changes` says whose: destination, source, or none (drop the copy).

    Sizes and strides (in steps of the case's `stride_unit_bytes`) are those of the changed side.
    """

    changes: str
    text: str
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


class CacheTraffic(msgspec.Struct, frozen=True):
    """Bytes that a plain loop brings into one cache: more than the source has where lines leave before their reuse."""

    level: int
    cache_bytes: int
    line_bytes_fetched: int


class CopyCost(msgspec.Struct, frozen=True, kw_only=True):
    """Why a copy costs what it costs, from its layouts alone (bytes; a line is a cache line).

    `useful_bytes` are the distinct bytes of the source, `touched_line_bytes` the lines that they lie in, each once;
    `loop_traffic` is what a loop in the order of the destination fetches. `attainable_fraction` of the peak is what
    is left when each touched line is read once and each destination line written once (above 1 where a source is
    smaller than its copy). `inner_stride_bytes` is the step in the source along the innermost dimension of the
    destination, `run_bytes` what is contiguous on both sides, `inner_pages` the pages that one inner loop visits.
    `changes` are cheapest first.
    """

    plan: str
    plan_text: tuple[str, ...]
    inner_stride_bytes: int
    run_bytes: int
    useful_bytes: int
    touched_line_bytes: int
    loop_traffic: tuple[CacheTraffic, ...]
    attainable_fraction: float
    page_bytes: int
    inner_pages: int
    reasons: tuple[str, ...]
    changes: tuple[LayoutChange, ...]


class CaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One copy into contiguous memory; `verdict` is the answer in a sentence.

    Strides count steps of `stride_unit_bytes`: the item size, unless they are no whole items.
    """

    case: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    stride_unit_bytes: int
    storage_offset: int
    dtype: str
    itemsize: int
    bytes_moved: int
    peak_bytes_per_second: float
    peak_kernel: str
    peak_samples: Samples
    peak_rounds: tuple[int, ...]
    kernels: tuple[KernelRow, ...]
    skipped: tuple[SkippedKernel, ...]
    why: CopyCost
    verdict: str


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """All cases of a run. `mode` is hot, cold or consumer; `fresh` counts the allocation of the destination."""

    device: str
    mode: str
    fresh: bool
    threads: int
    peak: PeakRow
    cases: tuple[CaseRow, ...]
