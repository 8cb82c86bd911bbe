"""The compiled replay against the recordings of torch 2.14.1, and against the Python replay on random programs."""

import functools
from array import array
from pathlib import Path

import hypothesis.strategies as st
import pytest
import recorded
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.quick_replay import compiled_replay, encode, quick_replay
from stridetool.analysis.recording_report import recording_reports
from stridetool.analysis.replay import ALLOC, FREE, HUGE, NULL, OTHER, RECORD_STREAM, Warm, compile_events, replay
from stridetool.analysis.what_if import WarmStart
from stridetool.core.memory.events import Event
from stridetool.core.memory.recorded import History, Range
from stridetool.core.memory.settings import Settings
from stridetool.errors import InputError, UsageError
from stridetool.report.inspect import Source
from stridetool.sources.allocations import read_allocations

compiled = pytest.importorskip("stridetool.core.memory._replay", reason="installed without a compiler")

CASES = {case["case"]: case for case in recorded.load("cases.json.xz")}
MODELS = {case["case"]: case for case in recorded.load("models/resnet50_amp.json.xz")}
SNAPSHOTS = Path(__file__).parent.parent / "data" / "snapshots"
MIB = 1 << 20


@functools.cache
def program(name):
    found = compile_events(recorded.trace(name))
    return found, encode(found)


def ends_as_recorded(found, case):
    stats = case["memory_stats"]
    assert len(found.ooms) == stats["num_ooms"] + stats["num_oom_rejections"]
    assert found.peak_reserved_bytes == stats["reserved_bytes.all.peak"]
    assert found.peak_allocated_bytes == stats["allocated_bytes.all.peak"]
    assert found.retries == stats["num_alloc_retries"]
    assert found.device_calls == stats["num_device_alloc"] + stats["num_device_free"]


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    case = CASES[name]
    trace, encoded = program(f"traces/{case['trace']}")
    addresses = array("q", bytes(8 * len(trace.rows)))
    found = compiled_replay(trace, encoded, recorded.conditions(case), addresses=addresses)
    assert list(found.ooms) == case["ooms"]
    ends_as_recorded(found, case)
    columns = recorded.Columns()
    for address, row in zip(addresses, trace.rows, strict=True):
        if row[0] in (ALLOC, NULL, HUGE):
            columns.columns["addr"].append(-1 if address == -1 else recorded.offset(address or None))
    assert columns.first_difference(case, ("addr",)) is None


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    ends_as_recorded(compiled_replay(*program("models/resnet50_amp"), recorded.conditions(MODELS[name])), MODELS[name])


SIZES = st.one_of(
    st.integers(0, 4096),
    st.integers(1, 3 * MIB),
    st.integers(MIB - 600, MIB + 600),
    st.integers(1, 60 * MIB),
    st.sampled_from([512, MIB, 10 * MIB, 20 * MIB, 21 * MIB, 200 * MIB, 1 << 61]),
)
STREAMS = st.sampled_from([0, 1, 2, 7, (1 << 64) - 5])
ACTIONS = st.one_of(
    st.tuples(st.just("alloc"), SIZES, STREAMS),
    st.tuples(st.just("alloc"), SIZES, STREAMS),
    st.tuples(st.just("free"), st.integers(0, 99)),
    st.tuples(st.just("free"), st.integers(0, 99)),
    st.tuples(st.just("record_stream"), st.integers(0, 99), STREAMS),
    st.tuples(st.sampled_from(["empty_cache", "sync", "reset_peak", "event_complete"])),
    st.tuples(st.just("event_complete"), STREAMS),
    st.tuples(st.just("set_capacity"), st.integers(20, 200)),
    st.tuples(st.just("set_fraction"), st.sampled_from([0.0, 0.3, 0.75, 1.0])),
    st.tuples(st.sampled_from(["create", "begin", "end", "destroy"]), st.sampled_from([3, (0, 3), (1, 0), "named"])),
)
TEXTS = st.fixed_dictionaries(
    {},
    optional={
        "expandable_segments": st.booleans(),
        "max_split_size_mb": st.sampled_from([21, 24, 32]),
        "max_non_split_rounding_mb": st.sampled_from([21, 64]),
        "garbage_collection_threshold": st.sampled_from([0.3, 0.8]),
        "per_process_memory_fraction": st.sampled_from([0.6, 0.9]),
        "throw_on_cudamalloc_oom": st.booleans(),
        "roundup_power2_divisions": st.sampled_from([1, 4, 16, "[1:4,4:2,>:8]"]),
        "large_segment_size_mb": st.sampled_from([12, 20]),
    },
).map(lambda chosen: ",".join(f"{key}:{value}" for key, value in chosen.items()))


