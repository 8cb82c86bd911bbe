"""The seam between a run and a device: what a device has to offer to be benchmarked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stridetool.bench.cases import Case
from stridetool.bench.sampling import Limits, Series
from stridetool.report.bench import SkippedKernel
from stridetool.report.envelope import Fact, Finding


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure. `kernels` are glob patterns, none for the standard ones; `peak_only` times no kernel."""

    threads: int = 1
    mode: str = "hot"
    fresh: bool = False
    kernels: tuple[str, ...] = ()
    limits: Limits = Limits()  # noqa: RUF009  an immutable value
    peak_only: bool = False


class Measured(NamedTuple):
    """The samples of one case: those of kernels, those of contiguous copies, who did not run, who was wrong."""

    kernels: dict[str, Series]
    peaks: dict[str, Series]
    skipped: tuple[SkippedKernel, ...] = ()
    wrong: tuple[str, ...] = ()


class Backend(Protocol):
    """A device that copies: the host, or a GPU."""

    device: str

    def facts(self) -> dict[str, Fact]:
        """The environment, for the report."""
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
