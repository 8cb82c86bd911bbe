"""Comparing two bench documents: what is slower, what is noise, and what cannot be compared."""

from __future__ import annotations

import random

import msgspec
import pytest

from stridetool.analysis.bench_changes import compare_bench
from stridetool.analysis.number_changes import compare_alloc
from stridetool.errors import UsageError
from stridetool.report.bench import BenchReport, CaseRow, CopyCost, KernelRow, PeakRow
from stridetool.report.envelope import envelope

WHY = CopyCost(
    plan="run", plan_text=(), inner_stride_bytes=4, run_bytes=8, useful_bytes=8, touched_line_bytes=64, loop_traffic=(),
    attainable_fraction=1.0, page_bytes=4096, inner_pages=1, reasons=(), changes=(),
)  # fmt: skip


def kernel(name, samples):
    middle = sorted(samples)[len(samples) // 2]
    return KernelRow(
        kernel=name, median_seconds=middle, interval_seconds=(middle, middle), samples=tuple(samples),
        rounds=tuple(range(len(samples))), calls_per_sample=1, dropped_samples=0, disturbed_samples=0,
        bytes_per_second=1.0, fraction_of_peak=1.0, ratio_to_fastest=1.0, ratio_interval=(1.0, 1.0),
    )  # fmt: skip


def document(kernels, peaks, case="x", facts=None, **changes):
    row = CaseRow(
        case=case, sizes=(2,), strides=(1,), stride_unit_bytes=4, storage_offset=0, dtype="float32", itemsize=4,
        bytes_moved=16, peak_bytes_per_second=1.0, peak_kernel="memcpy", peak_samples=tuple(peaks),
        peak_rounds=tuple(range(len(peaks))), kernels=tuple(kernel(*one) for one in kernels.items()), skipped=(),
        why=WHY, verdict="",
    )  # fmt: skip
    peak = PeakRow(bytes_per_second=1.0, threads=1, nbytes=1, kernel="memcpy")
    report = BenchReport(device="cpu", mode="hot", fresh=False, threads=1, peak=peak, cases=(row,))
    return envelope("bench", msgspec.structs.replace(report, **changes), (), facts)


def times(middle, spread=0.02, n=20, seed=0):
    rng = random.Random(seed)
    return [middle * rng.uniform(1 - spread, 1 + spread) for _ in range(n)]


def changes(old, new, threshold=0.05):
    return compare_bench(old, new, threshold)[0]


def test_a_run_is_the_same_as_itself():
    one = document({"numpy": times(1.0), "ours": times(0.5, seed=1)}, times(0.4, seed=2))
    assert [(c.ratio, c.change, c.beyond_threshold) for c in changes(one, one)] == [(1.0, "same", False)] * 2


def test_a_slower_kernel_is_beyond_the_threshold():
    (change,) = changes(
        document({"k": times(1.0)}, times(0.4)), document({"k": times(1.2, seed=5)}, times(0.4, seed=6))
    )
    assert (change.change, change.beyond_threshold) == ("slower", True)
    assert change.ratio_interval[0] <= change.ratio <= change.ratio_interval[1]
    assert 1.1 < change.peak_ratio < 1.3
    (back,) = changes(document({"k": times(1.2)}, times(0.4)), document({"k": times(1.0, seed=5)}, times(0.4, seed=6)))
    assert (back.change, back.beyond_threshold) == ("faster", False)


def test_a_threshold_lets_smaller_changes_pass():
    old, new = document({"k": times(1.0)}, times(0.4)), document({"k": times(1.2, seed=5)}, times(0.4, seed=6))
    assert not changes(old, new, 0.5)[0].beyond_threshold


def test_a_slower_machine_is_no_slower_kernel():
    (change,) = changes(
        document({"k": times(1.0)}, times(0.4)), document({"k": times(1.5, seed=5)}, times(0.6, seed=6))
    )
    assert change.ratio > 1.4
    assert change.change == "same"


def test_noise_is_no_change():
    old, new = (
        document({"k": times(1.0, 0.5)}, times(0.4)),
        document({"k": times(1.07, 0.5, seed=3)}, times(0.4, seed=4)),
    )
    assert changes(old, new)[0].change == "same"


def test_a_round_that_was_slow_as_a_whole_cancels():
    peaks, kernels = times(0.4), times(1.0)
    slow = {3, 4, 5, 11, 12, 13, 14, 15, 16, 17, 18}
    bent = [[t * (3 if i in slow else 1) for i, t in enumerate(series)] for series in (peaks, kernels)]
    (change,) = changes(document({"k": kernels}, peaks), document({"k": bent[1]}, bent[0]))
    assert change.peak_ratio == pytest.approx(1.0)
    assert change.change == "same"


@pytest.mark.parametrize("difference", [{"device": "cuda:0"}, {"mode": "cold"}, {"threads": 2}, {"fresh": True}])
def test_runs_that_measured_something_else_are_refused(difference):
    with pytest.raises(UsageError, match="cannot compare the runs"):
        compare_bench(document({}, [1.0]), document({}, [1.0], **difference), 0.05)


def test_another_environment_is_a_warning_and_load_is_not():
    old = document({"k": times(1.0)}, times(0.4), facts={"cpu": "A", "load_average": 0.1})
    new = document({"k": times(1.0)}, times(0.4), facts={"cpu": "B", "load_average": 3.0})
    (finding,) = compare_bench(old, new, 0.05)[1]
    assert finding.code == "environment-differs"
    assert "cpu A → B" in finding.message
    assert "load" not in finding.message


def test_what_only_one_run_has_is_named():
    old, new = document({"a": times(1.0), "b": times(1.0)}, times(0.4)), document({"b": times(1.0)}, times(0.4))
    rows, findings = compare_bench(old, new, 0.05)
    assert [row.kernel for row in rows] == ["b"]
    assert [(f.code, f.message) for f in findings] == [("not-compared", "only in the old run: x/a")]
    assert compare_bench(old, document({"a": times(1.0)}, times(0.4), case="y"), 0.05)[0] == ()


OLD = {"fragmentation": {"reserved_bytes": 100, "largest_free_bytes": 10}, "segments": [1, 2], "floor_bytes": 0,
       "timeline": {"index": [0, 7], "allocated_bytes": [5, 9], "reserved_bytes": []}, "settings": ""}  # fmt: skip
NEW = {"fragmentation": {"reserved_bytes": 110, "largest_free_bytes": 90}, "segments": [1], "floor_bytes": 0,
       "timeline": {"index": [0, 9], "allocated_bytes": [9, 5], "reserved_bytes": []}, "settings": ""}  # fmt: skip


def test_allocator_numbers_that_grow_are_beyond_the_threshold():
    rows = {row.name: row for row in compare_alloc(OLD, NEW, 0.05)}
    assert [name for name, row in rows.items() if row.beyond_threshold] == ["reserved_bytes"]
    assert rows["reserved_bytes"].relative == pytest.approx(0.1)
    assert rows["peak_allocated_bytes"].relative == 0.0
    assert rows["floor_bytes"].relative is None
    assert (rows["segments"].old, rows["segments"].new) == (2, 1)


def test_devices_are_compared_by_their_place():
    both = [{"devices": [{"device": {"name": "gpu"}, **report}] * 2} for report in (OLD, NEW)]
    rows = compare_alloc(*both, 0.5)
    assert [row.name for row in rows if row.name.endswith("reserved_bytes")] == [
        "[0] gpu.reserved_bytes",
        "[1] gpu.reserved_bytes",
    ]
    assert not any(row.beyond_threshold for row in rows)


def test_a_replayed_history_tells_its_own_peaks_and_failures():
    old, new = {"outcome": {"ooms": [], "peak_reserved_bytes": 5}}, {"outcome": {"ooms": [3], "peak_reserved_bytes": 5}}
    rows = {row.name: row for row in compare_alloc({**OLD, **old}, {**OLD, **new}, 0.05)}
    assert rows["ooms"].beyond_threshold
    assert not rows["peak_reserved_bytes"].beyond_threshold
    assert "peak_allocated_bytes" not in rows
