"""`alloc-report` as people and pipes use it."""

import json

import pytest
from alloc_command import DATA, EXAMPLES, report, run


def test_a_snapshot_that_ran_out_of_memory():
    document = report(DATA / "small_fragoom.pickle", "--what-if", "expandable_segments:True")
    found = document["report"]
    assert found["exactness"]["predicted"] == found["exactness"]["total"] == 2
    assert found["certificate"]["no_setting_helps"] is False
    before, after = found["what_if"]
    assert (before["ooms"], after["ooms"], after["fits"]) == (1, 0, True)
    assert found["recommended"]["settings"] == "expandable_segments:True"
    assert found["pins"][0]["pinned_bytes"] == found["fragmentation"]["external_bytes"] == 280 << 20


def test_a_known_fault_of_torch_is_named():
    path = EXAMPLES / "alloc_same_request_again.jsonl"
    options = ("--capacity", "400MiB", "--stream-events", "manual")
    document = report(path, *options)
    assert document["report"]["outcome"]["ooms"] == [6]
    assert "known-fault" in {finding["code"] for finding in document["findings"]}
    assert report(path, *options, "--policy", "fixed")["report"]["outcome"]["ooms"] == []


def test_events_are_lines_and_the_last_is_the_report():
    lines = run(DATA / "trace_phases_1.pickle.gz", "--events").stdout.splitlines()
    *events, summary = map(json.loads, lines)
    assert [line.startswith('{"type":') for line in lines] == [True] * len(lines)
    assert len(events) == 4983
    assert summary["type"] == "summary"
    numbers = summary["report"]["fragmentation"]
    assert events[-1]["reserved_bytes"] == numbers["reserved_bytes"]
    assert events[-1]["allocated_bytes"] == numbers["allocated_bytes"]


def test_the_state_after_an_event():
    path = DATA / "trace_mixed_3.pickle.gz"
    lines = run(path, "--events").stdout.splitlines()
    event = json.loads(lines[1000])
    found = report(path, "--at", 1000)["report"]
    assert found["at"] == 1000
    for name in ("reserved_bytes", "allocated_bytes", "active_bytes", "requested_bytes"):
        assert found["fragmentation"][name] == event[name]


def test_a_partial_recording_tells_what_it_assumes():
    found = report(DATA / "gpt_ring_500.pickle.gz", "--what-if", "expandable_segments:True")["report"]
    assert any("live before the recording" in text for text in found["exactness"]["assumed"])
    assert {row["start"] for row in found["what_if"]} == {"cold", "warm"}


def test_pinned_host_memory_and_pools_are_told_of():
    document = report(DATA / "small_pinned.pickle.gz")
    assert document["report"]["exactness"]["predicted"] == 33


def test_what_grows_from_step_to_step_is_named(tmp_path):
    path = tmp_path / "leak.py"
    path.write_text(
        "import stridetool as st\nkept = []\nfor step in range(40):\n"
        "    work = [st.empty(1 << 20, device='cuda') for _ in range(5)]\n"
        "    kept.append(st.empty(3000, device='cuda'))\n    del work\n"
    )
    found = report(path)["report"]
    assert [leak["site"] for leak in found["leaks"]] == ["leak.py:5 <module>"]


def test_host_memory_of_a_script(tmp_path):
    path = tmp_path / "host.py"
    path.write_text("import stridetool as st\nx = st.empty(1000, dtype=st.uint8)\n")
    found = report(path)["report"]
    assert found["device"]["name"] == "cpu"
    assert (found["fragmentation"]["allocated_bytes"], found["fragmentation"]["internal_bytes"]) == (1024, 24)


@pytest.mark.parametrize(
    "options",
    [
        ("--settings", "foo:1"),
        ("--what-if", "foo:1"),
        ("--capacity", "lots"),
        ("--device", "abacus"),
        ("--fraction", "2"),
        ("--stream-events", "never"),
        ("--capacity", "1GiB", "--device", "h200"),
        ("--policy", "1.0"),
    ],
)
def test_options_that_mean_nothing(options):
    assert run(DATA / "small_fragoom.pickle", *options, code=2).stderr.startswith("stride-tool: error: ")


def test_retries_of_a_recording_are_those_that_torch_counted():
    for name, retries in (("oom_observer.pickle.gz", 7), ("small_fragoom.pickle", 1), ("small_pinned.pickle.gz", 0)):
        assert report(DATA / name)["report"]["outcome"]["retries"] == retries


def test_retries_that_no_stack_tells_from_empty_cache_are_not_counted():
    """torch counted 7 and 9 here; without stacks the entries could be calls of empty_cache."""
    for name in ("trace_mixed_3.pickle.gz", "trace_phases_1.pickle.gz"):
        assert report(DATA / name)["report"]["outcome"]["retries"] is None


def test_a_recording_that_begins_in_the_middle_says_what_can_be_trusted():
    for name, is_partial in (("gpt_ring_500.pickle.gz", True), ("gpt_expandable.pickle.gz", False)):
        findings = report(DATA / name)["findings"]
        assert ("partial-recording" in {finding["code"] for finding in findings}) is is_partial
