"""The seam between a run and a device: what a device has to offer to be benchmarked."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stridetool.analysis.copy_cost import Machine
from stridetool.bench.cases import Case
from stridetool.bench.sampling import Limits, Series, Subject
from stridetool.errors import UsageError
from stridetool.report.bench import SkippedKernel
from stridetool.report.envelope import Fact, Finding


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure. `kernels` are glob patterns, none for the standard ones; `peak_only` times no kernel.

    All cases together get `total_seconds`, and none more than `limits` says.
    """

    threads: int = 1
    mode: str = "hot"
    fresh: bool = False
    kernels: tuple[str, ...] = ()
    limits: Limits = Limits()  # noqa: RUF009  an immutable value
    peak_only: bool = False
    total_seconds: float = 45.0


class Measured(NamedTuple):
    """The samples of one case: those of kernels, those of contiguous copies, who did not run, who was wrong."""

    kernels: dict[str, Series]
    peaks: dict[str, Series]
    skipped: tuple[SkippedKernel, ...] = ()
    wrong: tuple[str, ...] = ()


class Skip(Exception):  # noqa: N818  no error: a kernel says that this case is not for it
    """Why a kernel does not run on a case."""


class Backend(Protocol):
    """A device that copies: the host, or a GPU."""

    device: str

    def facts(self) -> dict[str, Fact]:
        """The environment, for the report."""
        ...

    def machine(self) -> Machine:
        """The caches and pages that explanations reckon with."""
        ...

    def check(self, case: Case) -> None:
        """Raises UsageError for a case that the device's memory does not hold."""
        ...

    def measure(self, case: Case, settings: Settings) -> Measured:
        """Time the kernels of `settings` on a case, beside contiguous copies of as many bytes."""
        ...

    def findings(self, settings: Settings) -> list[Finding]:
        """What about the device makes times worse or unsure; asked for once, after the run."""
        ...


PEAK = "peak:"
"""How the names of the contiguous copies begin."""


class Chosen(NamedTuple):
    """The kernels that run on a case, those that do not, and those that were wrong."""

    subjects: list[Subject]
    skipped: list[SkippedKernel]
    wrong: list[str]

    def measured(self, series: dict[str, Series]) -> Measured:
        """The series of kernels and of contiguous copies, told apart by their names."""
        peaks = {name: one for name, one in series.items() if name.startswith(PEAK)}
        kernels = {name: one for name, one in series.items() if name not in peaks}
        return Measured(kernels, peaks, tuple(self.skipped), tuple(self.wrong))


def choose(
    names: Sequence[str], bind: Callable[[str], Subject], is_right: Callable[[Callable[[], object]], bool]
) -> Chosen:
    """Bind each kernel to a case and check its result, before anything is timed."""
    chosen = Chosen([], [], [])
    for name in names:
        try:
            subject = bind(name)
        except Skip as reason:
            chosen.skipped.append(SkippedKernel(name, str(reason)))
            continue
        if subject.prepare is not None:
            subject.prepare()
        if is_right(subject.call):
            chosen.subjects.append(subject)
        else:
            chosen.skipped.append(SkippedKernel(name, "its result differs from NumPy's"))
            chosen.wrong.append(name)
    return chosen


def matching(patterns: Sequence[str], default: Sequence[str], known: Sequence[str]) -> list[str]:
    """Kernels by name or glob, `default` without patterns; `c-avx2` is short for `stride-tool:c-avx2`.

    Raises UsageError when a pattern matches none.
    """
    if not patterns:
        return list(default)
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = [n for n in known if pattern in (n, n.partition(":")[2]) or fnmatch.fnmatchcase(n, pattern)]
        if not found:
            raise UsageError(f"no kernel matches {pattern!r}", hint=f"there are: {', '.join(known)}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)
