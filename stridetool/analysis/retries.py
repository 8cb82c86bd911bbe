"""How often an allocator emptied its cache to find memory for one request, as far as recorded entries tell.

torch counts a retry (`num_alloc_retries`) when it has given back all that it can and asks the device once more. A
recording shows the two ends of it: memory that goes back, and then growth, or the failure of the request.
"""

from __future__ import annotations

from stridetool.core.memory.recorded import DEFAULT_POOL, Frames, History, frame_text
from stridetool.core.memory.settings import SIZE_MAX, Settings

_RELEASES = ("segment_free", "segment_unmap")
_GROWTH = ("segment_alloc", "segment_map")
_EMPTY_CACHE = ("empty_cache", "emptyCache")  # in the names of Python's and of C++ frames


def recorded_retries(history: History, settings: Settings) -> tuple[int, ...] | None:
    """The entries (allocations and failures) of requests with a retry, one for each that torch 2.14 counts in
    `num_alloc_retries`; None where the entries cannot tell.

    A request fails only behind a retry, but in a private pool that may depend on a capture. Growth behind memory
    that went back shows one too, unless that may have been something else (`_may_be_other`).
    """
    retries: list[int] = []
    released = grown = False
    other: bool | None = None
    for index, action in enumerate(history.actions):
        if action in _RELEASES:
            released = released or not _is_empty_cache(history.frames[index])
        elif action in _GROWTH:
            grown = grown or released
        elif action == "oom":
            if history.pool_ids[index] not in (None, DEFAULT_POOL):
                return None
            retries.append(index)
        elif action == "alloc" and grown:
            other = _may_be_other(history, settings) if other is None else other
            if other:
                return None
            retries.append(index)
        if action not in (*_RELEASES, *_GROWTH, "free_completed"):
            released = grown = False
    return tuple(retries)


def _may_be_other(history: History, settings: Settings) -> bool:
    """Whether memory may have gone back otherwise: by garbage collection, as large blocks beyond max_split_size, or
    by a call of empty_cache that no stack shows."""
    if settings.garbage_collection_threshold > 0 or settings.max_split_size != SIZE_MAX:
        return True
    return not _has_stacks_of_frees(history)


def _has_stacks_of_frees(history: History) -> bool:
    """Whether a free has a stack of its own. Where stacks were recorded for allocations alone, what goes back has the
    stack of its allocation, as torch 2.14 writes it."""
    asked: dict[int, Frames] = {}
    for action, address, frames in zip(history.actions, history.addresses, history.frames, strict=True):
        if action == "alloc":
            asked[address] = frames
        elif action == "free_requested" and len(frames) and address in asked and _differ(frames, asked[address]):
            return True
    return False


def _differ(first: Frames, second: Frames) -> bool:
    """Whether two stacks do, which share their frames if not. Only texts are compared: they have an end."""
    if list(map(id, first)) == list(map(id, second)):
        return False
    return [_texts(frame) for frame in first] != [_texts(frame) for frame in second]


def _texts(frame: object) -> tuple[str, ...]:
    return tuple(frame_text(frame, key) for key in ("filename", "line", "name"))


def _is_empty_cache(frames: Frames) -> bool:
    names = (frame_text(frame, "name") for frame in frames)
    return any(word in name for name in names for word in _EMPTY_CACHE)
