"""bench, compare and devices as a user calls them; sizes and times are cut down, nothing is judged by the clock."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from stridetool.bench.cases import standard_cases
from stridetool.bench.sampling import Limits
from stridetool.cli.main import app
from stridetool.core.layout import Layout
from stridetool.report.documents import from_json, json_schema


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr("stridetool.bench.run.PEAK_BYTES", 1 << 14)
    monkeypatch.setattr("stridetool.cli.benching.Limits", lambda seconds: Limits(seconds=0.005, sample_seconds=1e-5))
    monkeypatch.setattr("stridetool.bench.host.default_kernels", lambda: ("stride-tool", "numpy"))
    monkeypatch.setattr("stridetool.cli.copy_targets.standard_cases", lambda quick=False: tuple(map(shrunk, SMALL)))


SMALL = standard_cases(quick=True)


def shrunk(case):
    """The case with no dimension above 32."""
    sizes = tuple(min(size, 32) for size in case.layout.sizes)
    return replace(case, layout=Layout(sizes, case.layout.strides, case.layout.offset))


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_json_of_one_shape_holds_what_the_contract_names():
    result = call("bench", "--shape", "24,32", "--permute", "1,0", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["schema"] == "stride-tool/bench"
    assert {"cpu", "numpy", "copy_kernel", "usable_cpus"} <= set(document["environment"])
    report = document["report"]
    assert set(report["peak"]) >= {"bytes_per_second", "threads"}
    (case,) = report["cases"]
    assert (case["sizes"], case["strides"], case["dtype"], case["bytes_moved"]) == ([32, 24], [1, 32], "float32", 6144)
    assert case["peak_bytes_per_second"] > 0
    for kernel in case["kernels"]:
        assert len(kernel["samples"]) == len(kernel["rounds"]) >= 5
        assert kernel["fraction_of_peak"] == pytest.approx(kernel["bytes_per_second"] / case["peak_bytes_per_second"])
    assert from_json(result.stdout.encode(), "x").report.cases[0].why.plan == "transpose"
    assert "fraction_of_peak" in json_schema("bench")


def test_the_text_says_why_and_what_would_be_faster():
    result = call("bench", "--shape", "512,512", "--permute", "1,0")
    for word in ("verdict", "why", "faster", "transpose", "stride-tool", "numpy", "95 % interval"):
        assert word in result.stdout
    assert "\x1b" not in result.stdout


def test_many_cases_are_one_table():
    result = call("bench", "--quick")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") < 40
    assert "nchw-to-nhwc" in result.stdout


def test_ndjson_is_a_line_a_case():
    result = call("bench", "--quick", "--case", "transpose*", "--format", "ndjson")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["bench", "case", "case", "end"]
    assert [line["case"] for line in lines[1:3]] == ["transpose", "transpose-uint8"]


def test_csv_and_markdown_have_a_line_a_kernel():
    rows = list(csv.DictReader(call("bench", "--quick", "contiguous", "--format", "csv").stdout.splitlines()))
    assert sorted(row["kernel"] for row in rows) == ["numpy", "stride-tool"]
    assert all(float(row["median_seconds"]) > 0 for row in rows)
    lines = call("bench", "--quick", "contiguous", "--format", "markdown").stdout.splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1


def test_tensors_of_files_and_scripts(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(np.zeros((30, 40))))
    np.savez(tmp_path / "z.npz", x=np.zeros((3, 5), np.uint8), y=np.zeros(4))
    script = tmp_path / "s.py"
    script.write_text(
        "import numpy as np\nprint('once')\nbase = np.zeros((8, 6), np.int16)\nback = base[::-1]\nt = base.T\n"
    )
    cases = json.loads(
        call("bench", tmp_path / "a.npy", f"{tmp_path}/z.npz::x", f"{script}::t", f"{script}::back", "--json").stdout
    )["report"]["cases"]
    assert [(c["case"], c["sizes"], c["strides"]) for c in cases] == [
        ("a.npy::array", [30, 40], [1, 30]),
        ("z.npz::x", [3, 5], [5, 1]),
        ("s.py::t", [6, 8], [1, 6]),
        ("s.py::back", [8, 6], [-6, 1]),
    ]
    assert "there are: x, y" in call("bench", f"{tmp_path}/z.npz::w").stderr
    assert call("bench", tmp_path / "z.npz").exit_code == 2
    script.write_text("x = 1 / 0\n")
    assert call("bench", f"{script}::x").exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--shape", "4,x"), ("--shape", "4,4", "--permute", "0,0"), ("--permute", "1,0"),
        ("--shape", "4", "contiguous"),
        ("--shape", "4", "--dtype", "float33"), ("--shape", "9999999,9999999,9999"), ("nosuch",), ("nosuch.npy",),
        ("--shape", "4", "--kernel", "nosuch"), ("--shape", "4", "--threads", "0"),
        ("--shape", "4", "--sort", "nosuch"),
        ("--device", "tpu"), ("--case", "nosuch*"), ("--shape", "4", "--format", "perfetto"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_exits_2_with_a_reason(arguments):
    result = call("bench", *arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("stride-tool: error: ")
    assert not result.stdout


def test_sort_and_top_order_the_rows():
    cases = json.loads(call("bench", "--quick", "--sort", "fraction", "--top", "3", "--json").stdout)["report"]["cases"]
    worst = [min(kernel["fraction_of_peak"] for kernel in case["kernels"]) for case in cases]
    assert len(cases) == 3
    assert worst == sorted(worst)


def test_compare_accepts_itself_and_stops_at_a_slower_run(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    assert call("bench", "--shape", "64,64", "-o", old).exit_code == 0
    result = call("compare", old, old)
    assert result.exit_code == 0, result.output
    assert "0 slower" in result.stdout
    document = json.loads(old.read_text())
    for kernel in document["report"]["cases"][0]["kernels"]:
        kernel["samples"] = [10 * seconds for seconds in kernel["samples"]]
        kernel["median_seconds"] *= 10
    new.write_text(json.dumps(document))
    result = call("compare", old, new, "--json")
    assert result.exit_code == 1
    changes = json.loads(result.stdout)["report"]["kernels"]
    assert {change["change"] for change in changes} == {"slower"}
    assert call("compare", old, new, "--threshold", "2000%").exit_code == 0
    assert call("compare", new, old).exit_code == 0


def test_compare_takes_one_side_from_a_pipe(tmp_path):
    path = tmp_path / "a.json"
    call("bench", "--shape", "8", "-o", path)
    for sides in (("-", str(path)), (str(path), "-")):
        result = CliRunner().invoke(app, ["compare", *sides, "--json"], input=path.read_bytes())
        assert result.exit_code == 0, result.output
        assert {row["ratio"] for row in json.loads(result.stdout)["report"]["kernels"]} == {1.0}
    assert call("compare", "-", "-").exit_code == 2


def test_compare_refuses_what_does_not_compare(tmp_path):
    bench, devices, broken = tmp_path / "b.json", tmp_path / "d.json", tmp_path / "x.json"
    call("bench", "--shape", "8", "-o", bench)
    call("devices", "-o", devices)
    broken.write_text('{"schema": "stride-tool/bench", "schema_version": 1}')
    deep = tmp_path / "deep.json"
    deep.write_text('{"schema": "stride-tool/bench", "schema_version": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}")
    pairs = [(bench, devices), (devices, devices), (bench, broken), (bench, tmp_path / "none.json"), (deep, deep)]
    for arguments in (*pairs, (bench, bench, "--threshold", "five")):
        result = call("compare", *arguments)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("stride-tool: error: ")


def test_devices_tells_the_host_and_that_the_gpu_is_simulated():
    report = json.loads(call("devices", "--json").stdout)["report"]
    rows = report["devices"]
    assert {"name": "t4", "total_bytes": int(14.74 * 2**30)} in report["presets"]
    assert rows[0]["device"] == "cpu"
    assert rows[0]["total_bytes"] > 0
    assert rows[1]["device"] == "cuda:0"
    if rows[1]["simulated"]:
        assert "simulated" in call("devices").stdout


def test_compare_loads_neither_numpy_nor_rich(tmp_path):
    path = tmp_path / "a.json"
    call("bench", "--shape", "8", "-o", path)
    code = (
        f"import sys; sys.argv = ['stride-tool', 'compare', {str(path)!r}, {str(path)!r}]\n"
        "from stridetool.cli import main\n"
        "try:\n main()\nexcept SystemExit as end:\n assert not end.code, end.code\n"
        "print(sorted({'numpy', 'cupy', 'torch', 'rich'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.splitlines()[-1] == "[]", result.stderr
