"""`--at` N, peak and oom, and the lines of `--events`: one state, told twice."""

import gzip
import json
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stridetool.cli.main import app

DATA = Path(__file__).parents[1] / "data" / "snapshots"
EXAMPLES = Path(__file__).parents[2] / "examples"
PATH = DATA / "oom_observer.pickle.gz"
TRACE = (
    {"op": "alloc", "id": "a", "size": 300 << 20},
    {"op": "alloc", "id": "b", "size": 30 << 20},
    {"op": "free", "id": "a"},
    {"op": "alloc", "id": "c", "size": 1100 << 20},
    {"op": "free", "id": "b"},
)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["alloc-report", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def report(*arguments):
    return json.loads(run(*arguments, "--json").stdout)["report"]


def lines_of(*arguments):
    return [json.loads(line) for line in run(*arguments, "--events").stdout.splitlines()][:-1]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in TRACE))
    return path


def state(found):
    numbers, stats = found["fragmentation"], found["stats"]
    names = ("reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes")
    return [numbers[name] for name in names] + [
        stats["segment.all.current"],
        stats["inactive_split_bytes.all.current"],
    ]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("small_fragoom.pickle", 1),
        ("streams_pending.pickle", 16),
        ("gpt_expandable.pickle.gz", 199),
        ("gpt_ring_500.pickle.gz", 61),
        ("cuda_graph.pickle.gz", 9),
    ],
)
def test_a_line_and_the_state_at_its_event_are_the_same(name, step):
    """Also where memory has come from the device, and the request that it is for is the next entry."""
    lines = lines_of(DATA / name)
    for index in range(0, len(lines), step):
        names = ("reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes", "segments")
        said = [lines[index][name] for name in (*names, "inactive_split_bytes")]
        assert state(report(DATA / name, "--at", index)) == said, index


def test_memory_is_reserved_when_the_device_has_given_it():
    found = report(DATA / "small_fragoom.pickle", "--at", 0)
    assert found["fragmentation"]["reserved_bytes"] == found["outcome"]["peak_reserved_bytes"] == 300 << 20
    assert lines_of(DATA / "small_fragoom.pickle")[0]["reserved_bytes"] == 300 << 20


def test_lines_have_the_size_asked_for_and_the_place():
    history = pickle.loads(gzip.decompress(PATH.read_bytes()))["device_traces"][0]
    lines = lines_of(PATH)
    assert [line["nbytes"] for line in lines] == [entry["size"] for entry in history]
    named = [line["site"] is not None for line in lines]
    assert named == [bool(entry.get("frames")) for entry in history]
    assert any("make_snapshots.py:24 steps" in (line["site"] or "") for line in lines)


def test_lines_of_a_trace_have_the_size_of_what_they_free(trace):
    assert [line["nbytes"] >> 20 for line in lines_of(trace)] == [300, 30, 300, 1100, 30]
    lines = lines_of(EXAMPLES / "alloc_growing_batch.py")
    assert {line["site"] for line in lines if line["op"] == "alloc"} == {"alloc_growing_batch.py:16 tensor"}


@pytest.mark.parametrize("name", ["oom_observer.pickle.gz", "gpt_ring_500.pickle.gz", "trace_mixed_3.pickle.gz"])
def test_the_peak_of_a_recording(name):
    done = report(DATA / name)["outcome"]
    allocated = [line["allocated_bytes"] for line in lines_of(DATA / name)]
    assert (done["peak_allocated_bytes"], done["peak_at"]) == (max(allocated), allocated.index(max(allocated)))
    found = report(DATA / name, "--at", "peak")
    assert found["at"] == found["outcome"]["peak_at"] == done["peak_at"]
    assert found["fragmentation"]["allocated_bytes"] == done["peak_allocated_bytes"]
    assert sum(site["nbytes"] for site in found["sites"]) <= found["fragmentation"]["requested_bytes"]
    assert found["sites"]


def test_the_peak_of_a_trace_and_who_held_it(trace):
    found = report(trace, "--capacity", "1GiB", "--at", "peak")
    assert found["at"] == found["outcome"]["peak_at"] == 1
    assert [(site["site"], site["blocks"]) for site in found["sites"]] == [
        ("requests of 300 MiB", 1),
        ("requests of 30.0 MiB", 1),
    ]
    text = run(trace, "--capacity", "1GiB").stdout
    assert "event 1; --at peak shows who held it" in text


