"""`stride-tool inspect` as a person and a pipe use it, in process through Typer's own runner."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from stridetool.cli.main import app
from stridetool.report.documents import from_json, json_schema

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("0*.py"))


def run(*arguments, text=None):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)], input=text)


def report(*arguments, text=None, code=0):
    result = run(*arguments, "--json", text=text)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def script(folder, text, name="script.py"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(path):
    document = report(path)
    assert document["report"]["tensors"] or path.stem.startswith("08")
    assert document["report"]["operations"]
    assert run(path).exit_code == 0


def test_an_expression_is_the_last_tensor_and_its_document_reads_back():
    result = run("-e", "x = arange(12).view(3, 4); x.t()", "--json")
    document = from_json(result.stdout.encode(), "stdout")
    last = document.report.tensors[-1]
    assert (last.name, last.sizes, last.strides) == ("_", (4, 3), (1, 4))
    assert msgspec.json.decode(json_schema("inspect"))["$defs"]


def test_a_failed_view_names_boundary_strides_line_and_price(tmp_path):
    path = script(tmp_path, "import stridetool as st\nx = st.zeros(2, 3)\ny = x.t()\ny.view(6)\n")
    document = report(path, code=1)
    why = document["report"]["operations"][-1]["error"]["why"]
    assert why["boundary"] == [0, 1]
    assert (why["stride_needed"], why["stride_found"]) == (6, 1)
    assert why["set_by"] == "t at script.py:3"
    assert why["reshape_copied_bytes"] == 24
    assert "script.py:4" in run(path).stderr


def test_arrays_of_other_libraries_share_by_address(tmp_path):
    path = script(
        tmp_path,
        "import numpy as np, stridetool as st\n"
        "a = np.arange(12, dtype=np.float32).reshape(3, 4)\nb = a[::-1, 1:]\nt = st.from_numpy(a)\nc = a.copy()\n"
        "class Holder:\n    __array_interface__ = a.__array_interface__\nh = Holder()\n",
    )
    tensors = {t["name"]: t for t in report(path)["report"]["tensors"]}
    assert tensors["a"]["storage"] == tensors["b"]["storage"] == tensors["t"]["storage"] == tensors["h"]["storage"]
    assert tensors["c"]["storage"] != tensors["a"]["storage"]
    assert tensors["b"]["strides"] == [-4, 1]
    assert tensors["b"]["storage_offset"] == 9
    assert {t["library"] for t in tensors.values()} >= {"numpy", "stridetool"}


def test_hidden_storages_are_found_with_who_holds_them(tmp_path):
    path = script(
        tmp_path,
        "import stridetool as st\n"
        "cache = {'k': [st.zeros(100)]}\n"
        "def make():\n    big = st.zeros(50)\n    return lambda: big\n"
        "f = make()\n"
        "class Node: pass\n"
        "def cycle():\n    a, b = Node(), Node()\n    a.other, b.other, a.data = b, a, st.zeros(25)\n"
        "cycle()\n",
    )
    held = {s["nbytes"]: s["held_by"] for s in report(path)["report"]["storages"]}
    assert held[400] == ["cache['k'][0]"]
    assert held[200] == ["f (closure over big)"]
    assert "cycle" in held[100][0]


def test_a_script_runs_as_under_python(tmp_path):
    script(tmp_path, "VALUE = 3\n", "beside.py")
    path = script(
        tmp_path,
        "import sys, stridetool as st\nfrom beside import VALUE\n"
        "assert __name__ == '__main__' and __file__ == sys.argv[0]\n"
        "x = st.zeros(VALUE, int(sys.argv[2]))\n",
    )
    assert report(path, "--args", "--rows '7'")["report"]["tensors"][0]["sizes"] == [3, 7]


def test_prints_of_a_script_stay_out_of_the_json(tmp_path):
    path = script(
        tmp_path, "import os, stridetool as st\nprint('hello')\nos.system('echo from a child')\nx = st.zeros(2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "stridetool", "inspect", path, "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["report"]["tensors"]
    assert "hello" in done.stderr
    assert "from a child" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_prints_no_second_report(tmp_path):
    path = script(tmp_path, "import os, stridetool as st\nx = st.zeros(2)\npid = os.fork()\nif pid: os.wait()\n")
    done = subprocess.run(
        [sys.executable, "-m", "stridetool", "inspect", path, "--json"], capture_output=True, text=True, check=True
    )
    assert len(json.loads(done.stdout)["report"]["tensors"]) == 1


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("x = (", 2, "never closed"),
        ("import sys; sys.exit(3)", 1, "sys.exit(3)"),
        ("import sys; sys.exit(0)", 0, ""),
        ("import sys\nassert sys.stdin.read() == ''\n", 0, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("raise RuntimeError('x\\x1b[31m')", 1, "x\\x1b[31m"),
        ("\0", 2, "no Python source"),
    ],
)
def test_odd_scripts_end_with_a_clear_word(tmp_path, text, code, words):
    result = run(script(tmp_path, text))
    assert result.exit_code == code
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert "\x1b" not in result.output


def test_hostile_variable_names_are_shown_escaped(tmp_path):
    path = script(
        tmp_path,
        "import stridetool as st\nfor n in ('[/x]', 'x\\x1b[31m', 'a[red]'):\n    globals()[n] = st.zeros(2)\n",
    )
    result = run(path)
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("[/x]", "x\\x1b[31m", "a[red]"))
    assert "\x1b" not in result.stdout


def test_stdin_is_a_script_or_a_file():
    assert report("-", text="import stridetool as st\nx = st.zeros(2)\n")["report"]["tensors"][0]["name"] == "x"


def test_a_missing_file_suggests_its_neighbour(tmp_path):
    np.save(tmp_path / "weights.npy", np.zeros(2))
    result = run(tmp_path / "wieghts.npy")
    assert result.exit_code == 2
    assert "weights.npy" in result.stderr


@pytest.mark.parametrize(
    ("expression", "condition", "code"),
    [
        ("zeros(4, 4).t().contiguous()", "copy", 1),
        ("zeros(4, 4).contiguous()", "copy", 0),
        ("zeros(9).unfold(0, 3, 1)", "overlap", 1),
        ("zeros(9).unfold(0, 3, 3)", "overlap", 0),
        ("zeros(100)[1:]", "misaligned", 1),
        ("zeros(100)[4:]", "misaligned", 0),
        ("zeros(10000)[:3]", "waste", 1),
        ("zeros(10000)[:9000]", "waste", 0),
    ],
)
def test_fail_on(expression, condition, code):
    assert run("-e", expression, "--fail-on", condition).exit_code == code


def test_selection_sorting_and_top(tmp_path):
    path = script(tmp_path, "import stridetool as st\nx = st.zeros(3, 4)\ny = st.zeros(100)\nz = y[:2]\n")
    names = [t["name"] for t in report(path, "--sort", "bytes", "--top", "2")["report"]["tensors"]]
    assert names == ["y", "x"]
    assert [t["name"] for t in report(path, "--tensor", "[xy]")["report"]["tensors"]] == ["x", "y"]
    part = report(path, "--tensor", "x[1:, 2]")["report"]["tensors"][0]
    assert (part["sizes"], part["strides"], part["storage_offset"]) == ([2], [4], 6)
    assert run(path, "--tensor", "nothing").exit_code == 2
    assert run(path, "--sort", "colour").exit_code == 2


def test_the_table_lists_elements_and_stops_where_it_is_told():
    result = run("-e", "arange(6).view(2, 3).t()", "--table", "--tensor", "_", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["index"], row["offset"], row["byte"]) for row in rows[:3]] == [
        ([0, 0], 0, 0),
        ([0, 1], 3, 24),
        ([1, 0], 1, 8),
    ]
    assert len(run("-e", "zeros(10**4, 10**5)", "--table", "--top", "3").stdout.splitlines()) == 4


def test_many_operations_are_kept_in_bounded_number(tmp_path):
    path = script(tmp_path, "import stridetool as st\nx = st.zeros(4, 4)\nfor _ in range(500):\n    x = x.t()\n")
    document = report(path, "--top", "10")["report"]
    assert (len(document["operations"]), document["operations_dropped"]) == (10, 491)


def test_svg_and_html_stand_alone(tmp_path):
    for suffix in ("svg", "html"):
        out = tmp_path / f"x.{suffix}"
        assert run("-e", "arange(12).view(3, 4).t()", "-o", out).exit_code == 0
        text = out.read_text()
        assert text.startswith("<")
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert text.count("<script") == (suffix == "html")
        assert "src=" not in text


def test_a_real_torch_program_shows_its_copies(tmp_path):
    pytest.importorskip("torch")
    path = script(
        tmp_path,
        "import torch\nx = torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)\ny = x.reshape(2, -1)\n"
        "w = torch.nn.functional.linear(x, torch.zeros(3, 5))\n",
    )
    document = report(path)["report"]
    rows = {op["op"]: op for op in document["operations"]}
    assert rows["reshape"]["copied_bytes"] == 480
    assert (rows["reshape"]["line"], rows["reshape"]["outputs"]) == (3, ["y"])
    assert rows["linear"]["copied"]  # a copy that the program does not see
    assert {t["library"] for t in document["tensors"]} == {"torch"}


def test_a_real_torch_program_with_masks_and_slices(tmp_path):
    pytest.importorskip("torch")
    path = script(
        tmp_path,
        "import torch\nscores = torch.rand(10, 5)\nmask = scores > 0.5\npred = scores.topk(3, dim=1).indices.t()\n"
        "top = pred[:2]\nboth = torch.cat([top, top], dim=0)\ntop.view(-1)\n",
    )
    document = report(path, code=1)["report"]
    assert {t["name"]: t["dtype"] for t in document["tensors"]}["mask"] == "bool"
    rows = {op["op"]: op for op in document["operations"]}
    assert rows["view"]["error"]["why"]["set_by"] == "t at script.py:4"
    assert rows["__getitem__"]["arguments"] == [":2"]
    assert rows["cat"]["arguments"] == ["dim=0"]


def test_arrays_of_other_libraries_that_only_something_hidden_holds(tmp_path):
    path = script(
        tmp_path,
        "import numpy as np\ncache = {'k': [np.zeros(1000)]}\nnamed = np.zeros(1000)\nviews = [named[:10]]\n"
        "def make():\n    big = np.zeros(2000)\n    return lambda: big\nf = make()\n",
    )
    held = {s["nbytes"]: s["held_by"] for s in report(path)["report"]["storages"] if s["held_by"]}
    assert held == {8000: ["cache['k'][0]"], 16000: ["f (closure over big)"]}


def test_tensors_of_torch_in_a_cache_are_found(tmp_path):
    pytest.importorskip("torch")
    path = script(
        tmp_path,
        "import torch\ncache = {}\nmodel = torch.nn.Linear(100, 100)\n"
        "for i in range(2):\n    x = torch.zeros(64, 64)\n    cache[i] = x[0]\n",
    )
    held = [s["held_by"] for s in report(path)["report"]["storages"] if s["held_by"]]
    assert held == [["cache[0]"]]


def test_the_first_variable_of_a_tensor_names_it(tmp_path):
    path = script(tmp_path, "import stridetool as st\nx = st.zeros(2, 3)\ny = x.contiguous()\nz = x.t()\n")
    operations = report(path)["report"]["operations"]
    assert [(op["op"], op["inputs"], op["outputs"]) for op in operations] == [
        ("zeros", [], ["x"]),
        ("contiguous", ["x"], ["x"]),
        ("t", ["x"], ["z"]),
    ]


def test_a_cached_function_is_named_as_the_holder(tmp_path):
    path = script(
        tmp_path,
        "import functools, stridetool as st\n@functools.lru_cache(None)\ndef mask(n):\n    return st.ones(n, n)\n"
        "for n in (20, 30):\n    mask(n)\n",
    )
    held = [s["held_by"] for s in report(path)["report"]["storages"]]
    assert [[holder.startswith("mask[") for holder in holders] for holders in held] == [[True], [True]]


@pytest.mark.parametrize(
    "text", ["import torch.nn.functional as F\n", "import torch\nm = torch.nn.Linear(3, 3)\n", "from torch import nn\n"]
)
def test_a_part_of_torch_that_is_no_layout_hints_at_torch_itself(tmp_path, text):
    command = [sys.executable, "-m", "stridetool", "inspect", script(tmp_path, text), "--alias-torch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # a process without torch
    assert done.returncode == 1
    assert "only torch's tensors and their memory are simulated" in done.stderr
    assert "with torch installed, without --alias-torch" in done.stderr
