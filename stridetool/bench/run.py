"""A run: the peak of the device, then case after case, each handed on as soon as it is measured."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

from stridetool.analysis.copy_cost import Machine
from stridetool.bench.backend import Backend, Settings
from stridetool.bench.cases import Case, make_case
from stridetool.bench.rows import case_row, run_findings, wrong_results
from stridetool.core.layout import Layout
from stridetool.report.bench import BenchReport, CaseRow, PeakRow
from stridetool.report.envelope import Finding

PEAK_BYTES = 64 << 20
_PEAK_SECONDS = 0.3
_LEAST_SECONDS = 0.2  # of sampling, however late it is
_LONG_RUN_SECONDS = 5.0
_DRIFT = 0.15

Progress = Callable[[int, int, str], None]  # (cases done, all cases, the case that begins)


class Done(NamedTuple):
    """A case that is measured."""

    row: CaseRow
    findings: tuple[Finding, ...]


class Run:
    """Cases measured on a backend. Iterate over it for the cases; afterwards `report` and `findings` are complete."""

    def __init__(self, cases: Sequence[Case], settings: Settings, backend: Backend, progress: Progress) -> None:
        for case in cases:
            backend.check(case)
        self._cases, self._settings, self._backend = cases, settings, backend
        self._machine, self._progress = backend.machine(), progress
        self._rows: list[CaseRow] = []
        self.findings: list[Finding] = []
        self.peak = _peak(backend, settings)

    def __iter__(self) -> Iterator[Done]:
        started = perf_counter()
        for number, case in enumerate(self._cases):
            self._progress(number, len(self._cases), case.name)
            left = self._settings.total_seconds - (perf_counter() - started)
            measured = self._backend.measure(case, _within(self._settings, left / (len(self._cases) - number)))
            row = case_row(case, measured, self._machine)
            found = wrong_results(row, measured.wrong)
            del measured
            gc.collect()  # gigabytes may hang in the subjects' closures
            self._rows.append(row)
            self.findings.extend(found)
            yield Done(row, found)
        self._progress(len(self._cases), len(self._cases), "")
        self.findings.extend(run_findings(self._rows))
        self.findings.extend(self._backend.findings(self._settings))
        if perf_counter() - started > _LONG_RUN_SECONDS:
            self.findings.extend(_drift(self.peak, _peak(self._backend, self._settings)))

    @property
    def report(self) -> BenchReport:
        return BenchReport(
            device=self._backend.device,
            mode=self._settings.mode,
            fresh=self._settings.fresh,
            threads=self._settings.threads,
            peak=self.peak,
            cases=tuple(self._rows),
        )


def _within(settings: Settings, seconds: float) -> Settings:
    """The settings for a case that has `seconds`; half of them are for making memory and checking results."""
    seconds = max(_LEAST_SECONDS, min(settings.limits.seconds, seconds / 2))
    return replace(settings, limits=replace(settings.limits, seconds=seconds))


def _peak(backend: Backend, settings: Settings) -> PeakRow:
    """The fastest of the contiguous copies of a large block."""
    case = make_case("peak", Layout.contiguous((PEAK_BYTES,)), "uint8")
    limits = replace(settings.limits, seconds=min(_PEAK_SECONDS, settings.limits.seconds))
    measured = backend.measure(case, replace(settings, kernels=(), limits=limits, peak_only=True))
    row = case_row(case, measured, Machine())
    return PeakRow(
        bytes_per_second=row.peak_bytes_per_second,
        threads=settings.threads,
        nbytes=PEAK_BYTES,
        kernel=row.peak_kernel,
    )


def _drift(before: PeakRow, after: PeakRow) -> list[Finding]:
    ratio = after.bytes_per_second / before.bytes_per_second
    if abs(ratio - 1) <= _DRIFT:
        return []
    return [
        Finding(
            code="drift",
            severity="warning",
            message=f"the peak was {ratio:.2f}× at the end what it was at the start: the clock or the load changed",
            hint="ratios within a case hold; do not compare times of different cases, or repeat the run",
        )
    ]
