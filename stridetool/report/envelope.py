"""What every JSON document has in common: the envelope, its findings and the environment that it was made in."""

from __future__ import annotations

import os
import platform
from typing import Generic, Literal, TypeVar

import msgspec

from stridetool._version import __version__

SCHEMA_VERSION = 1

Severity = Literal["info", "warning", "error"]
Fact = str | int | float | bool | None

R = TypeVar("R")


class Finding(msgspec.Struct, frozen=True):
    """Something worth knowing, as data: the same list stands in the text and in the JSON."""

    code: str
    severity: Severity
    message: str
    where: str | None = None
    hint: str | None = None


class Envelope(msgspec.Struct, Generic[R], frozen=True):
    """One document: which schema it follows, where it was made, the report itself and the findings."""

    schema: str
    schema_version: int
    tool_version: str
    environment: dict[str, Fact]
    report: R
    findings: tuple[Finding, ...]


def environment() -> dict[str, Fact]:
    """The facts of this machine that any report may be compared by."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
    }


def envelope(
    name: str, report: R, findings: tuple[Finding, ...] = (), facts: dict[str, Fact] | None = None
) -> Envelope[R]:
    """`report` in the envelope of the schema `stride-tool/NAME`; `facts` are added to the environment."""
    return Envelope(
        f"stride-tool/{name}",
        SCHEMA_VERSION,
        __version__,
        {**environment(), **(facts or {})},
        report,
        findings,
    )
