"""Could any setting have helped? What was live, plus what was asked for, against what the device can give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stridetool.analysis.replay import ALLOC, FREE, Program
from stridetool.report.alloc import Certificate

_ROUNDING = 511  # bytes that torch's rounding may have added to a recorded request


class Failure(NamedTuple):
    """A request that failed: the event, the live bytes asked for and the bytes the device could give at most."""

    at: int
    live_bytes: int
    request_bytes: int
    usable_bytes: int


def certificate(failures: Sequence[Failure], capacity: int | None = None) -> Certificate | None:
    """Of the failure that nothing could have avoided, else of the last one; None when nothing failed.

    `capacity` is what is to be had now, None where that is what the run had when it failed.
    """
    if not failures:
        return None
    hopeless = [failure for failure in failures if _is_hopeless(failure, capacity or failure.usable_bytes)]
    failure = hopeless[-1] if hopeless else failures[-1]
    usable = capacity or failure.usable_bytes
    return Certificate(
        live_bytes=failure.live_bytes,
        request_bytes=failure.request_bytes,
        usable_bytes=usable,
        no_setting_helps=bool(hopeless),
        at=failure.at,
        had_bytes=failure.usable_bytes if usable > failure.usable_bytes else None,
    )


def peak_certificate(program: Program, usable_bytes: int) -> Certificate | None:
    """That no allocator serves all requests with so much: more is asked for at once. None where that is not so."""
    live = 0
    peak = Failure(0, 0, 0, usable_bytes)
    sizes = [0] * program.slots
    for index, (code, slot, nbytes, _) in enumerate(program.rows):
        if code == ALLOC:
            if live + nbytes > peak.live_bytes + peak.request_bytes:
                peak = Failure(index, live, nbytes, usable_bytes)
            sizes[slot] = nbytes
            live += nbytes
        elif code == FREE:
            live -= sizes[slot]
            sizes[slot] = 0
    if not _is_hopeless(peak, usable_bytes):
        return None
    return Certificate(
        live_bytes=peak.live_bytes,
        request_bytes=peak.request_bytes,
        usable_bytes=usable_bytes,
        no_setting_helps=True,
    )


def _is_hopeless(failure: Failure, usable_bytes: int) -> bool:
    return failure.live_bytes + failure.request_bytes - _ROUNDING > usable_bytes
