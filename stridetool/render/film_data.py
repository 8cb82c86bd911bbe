"""A film as a compact text for a page: columns of variable-length numbers, deflated, in base64, for `page/film.js`.

A free names the allocation that it ends by how many allocations ago that was, and an address is the step from the
one before: what repeats from one training step to the next is then the same bytes again, and deflates to little.
"""

from __future__ import annotations

import base64
import zlib
from array import array
from collections.abc import Iterable

import msgspec

from stridetool.report.film import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    OOM,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Film,
)

_SEGMENTS = (SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP)
_LEVEL = 6


def film_text(film: Film) -> str:
    """The film in base64: the length of a JSON head as 4 bytes (little endian), the head, then the columns."""
    base = min((*film.addresses_in_use(), *(s.address for s in film.segments)), default=0)
    columns = _columns(film, base)
    head = msgspec.json.encode(
        {
            "name": film.name,
            "capacity": film.capacity_bytes,
            "base": hex(base),
            "entries": len(film.actions),
            "sites": film.sites,
            "kinds": [(kind.requested, kind.size, kind.stream, kind.site) for kind in film.kind_table],
            "segments": [(s.address - base, s.size, s.stream, s.is_small, s.is_expandable) for s in film.segments],
            "blocks": [(block.address - base, block.kind, block.is_pending) for block in film.blocks],
            "retries": film.retries,
            "columns": {name: len(data) for name, data in columns.items()},
        }
    )
    blob = b"".join((len(head).to_bytes(4, "little"), head, *columns.values()))
    return base64.b64encode(zlib.compress(blob, _LEVEL)).decode()


def _columns(film: Film, base: int) -> dict[str, bytes]:
    kinds, steps, ends, segments = array("Q"), array("Q"), array("Q"), array("Q")
    ordinal_of = {block.address: -1 - number for number, block in enumerate(film.blocks)}
    made, last, last_segment = 0, base, base
    last_end: int | None = None
    for action, address, size, stream, kind in zip(
        film.actions, film.addresses, film.sizes, film.streams, film.kinds, strict=True
    ):
        if action == ALLOC:
            kinds.append(kind)
            steps.append(_zigzag(address - last))
            last = address
            ordinal_of[address] = made
            made += 1
        elif action in (FREE_REQUESTED, FREE_COMPLETED):
            # 0: what the last free ended or began to end; 1: unknown; else how many allocations ago, plus 2
            ordinal = ordinal_of.get(address)
            ends.append(1 if ordinal is None else 0 if ordinal == last_end else made - ordinal + 2)
            last_end = ordinal
        elif action in _SEGMENTS:
            segments.extend((_zigzag(address - last_segment), max(size, 0), max(stream, 0)))
            last_segment = address
        elif action == OOM:
            segments.append(max(size, 0))
    columns = {"kinds": kinds, "steps": steps, "ends": ends, "segments": segments}
    return {"actions": film.actions, **{name: _varints(column) for name, column in columns.items()}}


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _varints(numbers: Iterable[int]) -> bytes:
    """Seven bits a byte, the lowest first; the high bit says that more follow."""
    made = bytearray()
    append = made.append
    for number in numbers:
        while number > 127:
            append(number & 127 | 128)
            number >>= 7
        append(number)
    return bytes(made)
