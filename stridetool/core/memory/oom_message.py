"""The numbers of an out-of-memory message, whatever its era."""

from __future__ import annotations

from typing import NamedTuple


class OtherProcess(NamedTuple):
    """A process that the message names, by its id, and what it holds of the device."""

    pid: int
    nbytes: int


class OomMessage(NamedTuple):
    """Bytes as the message rounds them; None is what an era does not say.

    `wanted_bytes` is the segment that did not fit, which is larger than what the program asked for. `messages` is how
    many messages the text held, this one being the last.
    """

    era: str
    device: int
    wanted_bytes: int
    total_bytes: int | None
    free_bytes: int | None
    allocated_bytes: int | None
    reserved_bytes: int | None
    private_pool_bytes: int = 0
    allowed_bytes: int | None = None
    process_bytes: int | None = None
    others: tuple[OtherProcess, ...] = ()
    messages: int = 1
