"""`alloc-report` as people and pipes use it."""

import io
import json
import pickle
import shlex
import time
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from stridetool.analysis.certificate import Failure, certificate
from stridetool.cli import progress
from stridetool.cli.main import app
from stridetool.cli.progress import announced
from stridetool.render.alloc_text import alloc_blocks
from stridetool.render.plain import write_plain
from stridetool.report.alloc import AllocReport, Leak
from stridetool.report.envelope import Envelope

DATA = Path(__file__).parents[1] / "data" / "snapshots"
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments, text=None, code=0):
    result = CliRunner().invoke(app, ["alloc-report", *map(str, arguments)], input=text)
    assert result.exit_code == code, result.output
    return result


def report(*arguments, **kwargs):
    return json.loads(run(*arguments, "--json", **kwargs).stdout)


def test_a_snapshot_that_ran_out_of_memory():
    document = report(DATA / "small_fragoom.pickle", "--what-if", "expandable_segments:True")
    found = document["report"]
    assert found["exactness"]["predicted"] == found["exactness"]["total"] == 2
    assert found["certificate"]["no_setting_helps"] is False
    before, after = found["what_if"]
    assert (before["ooms"], after["ooms"], after["fits"]) == (1, 0, True)
    assert found["recommended"]["settings"] == "expandable_segments:True"
    assert found["pins"][0]["pinned_bytes"] == found["fragmentation"]["external_bytes"] == 280 << 20


def test_the_smallest_capacity_is_where_it_begins_to_fit():
    path = DATA / "small_fragoom.pickle"
    row = report(path, "--what-if", "max_split_size_mb:64")["report"]["what_if"][1]
    capacity = row["smallest_capacity_bytes"]
    for nbytes, fits in ((capacity, True), (capacity - (2 << 20), False)):
        again = report(path, "--capacity", nbytes, "--what-if", "max_split_size_mb:64")["report"]["what_if"][1]
        assert again["fits"] is fits


def test_no_setting_helps_when_more_is_live_than_there_is(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text('{"op":"alloc","id":1,"size":800}\n'.replace("800", str(800 << 20)) * 1)
    with path.open("a") as file:
        file.write(json.dumps({"op": "alloc", "id": 2, "size": 300 << 20}) + "\n")
    document = report(path, "--capacity", "1000MiB", "--sweep")
    assert document["report"]["certificate"]["no_setting_helps"] is True
    assert document["report"]["recommended"] is None
    assert document["findings"][0]["code"] == "no-setting-helps"
    assert run(path, "--capacity", "1000MiB").stdout.splitlines()[1].startswith("No setting helps")


def test_a_known_fault_of_torch_is_named():
    path = EXAMPLES / "alloc_same_request_again.jsonl"
    options = ("--capacity", "400MiB", "--stream-events", "manual")
    document = report(path, *options)
    assert document["report"]["outcome"]["ooms"] == [6]
    assert "known-fault" in {finding["code"] for finding in document["findings"]}
    assert report(path, *options, "--policy", "fixed")["report"]["outcome"]["ooms"] == []


def test_limits_on_splitting_do_not_cure_a_growing_batch():
    tries = ("max_split_size_mb:128", "roundup_power2_divisions:4", "expandable_segments:True")
    options = [part for text in tries for part in ("--what-if", text)]
    rows = report(EXAMPLES / "alloc_growing_batch.py", "--capacity", "80GiB", *options)["report"]["what_if"]
    assert [row["peak_reserved_bytes"] >> 20 for row in rows] == [24720, 24720, 8640, 4140]


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


def test_several_ranks_are_rows_and_the_odd_one_is_named(tmp_path):
    value = pickle.loads((DATA / "small_fragoom.pickle").read_bytes())
    names = [f"rank{i}.pickle" for i in range(4)]
    for name in names[:3]:
        (tmp_path / name).write_bytes(pickle.dumps(value))
    segment = value["segments"][0]
    segment["blocks"].append(
        {**segment["blocks"][-1], "address": segment["address"] + segment["total_size"], "size": 1 << 30}
    )
    segment["total_size"] += 1 << 30
    value["device_traces"] = [[]]
    (tmp_path / names[3]).write_bytes(pickle.dumps(value))
    document = report(*(tmp_path / name for name in names))
    assert len(document["report"]["devices"]) == 4
    assert document["report"]["outliers"] == [3]
    assert "outlier" in run(*(tmp_path / name for name in names)).stdout


def test_messages_come_as_an_option_or_through_a_pipe():
    text = (DATA / "small_fragoom.oom.txt").read_text()
    assert "Fragmentation: 280 MiB" in run("--message", text).stdout
    assert "Fragmentation: 280 MiB" in run("-", text=text).stdout


def test_a_trace_through_a_pipe():
    found = report("-", text='{"op":"alloc","id":0,"size":3145728}\n')["report"]
    assert found["stats"]["reserved_bytes.all.current"] == 20 << 20


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


def test_a_script_that_fails_is_still_reported(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text("import stridetool as st\nx = st.empty(1000, device='cuda')\n1 / 0\n")
    result = run(path, "--json", code=1)
    assert "ZeroDivisionError" in result.stderr
    assert json.loads(result.stdout)["report"]["stats"]["allocation.all.current"] == 1


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (['{"op":"free","id":7}'], "event 0 (free): id 7 is not allocated"),
        (['{"op":"alloc","id":1,"size":8}', '{"op":"free","id":1}', '{"op":"free","id":1}'], "event 2 (free)"),
        (['{"op":"alloc","id":1,"size":8}', '{"op":"alloc","id":1,"size":8}'], "event 1 (alloc)"),
        (['{"op":"alloc","id":1,"size":-8}'], "event 0 (alloc): -8"),
        ([f'{{"op":"alloc","id":1,"size":{1 << 70}}}'], "1180591620717411303424"),
        (['{"op":"alloc","id":1,"size":8,"stream":-1}'], "event 0 (alloc): -1 is no stream"),
    ],
)
def test_traces_that_make_no_sense_name_the_event(lines, reason, tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(lines) + "\n")
    result = run(path, "--json", code=2)
    assert reason in result.stderr
    assert not result.stdout


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


