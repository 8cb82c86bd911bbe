"""Tries settings, on all cores where that pays, and says on stderr how far it is."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing.context import BaseContext

import msgspec

from stridetool.analysis.packing import packing_bytes
from stridetool.analysis.quick_replay import EVENTS_PER_SECOND
from stridetool.analysis.what_if import GRID, Case, parsed, ranked, recommend, try_settings
from stridetool.cli.progress import progress_bar
from stridetool.core.memory.settings import Settings
from stridetool.report.alloc import DeviceReport, Recommendation, Untried, WhatIf

Tries = tuple[WhatIf, ...] | Untried
_ALONE = EVENTS_PER_SECOND // 2  # events times settings below which starting processes costs more than it saves
_case: Case | None = None  # what a worker process tries, set when it starts


def tried(report: DeviceReport, case: Case, texts: Sequence[str], sweep: bool, expandable: bool) -> DeviceReport:
    """The report with its what-ifs (the settings as they are first, or ranked in a sweep) and a recommendation."""
    current = case.conditions.settings
    found = _all(case, _different([current, *parsed(texts), *parsed(GRID if sweep else ())]))
    rows = [row for each in found if not isinstance(each, Untried) for row in each]
    return msgspec.structs.replace(
        report,
        what_if=tuple(ranked(rows) if sweep else rows),
        untried=tuple(each for each in found if isinstance(each, Untried)),
        recommended=None if report.is_hopeless else _recommended(report, rows, current, expandable),
        packing_bytes=packing_bytes(case.program),
    )


def _different(wanted: Sequence[Settings]) -> list[Settings]:
    """Each once, as it was written first."""
    return [settings for index, settings in enumerate(wanted) if settings not in wanted[:index]]


def _recommended(
    report: DeviceReport, rows: Sequence[WhatIf], current: Settings, expandable: bool
) -> Recommendation | None:
    return recommend(rows, current.text or str(current), expandable=expandable, is_cut=report.is_cut)


def _all(case: Case, wanted: Sequence[Settings]) -> list[Tries]:
    tries = []
    for number, found in enumerate(_each(case, wanted)):
        tries.append(found)
        progress_bar(number + 1, len(wanted), "settings tried")
    progress_bar(len(wanted), len(wanted), "")
    return tries


def _each(case: Case, wanted: Sequence[Settings]) -> Iterator[Tries]:
    workers = min(os.cpu_count() or 1, len(wanted))
    if case.encoded is not None:
        yield from _in_threads(case, wanted, workers)
    elif workers > 1 and len(case.program.rows) * len(wanted) > _ALONE:
        with ProcessPoolExecutor(workers, _context(), _start, (case,)) as processes:
            yield from processes.map(_try, wanted)
    else:
        yield from (try_settings(case, settings) for settings in wanted)


def _in_threads(case: Case, wanted: Sequence[Settings], workers: int) -> Iterator[Tries]:
    """The compiled replay lets other threads run, and ends when it is told to."""
    with ThreadPoolExecutor(workers) as threads:
        try:
            yield from threads.map(partial(try_settings, case), wanted)
        except BaseException:
            case.stop[0] = 1
            raise


def _context() -> BaseContext:
    """Forked workers inherit the trace; others are sent it once each."""
    return multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)


def _start(case: Case) -> None:
    global _case
    _case = case


def _try(settings: Settings) -> Tries:
    assert _case is not None
    return try_settings(_case, settings)
