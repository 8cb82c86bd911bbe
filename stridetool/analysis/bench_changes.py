"""Two bench documents → which kernels became slower, beyond what noise explains.

Times of two runs do not pair, but each run has its peak in the same rounds: a time in units of that peak does not
care how fast the machine was that day. A change counts when both the time and the time in peaks say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from stridetool.analysis.intervals import Interval, paired_ratios, ratio_interval
from stridetool.analysis.wording import some
from stridetool.errors import InputError, UsageError
from stridetool.report.bench import BenchReport, CaseRow, KernelRow
from stridetool.report.compare import Change, KernelChange
from stridetool.report.envelope import Envelope, Fact, Finding

_PASSING = frozenset(("load_average",))  # facts that differ from run to run
_MUST_AGREE = ("device", "mode", "fresh", "threads")


def compare_bench(
    old: Envelope[BenchReport], new: Envelope[BenchReport], threshold: float
) -> tuple[tuple[KernelChange, ...], tuple[Finding, ...]]:
    """Every kernel that both runs timed on the same case; findings name what keeps the runs from being comparable.

    Raises UsageError when they measured different things (device, mode, threads).
    """
    for name in _MUST_AGREE:
        before, after = getattr(old.report, name), getattr(new.report, name)
        if before != after:
            raise UsageError(f"cannot compare the runs: {name} was {before} and is {after}", hint="repeat one of them")
    pairs = list(_pairs(old.report, new.report))
    changes = tuple(_change(case, *rows, threshold) for case, rows in pairs)
    return changes, (*_environment(old.environment, new.environment), *_unmatched(old.report, new.report, pairs))


def _change(case: tuple[CaseRow, CaseRow], old: KernelRow, new: KernelRow, threshold: float) -> KernelChange:
    ratio = new.median_seconds / old.median_seconds
    interval = ratio_interval(new.samples, old.samples)
    before, after = _in_peaks(case[0], old), _in_peaks(case[1], new)
    peak_ratio = median(after) / median(before)
    peak_interval = ratio_interval(after, before)
    change = _judge(interval, peak_interval)
    return KernelChange(
        case=case[0].case,
        kernel=old.kernel,
        old_seconds=old.median_seconds,
        new_seconds=new.median_seconds,
        ratio=ratio,
        ratio_interval=interval,
        peak_ratio=peak_ratio,
        peak_ratio_interval=peak_interval,
        change=change,
        beyond_threshold=min(interval[0], peak_interval[0]) > 1 + threshold,
    )


def _judge(time: Interval, in_peaks: Interval) -> Change:
    if min(time[0], in_peaks[0]) > 1:
        return "slower"
    return "faster" if max(time[1], in_peaks[1]) < 1 else "same"


def _in_peaks(case: CaseRow, kernel: KernelRow) -> list[float]:
    """The kernel's times in units of the peak's of the same round; of its median where they share no round."""
    if len(case.peak_rounds) != len(case.peak_samples) or len(kernel.rounds) != len(kernel.samples):
        raise InputError(f"cannot compare {case.case}: it has samples without a round", hint="repeat the run")
    peaks = dict(zip(case.peak_rounds, case.peak_samples, strict=True))
    ratios = paired_ratios(dict(zip(kernel.rounds, kernel.samples, strict=True)), peaks)
    peak = median(case.peak_samples)
    return ratios or [seconds / peak for seconds in kernel.samples]


_Pair = tuple[tuple[CaseRow, CaseRow], tuple[KernelRow, KernelRow]]


def _pairs(old: BenchReport, new: BenchReport) -> Iterator[_Pair]:
    after = {_identity(case): case for case in new.cases}
    for before in old.cases:
        match = after.get(_identity(before))
        kernels = {kernel.kernel: kernel for kernel in match.kernels} if match else {}
        for kernel in before.kernels:
            if match and kernel.kernel in kernels:
                yield (before, match), (kernel, kernels[kernel.kernel])


def _identity(case: CaseRow) -> tuple[object, ...]:
    """Cases of one name are the same copy only with the same layout."""
    return case.case, case.sizes, case.strides, case.stride_unit_bytes, case.dtype


def _environment(old: Mapping[str, Fact], new: Mapping[str, Fact]) -> Iterator[Finding]:
    names = [name for name in sorted({*old, *new} - _PASSING) if old.get(name) != new.get(name)]
    if names:
        yield Finding(
            code="environment-differs",
            severity="warning",
            message="the runs were not made alike: "
            + "; ".join(f"{name} {old.get(name, 'unknown')} → {new.get(name, 'unknown')}" for name in names),
            hint="peak ratios bear another machine state, not another processor: repeat the old run here",
        )


def _unmatched(old: BenchReport, new: BenchReport, pairs: list[_Pair]) -> Iterator[Finding]:
    matched = {(before.case, kernel.kernel) for (before, _), (kernel, _) in pairs}
    for label, report in (("old", old), ("new", new)):
        alone = [f"{c.case}/{k.kernel}" for c in report.cases for k in c.kernels if (c.case, k.kernel) not in matched]
        if alone:
            yield Finding(code="not-compared", severity="info", message=f"only in the {label} run: {some(alone, 5)}")
