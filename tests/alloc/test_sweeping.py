"""A sweep finds the same by threads over the compiled replay, by processes without it, and alone."""

from functools import cached_property
from pathlib import Path

import pytest

from stridetool.analysis import what_if
from stridetool.analysis.conditions import Conditions
from stridetool.analysis.recording_report import recording_reports
from stridetool.analysis.replay import compile_events
from stridetool.cli import sweeping
from stridetool.core.memory.events import Event
from stridetool.report.inspect import Source
from stridetool.sources.allocations import read_allocations

RING = Path(__file__).parents[1] / "data" / "snapshots" / "gpt_ring_500.pickle.gz"
TEXTS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.8,per_process_memory_fraction:0.95",
)


@pytest.fixture(scope="module")
def case():
    """The end of a training run, whose beginning is lost."""
    each = recording_reports(Source("snapshot"), read_allocations(RING)[1], Conditions(), ())[0]
    conditions = Conditions(capacity=400 << 20, stream_events="manual")
    return what_if.Case(each.program, conditions, warm=each.warm, has_start=True)


def rows(case):
    return sweeping._all_rows(case, what_if.parsed(TEXTS))


def test_threads_and_processes_and_one_alone(case, monkeypatch):
    alone = rows(case)
    assert {len(found) for found in alone} == {2}
    monkeypatch.setattr(sweeping, "_ALONE", 0)
    monkeypatch.setattr(sweeping.os, "cpu_count", lambda: 2)
    assert rows(case) == alone
    in_python = cached_property(lambda self: None)
    in_python.__set_name__(what_if.Case, "numbers")
    monkeypatch.setattr(what_if.Case, "numbers", in_python)
    again = what_if.Case(case.program, case.conditions, case.warm, case.has_start)
    assert rows(again) == alone


def test_a_bounded_search_gives_a_capacity_that_is_enough(monkeypatch):
    """With no events left for the search, the answer is an upper bound."""
    program = compile_events([Event("alloc", n, 30 << 20) for n in range(5)])
    case = what_if.Case(program, Conditions())
    (exact,) = what_if.try_settings(case, what_if.parsed(["max_split_size_mb:64"])[0])
    monkeypatch.setattr(what_if, "_BISECTED", 0)
    (bound,) = what_if.try_settings(case, what_if.parsed(["max_split_size_mb:64"])[0])
    assert exact.smallest_capacity_bytes == 150 << 20
    assert bound.smallest_capacity_bytes == 154 << 20
