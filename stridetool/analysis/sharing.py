"""Who shares bytes with whom: by address range, not by object, since two storages may own the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stridetool.core.facts import ArrayFacts


class Region(msgspec.Struct, frozen=True):
    """Bytes that belong together: [start, start + nbytes) of one device, and the arrays (by index) over them."""

    device: str
    start: int
    nbytes: int
    members: tuple[int, ...]

    def byte_offset(self, facts: ArrayFacts) -> int:
        """Where the storage of a member begins, in bytes from the start of the region."""
        return facts.address - self.start if facts.address else 0


def regions(arrays: Sequence[ArrayFacts]) -> list[Region]:
    """The regions of `arrays`, in order of first appearance. Arrays without memory go by their storage key."""
    found: list[Region] = []
    for device in dict.fromkeys(facts.device for facts in arrays):
        here = [i for i, facts in enumerate(arrays) if facts.device == device]
        found += _overlapping(device, arrays, [i for i in here if arrays[i].address])
        found += _by_key(device, arrays, [i for i in here if not arrays[i].address])
    return sorted(found, key=lambda region: region.members[0])


def _overlapping(device: str, arrays: Sequence[ArrayFacts], indices: list[int]) -> list[Region]:
    groups: list[tuple[int, int, list[int]]] = []
    for i in sorted(indices, key=lambda i: (arrays[i].address, i)):
        start, end = arrays[i].address, arrays[i].address + arrays[i].storage_nbytes
        if groups and (start < groups[-1][1] or start == groups[-1][0]):
            first, last, members = groups[-1]
            groups[-1] = (first, max(last, end), [*members, i])
        else:
            groups.append((start, end, [i]))
    return [Region(device, start, end - start, tuple(sorted(members))) for start, end, members in groups]


def _by_key(device: str, arrays: Sequence[ArrayFacts], indices: list[int]) -> list[Region]:
    groups: dict[int, list[int]] = {}
    for i in indices:
        groups.setdefault(arrays[i].storage, []).append(i)
    return [Region(device, 0, max(arrays[i].storage_nbytes for i in g), tuple(g)) for g in groups.values()]