def test_the_old_file_stays_when_the_input_is_bad(tmp_path):
    out = tmp_path / "report.json"
    out.write_text("old")
    bad = tmp_path / "bad.pickle"
    bad.write_bytes(b"\x80\x04]")
    run(bad, "-o", out, "--force", code=2)
    assert out.read_text() == "old"


def text_of(document, width):
    """The text of a report as JSON, laid out for a terminal of so many columns."""
    known = msgspec.convert(document, Envelope[AllocReport])
    return "".join(write_plain(alloc_blocks(known, width)))


@pytest.fixture(scope="module")
def swept():
    """A failure that many settings cure, swept."""
    return report(DATA / "small_fragoom.pickle", "--sweep")


@pytest.fixture(scope="module")
def hopeful(tmp_path_factory):
    """A trace that could fit into 400 MiB, and does not where its second request pins the segment of the first."""
    path = tmp_path_factory.mktemp("trace") / "pinned.jsonl"
    first, second, third = ({"op": "alloc", "id": i, "size": size << 20} for i, size in enumerate((290, 30, 300)))
    lines = (first, {"op": "free", "id": 0}, second, third)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_first_lines_of_a_sweep_are_the_setting_that_helps(swept):
    _, verdict, unknown, export, failure, *_ = text_of(swept, 100).splitlines()
    assert verdict.startswith("A setting helps: nothing of what is known fails")
    assert unknown == "  Not known: what would come after event 5 is not recorded"
    assert export == f"  export PYTORCH_CUDA_ALLOC_CONF={swept['report']['recommended']['settings']}"
    assert failure.startswith("Ran out of memory: 20.0 MiB asked for and live, 300 MiB more")


def test_a_sweep_that_finds_nothing_does_not_promise_anything(hopeful):
    tries = ("max_split_size_mb:2048", "roundup_power2_divisions:2")
    options = [part for text in tries for part in ("--what-if", text)]
    lines = run(hopeful, "--capacity", "400MiB", *options).stdout.splitlines()
    assert lines[1].startswith(
        "No setting tried helps: memory runs out with each of the 3; what is known would fit in "
    )
    assert not any(line.startswith("A setting could help") for line in lines)
    assert lines[3].endswith("--sweep --capacity 400MiB")


def test_a_failure_that_nothing_can_help_is_not_sent_to_a_sweep(hopeful):
    lines = run(hopeful, "--capacity", "320MiB").stdout.splitlines()
    assert lines[1].startswith("No setting helps: ")
    assert "--sweep" not in "".join(lines)


def test_the_next_step_is_a_command_that_runs(hopeful, tmp_path):
    path = tmp_path / "a trace.jsonl"
    path.write_bytes(hopeful.read_bytes())
    options = ("--capacity", "400MiB", "--stream-events", "manual", "--settings", "max_split_size_mb:2048")
    found = report(path, *options)["report"]
    command, *arguments = shlex.split(found["next_step"])[1:]
    assert command == "alloc-report"
    again = report(*arguments)["report"]
    assert again["outcome"] == found["outcome"]
    assert again["settings"] == found["settings"]
    assert len(again["what_if"]) > 20
    assert again["next_step"] is None


