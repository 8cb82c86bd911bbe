"""The numbers of an out-of-memory message, whatever its era."""

from __future__ import annotations

from typing import NamedTuple


class OomMessage(NamedTuple):
    """Bytes as the message rounds them; None is what an era does not say.

    `wanted_bytes` is the segment that did not fit, which is larger than what the program asked for.
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
    others_bytes: int = 0
