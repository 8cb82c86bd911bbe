"""The first lines of `alloc-report`: does a setting help, which one, and what to do next.

What was tried counts most; without tries it is the certificate that says whether one could.
"""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.blocks import Block, Line, Span, line
from stridetool.report.alloc import Certificate, DeviceReport, Recommendation, WhatIf
from stridetool.units import format_bytes

_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
_SPARE = 0.02  # of the device; with less, a little more elsewhere makes it fail


def verdict_blocks(report: DeviceReport) -> Iterator[Block]:
    """The verdict, the failure that it is about, and the next step. Nothing where nothing failed or was tried."""
    proof = report.certificate
    if report.what_if:
        yield from advice(report)
    elif proof is not None:
        yield line(_chance(proof), _numbers(report, proof))
    if proof is not None:
        yield from _failure(report, proof)
    if report.next_step is not None:
        to = "To find a setting that helps: " if report.recommended is None else "To see how far it comes with it: "
        yield line((to, "name"), report.next_step)


def _chance(proof: Certificate) -> Span:
    """What the certificate alone says."""
    if proof.no_setting_helps:
        return ("No setting helps: ", "bad")
    return ("A setting could help: " if proof.had_bytes is None else "More memory could help: ", "good")


def _failure(report: DeviceReport, proof: Certificate) -> Iterator[Line]:
    """What failed, and how to see memory as it was then."""
    if report.what_if and proof.at is None:
        yield line(("At the peak: ", "bad"), _numbers(report, proof))
    elif report.what_if and report.given_bytes is not None:
        yield line(("As recorded, it ran out of memory: ", "bad"), _asked(report, proof))
    elif report.what_if:
        yield line(("Ran out of memory: ", "bad"), _numbers(report, proof))
    if proof.at is not None and report.at is None and not report.is_cut:
        yield line(("  It went on: ", "warn"), f"the tables show the end; --at {proof.at} shows memory as it was then")


def advice(report: DeviceReport) -> Iterator[Line]:
    """What the tries say in one line, what that does not say, and settings to paste where these are recommended."""
    if not report.has_history:
        yield line(("Settings cannot be judged: ", "warn"), "without a history, a try only places what is live")
        return
    now = report.cold_try(report.settings)
    if report.given_bytes is not None and now is not None:
        yield _given(report, now, report.given_bytes)
    if report.given_bytes is None or _count(report) > 1 or report.is_hopeless:
        yield _advice(report, now)
    better = report.recommended
    yield from _caveats(report, now if better is None else report.cold_try(better.settings))
    if better is not None:
        yield export_line(better)


def export_line(better: Recommendation) -> Line:
    """The line to paste."""
    return line((f"  export {_VARIABLE}={better.settings}", "name"))


def _given(report: DeviceReport, now: WhatIf, given_bytes: int) -> Line:
    """What a recording comes to with the memory that it is judged under."""
    given = f"With {format_bytes(given_bytes)} "
    if now.fits:
        warm = next((row.ooms for row in report.what_if if row.settings == now.settings and row.start == "warm"), 0)
        but = f"; from the recorded start, {warm:,} fail" if warm else ""
        most = f"at most {format_bytes(now.peak_reserved_bytes)} reserved"
        afresh = ", where what was live at the beginning is placed afresh" if now.start == "cold" else ""
        none = "nothing of what is known fails" if report.is_cut else "nothing fails"
        return line((f"{given}{none}: ", "warn" if warm else "good"), most + afresh + but)
    failures = "1 request fails" if now.ooms == 1 else f"{now.ooms:,} requests fail"
    return line(
        (f"{given}{failures}: ", "bad"), f"{format_bytes(report.floor_bytes)} are asked for at once at the peak"
    )


