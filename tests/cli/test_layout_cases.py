"""Questions that people really asked, rebuilt as scripts: the facts must be torch's and NumPy's, and the answer there.

`tests/data/cases/layout_cases.jsonl` holds the scripts, what torch 2.13 and NumPy 2.4 observed, and what a perfect
tool would say. A few cases need operators that a layout library does not offer (autograd, nonzero, torch.save).
"""

import json
from pathlib import Path

import pytest

from stridetool.analysis.programs import program_report
from stridetool.programs.run import Options, run_program
from stridetool.report.inspect import Source

LINES = (Path(__file__).parents[1] / "data" / "cases" / "layout_cases.jsonl").read_text().splitlines()
BEYOND = {"L15", "L33", "L43", "L45"}  # torch.save, torch._debug_…, autograd.grad, nonzero
CASES = {case["id"]: case for case in map(json.loads, LINES) if case["script"] and case["id"] not in BEYOND}
PICKLE_BYTES = {"n1", "n2"}  # lengths of torch's own pickles
PRELUDE = "import torch, io, pickle, copy\nimport numpy as np\n"

# What the report must say, in its findings or in the anatomy of a failure, for the case to be answered.
ANSWERS = {
    "L01": ["stride[0] must be 40, it is 1", "set by t at", "reshape(16) copies 64 B"],
    "L03": ["set by transpose at", "reshape(24, 8) copies 768 B", "view taken before"],
    "L05": ["reshape copied 96 B", "writes to y do not reach x"],
    "L09": ["has the channels_last flag, but torch treats it as contiguous_format", "stride[0] = 3"],
    "L11": ["a is both contiguous and channels_last", "treats it as contiguous_format", "b is both"],
    "L19": ["A, B share storage", "keep A; B can be taken from it again"],
    "L23": ["negative stride", ".copy()", "ascontiguousarray changes nothing"],
    "L27": ["needs (672, 3, 1)"],
    "L31": ["w: 9 elements over 5 stored ones"],
    "L35": ["refer to a single memory location"],
    "L49": ["must be 1 to view Float as Short"],
    "L53": ["96", "contiguous copied 1.50 MiB"],
    "L55": ["byte strides (5,)", "item size 4"],
}


def report_on(case):
    run = run_program(PRELUDE + case["script"], None, Options(alias_torch=True, quiet_stdout=True))
    recorder = run.recorder
    report, findings = program_report(
        Source("script"), run.arrays, run.hidden, recorder.records, names=run.serials, set_by=recorder.set_by,
        operations=recorder.total, copied_bytes=recorder.copied_bytes,
    )  # fmt: skip
    return run, report, findings


@pytest.mark.parametrize("name", CASES)
def test_facts_are_those_of_torch_and_numpy(name):
    observed = CASES[name]["observed_torch_2.13_numpy_2.4"]
    run, report, _ = report_on(CASES[name])
    failure = run.outcome.failure
    assert (f"{failure.type}: {failure.message}" if failure else None) == observed.pop("raises", None)
    rows = {row.name: (row, facts) for row, facts in zip(report.tensors, run.arrays, strict=True)}
    for variable, value in observed.items():
        if variable in PICKLE_BYTES:
            continue
        if not isinstance(value, dict):
            assert run.outcome.namespace[variable] == (tuple(value) if isinstance(value, list) else value)
        elif "sizes" in value:
            row, facts = rows[variable]
            layout = [list(row.sizes), list(row.strides), row.storage_offset, facts.storage_nbytes]
            assert layout == [value["sizes"], value["strides"], value["offset"], value["storage_bytes"]]
            assert row.is_contiguous == value["contiguous"]
            assert ("channels_last" in row.memory_formats) == value["channels_last"]
        elif value.get("shape") != []:
            row, _ = rows[variable]
            steps = [stride * row.stride_unit_bytes for stride in row.strides]
            assert [list(row.sizes), steps, row.itemsize] == [value["shape"], value["byte_strides"], value["itemsize"]]
            assert row.is_contiguous == value["C"]


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_is_in_the_report(name):
    run, report, findings = report_on(CASES[name])
    said = [f"{finding.message} {finding.hint}" for finding in findings]
    said += [f"{consumer.reason}" for row in report.tensors for consumer in row.consumers]
    said += [run.outcome.failure.message] if run.outcome.failure else []
    for expected in ANSWERS[name]:
        assert any(expected in text for text in said), (expected, said)
