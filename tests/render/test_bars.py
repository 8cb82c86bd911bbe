"""Bars of bench and compare: golden files, and lengths that stand in the ratio of the numbers."""

import re
import xml.etree.ElementTree as ET

import pytest
from pictured import assert_golden

from stridetool.render.bench_page import bench_page, bench_svg, compare_page, compare_svg
from stridetool.report.bench import BenchReport, CaseRow, CopyCost, KernelRow, PeakRow
from stridetool.report.compare import CompareReport, KernelChange
from stridetool.report.envelope import Envelope

SVG = "{http://www.w3.org/2000/svg}"


def kernel(name, seconds, spread):
    return KernelRow(
        kernel=name, median_seconds=seconds, interval_seconds=(seconds - spread, seconds + spread),
        samples=(seconds - spread, seconds, seconds + spread), rounds=(0, 1, 2), calls_per_sample=1, dropped_samples=0,
        disturbed_samples=0, bytes_per_second=8e6 / seconds, fraction_of_peak=8e6 / seconds / 2e10,
        ratio_to_fastest=1.0, ratio_interval=(1.0, 1.0),
    )  # fmt: skip


def bench():
    why = CopyCost(
        plan="transpose", plan_text=(), inner_stride_bytes=4096, run_bytes=4, useful_bytes=4_000_000,
        touched_line_bytes=4_000_000, loop_traffic=(), attainable_fraction=1.0, page_bytes=4096, inner_pages=1024,
        reasons=(), changes=(),
    )  # fmt: skip
    case = CaseRow(
        case="<script>", sizes=(1000, 1000), strides=(1, 1000), stride_unit_bytes=4, storage_offset=0, dtype="float32",
        itemsize=4, bytes_moved=8_000_000, peak_bytes_per_second=2e10, peak_kernel="numpy", peak_samples=(4e-4,),
        peak_rounds=(0,), kernels=(kernel("stride-tool", 5e-4, 1e-5), kernel("numpy", 2e-3, 2e-4)), skipped=(), why=why,
        verdict="slow in numpy",
    )  # fmt: skip
    peak = PeakRow(bytes_per_second=2e10, threads=1, nbytes=1 << 26, kernel="numpy")
    report = BenchReport(device="cpu", mode="hot", fresh=False, threads=1, peak=peak, cases=(case,))
    return Envelope("stride-tool/bench", 1, "0", {}, report, ())


def compare():
    change = KernelChange(
        case="transpose", kernel="numpy", old_seconds=1e-3, new_seconds=2e-3, ratio=2.0, ratio_interval=(1.8, 2.2),
        peak_ratio=2.0, peak_ratio_interval=(1.8, 2.2), change="slower", beyond_threshold=True,
    )  # fmt: skip
    report = CompareReport(compared="bench", old="a.json", new="b.json", threshold=0.05, kernels=(change,))
    return Envelope("stride-tool/compare", 1, "0", {}, report, ())


@pytest.mark.parametrize(
    ("name", "text"), [("bench", "".join(bench_svg(bench()))), ("compare", "".join(compare_svg(compare())))]
)
def test_bars_as_svg(name, text):
    assert_golden(f"{name}.svg", text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def widths(text, style):
    return [float(bar.get("width")) for bar in ET.fromstring(text).iter(f"{SVG}rect") if bar.get("class") == style]


def test_bars_are_as_long_as_their_numbers():
    text = "".join(bench_svg(bench()))
    assert widths(text, "bar")[0] == pytest.approx(4 * widths(text, "l7")[0], abs=0.5)
    text = "".join(compare_svg(compare()))
    assert widths(text, "usedbad")[0] == pytest.approx(2 * max(widths(text, "l7")), abs=0.5)


@pytest.mark.parametrize("page", ["".join(bench_page(bench())), "".join(compare_page(compare()))])
def test_pages_need_no_script(page):
    assert "<script" not in page
    assert re.search(r"<figure.*<svg", page)
