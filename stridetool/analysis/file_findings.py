"""What is worth saying about tensor files, as data: waste, sharing, order, alignment, with what to do about each.

What safetensors refuses follows its `save_file` (0.8): strided tensors, and tensors whose byte ranges overlap.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence

import msgspec

from stridetool.analysis.wording import some
from stridetool.core.tensor_file import Note
from stridetool.report.envelope import Finding
from stridetool.report.files import FileAccount
from stridetool.report.inspect import StorageRow, TensorRow
from stridetool.units import format_bytes, format_share

WASTE_BYTES, WASTE_SHARE = 4096, 0.1
_TORCH_ALIGNS = "save again: torch.save aligns to 64 bytes"
_ALIGNING = {  # what to do about misaligned tensors, by the kind of file
    "safetensors": "save again with large items first: safetensors has no rule for it",
    "npz": "np.load copies members anyway; to map an array, keep it in a .npy of its own",
    "npy": "save again: np.save aligns to 64 bytes",
    "gguf": "write it again with general.alignment kept",
}
_MAX_EACH = 20  # findings of one kind in one file; the rest is counted


def note_findings(notes: Sequence[Note]) -> Iterator[Finding]:
    """What the reader noticed."""
    yield from (Finding(note.code, note.severity, note.message, note.where, note.hint) for note in notes)


def of_file(finding: Finding, path: str) -> Finding:
    """The finding with the name of its file in front of the place: needed where there are several."""
    name = os.path.basename(path)
    return msgspec.structs.replace(finding, where=f"{name}: {finding.where}" if finding.where is not None else name)


def file_findings(
    account: FileAccount, tensors: Sequence[TensorRow], storages: Sequence[StorageRow]
) -> Iterator[Finding]:
    """What follows from the rows of one file."""
    yield from _overlapping_regions(account)
    yield from _waste(account, storages)
    yield from _shared(tensors, storages)
    yield from _strided(tensors)
    yield from _internal_overlap(tensors)
    yield from _misaligned(account.kind, tensors)


def _overlapping_regions(account: FileAccount) -> Iterator[Finding]:
    overlaps = [region for region in account.regions if region.kind == "overlap"]
    if overlaps:
        nbytes = sum(region.nbytes for region in overlaps)
        yield Finding(
            "overlapping-regions", "warning",
            f"{format_bytes(nbytes)} of the file belong to more than one part of it, first at byte "
            f"{overlaps[0].offset:,}",
            overlaps[0].name, "an archive made by a program has no such parts: do not trust it",
        )  # fmt: skip


def _waste(account: FileAccount, storages: Sequence[StorageRow]) -> Iterator[Finding]:
    losses = [(s, s.nbytes - reached) for s in storages if s.tensors and (reached := _at_most(s)) is not None]
    bad = [(s, lost) for s, lost in losses if lost >= WASTE_BYTES and lost >= WASTE_SHARE * s.nbytes]
    bad.sort(key=lambda entry: -entry[1])
    left = max(account.nbytes - sum(lost for storage, lost in bad if not storage.compressed), 0)
    for storage, lost in bad[:_MAX_EACH]:
        alone = len(bad) == 1
        remedy = f"clone() {some(storage.tensors)} before saving: "
        remedy += f"the file would be about {format_bytes(left)}" if alone else f"{format_bytes(lost)} less"
        yield Finding(
            "storage-waste", "warning",
            f"{format_share(lost, storage.nbytes)} of storage {storage.id} ({format_bytes(storage.nbytes)}) is reached "
            f"by no tensor: {some(storage.tensors)} {'uses' if len(storage.tensors) == 1 else 'use'} "
            f"{format_bytes(storage.nbytes - lost)} of it",
            storage.tensors[0], remedy,
        )  # fmt: skip
    if len(bad) > 1:
        total = sum(lost for _, lost in bad)
        yield Finding(
            "storage-waste", "warning",
            f"{len(bad):,} storages hold {format_bytes(total)} that no tensor reaches",
            None, f"clone() the views before saving: the file would be about {format_bytes(left)}",
        )  # fmt: skip


def _at_most(storage: StorageRow) -> int | None:
    return storage.reached_bytes if storage.reached_bytes is not None else storage.reached_at_most


def _shared(tensors: Sequence[TensorRow], storages: Sequence[StorageRow]) -> Iterator[Finding]:
    sharing = {storage.id: storage for storage in storages if len(storage.tensors) > 1}
    members: dict[str, list[TensorRow]] = {}
    for tensor in tensors:
        if tensor.storage in sharing and tensor.numel:
            members.setdefault(tensor.storage, []).append(tensor)
    groups = [(sharing[id_], group) for id_, all_ in members.items() for group in _touching(all_)]
    for storage, group in groups[:_MAX_EACH]:
        yield Finding(
            "shared-storage", "info",
            f"{some([t.name for t in group])} share bytes of storage {storage.id}: the file holds them once",
            None, f"safetensors refuses them together: {_keep(storage, group)}",
        )  # fmt: skip
    if len(groups) > _MAX_EACH:
        yield Finding("shared-storage", "info", f"{len(groups) - _MAX_EACH:,} more groups of tensors share bytes")


def _touching(tensors: list[TensorRow]) -> Iterator[list[TensorRow]]:
    """Groups of two and more whose byte ranges overlap, as safetensors looks for them."""
    group: list[TensorRow] = []
    end = 0
    for start, stop, _, tensor in sorted((*_range(t), i, t) for i, t in enumerate(tensors)):
        if group and start >= end:
            if len(group) > 1:
                yield group
            group = []
        group.append(tensor)
        end = max(end, stop) if len(group) > 1 else stop
    if len(group) > 1:
        yield group


def _range(tensor: TensorRow) -> tuple[int, int]:
    start = tensor.storage_offset * tensor.itemsize
    last = sum((n - 1) * s for n, s in zip(tensor.sizes, tensor.strides, strict=True))
    return start, start + last * tensor.itemsize + tensor.itemsize


def _keep(storage: StorageRow, group: Sequence[TensorRow]) -> str:
    whole = sorted(t.name for t in group if t.is_contiguous and t.nbytes == storage.nbytes)
    if not whole:
        return "none of them covers the storage: clone() each"
    equal = set(whole)
    others = [t.name for t in group if t.name not in equal]
    parts = [f"keep {whole[0]}"]
    if len(whole) > 1:
        parts.append(f"drop {some(whole[1:])}, tied to it")
    if others:
        parts.append(f"clone() {some(others)}")
    return ", ".join(parts)


def _strided(tensors: Sequence[TensorRow]) -> Iterator[Finding]:
    names = [t.name for t in tensors if not t.is_contiguous and t.numel and "pickled" not in t.flags]
    if names:
        yield Finding(
            "non-contiguous", "info",
            f"{some(names)} {'is' if len(names) == 1 else 'are'} not contiguous: the order in the file is not the "
            "order of the indices",
            None, "safetensors refuses it; contiguous() before saving keeps the values and changes the strides",
        )  # fmt: skip


def _internal_overlap(tensors: Sequence[TensorRow]) -> Iterator[Finding]:
    bad = [t for t in tensors if t.has_internal_overlap]
    for tensor in bad[:_MAX_EACH]:
        stored = tensor.reached_bytes
        size = f"{format_bytes(stored)} of the file" if stored is not None else "fewer stored ones"
        yield Finding(
            "overlap", "info", f"{tensor.numel:,} elements over {size}: several indices reach the same element",
            tensor.name, f"contiguous() would make {format_bytes(tensor.nbytes)} of it",
        )  # fmt: skip
    if len(bad) > _MAX_EACH:
        yield Finding("overlap", "info", f"{len(bad) - _MAX_EACH:,} more tensors whose elements share bytes")


def _misaligned(kind: str, tensors: Sequence[TensorRow]) -> Iterator[Finding]:
    bad = [t for t in tensors if t.file_offset is not None and t.itemsize > 1 and _past(t)]
    for tensor in bad[:_MAX_EACH]:
        yield Finding(
            "misaligned", "warning",
            f"it begins at byte {tensor.file_offset:,}, {_past(tensor)} B past a multiple of its alignment: a reader "
            "that maps the file must copy it",
            tensor.name, _ALIGNING.get(kind, _TORCH_ALIGNS),
        )  # fmt: skip
    if len(bad) > _MAX_EACH:
        yield Finding("misaligned", "warning", f"{len(bad) - _MAX_EACH:,} more tensors are misaligned")


def _past(tensor: TensorRow) -> int:
    """Bytes past the last place where an element may stand: complex and structured items align to 8 at most."""
    to = tensor.itemsize & -tensor.itemsize
    return (tensor.file_offset or 0) % min(to, 8) if tensor.numel else 0
