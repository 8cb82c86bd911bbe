"""What `alloc-report` concludes: whether a setting helps, which one, and what to do next."""

import json
import shlex

import msgspec
import pytest
from alloc_command import DATA, report, run, text_of

from stridetool.analysis.certificate import Failure, certificate
from stridetool.render.alloc_text import alloc_blocks
from stridetool.render.plain import write_plain
from stridetool.report.alloc import AllocReport, Leak
from stridetool.report.envelope import Envelope


@pytest.fixture(scope="module")
def hopeful(tmp_path_factory):
    """A trace that could fit into 400 MiB, and does not where its second request pins the segment of the first."""
    path = tmp_path_factory.mktemp("trace") / "pinned.jsonl"
    first, second, third = ({"op": "alloc", "id": i, "size": size << 20} for i, size in enumerate((290, 30, 300)))
    lines = (first, {"op": "free", "id": 0}, second, third)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_no_setting_helps_when_more_is_live_than_there_is(tmp_path):
    path = tmp_path / "trace.jsonl"
    lines = ({"op": "alloc", "id": id, "size": mib << 20} for id, mib in ((1, 800), (2, 300)))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    document = report(path, "--capacity", "1000MiB", "--sweep")
    assert document["report"]["certificate"]["no_setting_helps"] is True
    assert document["report"]["recommended"] is None
    assert document["findings"][0]["code"] == "no-setting-helps"
    assert run(path, "--capacity", "1000MiB").stdout.splitlines()[1].startswith("No setting helps")


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
