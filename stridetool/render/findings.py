"""Findings as lines of text, the same for every command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Block, Heading, line
from stridetool.report.envelope import Finding

_STYLES = {"info": "muted", "warning": "warn", "error": "bad"}


def finding_blocks(findings: Sequence[Finding]) -> Iterator[Block]:
    """A heading and two lines for each finding, or nothing where there are none."""
    if not findings:
        return
    yield Heading("findings")
    for finding in findings:
        where = f"{finding.where}: " if finding.where else ""
        yield line(
            (f"{finding.severity:7}", _STYLES[finding.severity]),
            f"  {where}{finding.message} ",
            (f"[{finding.code}]", "muted"),
        )
        if finding.hint:
            yield line(("         hint: ", "muted"), finding.hint)