def test_more_memory_than_the_failed_run_had_is_no_failure():
    path = DATA / "small_fragoom.pickle"
    first, second, *_ = run(path, "--capacity", "2GiB", "--what-if", "expandable_segments:True").stdout.splitlines()[1:]
    assert first == "With 2.00 GiB nothing of what is known fails: at most 600 MiB reserved"
    assert second.startswith("A setting saves memory: at most 320 MiB reserved")
    lines = run(path, "--capacity", "500MiB").stdout.splitlines()
    assert lines[1].startswith("With 500 MiB 1 request fails: ")
    assert lines[3].endswith("--sweep --capacity 500MiB")


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_what_ifs_fit_the_width_and_settings_stay_whole(width, swept):
    lines = text_of(swept, width).splitlines()
    table = lines[lines.index("what if (peaks of the whole history)") :]
    table = table[: table.index(next(line for line in table if line.startswith("A setting helps")))]
    assert max(map(len, table)) <= width
    words = {piece.rstrip(",") for line in table for piece in line.replace(": ", " ").split()}
    for row in swept["report"]["what_if"]:
        for piece in row["settings"].split(","):
            assert any(piece in word for word in words), piece
    for title in ("settings", "reserved", "OOMs", "fits in", "notes"):
        assert title in table[1]
    assert ("device calls" in table[1]) == (width >= 100)


def test_settings_that_change_nothing_are_one_line(swept):
    lines = text_of(swept, 200).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("no different from the settings as they are: "))
    assert "max_split_size_mb:512, max_split_size_mb:1024" in lines[first]
    assert not any(line.startswith("max_split_size_mb:1024 ") for line in lines)


def test_the_floor_says_when_it_counts_what_failed(swept):
    floor = next(line for line in text_of(swept, 100).splitlines() if line.startswith("floor "))
    assert floor.endswith("to serve what failed too, at least")
    whole = run(DATA / "gpt_ring_500.pickle.gz").stdout
    assert next(line for line in whole.splitlines() if line.startswith("floor ")).endswith("no way to hold less")


def test_one_bad_file_among_several_loses_nothing(tmp_path):
    bad = tmp_path / "rank1.pickle"
    bad.write_bytes((DATA / "small_fragoom.pickle").read_bytes()[:300])
    trace = tmp_path / "rank2.jsonl"
    trace.write_text('{"op":"free","id":7}\n')
    targets = (DATA / "small_fragoom.pickle", bad, trace, DATA / "streams_pending.pickle", tmp_path / "none.pickle")
    result = run(*targets, "--json", code=2)
    document = json.loads(result.stdout)
    assert [Path(d["source"]["path"]).name for d in document["report"]["devices"]] == [targets[0].name, targets[3].name]
    assert [f["where"] for f in document["findings"] if f["code"] == "not-reported"] == [
        str(bad), str(trace), str(targets[4]),
    ]  # fmt: skip
    errors = [line for line in result.stderr.splitlines() if line.startswith("stride-tool: error: ")]
    assert [name in error for name, error in zip((str(bad), str(trace), "none.pickle"), errors, strict=True)] == [
        True
    ] * 3
    assert errors[1].endswith("rank2.jsonl: event 0 (free): id 7 is not allocated")


def test_the_only_good_file_of_several_is_shown_in_full(tmp_path):
    text = run(DATA / "small_fragoom.pickle", tmp_path / "none.pickle", code=2).stdout
    assert text.splitlines()[1].startswith("A setting could help")
    assert "largest free block" in text


def test_a_message_beside_a_snapshot_is_reported_too():
    document = report(DATA / "small_fragoom.oom.txt", DATA / "small_fragoom.pickle")
    assert len(document["report"]["devices"]) == len(document["report"]["messages"]) == 1
    assert "Fragmentation: 280 MiB" in run(DATA / "small_fragoom.oom.txt", DATA / "small_fragoom.pickle").stdout


def test_retries_of_a_recording_are_those_that_torch_counted():
    for name, retries in (("oom_observer.pickle.gz", 7), ("small_fragoom.pickle", 1), ("small_pinned.pickle.gz", 0)):
        assert report(DATA / name)["report"]["outcome"]["retries"] == retries


