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


def certificate(failures: Sequence[Failure]) -> Certificate | None:
    """Of the failure that nothing could have avoided, else of the last one; None when nothing failed."""
    if not failures:
        return None
    hopeless = [failure for failure in failures if _is_hopeless(failure)]
    failure = hopeless[-1] if hopeless else failures[-1]
    return Certificate(
        live_bytes=failure.live_bytes,
        request_bytes=failure.request_bytes,
        usable_bytes=failure.usable_bytes,
        no_setting_helps=bool(hopeless),
        at=failure.at,
    )


def _is_hopeless(failure: Failure) -> bool:
    return failure.live_bytes + failure.request_bytes - _ROUNDING > failure.usable_bytes
