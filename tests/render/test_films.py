"""Films of recorded histories: what they are made into, held against the end that torch itself recorded."""

import gzip
import json
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from filmed import NAMES, SNAPSHOTS, device, page, recorded_blocks, shown

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.film import film_of_case
from stridetool.analysis.trace_report import trace_report
from stridetool.analysis.what_if import Case
from stridetool.core.memory.events import Event
from stridetool.render.alloc_page import alloc_svg
from stridetool.render.perfetto import trace_events
from stridetool.report.film import ACTIONS
from stridetool.report.inspect import Source

WITH_CLOCK = "streams_pending.pickle"


def events(name):
    return json.loads("".join(trace_events([shown(name).film])))["traceEvents"]


@pytest.mark.parametrize("name", NAMES)
def test_slices_of_a_trace_that_are_open_at_its_end_are_what_torch_recorded_as_live(name):
    open_blocks = {}
    for event in events(name):
        if event.get("cat") == "block" and event["ph"] == "b":
            assert event["id"] not in open_blocks
            open_blocks[event["id"]] = (event["args"]["address"], event["args"]["requested_size"])
        elif event.get("cat") == "block":
            del open_blocks[event["id"]]
    assert dict(open_blocks.values()) == {address: asked for address, (asked, _) in recorded_blocks(name).items()}


@pytest.mark.parametrize("name", NAMES)
def test_counters_end_where_the_recording_ends(name):
    last = [event["args"] for event in events(name) if event["ph"] == "C"][-1]
    segments = device(name).segments
    assert last["reserved"] == sum(segment.size for segment in segments)
    live = [block for segment in segments for block in segment.blocks if block.state != "inactive"]
    assert last["requested"] == sum(block.requested for block in live)


@pytest.mark.parametrize("name", NAMES)
def test_a_film_counts_what_the_history_holds(name):
    film, history = shown(name).film, device(name).history
    assert len(film.actions) == len(history)
    assert Counter(film.actions)[7] == history.actions.count("oom")


def test_times_are_those_of_the_recorded_clock():
    times = device(WITH_CLOCK).history.times_us
    stamps = [event["ts"] for event in events(WITH_CLOCK) if event["ph"] == "C"][1:]
    assert stamps == [time - times[0] for time in times]


@pytest.mark.parametrize("name", NAMES)
def test_the_drawing_is_well_formed_and_alone(name):
    text = "".join(alloc_svg([shown(name)]))
    ET.fromstring(text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_page_weighs_little_beside_its_data():
    name = "trace_phases_1.pickle.gz"
    data = (SNAPSHOTS / name).read_bytes()
    assert gzip.decompress(data)
    assert len(page(name).encode()) <= 3 * len(data)


def test_a_hostile_path_is_never_markup():
    text = page("small_fragoom.pickle", "</script><script>alert(1)</script>")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize(
    ("name", "retries"), [("oom_observer.pickle.gz", 7), ("small_fragoom.pickle", 1), ("small_pinned.pickle.gz", 0)]
)
def test_as_many_retries_are_marked_as_torch_counted(name, retries):
    film = shown(name).film
    assert len(film.retries) == retries
    assert {ACTIONS[film.actions[entry]] for entry in film.retries} <= {"alloc", "oom"}


@pytest.mark.parametrize("name", ["trace_phases_1.pickle.gz", "trace_mixed_3.pickle.gz"])
def test_no_retry_is_marked_that_the_report_cannot_tell(name):
    assert shown(name).report.outcome.retries is None
    assert shown(name).film.retries == ()


def _request(number, mebibytes):
    return Event("alloc", id=number, nbytes=mebibytes << 20)


def test_retries_of_a_replay_are_marked_at_their_requests():
    """30 MiB are given back for 50 in 64; then 40 find no place beside these 50."""
    events = [_request(0, 30), Event("free", id=0), _request(1, 50), _request(2, 40)]
    conditions = Conditions(capacity=64 << 20)
    done = trace_report(Source("trace", None), events, conditions)
    film = film_of_case(Case(done.program, conditions), done.report)
    assert [(ACTIONS[film.actions[entry]], film.sizes[entry] >> 20) for entry in film.retries] == [
        ("alloc", 50),
        ("oom", 40),
    ]
    assert len(film.retries) == done.report.outcome.retries