def test_retries_that_no_stack_tells_from_empty_cache_are_not_counted():
    """torch counted 7 and 9 here; without stacks the entries could be calls of empty_cache."""
    for name in ("trace_mixed_3.pickle.gz", "trace_phases_1.pickle.gz"):
        assert report(DATA / name)["report"]["outcome"]["retries"] is None


def test_what_takes_long_is_announced_where_somebody_reads_it(monkeypatch):
    for quiet, said in ((False, ["sorting …", "sorting: done in"]), (True, [])):
        heard = io.StringIO()
        monkeypatch.setattr("sys.stderr", heard)
        with announced("sorting", quiet=quiet, at_once=True):
            pass
        lines = heard.getvalue().splitlines()
        assert len(lines) == len(said)
        assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))


def test_what_turns_out_long_is_announced_while_it_runs(monkeypatch):
    heard = io.StringIO()
    monkeypatch.setattr("sys.stderr", heard)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with announced("sorting", quiet=False):
        for _ in range(2000):
            if heard.getvalue().endswith("\n"):
                break
            time.sleep(0.005)
        assert heard.getvalue() == "sorting …\n"
    assert heard.getvalue().splitlines()[1].startswith("sorting: done in ")


def test_what_is_done_soon_is_not_announced(monkeypatch):
    heard = io.StringIO()
    monkeypatch.setattr("sys.stderr", heard)
    with announced("sorting", quiet=False):
        time.sleep(0)
    assert not heard.getvalue()


def test_a_state_without_history_says_that_tries_tell_little():
    document = report(DATA / "small_list.pickle.gz", "--sweep")
    assert document["report"]["recommended"] is None
    assert "no-history" in {finding["code"] for finding in document["findings"]}
    assert text_of(document, 100).splitlines()[1].startswith("Settings cannot be judged")
    too_little = run(DATA / "small_list.pickle.gz", "--capacity", "100MiB").stdout.splitlines()[1]
    assert too_little.startswith("No setting helps: ")  # more than that is held


def test_what_was_hopeless_is_judged_anew_with_other_memory():
    """As recorded: 20 and 300 MiB in 310; then with what --capacity gives."""
    failed = [Failure(7, 20 << 20, 300 << 20, 310 << 20)]
    given = ((None, True, None), (300, True, None), (310, True, None), (315, True, 310), (400, False, 310))
    for capacity, is_hopeless, had in given:
        proof = certificate(failed, None if capacity is None else capacity << 20)
        assert (proof.usable_bytes, proof.no_setting_helps) == ((capacity or 310) << 20, is_hopeless)
        assert proof.had_bytes == (None if had is None else had << 20)


@pytest.mark.parametrize(
    ("capacity", "is_hopeless", "verdict"),
    [
        ("100MiB", True, ["With 100 MiB 2 requests fail", "No setting helps"]),
        ("400MiB", False, ["With 400 MiB 1 request fails", "As recorded, it ran out of memory"]),
        ("1GiB", False, ["With 1.00 GiB nothing of what is known fails", "  Not known"]),
    ],
)
def test_json_and_text_judge_alike(capacity, is_hopeless, verdict):
    """20 MiB live and 300 asked for, in the 400 that the recorded run had."""
    document = report(DATA / "small_fragoom.pickle", "--capacity", capacity)
    assert document["report"]["certificate"]["no_setting_helps"] is is_hopeless
    assert ("no-setting-helps" in {finding["code"] for finding in document["findings"]}) is is_hopeless
    lines = text_of(document, 100).splitlines()
    assert [line.split(":")[0] for line in lines[1:3]] == verdict


@pytest.mark.parametrize("options", [("--capacity", "120MiB"), ("--fraction", "0.25", "--capacity", "480MiB")])
def test_a_recording_is_judged_under_the_memory_that_is_given(options):
    """The recorded run reserved 210 MiB and had 193 live at its peak; nothing failed."""
    document = report(DATA / "gpt_expandable.pickle.gz", *options)
    found = document["report"]
    (row,) = found["what_if"]
    assert (found["given_bytes"], found["outcome"]["ooms"]) == (120 << 20, [])
    assert row["ooms"] > 0
    assert row["peak_reserved_bytes"] <= 120 << 20
    proof = found["certificate"]
    assert proof["live_bytes"] + proof["request_bytes"] == found["floor_bytes"]
    assert (proof["at"], proof["no_setting_helps"], found["next_step"]) == (None, True, None)
    summary, verdict, hopeless, *_ = text_of(document, 100).splitlines()
    assert "recorded: never out of memory" in summary
    assert verdict.startswith(f"With 120 MiB {row['ooms']:,} requests fail: ")
    assert hopeless.startswith("No setting helps: ")


