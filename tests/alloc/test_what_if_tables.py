"""What-ifs and sweeps of `alloc-report`: what they find, and how their tables are laid out."""

import pytest
from alloc_command import DATA, EXAMPLES, report, run, text_of


def test_the_smallest_capacity_is_where_it_begins_to_fit():
    path = DATA / "small_fragoom.pickle"
    row = report(path, "--what-if", "max_split_size_mb:64")["report"]["what_if"][1]
    capacity = row["smallest_capacity_bytes"]
    for nbytes, fits in ((capacity, True), (capacity - (2 << 20), False)):
        again = report(path, "--capacity", nbytes, "--what-if", "max_split_size_mb:64")["report"]["what_if"][1]
        assert again["fits"] is fits


def test_limits_on_splitting_do_not_cure_a_growing_batch():
    tries = ("max_split_size_mb:128", "roundup_power2_divisions:4", "expandable_segments:True")
    options = [part for text in tries for part in ("--what-if", text)]
    rows = report(EXAMPLES / "alloc_growing_batch.py", "--capacity", "80GiB", *options)["report"]["what_if"]
    assert [row["peak_reserved_bytes"] >> 20 for row in rows] == [24720, 24720, 8640, 4140]


@pytest.fixture(scope="module")
def swept():
    """A failure that many settings cure, swept."""
    return report(DATA / "small_fragoom.pickle", "--sweep")


def test_the_first_lines_of_a_sweep_are_the_setting_that_helps(swept):
    _, verdict, unknown, export, failure, *_ = text_of(swept, 100).splitlines()
    assert verdict.startswith("A setting helps: nothing of what is known fails")
    assert unknown == "  Not known: what would come after event 5 is not recorded"
    assert export == f"  export PYTORCH_CUDA_ALLOC_CONF={swept['report']['recommended']['settings']}"
    assert failure.startswith("Ran out of memory: 20.0 MiB asked for and live, 300 MiB more")


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
