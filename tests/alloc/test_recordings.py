"""Recordings of torch's own allocator: every number of the moment, every address, and what other settings would do."""

import contextlib
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.exactness import check
from stridetool.analysis.held import held_segments, stats_of
from stridetool.analysis.packing import _Arena, floor_bytes, lifetimes, packing_bytes
from stridetool.analysis.recorded_settings import recorded_settings
from stridetool.analysis.replay import compile_events, replay
from stridetool.analysis.requests import requests_of
from stridetool.analysis.rewind import rewind
from stridetool.core.memory.events import Event
from stridetool.core.memory.recorded import History, Recording
from stridetool.core.memory.settings import Settings
from stridetool.errors import InputError
from stridetool.sources.allocations import read_allocations

DATA = Path(__file__).parents[1] / "data" / "snapshots"
FILES = sorted(path.name for path in DATA.glob("*.pickle*"))
STATS = json.loads((DATA / "stats.json").read_text())


def recording(name):
    return read_allocations(DATA / name)[1]


def devices(name):
    found = recording(name)
    return [(device, recorded_settings(found)[0]) for device in found.devices]


@pytest.mark.parametrize("name", STATS)
def test_counters_of_the_moment_are_those_of_memory_stats(name):
    stats = stats_of(recording(name).devices[0].segments)
    assert {key: stats[key] for key in STATS[name]} == STATS[name]


@pytest.mark.parametrize("name", FILES)
def test_every_address_is_predicted_and_the_end_is_reached(name):
    for device, conf in devices(name):
        found, _ = check(device, conf, "2.14")
        assert (found.predicted, found.lost) == (found.total, 0)
        assert found.total == device.history.actions.count("alloc")
        ends = stats_of(held_segments(found.allocator))
        assert ends == stats_of(device.segments)


def later(device, first):
    return device._replace(history=History(*(column[first:] for column in device.history)))


@pytest.mark.parametrize("name", [name for name in FILES if len(recording(name).devices[0].history) > 80])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_ring_buffer_is_rewound(name, share):
    for device, conf in devices(name):
        first = int(len(device.history) * share)
        found, start = check(later(device, first), conf, "2.14")
        assert found.predicted >= 0.95 * found.total
        assert not start.problems
        whole, _ = check(device, conf, "2.14", until=first - 1)
        live = {
            block.address: block.requested
            for s in held_segments(whole.allocator)
            for block in s.blocks
            if block.requested
        }
        assert {address: block.requested for address, block in start.blocks.items()} == live


def test_wrong_settings_predict_less():
    device, _ = devices("trace_mixed_3.pickle.gz")[0]
    right, _ = check(device, Settings(), "2.14")
    wrong, _ = check(device, Settings.parse("roundup_power2_divisions:4"), "2.14")
    assert wrong.predicted < 0.5 * right.predicted
    assert wrong.first_miss is not None


def test_entries_that_the_end_contradicts_are_counted():
    device, conf = devices("trace_mixed_3.pickle.gz")[0]
    history = device.history
    index = history.actions.index("alloc")
    history.addresses[index] += 512
    _, start = check(device, conf, "2.14")
    assert sum(start.problems.values()) >= 1
    assert start.first_problem is not None


ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap")


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["streams_pending.pickle", "mempool.pickle.gz", "cuda_graph.pickle.gz"]),
    st.lists(st.tuples(st.integers(0, 999), st.sampled_from(ACTIONS), st.integers(0, 999)), max_size=12),
)
def test_entries_that_contradict_each_other_are_followed_or_refused(name, changes):
    device, conf = devices(name)[0]
    history, count = device.history, len(device.history)
    for index, action, other in changes:
        history.actions[index % count] = action
        history.addresses[index % count] = history.addresses[other % count]
    with contextlib.suppress(InputError):
        found, start = check(device, conf, "2.14")
        assert found.predicted <= found.total
        compile_events(requests_of(device, start).events)


def test_a_replay_of_the_requests_ends_where_the_recording_does():
    for name in ("trace_phases_1.pickle.gz", "oom_observer.pickle.gz"):
        device, conf = devices(name)[0]
        failures = [i for i, action in enumerate(device.history.actions) if action == "oom"]
        found, _ = check(device, conf, "2.14", until=failures[-1])
        usable = found.allocator.reserved_bytes + device.history.addresses[failures[-1]]
        requests = requests_of(device, rewind(device))
        result = replay(requests.events, Conditions(conf, usable, stream_events="manual"))
        assert len(result.ooms) == len(failures)
        assert result.allocator.active_bytes == stats_of(device.segments)["active_bytes.all.current"]


def test_settings_of_other_releases_are_read_as_far_as_possible():
    text = "roundup_bypass_threshold_mb:20,max_split_size_mb:64"
    found, assumed = recorded_settings(Recording((), {"PYTORCH_CUDA_ALLOC_CONF": text}, ""))
    assert found.max_split_size == 64 << 20
    assert "roundup_bypass_threshold_mb" in assumed[0]
    changed = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": True, "max_split_size": -1}
    assert recorded_settings(Recording((), changed, ""))[0].expandable_segments


@st.composite
def traces(draw):
    """Allocations and frees, each free of something live."""
    events, live = [], []
    for number in range(draw(st.integers(1, 60))):
        if live and draw(st.booleans()):
            events.append(Event("free", live.pop(draw(st.integers(0, len(live) - 1)))))
        else:
            events.append(Event("alloc", number, draw(st.integers(1, 64 << 20))))
            live.append(number)
    return events


@settings(max_examples=60, deadline=None)
@given(
    traces(), st.sampled_from(["", "expandable_segments:True", "max_split_size_mb:20", "roundup_power2_divisions:4"])
)
def test_no_allocator_reserves_less_than_the_floor(events, text):
    program = compile_events(events)
    floor = floor_bytes(program)
    reserved = replay(program, Conditions(Settings.parse(text))).peak_reserved_bytes
    assert floor <= reserved
    packed = packing_bytes(program)
    assert floor <= packed <= sum(block.size for block in lifetimes(program))


@given(st.lists(st.one_of(st.integers(1, 9), st.integers(-20, -1))))
def test_ranges_of_an_arena_never_overlap(steps):
    """A positive step takes so many bytes, a negative one gives back one of the ranges that are in use."""
    arena, used = _Arena(), []
    for step in steps:
        if step > 0:
            used.append((arena.take(step), step))
        elif used:
            arena.give_back(*used.pop(step % len(used)))
        ordered = sorted(used)
        assert all(start + size <= following for (start, size), (following, _) in pairwise(ordered))
        assert not ordered or ordered[-1][0] + ordered[-1][1] <= arena.top
    for each in used:
        arena.give_back(*each)
    assert arena._gaps == ([(arena.top, 0)] if arena.top else [])


@pytest.mark.parametrize("steps", [0, 2_000_000])
def test_the_packing_is_one(steps, monkeypatch):
    """With no steps left, everything is placed in order of time."""
    monkeypatch.setattr("stridetool.analysis.packing._STEPS", steps - 1)
    events = [Event("alloc", 0, 512), Event("alloc", 1, 1024), Event("free", 0), Event("alloc", 2, 512)]
    assert packing_bytes(compile_events(events)) == 1536
