"""Backends and runs: every kernel's result against NumPy, a wrong one caught, rows and findings from given samples."""

from __future__ import annotations

import types
from functools import partial

import numpy as np
import pytest

from stridetool.bench.backend import PEAK, Measured, Settings, Skip, choose, matching
from stridetool.bench.cases import Case, case_of, make_case
from stridetool.bench.cuda import CudaBackend, cuda_backend
from stridetool.bench.cuda_kernels import CudaWorkspace, peak_subjects
from stridetool.bench.host import HostBackend
from stridetool.bench.host_kernels import Workspace, kernel_names, subject
from stridetool.bench.rows import case_row, run_findings
from stridetool.bench.run import Run
from stridetool.bench.sampling import Limits, Sample, Series, Subject
from stridetool.core.layout import Layout
from stridetool.errors import UnavailableError, UsageError
from stridetool.report.bench import SkippedKernel

CASES = {
    "transpose": case_of([13, 17], [1, 0], None, "float32"),
    "bytes": case_of([5, 6, 7], [2, 0, 1], None, "uint8"),
    "reversed": make_case("x", Layout((5, 4), (-4, -1), 19), "float64"),
    "row": make_case("x", Layout((6, 5), (0, 1)), "int16"),
    "windows": make_case("x", Layout.contiguous((30,)).unfold(0, 4, 2), "complex64"),
    "bfloat16": case_of([9, 4], [1, 0], None, "bfloat16"),
    "twelve bytes": Case("x", Layout((4, 3), (1, 4)), "rgb", 12, 12),
    "field": Case("x", Layout((7,), (10,), 3), "float32", 4, 1),
    "empty": case_of([0, 3], None, None, "float32"),
    "scalar": case_of([], None, None, "complex128"),
}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_host_kernel_that_runs_is_right(case, fresh):
    work = Workspace(case, fresh=fresh)
    names = [name for name in kernel_names() if name != "torch"]
    chosen = choose(names, partial(subject, work=work), work.is_right)
    assert not chosen.wrong
    ran = {one.name for one in chosen.subjects}
    assert {"numpy", "stride-tool"} <= ran
    assert ran | {skipped.kernel for skipped in chosen.skipped} == set(names)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_torch_is_right_or_says_why_it_does_not_run(case, fresh):
    pytest.importorskip("torch")
    work = Workspace(case, fresh=fresh)
    chosen = choose(["torch"], partial(subject, work=work), work.is_right)
    assert not chosen.wrong
    refused = any(s < 0 for s in case.byte_strides) or case.itemsize == 12 or case.unit != case.itemsize
    assert [one.kernel for one in chosen.skipped] == (["torch"] if refused else [])


def test_a_wrong_kernel_is_found_and_not_timed():
    work = Workspace(CASES["transpose"])
    forgetful = lambda: np.copyto(work.dst[:-1], work.src[:-1])  # noqa: E731  a kernel in one line
    chosen = choose(["forgetful"], lambda name: Subject(name, forgetful), work.is_right)
    assert (chosen.subjects, chosen.wrong) == ([], ["forgetful"])


def test_kernels_by_glob_and_short_name():
    known = ("stride-tool", "numpy", "stride-tool:c-avx2", "stride-tool:numpy-tiled")
    assert matching((), ("numpy",), known) == ["numpy"]
    assert matching(("c-avx2", "n*"), (), known) == ["stride-tool:c-avx2", "numpy"]
    with pytest.raises(UsageError, match="no kernel matches"):
        matching(("hptt",), (), known)


@pytest.mark.parametrize("mode", ["hot", "cold", "consumer"])
def test_the_host_backend_measures_in_each_mode(mode, monkeypatch):
    monkeypatch.setattr("stridetool.bench.machine.last_level_bytes", lambda: 1 << 16)
    settings = Settings(mode=mode, kernels=("numpy", "stride-tool"), limits=Limits(seconds=0.01, sample_seconds=1e-5))
    measured = HostBackend().measure(CASES["transpose"], settings)
    assert set(measured.kernels) == {"numpy", "stride-tool"}
    assert set(measured.peaks) == {f"{PEAK}memcpy", f"{PEAK}stride-tool"}
    assert all(len(series.kept()) >= 5 for series in (*measured.kernels.values(), *measured.peaks.values()))
    assert all(series.calls == 1 for series in measured.kernels.values() if mode == "cold")


def test_a_case_that_memory_does_not_hold_is_refused():
    with pytest.raises(UsageError, match="are available"):
        HostBackend().check(make_case("huge", Layout((2, 2), (1 << 45, 1))))