def _advice(report: DeviceReport, now: WhatIf | None) -> Line:
    better, fails = report.recommended, now is not None and not now.fits
    instead = f", instead of {report.settings}" if report.settings else ""
    if report.certificate is not None and not fails and report.given_bytes is None:
        more = "" if better is None else f"; with another setting{instead} {better.why}"
        known = "from a fresh start the same requests find their place"
        return line(("Nothing fails in the replay as it is: ", "good"), known + more)
    if better is not None:
        return line(("A setting helps: " if fails else "A setting saves memory: ", "good"), better.why + instead)
    if fails:
        return _none(report)
    if _count(report) == 1:
        return line(("Nothing fails with the settings as they are: ", "good"), "no others were tried")
    reason = f"of {_count(report)} tried, none that can be advised reserves much less"
    return line(("Keep the settings as they are: ", "good"), reason)


def _none(report: DeviceReport) -> Line:
    """Requests fail, and nothing is to be recommended."""
    fitting = next((row for row in report.what_if if row.fits), None)
    if fitting is not None:
        return line(("Only settings that cannot be advised here help: ", "warn"), fitting.settings)
    if report.is_hopeless:
        return line(("No setting helps: ", "bad"), f"more was asked for at once than there is{_enough(report)}")
    if _count(report) == 1:
        return line(
            ("Memory runs out with the settings as they are: ", "bad"), f"no others were tried{_enough(report)}"
        )
    tried = f"memory runs out with each of the {_count(report)}"
    return line(("No setting tried helps: ", "bad"), f"{tried}{_enough(report)}")


def _caveats(report: DeviceReport, chosen: WhatIf | None) -> Iterator[Line]:
    """Why what fits with `chosen` may fail all the same."""
    total, ooms = report.device.total_bytes, report.outcome.ooms if report.outcome is not None else ()
    if chosen is None or not chosen.fits or (report.certificate is None and report.given_bytes is None):
        return
    if report.is_cut:
        after = f"comes after event {ooms[-1]:,} is left out here"
        if report.at is None:
            after = f"would come after event {ooms[-1]:,} is not recorded"
        yield line(("  Not known: ", "warn"), f"what {after}")
    if report.leaks:
        where = "1 place" if len(report.leaks) == 1 else f"{len(report.leaks):,} places"
        grows = f"memory of {where} grows from step to step: in a longer run it would fail later"
        yield line(("  Beware: ", "warn"), grows)
    least = chosen.smallest_capacity_bytes
    if total is not None and least is not None and total - least < _SPARE * total:
        spare, given = (format_bytes(_share(report, nbytes)) for nbytes in (max(total - least, 0), total))
        yield line(("  Beware: ", "warn"), f"it fits with {spare} to spare, of {given}")


def _enough(report: DeviceReport) -> str:
    """The least memory that would do, with the simplest settings that do with it."""
    found = (
        (row.smallest_capacity_bytes, row.settings.count(":"), row.settings)
        for row in report.what_if
        if row.smallest_capacity_bytes is not None
    )
    nbytes, _, settings = min(found, default=(0, 0, ""))
    subject = "what is known" if report.is_cut else "it"
    enough = format_bytes(_share(report, nbytes))
    return f"; {subject} would fit in {enough} with {settings or 'the defaults'}" if nbytes else ""


def _share(report: DeviceReport, capacity: int) -> int:
    """What a recording is given (`--fraction`) of so large a device."""
    total, given = report.device.total_bytes, report.given_bytes
    return capacity if not total or given is None else capacity * given // total


def _numbers(report: DeviceReport, proof: Certificate) -> str:
    return f"{_asked(report, proof)}, {format_bytes(proof.usable_bytes)} to be had"


def _asked(report: DeviceReport, proof: Certificate) -> str:
    at = "" if proof.at is None else f" at event {proof.at:,}{_which(report, proof.at)}"
    return (
        f"{format_bytes(proof.live_bytes)} asked for and live, {format_bytes(proof.request_bytes)} more asked for{at}"
    )


def _which(report: DeviceReport, at: int) -> str:
    """Which one of several failures it is."""
    ooms = report.outcome.ooms if report.outcome is not None else ()
    if len(ooms) < 2 or at not in ooms:
        return ""
    return f" (the last of {len(ooms):,})" if at == ooms[-1] else f" ({ooms.index(at) + 1:,} of {len(ooms):,})"


def _count(report: DeviceReport) -> int:
    return len({row.settings for row in report.what_if})
