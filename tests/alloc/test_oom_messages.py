"""Out-of-memory texts of all eras of torch, as people paste them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stridetool.analysis.oom_diagnosis import diagnose
from stridetool.cli.main import app
from stridetool.errors import InputError
from stridetool.render.message_text import message_blocks
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

SHARED = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity of 79.15 GiB of which 15.56 MiB is "
    "free. Process 1234 has 40.00 GiB memory in use. Including non-PyTorch memory, this process has 39.1 GiB memory in "
    "use. Of the allocated memory 36.92 GiB is allocated by PyTorch, with 100.00 MiB allocated in private pools (e.g., "
    "CUDA Graphs), and 1.52 GiB is reserved by PyTorch but unallocated."
)


def diagnosed(text):
    return diagnose(Source("message"), parse_message(text))


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
    assert report.recommended is None


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


def test_another_process_that_holds_more_comes_before_fragmentation():
    report, findings = diagnosed(SHARED)
    assert report.verdict.startswith("another process (1234) holds 40.0 GiB of the device's 79.1 GiB: 36.8 GiB live")
    assert "; also fragmentation: 1.52 GiB" in report.verdict
    assert report.recommended.settings == "expandable_segments:True"
    assert "nvidia-smi" in findings[0].hint
    assert next(finding for finding in findings if finding.code == "fragmentation").hint


def test_where_others_hold_the_memory_no_setting_is_recommended():
    report, _ = diagnosed(SHARED.replace("20.00 MiB", "9.00 GiB"))
    assert report.verdict.startswith("another process (1234) holds 40.0 GiB of the device's 79.1 GiB; no setting helps")
    assert report.recommended is None


def test_what_is_too_large_for_the_card_comes_first():
    report, _ = diagnosed(SHARED.replace("20.00 MiB", "60.00 GiB"))
    assert report.verdict.startswith("no setting helps: 36.8 GiB live and 60.0 GiB asked for")
    assert "also another process (1234) holds 40.0 GiB" in report.verdict


def test_memory_of_this_process_outside_the_allocator():
    text = SHARED.replace("Process 1234 has 40.00 GiB memory in use. ", "").replace("39.1 GiB", "79.1 GiB")
    report, _ = diagnosed(text)
    assert report.verdict.startswith("this process holds 40.7 GiB outside PyTorch's allocator")


def test_a_size_that_no_driver_knew_is_no_process():
    found = parse_message(SHARED.replace("40.00 GiB", "17179869184.00 GiB").replace("39.1 GiB", "17179869184.00 GiB"))
    assert (found.others, found.process_bytes) == ((), None)


def test_a_memory_fraction_that_is_too_small():
    text = SHARED.replace("20.00 MiB", "1.00 GiB").replace("Of the", "37.00 GiB allowed; Of the")
    report, findings = diagnosed(text)
    assert report.verdict.startswith("a memory fraction limits this process to 37.0 GiB: 36.8 GiB live and 1.00 GiB")
    assert "set_per_process_memory_fraction" in findings[0].hint


def test_a_log_with_several_messages():
    log = f"[rank0] {SHARED}\n[rank1] {SHARED.replace('GPU 3', 'GPU 4')}\nworker killed: out of memory\n"
    found = parse_message(log)
    assert (found.messages, found.device) == (2, 4)
    _, findings = diagnosed(log)
    said = next(finding.message for finding in findings if finding.code == "several-messages")
    assert said == "the text holds 2 out-of-memory messages: this is the last, on GPU 4 for 20.0 MiB"


def test_the_setting_stands_at_the_top_to_be_pasted():
    report, _ = diagnosed(SHARED)
    head = list(message_blocks(report))[1]
    assert "".join(text for text, _ in head.spans) == "  export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def test_a_long_log_through_the_pipe():
    log = "".join(f"step {i}: loss 0.1\n" for i in range(100_000)) + SHARED
    for arguments in (["-"], ["--message", "-"]):
        result = CliRunner().invoke(app, ["alloc-report", *arguments], input=log)
        assert result.stdout.startswith("Another process (1234)"), result.output


def test_a_container_that_names_its_own_process_beside_another_one():
    text = SHARED.replace("Including non-PyTorch memory, this process has 39.1", "Process 7 has 39.1")
    report, _ = diagnosed(text)
    assert report.verdict.startswith("another process (1234) holds 40.0 GiB")