def test_enough_memory_is_said_to_be_enough():
    document = report(DATA / "gpt_expandable.pickle.gz", "--capacity", "1GiB")
    assert [row["fits"] for row in document["report"]["what_if"]] == [True]
    assert document["report"]["certificate"] is None
    assert text_of(document, 100).splitlines()[1] == "With 1.00 GiB nothing fails: at most 210 MiB reserved"


def test_a_share_of_unknown_memory_is_told_to_limit_nothing():
    document = report(DATA / "gpt_expandable.pickle.gz", "--fraction", "0.5")
    assert document["report"]["given_bytes"] is None
    assert "unknown-capacity" in {finding["code"] for finding in document["findings"]}


def test_a_job_that_went_on_names_its_failure_and_how_to_look_at_it():
    document = report(DATA / "trace_mixed_3.pickle.gz")
    ooms = document["report"]["outcome"]["ooms"]
    assert not document["report"]["outcome"]["ends_at_failure"]
    lines = text_of(document, 100).splitlines()
    assert f"at event {ooms[-1]:,} (the last of {len(ooms)})" in lines[1]
    assert f"--at {ooms[-1]} shows memory as it was then" in lines[2]


def test_a_script_that_a_setting_helps_is_to_be_run_again_with_it(tmp_path):
    path = tmp_path / "grows.py"
    path.write_text(
        "import stridetool as st\nkept = []\nfor step in range(1, 41):\n"
        "    x = st.empty(step << 22, dtype=st.uint8, device='cuda')\n    del x\n"
    )
    found = report(path, "--capacity", "300MiB", "--settings", "throw_on_cudamalloc_oom:True", "--sweep")["report"]
    assert found["outcome"]["ends_at_failure"]
    command, *arguments = shlex.split(found["next_step"])[1:]
    assert (command, "--sweep" in arguments) == ("alloc-report", False)
    again = report(*arguments)["report"]
    assert again["settings"] == found["recommended"]["settings"]
    assert again["outcome"]["ooms"] == []
    assert again["outcome"]["allocations"] > found["outcome"]["allocations"]


def test_a_recording_that_begins_in_the_middle_says_what_can_be_trusted():
    for name, is_partial in (("gpt_ring_500.pickle.gz", True), ("gpt_expandable.pickle.gz", False)):
        findings = report(DATA / name)["findings"]
        assert ("partial-recording" in {finding["code"] for finding in findings}) is is_partial


def test_settings_that_the_job_has_already_are_tried_once(hopeful):
    document = report(hopeful, "--capacity", "400MiB", "--what-if", "", "--what-if", "expandable_segments:False")
    assert len(document["report"]["what_if"]) == 1
    assert text_of(document, 100).splitlines()[1].startswith("Memory runs out with the settings as they are: ")


def test_a_recommendation_says_instead_of_what_and_when_it_is_tight():
    path = DATA / "small_fragoom.pickle"
    options = ("--settings", "max_split_size_mb:1024", "--what-if", "expandable_segments:True")
    lines = run(path, *options).stdout.splitlines()
    assert lines[1].startswith("A setting helps: ")
    assert lines[1].endswith(", instead of max_split_size_mb:1024")
    assert not any("to spare" in line for line in lines)
    tight = run(path, *options, "--capacity", "322MiB").stdout
    assert "  Beware: it fits with 2.00 MiB to spare, of 322 MiB" in tight.splitlines()


def test_what_grows_is_told_beside_what_fits():
    document = report(DATA / "small_fragoom.pickle", "--what-if", "expandable_segments:True")
    known = msgspec.convert(document, Envelope[AllocReport])
    growth = {"site": "train.py:7 step", "grown_bytes": 5, "step_bytes": 4, "at_steps": [1, 2, 6]}
    leak = msgspec.convert(growth, Leak)
    grown = msgspec.structs.replace(known, report=msgspec.structs.replace(known.report, leaks=(leak,)))
    text = "".join(write_plain(alloc_blocks(grown, 100)))
    assert "memory of 1 place grows from step to step: in a longer run it would fail later" in text


def test_a_unit_that_became_a_target_is_no_gpu_of_two_bytes():
    path = DATA / "small_fragoom.pickle"
    assert "did you mean 2GiB?" in run(path, "--capacity", "2", "GiB", code=2).stderr
    assert report(path, "--capacity", "400")["report"]["given_bytes"] == 400
