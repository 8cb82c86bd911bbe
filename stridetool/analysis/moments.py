"""Which moment of a history a report is about: after an event, at the peak of what was allocated, or at a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from stridetool.errors import InputError, UsageError
from stridetool.report.alloc import Outcome

Moment = int | Literal["peak", "oom"]  # after this event, when most was allocated, at the last failure


def moment_of(text: str) -> Moment:
    """What `--at` says. Raises UsageError for anything else."""
    if text == "peak":
        return "peak"
    if text == "oom":
        return "oom"
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    raise UsageError(f"--at {text!r} is none of peak, oom and the number of an event")


def event_of(moment: Moment, events: int, whole: Callable[[], Outcome]) -> int | None:
    """The event of a history of `events` events; None where it has none such. `whole` tells what happened in all of
    it, and is asked only where that matters."""
    if moment == "peak":
        return whole().peak_at
    if moment == "oom":
        return max(whole().ooms, default=None)
    return moment if moment < events else None


def absent(moment: Moment, events: int) -> InputError:
    """The error for a target none of whose histories has the moment; the longest has `events` events."""
    if events == 0:
        return InputError(f"there is no event for --at {moment}: no history was recorded")
    if moment == "peak":
        return InputError("there is no peak: nothing was allocated")
    if moment == "oom":
        return InputError("there is no failure: it never ran out of memory", hint="--at peak is another moment")
    return InputError(f"there is no event {moment:,}: there are events 0 … {events - 1:,}")
