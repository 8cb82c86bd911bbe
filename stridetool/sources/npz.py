"""NumPy's .npz archives: stored arrays are placed in the file, compressed ones listed, everything else is foreign."""

from __future__ import annotations

from stridetool.core.tensor_file import FileStorage, FileTensor, Note, Region, TensorFile
from stridetool.errors import InputError
from stridetool.sources.detect import NPY_MAGIC
from stridetool.sources.file_bytes import Bytes
from stridetool.sources.npy import MAX_HEADER, array_records, header_bytes, read_header
from stridetool.sources.zip_directory import (
    Directory,
    Member,
    contents,
    local_header,
    local_header_note,
    member_regions,
)

_USUAL_HEADER = 128  # NumPy pads to multiples of 64
_HEADERS, _HEADER_OF_EACH, _ALL_HEADERS = 1 << 18, 256, 4 << 20


def read_npz(data: Bytes, path: str, directory: Directory) -> TensorFile:
    """A whole archive. Raises InputError where a member that is an array breaks the rules of .npy."""
    tensors, storages, notes = list[FileTensor](), list[FileStorage](), [*directory.notes]
    regions = [Region(directory.start, directory.end, "header")]
    limit = budget = min(_HEADERS + _HEADER_OF_EACH * len(directory.members), _ALL_HEADERS)
    for member in directory.last().values():
        if not member.stored_bytes and not member.size:
            continue
        header, (start, agrees) = _beginning(data, member), local_header(data, member)
        if not agrees:
            notes.append(local_header_note(member))
        budget -= min(header.size, header_bytes(header))
        if budget < 0:
            raise InputError(f"more than {limit:,} bytes of headers")
        is_array = header.read(0, min(len(NPY_MAGIC), header.size)) == NPY_MAGIC
        regions += member_regions(data, member, start, "data" if is_array else "foreign")
        if not is_array:
            notes.append(Note("foreign-member", "info", "no array: numpy.load hands out its bytes", member.name))
            continue
        tensor, storage, more = _array(header, member, start)
        tensors.append(tensor)
        storages += [storage] if storage else []
        notes += more
    return TensorFile(
        kind="npz", path=path, size=data.size, tensors=tuple(tensors), storages=tuple(storages),
        regions=tuple(regions), notes=tuple(notes),
    )  # fmt: skip


def _beginning(data: Bytes, member: Member) -> Bytes:
    """The member as far as its header goes: of a compressed one no more is inflated."""
    start = contents(data, member, _USUAL_HEADER)
    if not member.compressed or (length := header_bytes(start)) <= _USUAL_HEADER:
        return start
    return contents(data, member, min(length, MAX_HEADER))


def _array(data: Bytes, member: Member, start: int) -> tuple[FileTensor, FileStorage | None, tuple[Note, ...]]:
    name = member.name.removesuffix(".npy")
    try:
        header = read_header(data)
        place = None if member.compressed else start + header.data_offset
        tensor, storage, notes = array_records(name, header, data.size, file_offset=place, member=member.name)
    except InputError as error:
        raise InputError(f"member {member.name!r}: {error.message}") from error
    if member.compressed and storage is not None:
        notes += (_compressed(name),)
    return tensor, storage, notes


def _compressed(name: str) -> Note:
    return Note(
        "compressed", "info", "compressed: it cannot be mapped, only inflated as a whole", name,
        "numpy.savez stores arrays as they are",
    )  # fmt: skip