def sound(actions):
    """Events of these actions: what is freed or used is live, and pools are used as they can be."""
    live, users, begun, count = [], {}, [], 0
    for action, *values in actions:
        if action == "alloc":
            live.append(count)
            yield Event("alloc", count, *values)
            count += 1
        elif action == "free" and live:
            yield Event("free", live.pop(values[0] % len(live)))
        elif action == "record_stream" and live:
            yield Event("record_stream", live[values[0] % len(live)], stream=values[1])
        elif action == "event_complete":
            yield Event(action, stream=values[0] if values else None)
        elif action == "set_capacity":
            yield Event(action, nbytes=values[0] * MIB)
        elif action == "set_fraction":
            yield Event(action, fraction=values[0])
        elif action in ("create", "begin", "end", "destroy"):
            name = values[0]
            pool = (0, 3) if name == 3 else name
            if action == "create":
                users[pool] = users.get(pool, 0) + 1
            elif action == "begin" and users.get(pool):
                begun.append(pool)
            elif action == "end" and pool in begun:
                begun.remove(pool)
            elif action == "destroy" and users.get(pool) and pool not in begun:
                users[pool] -= 1
            else:
                continue
            yield Event(f"pool_{action}", name)
        elif action in ("empty_cache", "sync", "reset_peak"):
            yield Event(action)


def in_python(trace, conditions, warm=None):
    """The same by the Python replay."""
    addresses = [0] * len(trace.rows)

    def note(index, event, address, oom, allocator):
        addresses[index] = -1 if oom and event.op == "alloc" else address or 0

    found = replay(trace, conditions, on_event=note, warm=warm)
    return addresses, (
        found.ooms,
        found.peak_reserved_bytes,
        found.peak_allocated_bytes,
        found.retries,
        found.device_calls,
    )


def alike(trace, conditions, warm=None, streams=()):
    addresses = array("q", bytes(8 * len(trace.rows)))
    own = compiled_replay(trace, encode(trace, streams), conditions, warm=warm, addresses=addresses)
    assert (list(addresses), own[:5]) == in_python(trace, conditions, warm)


@given(
    actions=st.lists(ACTIONS, max_size=150),
    text=TEXTS,
    capacity=st.sampled_from([40, 100, 160, 400]),
    fraction=st.sampled_from([1.0, 0.7]),
    policy=st.sampled_from(["2.14", "2.11", "fixed"]),
    address_policy=st.sampled_from(["bump", "firstfit"]),
    events=st.sampled_from(["auto", "manual", 2]),
)
@hypothesis_settings(max_examples=300, deadline=None)
def test_random_programs(actions, text, capacity, fraction, policy, address_policy, events):
    conditions = Conditions(
        Settings.parse(text), capacity * MIB, fraction, policy, address_policy, stream_events=events
    )
    alike(compile_events(sound(actions)), conditions)


WARM = (
    "gpt_ring_500.pickle.gz",
    "streams_pending.pickle",
    "mempool.pickle.gz",
    "gpt_expandable.pickle.gz",
    "cuda_graph.pickle.gz",
)


