"""Targets of `alloc-report`: several, through a pipe, and those that cannot be reported."""

import json
import pickle
from pathlib import Path

import pytest
from alloc_command import DATA, report, run


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


def test_the_old_file_stays_when_the_input_is_bad(tmp_path):
    out = tmp_path / "report.json"
    out.write_text("old")
    bad = tmp_path / "bad.pickle"
    bad.write_bytes(b"\x80\x04]")
    run(bad, "-o", out, "--force", code=2)
    assert out.read_text() == "old"


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


def test_a_unit_that_became_a_target_is_no_gpu_of_two_bytes():
    path = DATA / "small_fragoom.pickle"
    assert "did you mean 2GiB?" in run(path, "--capacity", "2", "GiB", code=2).stderr
    assert report(path, "--capacity", "400")["report"]["given_bytes"] == 400
