"""The caching allocator against what torch 2.14.1 did: addresses, counters, statistics, segments, history."""

import functools
import hashlib
import json
import pickle

import pytest
import recorded

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.replay import compile_events, replay
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.settings import Settings

CASES = {case["case"]: case for case in recorded.load("cases.json.xz")}
MODELS = {case["case"]: case for case in recorded.load("models/resnet50_amp.json.xz")}


@functools.cache
def program(name):
    return compile_events(recorded.trace(name))


def ends_alike(result, case):
    assert result.stats == case["memory_stats"]
    own = recorded.segments(result.allocator.snapshot()["segments"])
    assert own == recorded.segments(case["segments"])


@pytest.mark.parametrize("name", CASES)
def test_case(name, monkeypatch):
    case = CASES[name]
    monkeypatch.setattr("stridetool.analysis.replay.SimDriver", recorded.RecordingDriver)
    columns = recorded.Columns()
    result = replay(program(f"traces/{case['trace']}"), recorded.conditions(case), on_event=columns)
    assert columns.first_difference(case) is None
    assert list(result.ooms) == case["ooms"]
    assert list(result.skipped) == case["skipped"]
    ends_alike(result, case)
    calls = result.driver.calls
    digest = hashlib.sha256(json.dumps(calls).encode()).hexdigest()[:16]
    assert [len(calls), digest] == case["device_calls"]


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    case = MODELS[name]
    ends_alike(replay(program("models/resnet50_amp"), recorded.conditions(case)), case)


@pytest.mark.parametrize("entry", recorded.load("rounding.json.xz"), ids=lambda entry: entry["conf"])
def test_rounding(entry):
    for requested, block, segment in entry["rows"]:
        if requested and segment:
            allocator = CachingAllocator(SimDriver(1 << 50), Settings.parse(entry["conf"]))
            allocator.malloc(requested)
            assert (requested, allocator.allocated_bytes, allocator.reserved_bytes) == (requested, block, segment)


def test_history_is_torchs():
    """Action, address, size and stream of every entry that torch recorded for the same trace."""
    result = replay(program("traces/mixed_3"), Conditions(capacity=8 << 30), history=True)
    own = [
        [e["action"], e.get("addr", e.get("device_free")), e["size"], e["stream"]]
        for e in result.allocator.snapshot()["device_traces"][0]
    ]
    assert own[-1][0] == "snapshot"
    assert own[:-1] == recorded.load("trace_mixed_3.json.xz")


def test_snapshot_survives_pickle():
    snapshot = replay(program("traces/streams_1"), Conditions(capacity=8 << 30), history=True).allocator.snapshot()
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    assert {"segments", "device_traces", "allocator_settings", "external_annotations"} <= set(snapshot)


def test_names_of_statistics():
    names = json.loads((recorded.DATA / "memory_stats_2.14.1.json").read_text())
    allocator = CachingAllocator(SimDriver(1 << 30))
    allocator.pool_create(1)
    allocator.pool_begin(1)
    allocator.malloc(1)
    assert list(allocator.memory_stats()) == sorted(names)