@pytest.mark.parametrize(
    ("usable", "threads", "facts", "mode", "codes"),
    [
        (2, 1, {}, "hot", []),
        (1, 1, {}, "hot", ["one-processor"]),
        (1, 2, {}, "hot", ["few-processors"]),
        (2, 1, {"huge_pages": "never", "governor": "powersave"}, "hot", ["no-huge-pages", "clock-governor"]),
        (2, 1, {"huge_pages": "madvise", "governor": "performance"}, "cold", ["cache-not-emptied"]),
    ],
)
def test_the_host_says_what_makes_times_unsure(usable, threads, facts, mode, codes, monkeypatch):
    monkeypatch.setattr("stridetool.bench.machine.usable_cpus", lambda: usable)
    monkeypatch.setattr("stridetool.bench.machine.host_facts", lambda: facts)
    monkeypatch.setattr("stridetool.bench.machine.last_level_bytes", lambda: 1 << 30)
    found = HostBackend().findings(Settings(threads=threads, mode=mode))
    assert [finding.code for finding in found] == codes
    assert all(finding.hint for finding in found)


def test_throttling_during_the_run_is_found(monkeypatch):
    counts = iter((5, 9))
    monkeypatch.setattr("stridetool.bench.machine.throttle_count", lambda: next(counts))
    monkeypatch.setattr("stridetool.bench.machine.host_facts", dict)
    assert "throttled" in [finding.code for finding in HostBackend().findings(Settings())]


class FakeBackend:
    """Kernels whose samples are given; the peak takes 1 ms."""

    device = "cpu"

    def __init__(self, kernels, wrong=()):
        self._kernels, self._wrong = kernels, wrong

    def facts(self):
        return {"cpu": "fake"}

    def machine(self):
        return HostBackend().machine()

    def check(self, case):
        pass

    def measure(self, case, settings):
        peaks = {f"{PEAK}memcpy": series([2e-3] * 8), f"{PEAK}stride-tool": series([1e-3] * 8)}
        kernels = {} if settings.peak_only else {name: series(values) for name, values in self._kernels.items()}
        return Measured(kernels, peaks, (SkippedKernel("opencv", "no"),), self._wrong)

    def findings(self, settings):
        return []


def series(values, dropped=0, calls=1):
    one = Series(calls, leads=False)
    one.clean += [Sample(seconds, number, 0.0, 0.0) for number, seconds in enumerate(values)]
    one.disturbed += [Sample(1.0, 90 + number, 0.5, 0.0) for number in range(dropped)]
    return one


def run(kernels, wrong=()):
    done = Run([CASES["transpose"]], Settings(), FakeBackend(kernels, wrong), lambda *_: None)
    (row,) = [one.row for one in done]
    return done, row


def test_rows_are_ordered_and_relative_to_peak_and_fastest():
    done, row = run(
        {"numpy": [10e-3, 20e-3, 10e-3, 10e-3, 30e-3, 10e-3, 10e-3, 10e-3], "ours": [2e-3, 4e-3] + [2e-3] * 6}
    )
    assert [kernel.kernel for kernel in row.kernels] == ["ours", "numpy"]
    ours, numpy = row.kernels
    assert (ours.fraction_of_peak, numpy.fraction_of_peak) == (0.5, 0.1)
    assert numpy.ratio_to_fastest == 5.0
    assert numpy.ratio_interval[0] <= 5.0 <= numpy.ratio_interval[1]
    assert row.bytes_moved == 2 * 13 * 17 * 4
    assert ours.bytes_per_second == pytest.approx(row.bytes_moved / 2e-3)
    assert row.peak_kernel == "stride-tool"
    assert row.peak_samples == (1e-3,) * 8
    assert done.report.cases == (row,)
    assert done.report.peak.bytes_per_second == pytest.approx(2 * (64 << 20) / 1e-3)


def test_the_verdict_names_the_kernel_and_the_layout():
    _, row = run({"numpy": [20e-3] * 8, "ours": [2e-3] * 8})
    assert row.verdict.startswith("slow in numpy (5% of the peak) because of its transposed order; ours")
    _, row = run({"numpy": [1.2e-3] * 8, "ours": [1.1e-3] * 8})
    assert row.verdict.startswith("not slow")
    _, row = run({"numpy": [9e-3] * 8, "ours": [8e-3] * 8})
    assert row.verdict.startswith("slow in every kernel")


def test_a_wrong_result_is_an_error():
    done, row = run({"numpy": [1e-3] * 8}, wrong=("broken",))
    assert next((f.code, f.severity, f.where) for f in done.findings) == ("wrong-result", "error", row.case)


def test_findings_name_cause_and_remedy():
    measured = Measured(
        {"a": series([1e-3, 3e-3, 1e-3, 3e-3, 2e-3], dropped=9), "b": series([1e-7] * 6, calls=10)},
        {f"{PEAK}x": series([1e-3] * 6)},
    )
    row = case_row(CASES["transpose"], measured, HostBackend().machine())
    found = {finding.code: finding for finding in run_findings([row])}
    assert set(found) == {"noisy", "cpu-busy", "too-short"}
    assert all(finding.hint for finding in found.values())
    assert next(kernel for kernel in row.kernels if kernel.kernel == "a").dropped_samples == 9


