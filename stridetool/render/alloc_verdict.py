"""The first lines of `alloc-report`: does a setting help, which one, and what to do next.

What was tried counts most; without tries it is the certificate that says whether one could.
"""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.blocks import Block, Line, Span, line
from stridetool.report.alloc import Certificate, DeviceReport
from stridetool.units import format_bytes

_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"


def verdict_blocks(report: DeviceReport) -> Iterator[Block]:
    """The verdict, the failure that it is about, and the next step. Nothing where nothing failed or was tried."""
    proof = report.certificate
    if report.what_if:
        yield from advice(report)
        if proof is not None:
            yield line(("Ran out of memory: ", "bad"), _numbers(proof))
    elif proof is not None:
        yield line(_chance(proof), _numbers(proof))
    if report.next_step is not None:
        yield line(("To find one: ", "name"), report.next_step)


def _chance(proof: Certificate) -> Span:
    """What the certificate alone says."""
    if proof.no_setting_helps:
        return ("No setting helps: ", "bad")
    return ("A setting could help: " if proof.had_bytes is None else "More memory could help: ", "good")


def advice(report: DeviceReport) -> Iterator[Line]:
    """What the tries say in one line, and a second one to paste where a setting is to be recommended."""
    if not report.has_history:
        yield line(("Settings cannot be judged: ", "warn"), "without a history, a try only places what is live")
        return
    yield _advice(report)
    if report.recommended is not None:
        yield line((f"  export {_VARIABLE}={report.recommended.settings}", "name"))


def _advice(report: DeviceReport) -> Line:
    proof, better = report.certificate, report.recommended
    as_it_is = next((row for row in report.what_if if row.settings == report.settings and row.start != "warm"), None)
    fails = as_it_is is not None and not as_it_is.fits
    if proof is not None and not fails:
        more = "" if better is None else f"; with another setting {better.why}"
        return line(("Nothing fails in the replay as it is: ", "good"), _why_not(proof) + more)
    if better is not None:
        return line(("A setting helps: " if fails else "A setting saves memory: ", "good"), better.why)
    if fails:
        return _none(report)
    reason = f"of {_count(report)} tried, none that can be advised reserves much less"
    return line(("Keep the settings as they are: ", "good"), reason)


def _none(report: DeviceReport) -> Line:
    """Requests fail, and nothing is to be recommended."""
    fitting = next((row for row in report.what_if if row.fits), None)
    if fitting is not None:
        return line(("Only settings that cannot be advised here help: ", "warn"), fitting.settings)
    if report.certificate is not None and report.certificate.no_setting_helps:
        return line(("No setting helps: ", "bad"), f"more was asked for at once than there is{_enough(report)}")
    tried = f"memory runs out with each of the {_count(report)}"
    return line(("No setting tried helps: ", "bad"), f"{tried}{_enough(report)}")


def _enough(report: DeviceReport) -> str:
    """The least memory that would do, with the simplest settings that do with it."""
    found = (
        (row.smallest_capacity_bytes, row.settings.count(":"), row.settings)
        for row in report.what_if
        if row.smallest_capacity_bytes is not None
    )
    nbytes, _, settings = min(found, default=(0, 0, ""))
    return f"; it would fit in {format_bytes(nbytes)} with {settings or 'the defaults'}" if nbytes else ""


def _why_not(proof: Certificate) -> str:
    if proof.had_bytes is None:
        return "from a fresh start the same requests find their place"
    usable, had = format_bytes(proof.usable_bytes), format_bytes(proof.had_bytes)
    return f"{usable} to be had, where the failed run had {had}"


def _numbers(proof: Certificate) -> str:
    at = "" if proof.at is None else f" at event {proof.at:,}"
    return (
        f"{format_bytes(proof.live_bytes)} asked for and live, {format_bytes(proof.request_bytes)} more asked for{at}, "
        f"{format_bytes(proof.usable_bytes)} to be had"
    )


def _count(report: DeviceReport) -> int:
    return len({row.settings for row in report.what_if})
