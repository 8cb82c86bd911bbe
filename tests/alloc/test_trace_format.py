"""The format of allocation traces and of RMM logs as README describes it, and what is said of lines that differ."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stridetool.cli.main import app
from stridetool.errors import InputError
from stridetool.sources.alloc_trace import OPS, read_trace

README = (Path(__file__).parents[2] / "README.md").read_text()
TRACE, LOG = (re.search(rf"```{kind}\n(.*?)```", README, re.S)[1] for kind in ("jsonl", "csv"))
SECTION = README[README.index("### The format of an allocation trace") : README.index("## How fast")]


def run(*arguments, text=None):
    return CliRunner().invoke(app, ["alloc-report", *map(str, arguments)], input=text)


def test_the_lines_of_readme_are_a_trace_with_every_event():
    events, unknown = read_trace(TRACE.encode())
    assert unknown == ()
    assert {event.op for event in events} == set(OPS)
    document = json.loads(run("-", "--json", text=TRACE).stdout)
    assert document["report"]["source"] == {"kind": "trace", "path": "<stdin>"}
    assert document["report"]["outcome"]["allocations"] == TRACE.count('"alloc"')
    assert document["report"]["outcome"]["ooms"] == []


@pytest.mark.parametrize("line", TRACE.splitlines())
def test_every_key_of_a_line_is_in_the_table(line):
    event = json.loads(line)
    op = event.pop("op")
    row = next(row for row in SECTION.splitlines() if row.startswith("|") and f"`{op}`" in row)
    keys = row.split("|")[2]
    assert set(event) <= set(re.findall(r"`(\w+)`", keys))
    for key in re.findall(r"`(\w+)`(?!\?)", keys):  # what has no question mark must be there
        del event[key]
        with pytest.raises(InputError, match=f"{key} missing"):
            read_trace(json.dumps({"op": op, **event}).encode())


def test_the_log_of_readme_is_one_of_rmm():
    document = json.loads(run("-", "--json", text=LOG).stdout)
    assert document["report"]["source"]["kind"] == "rmm"
    assert document["report"]["outcome"]["peak_allocated_bytes"] == 4 << 20


def test_the_help_says_what_a_trace_is():
    said = " ".join(run("--help").stdout.split())
    assert 'JSON lines: {"op": "alloc"' in said
    assert "README" in said


def test_a_field_that_no_event_has_is_told():
    lines = TRACE + '{"op":"alloc","id":9,"size":4096,"strem":3}\n{"op":"free","id":9,"when":1.5}\n'
    result = json.loads(run("-", "--json", text=lines).stdout)
    told = [finding for finding in result["findings"] if finding["code"] == "unknown-field"]
    assert [finding["where"] for finding in told] == ["line 17", "line 18"]
    assert '"strem"' in told[0]["message"]
    assert told[0]["hint"] == "did you mean stream?"


def test_a_bad_line_among_unknown_fields_is_still_named():
    with pytest.raises(InputError, match=r"line 2 is no event.*size"):
        read_trace(b'{"op":"sync","note":1}\n{"op":"alloc","id":1,"size":"4"}\n')


def test_many_unknown_fields_are_told_in_part():
    line = json.dumps({"op": "sync", **{f"x{i}": i for i in range(1000)}})
    assert len(read_trace(line.encode())[1]) == 8


def test_errors_on_standard_input_name_it(tmp_path):
    cut = (Path(__file__).parents[1] / "data" / "snapshots" / "small_fragoom.pickle").read_bytes()[:300]
    path = tmp_path / "rank2.pickle"
    path.write_bytes(cut)
    for result, name in ((run("-", text=cut), "<stdin>"), (run(path), str(path))):
        assert result.exit_code == 2
        assert result.stderr.startswith(f"stride-tool: error: cannot read {name}: it is cut off: the pickle ends")
    for command in ("inspect", "bench"):
        result = CliRunner().invoke(app, [command, "-"], input=cut)
        assert result.stderr.startswith("stride-tool: error: cannot read <stdin>: ")


def test_nothing_on_standard_input_is_said():
    for arguments in (["-"], ["--message", "-"]):
        result = run(*arguments, text="")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "cannot read standard input: nothing came" in result.stderr


def test_a_folder_is_no_recording(tmp_path):
    result = run(tmp_path)
    assert result.exit_code == 2
    assert f"cannot read {tmp_path}: it is a folder" in result.stderr
    assert f"give the files in it: {tmp_path}/*" in result.stderr


def test_a_file_that_cannot_be_read_is_named_once_in_a_finding(tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text(TRACE)
    result = run(trace, tmp_path / "none.pickle", "--json")
    found = next(finding for finding in json.loads(result.stdout)["findings"] if finding["code"] == "not-reported")
    assert found["where"] == str(tmp_path / "none.pickle")
    assert "none.pickle" not in found["message"]


def test_a_message_beside_a_file_stands_first(tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text(TRACE)
    text = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB of which 1.20 GiB"
    text += (
        " is free. Of the allocated memory 9.00 GiB is allocated by PyTorch, and 5.20 GiB is reserved by PyTorch but"
    )
    lines = run("--message", f"{text} unallocated.", trace).stdout.splitlines()
    assert lines.index("message") < next(i for i, line in enumerate(lines) if line.startswith(str(trace)))


def test_help_and_hints_list_what_the_command_writes(tmp_path):
    assert "text|json|svg|html|perfetto" in run("--help").stdout
    refused = run(tmp_path, "-o", tmp_path / "foo.pdf").stderr
    assert refused.endswith("use --format, or one of .json .txt .svg .html\n")
