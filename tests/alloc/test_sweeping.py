"""A sweep finds the same by threads over the compiled replay, by processes without it, and alone."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pytest

from stridetool.analysis import what_if
from stridetool.analysis.conditions import Conditions
from stridetool.analysis.quick_replay import quick_replay
from stridetool.analysis.recording_report import recording_reports
from stridetool.analysis.replay import compile_events
from stridetool.cli import sweeping
from stridetool.core.memory.events import Event
from stridetool.core.memory.settings import Settings
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
    return what_if.Case(each.program, conditions, warm=each.warm)


def rows(case):
    return sweeping._all(case, what_if.parsed(TEXTS))


def test_threads_and_processes_and_one_alone(case, monkeypatch):
    alone = rows(case)
    assert {len(found) for found in alone} == {2}
    monkeypatch.setattr(sweeping, "_ALONE", 0)
    monkeypatch.setattr(sweeping.os, "cpu_count", lambda: 2)
    assert rows(case) == alone
    in_python = cached_property(lambda self: None)
    in_python.__set_name__(what_if.Case, "encoded")
    monkeypatch.setattr(what_if.Case, "encoded", in_python)
    again = what_if.Case(case.program, case.conditions, case.warm)
    assert rows(again) == alone


def test_a_bounded_search_gives_a_capacity_that_is_enough(monkeypatch):
    """The first segment is too small for the second request, and goes back where both have no room."""
    program = compile_events([Event("alloc", 1, 30 << 20), Event("free", 1), Event("alloc", 2, 40 << 20)])
    case = what_if.Case(program, Conditions())
    (least,) = what_if.try_settings(case, Settings())
    monkeypatch.setattr(what_if, "_BISECTED", 0)
    (enough,) = what_if.try_settings(case, Settings())
    assert (least.smallest_capacity_bytes, enough.smallest_capacity_bytes) == (40 << 20, 70 << 20)


@pytest.mark.parametrize("text", [*TEXTS, "large_segment_size_mb:21", "per_process_memory_fraction:0.5"])
def test_the_smallest_capacity_is_enough_and_less_is_not(text, case):
    settings = Settings.parse(text)
    capacity = what_if.try_settings(case, settings)[0].smallest_capacity_bytes
    for nbytes, fails in ((capacity, False), (capacity - what_if.PAGE, True)):
        run = quick_replay(case.program, None, replace(case.conditions, settings=settings, capacity=nbytes))
        assert bool(run.ooms) == fails
