"""Runs `alloc-report` and reads what it says: the result, the document, its text."""

import json
from pathlib import Path

import msgspec
from typer.testing import CliRunner

from stridetool.cli.main import app
from stridetool.render.alloc_text import alloc_blocks
from stridetool.render.plain import write_plain
from stridetool.report.alloc import AllocReport
from stridetool.report.envelope import Envelope

DATA = Path(__file__).parents[1] / "data" / "snapshots"
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments, text=None, code=0):
    result = CliRunner().invoke(app, ["alloc-report", *map(str, arguments)], input=text)
    assert result.exit_code == code, result.output
    return result


def report(*arguments, **kwargs):
    return json.loads(run(*arguments, "--json", **kwargs).stdout)


def text_of(document, width):
    """The text of a report as JSON, laid out for a terminal of so many columns."""
    known = msgspec.convert(document, Envelope[AllocReport])
    return "".join(write_plain(alloc_blocks(known, width)))