@functools.cache
def warm_starts(name):
    """The second half of a recording, as a ring buffer keeps it, begins with what was live then."""
    whole = read_allocations(SNAPSHOTS / name)[1]
    device = whole.devices[0]
    history = History(*(column[len(column) // 2 :] for column in device.history))
    recording = whole._replace(devices=(device._replace(history=history),))
    found = recording_reports(Source("snapshot", name), recording, Conditions(), ())
    return [(each.program, each.warm) for each in found if each.warm is not None]


@pytest.mark.parametrize("policy", ["2.14", "2.11", "fixed"])
@pytest.mark.parametrize("text", ["", "expandable_segments:True", "max_split_size_mb:20", "roundup_power2_divisions:4"])
@pytest.mark.parametrize("name", WARM)
def test_memory_that_was_there_before(name, text, policy):
    starts = warm_starts(name)
    assert starts
    for trace, warm in starts:
        held = sum(each.size for each in warm.ranges)
        for capacity, addresses in ((held + 8 * MIB, "bump"), (2 << 30, "firstfit")):
            conditions = Conditions(Settings.parse(text), capacity, 1.0, policy, addresses, "manual")
            alike(trace, conditions, Warm(warm, warm.rows), {each.stream for each in warm.ranges})


def held(address, *sizes):
    """One segment with live blocks of these sizes at its front."""
    starts = [address + sum(sizes[:index]) for index in range(len(sizes))]
    live = dict(zip(starts, zip(sizes, sizes, strict=True), strict=True))
    segment = Range(address, 300 * MIB, 0, False, (0, 0), False)
    return Warm(WarmStart((segment,), live, tuple(starts), len(sizes), 20 * MIB), len(sizes))


def allocations(*sizes):
    return [Event("alloc", index, size) for index, size in enumerate(sizes)]


def test_a_segment_that_is_in_use_is_not_released_for_its_oversize_block():
    """It was split before there was a max_split_size; its free part is oversize, its other part alive."""
    sizes = (20 * MIB, 30 * MIB)
    events = [*allocations(*sizes), Event("free", 1), Event("alloc", 2, 100 * MIB), Event("free", 0)]
    conditions = Conditions(Settings.parse("max_split_size_mb:21"), 350 * MIB)
    trace = compile_events(events)
    alike(trace, conditions, held(0x7F0000000000, *sizes))
    assert compiled_replay(trace, encode(trace), conditions, warm=held(0x7F0000000000, *sizes)).ooms == (3,)


@pytest.mark.parametrize("address", [(1 << 63) - (1 << 40), (1 << 64) - (1 << 30)])
def test_addresses_that_no_number_of_ours_holds(address):
    trace = compile_events(allocations(20 * MIB, 4 * MIB))
    warm = held(address, 20 * MIB)
    assert compiled_replay(trace, encode(trace), Conditions(), warm=warm) is None
    assert quick_replay(trace, encode(trace), Conditions(), warm=warm).ooms == ()


def test_stops_at_the_first_failure():
    trace = compile_events(allocations(30 * MIB, 30 * MIB, 300 * MIB))
    conditions = Conditions(capacity=40 * MIB)
    assert compiled_replay(trace, encode(trace), conditions).ooms == (1, 2)
    assert compiled_replay(trace, encode(trace), conditions, stop_at_oom=True).ooms == (1,)


def test_ends_when_it_is_told_to():
    trace = compile_events(allocations(30 * MIB))
    with pytest.raises(KeyboardInterrupt):
        compiled_replay(trace, encode(trace), Conditions(), stop=bytearray(b"x"))


def test_names_of_pools_are_not_numbers():
    """What a number and a name stand for stay apart: 20 MiB that one gave back are not the other's."""
    events = [Event("pool_create", "a"), Event("pool_create", 1 << 32)]
    for index, pool in enumerate(("a", 1 << 32)):
        events += [Event("pool_begin", pool), Event("alloc", index, 5 * MIB), Event("free", index)]
        events += [Event("pool_end", pool)]
    alike(compile_events(events), Conditions(capacity=100 * MIB))


def test_a_pool_that_is_destroyed_while_it_is_used():
    events = [Event(f"pool_{action}", 1) for action in ("create", "begin", "destroy", "destroy", "create", "end")]
    trace = compile_events(events)
    with pytest.raises(InputError, match="ends without having begun"):
        quick_replay(trace, encode(trace), Conditions(capacity=40 * MIB))


def test_failures_do_not_look_at_all_free_memory_again():
    """10,000 split segments with a free half each, then 10,000 requests that none can serve."""
    sizes = [MIB * 11, MIB * 11] * 5000
    events = [
        event
        for n, size in enumerate(sizes)
        for event in (Event("alloc", 2 * n, size), Event("alloc", 2 * n + 1, MIB * 9))
    ]
    events += [Event("free", 2 * n) for n in range(len(sizes))] + [
        Event("alloc", -n - 1, 1 << 42) for n in range(10_000)
    ]
    trace = compile_events(events)
    conditions = Conditions(Settings.parse("large_segment_size_mb:20"), 1 << 40)
    found = compiled_replay(trace, encode(trace), conditions)
    assert len(found.ooms) == 10_000
    assert found.work < 3 * len(events)


def test_many_streams_in_many_pools():
    """2,000 of each, that do not cost 4,000,000 lists."""
    events = [Event("pool_create", n) for n in range(2000)]
    events += [Event("alloc", n, 512, n) for n in range(2000)]
    trace = compile_events(events)
    assert compiled_replay(trace, encode(trace), Conditions()).work < 3 * len(events)


EXPANDABLE = Settings.parse("expandable_segments:True")


@pytest.mark.parametrize(
    ("events", "conditions", "error"),
    [
        ([Event("pool_begin", 1)], Conditions(capacity=40 * MIB), InputError),
        (allocations(1 << 45), Conditions(EXPANDABLE), UsageError),
        (allocations(1), Conditions(capacity=1 << 62), None),
        ([Event("set_capacity", nbytes=1 << 62), *allocations(1 << 60, 1 << 61)], Conditions(capacity=MIB), None),
        (allocations(MIB), Conditions(Settings.parse(f"roundup_power2_divisions:{1 << 63}"), 40 * MIB), None),
        (allocations(*[1 << 59] * 12), Conditions(capacity=1 << 60), None),
        (
            [*allocations(1 << 59), Event("free", 0)] * 10,
            Conditions(Settings.parse("max_split_size_mb:64"), 1 << 60),
            None,
        ),
    ],
    ids=[
        "a pool that is not there",
        "too many pages",
        "too large a device",
        "one that becomes so",
        "too many divisions",
        "too high addresses",
        "again and again",
    ],
)
def test_what_is_left_to_the_python_replay(events, conditions, error):
    trace = compile_events(events)
    if error is None:
        assert quick_replay(trace, encode(trace), conditions)[:5] == quick_replay(trace, None, conditions)[:5]
        return
    assert compiled_replay(trace, encode(trace), conditions) is None
    with pytest.raises(error):
        quick_replay(trace, encode(trace), conditions)


def test_codes_are_those_of_rows():
    codes = {"alloc": ALLOC, "free": FREE, "null": NULL, "huge": HUGE, "record_stream": RECORD_STREAM}
    assert {op: compiled.OPS.index(op) for op in codes} == codes
    assert compiled.OPS.index("empty_cache") == OTHER


@pytest.mark.parametrize(
    "row", [(0, 1, 512, 0), (0, 0, 512, 1), (0, 0, 0, 0), (4, 0, 0, 9), (99, 0, 0, 0), (1, -1, 0, 0)]
)
def test_rows_that_point_nowhere_are_refused(row):
    trace = compile_events([Event("alloc", 1, 512)])
    encoded = encode(trace)._replace(rows=array("q", row))
    with pytest.raises(ValueError, match="do not exist"):
        compiled_replay(trace, encoded, Conditions(capacity=40 * MIB))
