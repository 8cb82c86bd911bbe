"""The allocation examples: each says a thing about settings, and the report must bear it out."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stridetool.cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples"


def report(name, *options):
    result = CliRunner().invoke(app, ["alloc-report", str(EXAMPLES / name), *options, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["report"]


def test_fragmentation_is_cured_by_the_recommended_setting():
    found = report("alloc_fragmentation.py", "--capacity", "16GiB", "--sweep")
    kept = found["fragmentation"]
    assert found["stats"]["num_ooms"] == 1
    assert kept["external_bytes"] > 0.9 * kept["reserved_bytes"]  # most of it is unallocated
    assert not found["certificate"]["no_setting_helps"]
    assert found["recommended"]["settings"] == "expandable_segments:True"
    cured = report("alloc_fragmentation.py", "--capacity", "16GiB", "--settings", found["recommended"]["settings"])
    assert cured["stats"]["num_ooms"] == 0


def test_no_setting_makes_one_hole_out_of_many():
    found = report("alloc_minimum_block.py", "--capacity", "4010MiB", "--sweep")
    assert not any(row["fits"] for row in found["what_if"])
    assert found["recommended"] is None


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_freeing_neighbours_is_what_helps(settings):
    found = report("alloc_minimum_block_first.py", "--capacity", "4010MiB", "--settings", settings)
    assert found["stats"]["num_ooms"] == 0


def run(folder, text):
    path = folder / "script.py"
    path.write_text(text)
    return CliRunner().invoke(app, ["alloc-report", str(path), "--json"])


def test_a_script_may_write_and_copy_what_it_allocates(tmp_path):
    result = run(
        tmp_path,
        "import stridetool as st\nx = st.ones(4, 4, device='cuda')\ny = x.t().contiguous()\n"
        "assert y.cpu().tolist() == [[1.0] * 4] * 4\n",
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["report"]["stats"]["allocation.all.current"] == 2


@pytest.mark.parametrize("before", ["", "import stridetool as st\nx = st.zeros(4, device='cuda')\n"])
@pytest.mark.parametrize("end", ["raise ValueError('no')", "import sys; sys.exit(3)", "import no_such_module"])
def test_a_script_that_does_not_end_well_is_told(tmp_path, before, end):
    result = run(tmp_path, before + end + "\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("stride-tool: error: cannot finish")
    assert bool(result.stdout) == bool(before)  # what ran is reported
