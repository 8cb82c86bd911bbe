"""Samples → the rows of the report, and what about them deserves a warning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from stridetool.analysis.copy_advice import copy_cost
from stridetool.analysis.copy_cost import Machine
from stridetool.analysis.copy_verdict import verdict
from stridetool.analysis.intervals import median_interval, paired_ratios
from stridetool.analysis.wording import some
from stridetool.bench.backend import PEAK, Measured
from stridetool.bench.cases import Case
from stridetool.bench.sampling import Sample, Series
from stridetool.report.bench import CaseRow, KernelRow
from stridetool.report.envelope import Finding

_UNSURE = 0.10  # width of the interval over median
_CALL_SECONDS = 500e-9  # of one call: the loop around it takes some 30 ns
_CLOCK_SECONDS = 20e-6  # of a sample: reading the clocks takes about 1 µs
_DROPPED_SHARE = 0.25


def case_row(case: Case, measured: Measured, machine: Machine) -> CaseRow:
    """The row of a case: every kernel against the peak and the fastest, fastest first, and why."""
    peak_kernel, peak = min(measured.peaks.items(), key=lambda item: _median(item[1]))
    medians = {name: _median(series) for name, series in measured.kernels.items()}
    order = sorted(medians, key=medians.__getitem__)
    fastest = measured.kernels[order[0]] if order else peak
    samples = peak.kept()
    why = copy_cost(case.layout, case.itemsize, case.unit, machine)
    kernels = tuple(_kernel_row(name, case, measured.kernels[name], fastest, _median(peak)) for name in order)
    return CaseRow(
        case=case.name,
        sizes=case.layout.sizes,
        strides=case.layout.strides,
        stride_unit_bytes=case.unit,
        storage_offset=case.layout.offset,
        dtype=case.dtype,
        itemsize=case.itemsize,
        bytes_moved=case.bytes_moved,
        peak_bytes_per_second=case.bytes_moved / _median(peak),
        peak_kernel=peak_kernel.removeprefix(PEAK),
        peak_samples=tuple(sample.seconds for sample in samples),
        peak_rounds=tuple(sample.round for sample in samples),
        kernels=kernels,
        skipped=measured.skipped,
        why=why,
        verdict=verdict(kernels, why),
    )


def _kernel_row(name: str, case: Case, series: Series, fastest: Series, peak_seconds: float) -> KernelRow:
    samples = series.kept()
    seconds = [sample.seconds for sample in samples]
    middle = median(seconds)
    ratios = paired_ratios(_by_round(samples), _by_round(fastest.kept()))
    return KernelRow(
        kernel=name,
        median_seconds=middle,
        interval_seconds=median_interval(seconds),
        samples=tuple(seconds),
        rounds=tuple(sample.round for sample in samples),
        calls_per_sample=series.calls,
        dropped_samples=len(series.clean) + len(series.disturbed) - len(samples),
        disturbed_samples=len(samples) - len(series.clean),
        bytes_per_second=case.bytes_moved / middle,
        fraction_of_peak=peak_seconds / middle,
        ratio_to_fastest=median(ratios) if ratios else middle / _median(fastest),
        ratio_interval=median_interval(ratios) if ratios else (0.0, float("inf")),
        page_faults_per_call=median(sample.faults for sample in samples),
    )


def _by_round(samples: list[Sample]) -> dict[int, float]:
    return {sample.round: sample.seconds for sample in samples}


def _median(series: Series) -> float:
    return median(sample.seconds for sample in series.kept())


def wrong_results(row: CaseRow, wrong: tuple[str, ...]) -> tuple[Finding, ...]:
    """One finding for each kernel that does not write what NumPy writes."""
    return tuple(
        Finding(
            code="wrong-result", severity="error", where=row.case,
            message=f"{name} does not write what NumPy writes; it was not timed",
            hint="do not use this kernel, and report it",
        )
        for name in wrong
    )  # fmt: skip


def run_findings(rows: Sequence[CaseRow]) -> Iterator[Finding]:
    """What is unsure about the times of a run, with its cause and what to do; a finding names all its cases."""
    noisy = [row.case for row in rows if any(_is_unsure(k) for k in row.kernels)]
    if noisy:
        yield Finding(
            code="noisy", severity="warning", where=some(noisy),
            message=f"medians are known to no better than {_UNSURE:.0%}",
            hint="trust the ratios and their intervals rather than times; end other programs, or repeat the run",
        )  # fmt: skip
    taken = sum(len(k.samples) + k.dropped_samples for row in rows for k in row.kernels)
    lost = sum(k.dropped_samples + k.disturbed_samples for row in rows for k in row.kernels)
    if lost > _DROPPED_SHARE * taken:
        yield Finding(
            code="cpu-busy", severity="warning",
            message=f"other processes took the processor during {lost} of {taken} samples, which were left out "
            "where enough others remained",
            hint="end other programs; in a container, look at its share of the processor",
        )  # fmt: skip
    short = [row.case for row in rows if any(_is_short(k) for k in row.kernels)]
    if short:
        yield Finding(
            code="too-short", severity="warning", where=some(short),
            message="a call is so short that calling it from Python is a good part of it",
            hint="this tells what a call costs, not the bandwidth: time a larger shape for that",
        )  # fmt: skip


def _is_unsure(row: KernelRow) -> bool:
    low, high = row.interval_seconds
    return high - low > _UNSURE * row.median_seconds


def _is_short(row: KernelRow) -> bool:
    return row.median_seconds < _CALL_SECONDS or row.median_seconds * row.calls_per_sample < _CLOCK_SECONDS
