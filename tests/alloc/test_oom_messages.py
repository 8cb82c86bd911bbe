"""Out-of-memory texts of all eras of torch, as people paste them."""

from pathlib import Path

import pytest

from stridetool.analysis.oom_diagnosis import diagnose
from stridetool.errors import InputError
from stridetool.report.inspect import Source
from stridetool.sources.oom_message import parse_message

GIB, MIB = 1 << 30, 1 << 20
NEW = (Path(__file__).parents[1] / "data" / "snapshots" / "small_fragoom.oom.txt").read_text()
OF_2018 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 350.00 MiB (GPU 1; 11.93 GiB total capacity; 4.00 GiB already "
    "allocated; 7.33 GiB free; 179.00 KiB cached)"
)
OF_2022 = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.70 GiB total capacity; "
    "21.69 GiB already allocated; 2.56 MiB free; 22.32 GiB reserved in total by PyTorch) If reserved memory is >> "
    "allocated memory try setting max_split_size_mb to avoid fragmentation."
)
OF_A_CONTAINER = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 18.00 GiB is "
    "free. Process 123 has 61.15 GiB memory in use. Of the allocated memory 59.00 GiB is allocated by PyTorch, and "
    "1.50 GiB is reserved by PyTorch but unallocated."
)
GRAPHS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.25 GiB "
    "of which 1.20 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the "
    "allocated memory 76.00 GiB is allocated by PyTorch, with 70.00 GiB allocated in private pools (e.g., "
    "CUDA Graphs), and 200.00 MiB is reserved by PyTorch but unallocated."
)


def test_the_message_of_today():
    found = parse_message(NEW)
    assert (found.era, found.device) == ("2.1 or later", 0)
    assert (found.wanted_bytes, found.total_bytes, found.free_bytes) == (300 * MIB, 400 * MIB, 100 * MIB)
    assert (found.allocated_bytes, found.reserved_bytes) == (20 * MIB, 300 * MIB)
    report, findings = diagnose(Source("message"), found)
    assert report.verdict.startswith("fragmentation: 280 MiB")
    assert "expandable_segments" in findings[0].hint


def test_the_first_message():
    found = parse_message(OF_2018)
    assert (found.era, found.device) == ("before 1.5", 1)
    assert (found.wanted_bytes, found.allocated_bytes, found.reserved_bytes) == (
        350 * MIB,
        4 * GIB,
        4 * GIB + (179 << 10),
    )
    report, findings = diagnose(Source("message"), found)
    assert report.unallocated_bytes == 179 << 10
    assert report.foreign_bytes < GIB  # what is allocated, cached and free is nearly the capacity
    assert report.verdict.startswith("the device had room: 7.33 GiB free when 350 MiB")
    assert "foreign-memory" not in {finding.code for finding in findings}


def test_the_message_between():
    found = parse_message(f"Traceback …\n{OF_2022}\nmore")
    assert found.era == "1.5 to 2.0"
    assert found.reserved_bytes == int(22.32 * GIB)
    report, findings = diagnose(Source("message"), found)
    assert "segment-size" in {finding.code for finding in findings}
    assert report.unallocated_bytes == int(22.32 * GIB) - int(21.69 * GIB)


def test_memory_of_graphs_counts_as_allocated_but_is_free():
    report, findings = diagnose(Source("message"), parse_message(GRAPHS))
    assert report.private_pool_bytes == 70 * GIB
    assert report.verdict.startswith("private pools: 70.0 GiB belong to CUDA graphs or MemPools")
    assert "graph_pool_handle" in findings[0].hint
    assert "private-pools" in {finding.code for finding in findings}


def test_no_setting_helps_where_the_live_memory_is_too_much():
    text = OF_2022.replace("20.00 MiB", "9.00 GiB")
    report, _ = diagnose(Source("message"), parse_message(text))
    assert report.verdict.startswith("no setting helps")


@pytest.mark.parametrize(
    "text", ["", "out of memory", "CUDA out of memory. Tried to allocate lots", "Tried to allocate 2 GiB"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(InputError):
        parse_message(text)


def test_a_container_that_names_its_own_process_as_another_one():
    report, findings = diagnose(Source("message"), parse_message(OF_A_CONTAINER))
    assert report.foreign_bytes < GIB  # what is held outside is bounded by what is neither free nor reserved
    assert "foreign-memory" not in {finding.code for finding in findings}
