"""torch's stream format (0.2 to 1.5, and `_use_new_zipfile_serialization=False`): pickles, then raw storages.

Rules: `torch.serialization._legacy_load`, torch 2.13.
"""

from __future__ import annotations

from typing import Any

from stridetool.core.tensor_file import FileStorage, Note, Region, TensorFile
from stridetool.errors import InputError
from stridetool.sources.file_bytes import Bytes
from stridetool.sources.pickle_records import Dict
from stridetool.sources.torch_pickle import PickleStream, described, global_notes, placed
from stridetool.sources.torch_storages import StorageClaim, is_key
from stridetool.sources.torch_types import itemsize

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


def read_legacy(data: Bytes, path: str) -> TensorFile:
    """A whole file. Raises InputError where torch refuses it, or should."""
    stream = PickleStream(data)
    if stream.next_object() != MAGIC_NUMBER:
        raise InputError(
            "a pickle that torch.save did not write: its magic number is missing",
            hint="nothing was run; only tensor files are listed",
        )
    if stream.next_object() != PROTOCOL_VERSION:
        raise InputError(f"a protocol version other than {PROTOCOL_VERSION}")
    notes = _system_notes(stream.next_object())
    root, machine = stream.next()
    pickled = described(root, machine)
    keys = stream.next_object()
    regions = [Region(0, stream.position, "header")]
    roots = {claim.key: claim for claim in pickled.claims}
    starts = dict[str, int]()
    for key in _checked_keys(keys, roots):
        starts[key] = _take_storage(stream, roots[key], regions)
    storages = tuple(_storage(claim, starts) for claim in pickled.claims)
    # The small pickles around the object are run by a loader as well.
    others = global_notes(found for name, found in stream.globals.items() if name not in machine.globals)
    return TensorFile(
        kind="torch legacy",
        path=path,
        size=data.size,
        tensors=pickled.tensors,
        storages=storages,
        regions=tuple(regions),
        notes=(*notes, *pickled.notes, *others),
    )


def begins_as_legacy(data: Bytes) -> bool:
    """Whether the first pickle is the magic number, in whichever protocol it is written."""
    try:
        return bool(PickleStream(data).next_object() == MAGIC_NUMBER)
    except InputError:
        return False


def _checked_keys(keys: Any, roots: dict[str, StorageClaim]) -> list[str]:
    if not isinstance(keys, list) or not all(map(is_key, keys)):
        raise InputError("the list of storage keys is no list of strings")
    texts = [str(key) for key in keys]
    if unknown := next((text for text in texts if text not in roots), None):
        raise InputError(f"storage key {unknown[:40]!r} has data, but no tensor refers to it")
    if len(set(texts)) != len(texts):
        raise InputError("a storage key stands twice")
    return texts


def _take_storage(stream: PickleStream, claim: StorageClaim, regions: list[Region]) -> int:
    """Where the data of the next storage begins; the stream moves behind it."""
    head = stream.position
    numel = int.from_bytes(stream.take(8), "little", signed=True)
    if numel * itemsize(claim.dtype) != claim.nbytes:
        raise InputError(
            f"storage {claim.key[:40]!r} has {numel:,} elements in the stream, its tensors claim "
            f"{claim.nbytes // itemsize(claim.dtype):,}"
        )
    start = stream.skip(claim.nbytes, f"storage {claim.key[:40]!r}")
    regions += [Region(head, start, "header"), Region(start, stream.position, "data", claim.key)]
    return start


def _storage(claim: StorageClaim, starts: dict[str, int]) -> FileStorage:
    if claim.key not in starts:
        raise InputError(
            f"storage {claim.key[:40]!r} has no data in the file",
            hint="torch would hand out uninitialised memory for it",
        )
    return placed(claim, claim.nbytes, starts[claim.key])


def _system_notes(info: Any) -> list[Note]:
    pairs = info.pairs if isinstance(info, Dict) else []
    if any(key == "little_endian" and value is False for key, value in pairs):
        return [Note("byte-order", "warning", "written on a big-endian machine; the data itself is little-endian")]
    return []
