"""`-o x.svg`, `-o x.html` and `--format perfetto` of every command that draws, as a person calls them."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stridetool.cli.main import app

SNAPSHOT = Path(__file__).parents[1] / "data" / "snapshots" / "streams_pending.pickle"
FAILS = Path(__file__).parents[1] / "data" / "snapshots" / "small_fragoom.pickle"


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result


def pictures(folder, *arguments):
    run(*arguments, "-o", folder / "x.svg")
    run(*arguments, "-o", folder / "x.html")
    svg, page = (folder / "x.svg").read_text(), (folder / "x.html").read_text()
    ET.fromstring(svg)
    for text in (svg, page):
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "eval(" not in text
    return svg, page


@pytest.mark.parametrize(
    "expression",
    [
        "zeros(())",
        "zeros(0, 3)",
        "zeros(1).expand(10**6, 10**6)",
        "np.zeros((3, 4))[::-1, ::-2]",
        "np.zeros(4, dtype=[('a', 'i1'), ('b', 'f8')])['b']",
        "as_strided(zeros(100), (3, 4, 5), (1, 1, 1))",
        "zeros(2, 3, 4, 5, 6).permute(4, 0, 2, 1, 3)",
    ],
)
def test_any_layout_is_drawn(tmp_path, expression):
    svg, page = pictures(tmp_path, "inspect", "-e", expression)
    assert svg.count("<svg") == 1
    assert "</html>" in page


def test_a_history_is_drawn_with_what_if_beside_it(tmp_path):
    what_if = ("--what-if", "expandable_segments:True", "--capacity", "1GiB")
    svg, page = pictures(tmp_path, "alloc-report", SNAPSHOT, *what_if)
    assert "expandable_segments:True" in svg
    assert 'class="film"' in page


def test_failures_are_marked(tmp_path):
    svg, page = pictures(tmp_path, "alloc-report", FAILS)
    assert "out of memory" in svg
    assert "next failure" in page


def test_the_trace_format_goes_to_stdout():
    document = json.loads(run("alloc-report", SNAPSHOT, "--format", "perfetto").stdout)
    phases = {event["ph"] for event in document["traceEvents"]}
    assert {"M", "C", "b", "e"} <= phases


def test_values_are_shown_where_the_memory_was_read():
    report = json.loads(run("inspect", "-e", "arange(6).view(2, 3).t()", "--json").stdout)["report"]
    assert report["tensors"][-1]["values"] == ["0", "3", "1", "4", "2", "5"]
    assert (
        len(json.loads(run("inspect", "-e", "zeros(1000)", "--json").stdout)["report"]["tensors"][-1]["values"]) == 256
    )