def test_disturbed_samples_that_had_to_be_kept_are_told():
    measured = Measured({"a": series([1e-3] * 3, dropped=4)}, {f"{PEAK}x": series([1e-3] * 6)})
    (kernel,) = case_row(CASES["transpose"], measured, HostBackend().machine()).kernels
    assert (len(kernel.samples), kernel.disturbed_samples, kernel.dropped_samples) == (5, 2, 2)


def test_without_a_gpu_the_backend_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnavailableError) as error:
        cuda_backend()
    assert "pip install" in error.value.hint


class Pointer:
    def __init__(self, array):
        self.array = array

    def copy_from_device_async(self, source, nbytes):
        assert nbytes == self.array.nbytes
        self.array[...] = source.array


class DeviceArray(np.ndarray):
    """NumPy's array with the `data` of CuPy's."""

    @property
    def data(self):
        return Pointer(self)


class Event:
    ticks = 0

    def record(self):
        Event.ticks += 1
        self.at = Event.ticks

    def synchronize(self):
        pass


def fake_cupy():
    """The part of CuPy that the backend calls, over NumPy; an event comes a millisecond after the one before it."""
    properties = {"name": b"Fake GPU", "l2CacheSize": 1 << 16, "major": 9, "minor": 0, "multiProcessorCount": 4}
    runtime = types.SimpleNamespace(
        getDeviceProperties=lambda index: properties,
        memGetInfo=lambda: (1 << 24, 1 << 30),
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 12090,
    )
    cuda = types.SimpleNamespace(
        Event=Event, runtime=runtime, get_elapsed_time=lambda start, end: float(end.at - start.at)
    )
    strided = lambda a, shape, strides: np.lib.stride_tricks.as_strided(a, shape, strides)  # noqa: E731  without NumPy's further arguments
    return types.SimpleNamespace(
        cuda=cuda, lib=types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=strided)),
        asarray=lambda a: np.array(a).view(DeviceArray), empty=lambda *a: np.empty(*a).view(DeviceArray),
        zeros=np.zeros, uint8=np.uint8, copyto=np.copyto, __version__="0",
    )  # fmt: skip


@pytest.fixture
def _kernels(monkeypatch):
    """Our kernels on the fake device: the two gathers, which NumPy stands for."""

    def prepared(dst, src, *, kernel=None):
        return partial(np.copyto, dst, src)

    monkeypatch.setattr("stridetool.kernels.cuda.kernel_names", lambda dst, src: ["gather_coalesced", "gather_naive"])
    monkeypatch.setattr("stridetool.kernels.cuda.prepared_copy", prepared)
    monkeypatch.setattr("stridetool.kernels.cuda.copy_into", lambda dst, src, **_: np.copyto(dst, src))


@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_gpu_workspace_copies_what_numpy_copies(case, fresh):
    work = CudaWorkspace(fake_cupy(), case, fresh=fresh)
    copy = partial(work.src.copy, "C") if fresh else partial(np.copyto, work.dst, work.src)
    assert work.is_right(copy)
    if case.nbytes:
        assert not work.is_right((lambda: work.expected + 1) if fresh else (lambda: None))
    for peak in peak_subjects(work):
        peak.call()


@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("fresh", [False, True])
def test_the_ladder_of_gpu_kernels_beside_the_library(fresh):
    settings = Settings(fresh=fresh, kernels=("cupy", "stride-tool*"), limits=Limits(seconds=0.01))
    measured = CudaBackend(fake_cupy()).measure(CASES["transpose"], settings)
    assert {"cupy", "stride-tool", "stride-tool:gather_naive"} <= set(measured.kernels)
    skipped = {one.kernel for one in measured.skipped}
    assert skipped == {f"stride-tool:{name}" for name in ("tile_vector", "tile_padded", "rows", "splat")}


@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("mode", ["hot", "cold", "consumer"])
def test_the_gpu_backend_times_events(mode):
    backend = CudaBackend(fake_cupy())
    settings = Settings(mode=mode, kernels=("cupy",), limits=Limits(seconds=0.01))
    measured = backend.measure(CASES["transpose"], settings)
    assert set(measured.kernels) == {"cupy"}
    assert {sample.seconds for sample in measured.kernels["cupy"].clean} == {1e-3}
    assert backend.facts()["gpu"] == "Fake GPU"
    assert backend.machine().warp == 32
    with pytest.raises(UsageError, match="are free"):
        backend.check(case_of([1 << 24], None, None, "uint8"))


def test_a_kernel_may_skip_a_case():
    def bind(name):
        raise Skip("not for it")

    assert choose(["x"], bind, lambda call: True).skipped == [SkippedKernel("x", "not for it")]
