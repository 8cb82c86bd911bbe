"""The host as a device to benchmark."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from stridetool.analysis.copy_cost import Machine
from stridetool.bench import machine
from stridetool.bench.backend import Measured, Settings, choose, matching
from stridetool.bench.cases import MAX_DIMS, Case
from stridetool.bench.host_kernels import (
    Workspace,
    default_kernels,
    flusher,
    kernel_names,
    peak_subjects,
    subject,
)
from stridetool.bench.sampling import HostClock, Subject, measure
from stridetool.errors import UsageError
from stridetool.report.envelope import Fact, Finding
from stridetool.units import format_bytes

_MEMORY_SHARE = 0.8  # of what is available
_MAX_FLUSH_BYTES = 512 << 20


class HostBackend:
    """NumPy, torch and OpenCV where installed, and our own kernels, on memory of this process."""

    device = "cpu"

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._throttled = machine.throttle_count()
        self._flush: Callable[[], object] | None = None

    def facts(self) -> dict[str, Fact]:
        return machine.host_facts()

    def machine(self) -> Machine:
        return machine.machine()

    def check(self, case: Case) -> None:
        """Raises UsageError when the memory of the case is not there, or the kernels could not address it."""
        if case.layout.ndim > MAX_DIMS:
            raise UsageError(f"cannot copy {case.name}: {case.layout.ndim} dimensions, NumPy has {MAX_DIMS} at most")
        needed, available = Workspace.needed_bytes(case), machine.available_bytes()
        if available is not None and needed > available * _MEMORY_SHARE:
            raise UsageError(
                f"cannot copy {case.name}: it takes {format_bytes(needed)}, {format_bytes(available)} are available",
                hint="time a smaller part: beyond the caches, bandwidth does not depend on the size",
            )

    def measure(self, case: Case, settings: Settings) -> Measured:
        """The kernels of `settings`, and the peak's, in the same rounds."""
        work = Workspace(case, threads=settings.threads, fresh=settings.fresh)
        names = () if settings.peak_only else matching(settings.kernels, default_kernels(), kernel_names())
        chosen = choose(names, partial(subject, work=work), work.is_right)
        peaks = peak_subjects(work)
        flush = self._flusher() if settings.mode == "cold" else None
        everyone = [_in_mode(s, work, settings.mode, flush) for s in (*chosen.subjects, *peaks)]
        return chosen.measured(measure(everyone, settings.limits, HostClock(settings.threads), self._rng))

    def _flusher(self) -> Callable[[], object]:
        if self._flush is None:
            self._flush = flusher(min(2 * machine.last_level_bytes(), _MAX_FLUSH_BYTES))
        return self._flush

    def findings(self, settings: Settings) -> list[Finding]:
        """What about this machine makes times worse or unsure."""
        found = []
        if machine.throttle_count() > self._throttled:
            found.append(_THROTTLED)
        usable = machine.usable_cpus()
        if settings.threads > usable:
            found.append(_few_cpus(settings.threads, usable))
        elif usable == 1:
            found.append(_ONE_CPU)
        facts = self.facts()
        if facts.get("huge_pages") == "never":
            found.append(_NO_HUGE_PAGES)
        if facts.get("governor") == "powersave":
            found.append(_GOVERNOR)
        if settings.mode == "cold" and machine.last_level_bytes() > _MAX_FLUSH_BYTES:
            found.append(_LARGE_CACHE)
        return found


def _in_mode(chosen: Subject, work: Workspace, mode: str, flush: Callable[[], object] | None) -> Subject:
    if mode == "consumer":
        return replace(chosen, call=partial(work.copy_and_read, chosen.call))
    if flush is None:
        return chosen
    prepare = chosen.prepare

    def prepare_cold() -> None:
        if prepare is not None:
            prepare()
        flush()

    return replace(chosen, prepare=prepare_cold, one_call=True)


_THROTTLED = Finding(
    code="throttled",
    severity="warning",
    message="the processor was slowed down for heat during the run: absolute times are too high",
    hint="ratios within a round still hold; let the machine cool, or run --quick",
)
_NO_HUGE_PAGES = Finding(
    code="no-huge-pages",
    severity="warning",
    message="transparent huge pages are off: large copies lose 15 to 25 % to address translation",
    hint="echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
)
_GOVERNOR = Finding(
    code="clock-governor",
    severity="warning",
    message="the clock governor is powersave: short runs are timed at a low clock",
    hint="sudo cpupower frequency-set -g performance",
)
_LARGE_CACHE = Finding(
    code="cache-not-emptied",
    severity="warning",
    message=f"the last cache is larger than the {format_bytes(_MAX_FLUSH_BYTES)} that are read to empty it",
    hint="cold times may be partly warm",
)


_ONE_CPU = Finding(
    code="one-processor",
    severity="info",
    message="only one processor is available: copies on several threads cannot be timed, and other work interrupts",
    hint="give the process more processors (taskset, container limits)",
)


def _few_cpus(threads: int, usable: int) -> Finding:
    return Finding(
        code="few-processors",
        severity="warning",
        message=f"{threads} threads share {usable} processor{'s' if usable > 1 else ''}: they wait for each other",
        hint=f"--threads {usable}, or give the process more processors (taskset, container limits)",
    )
