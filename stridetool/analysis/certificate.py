"""Could any setting have helped? What was live, plus what was asked for, against what the device can give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


def _is_hopeless(failure: Failure, usable_bytes: int) -> bool:
    return failure.live_bytes + failure.request_bytes - _ROUNDING > usable_bytes
