"""NumPy's .npz archives: stored arrays are placed in the file, compressed ones listed, everything else is foreign."""

from __future__ import annotations

from stridetool.core.tensor_file import FileStorage, FileTensor, Note, Region, TensorFile
from stridetool.errors import InputError
from stridetool.sources.detect import NPY_MAGIC
from stridetool.sources.file_bytes import Bytes
from stridetool.sources.npy import MAX_HEADER, array_records, read_header
from stridetool.sources.zip_directory import Directory, Member, contents, data_offset, member_regions


def read_npz(data: Bytes, path: str, directory: Directory) -> TensorFile:
    """A whole archive. Raises InputError where a member that is an array breaks the rules of .npy."""
    tensors, storages, notes = list[FileTensor](), list[FileStorage](), [*directory.notes]
    regions = [Region(directory.start, directory.end, "header")]
    for member in directory.last().values():
        if not member.stored_bytes and not member.size:
            continue
        header = contents(data, member, MAX_HEADER + 12)
        start = data_offset(data, member)
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