def test_a_peak_counts_from_where_it_was_reset(trace):
    with trace.open("a") as file:
        file.write('{"op": "reset_peak"}\n{"op": "alloc", "id": "d", "size": 512}\n{"op": "empty_cache"}\n')
    found = report(trace, "--capacity", "1GiB")
    done = found["outcome"]
    assert done["peak_at"] == 6
    assert done["peak_allocated_bytes"] == lines_of(trace, "--capacity", "1GiB")[6]["allocated_bytes"]


def test_a_moment_before_the_first_request_has_a_history_behind_it(trace):
    """Nothing is asked for up to the peak of this recording, which begins in the middle."""
    document = json.loads(run(DATA / "gpt_ring_500.pickle.gz", "--at", "peak", "--json").stdout)
    assert document["report"]["outcome"]["allocations"] == 0
    assert "no-history" not in {finding["code"] for finding in document["findings"]}
    trace.write_text('{"op": "empty_cache"}\n' + trace.read_text())
    assert report(trace, "--at", 0)["has_history"]


def test_the_last_failure(trace):
    found = report(PATH, "--at", "oom")
    whole = report(PATH)
    assert found["at"] == whole["outcome"]["ooms"][-1] == found["certificate"]["at"]
    assert report(trace, "--capacity", "1GiB", "--at", "oom")["at"] == 3


def test_everything_is_up_to_the_event():
    """The floor of the whole run stood beside peaks up to the event."""
    for index in (0, 40, 300):
        found = report(DATA / "gpt_ring_500.pickle.gz", "--at", index)
        done = found["outcome"]
        assert done["events"] == index + 1
        assert found["floor_bytes"] <= done["peak_allocated_bytes"] <= done["peak_reserved_bytes"]
        assert found["exactness"]["total"] == done["allocations"]
    assert report(DATA / "small_fragoom.pickle", "--at", 0)["floor_bytes"] == 0
    text = run(DATA / "small_fragoom.pickle", "--at", 1, "--what-if", "expandable_segments:True").stdout
    assert "what if (peaks up to event 1)" in text


@pytest.mark.parametrize(
    ("name", "at", "reason"),
    [
        ("small_fragoom.pickle", "9999", "there is no event 9,999: there are events 0 … 5"),
        ("small_fragoom.pickle", "6", "there is no event 6: there are events 0 … 5"),
        ("mempool.pickle.gz", "oom", "there is no failure: it never ran out of memory"),
        ("small_list.pickle.gz", "peak", "there is no event for --at peak: no history was recorded"),
        ("small_fragoom.pickle", "last", "--at 'last' is none of peak, oom and the number of an event"),
        ("small_fragoom.pickle", "-1", "--at '-1' is none of peak, oom and the number of an event"),
        ("small_fragoom.pickle", "9" * 5000, "is none of peak, oom and the number of an event"),
    ],
)
def test_moments_that_there_are_not(name, at, reason):
    for options in ([], ["--events"]):
        result = run(DATA / name, "--at", at, *options, code=2)
        assert reason in result.stderr
        assert not result.stdout


def test_moments_that_a_trace_and_a_script_have_not(trace, tmp_path):
    assert f"{trace}: there is no event 5: there are events 0 … 4" in run(trace, "--at", 5, code=2).stderr
    script = tmp_path / "host.py"
    script.write_text("import stridetool as st\nx = st.empty(1000, dtype=st.uint8)\ny = st.empty(5, dtype=st.uint8)\n")
    assert "there are events 0 … " in run(script, "--at", 99, code=2).stderr
    assert report(script, "--at", 0)["fragmentation"]["requested_bytes"] == 1000


def test_a_device_without_the_moment_is_shown_at_its_end(tmp_path):
    value = pickle.loads((DATA / "small_fragoom.pickle").read_bytes())
    value["device_traces"].append(value["device_traces"][0][:1])
    value["segments"].append({**value["segments"][0], "device": 1})
    path = tmp_path / "two.pickle"
    path.write_bytes(pickle.dumps(value))
    assert [each["at"] for each in report(path, "--at", "oom")["devices"]] == [5, None]
    assert "there are events 0 … 5" in run(path, "--at", 6, code=2).stderr
