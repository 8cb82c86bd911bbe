"""NumPy's .npy files: the header is read by its own grammar, the data stays where it is, objects stay pickled.

Rules: `numpy.lib.format` (versions 1.0 to 3.0).
"""

from __future__ import annotations

from math import prod
from typing import Any

import msgspec

from stridetool.core.layout import Layout
from stridetool.core.tensor_file import FileStorage, FileTensor, Note, Region, TensorFile
from stridetool.errors import InputError
from stridetool.sources.detect import NPY_MAGIC
from stridetool.sources.file_bytes import Bytes
from stridetool.sources.numpy_types import NumpyType, numpy_type
from stridetool.sources.python_literal import Pairs, parse

MAX_HEADER = 1 << 18  # NumPy itself asks for trust above 10,000 bytes
_MAX_ELEMENTS = (1 << 63) - 1
_KEYS = {"descr", "fortran_order", "shape"}


class NpyHeader(msgspec.Struct, frozen=True):
    """What the header says, and where the data begins."""

    type: NumpyType
    layout: Layout
    data_offset: int
    notes: tuple[Note, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of data that the header claims."""
        return self.layout.numel * self.type.itemsize


def read_header(data: Bytes) -> NpyHeader:
    """The header at the start of `data`. Raises InputError where it breaks a rule of the format."""
    start, length, encoding = _extent(data.read(0, min(12, data.size)))
    if length > MAX_HEADER:
        raise InputError(f"the header claims {length:,} bytes, more than {MAX_HEADER:,}")
    raw = data.read(start, length)
    try:
        fields = parse(raw.decode(encoding))
    except UnicodeDecodeError as error:
        raise InputError(f"the header is not {encoding}: {error.reason}") from error
    type_, fortran, shape = _checked(fields)
    notes = () if len(fields) == len(_KEYS) else (_twice(),)
    return NpyHeader(type_, _layout(shape, fortran), start + length, notes)


def header_bytes(data: Bytes) -> int:
    """Bytes up to the data, as the length in the header says; 0 for what is no array."""
    try:
        start, length, _ = _extent(data.read(0, min(12, data.size)))
    except InputError:
        return 0
    return start + length


def read_npy(data: Bytes, path: str) -> TensorFile:
    """A whole .npy file. Raises InputError where the header is broken or claims more data than there is."""
    header = read_header(data)
    tensor, storage, notes = array_records("array", header, data.size, file_offset=header.data_offset)
    regions = [Region(0, header.data_offset, "header")]
    if storage is not None:
        end = data.size if header.type.has_objects else header.data_offset + storage.nbytes
        regions.append(Region(header.data_offset, end, "data"))
    return TensorFile(
        kind="npy", path=path, size=data.size, tensors=(tensor,), storages=(storage,) if storage else (),
        regions=tuple(regions), notes=notes,
    )  # fmt: skip


def array_records(
    name: str, header: NpyHeader, size: int, *, file_offset: int | None, member: str | None = None
) -> tuple[FileTensor, FileStorage | None, tuple[Note, ...]]:
    """The records of one array in `size` bytes of a file or an archive member; `file_offset` None: compressed.

    Raises InputError where the data is shorter than the header claims.
    """
    stored = size - header.data_offset
    if header.type.has_objects:
        return _tensor(name, header, None), None, (*header.notes, _pickled(name))
    if stored < header.nbytes:
        raise InputError(f"the header claims {header.nbytes:,} bytes of data, there are {stored:,}")
    storage = FileStorage(
        key=member or "data", nbytes=header.nbytes, stored_bytes=stored, file_offset=file_offset, member=member,
        compressed=file_offset is None,
    )  # fmt: skip
    notes = [*header.notes]
    if header.type.swapped:
        notes.append(_byte_order(name, header.type.text))
    return _tensor(name, header, storage.key), storage, tuple(notes)


def _tensor(name: str, header: NpyHeader, storage: str | None) -> FileTensor:
    type_ = header.type
    return FileTensor(
        name=name, dtype=type_.text, itemsize=type_.itemsize, nbytes=header.nbytes, layout=header.layout,
        storage=storage, flags=("pickled",) if type_.has_objects else (),
    )  # fmt: skip


def _extent(start: bytes) -> tuple[int, int, str]:
    """(where the header text begins, its length, its encoding)."""
    if not start.startswith(NPY_MAGIC):
        raise InputError("no .npy file: the magic string is missing")
    if len(start) < 10:
        raise InputError("the file ends inside the magic string and version")
    version = (start[6], start[7])
    if version == (1, 0):
        return 10, int.from_bytes(start[8:10], "little"), "latin-1"
    if version not in ((2, 0), (3, 0)):
        raise InputError(f"version {version[0]}.{version[1]} of the format is not known")
    if len(start) < 12:
        raise InputError("the file ends inside the length of the header")
    return 12, int.from_bytes(start[8:12], "little"), "latin-1" if version == (2, 0) else "utf-8"


def _checked(fields: Any) -> tuple[NumpyType, bool, tuple[int, ...]]:
    if not isinstance(fields, Pairs):
        raise InputError("the header is no dict")
    if not all(isinstance(key, str) for key, _ in fields) or {key for key, _ in fields} != _KEYS:
        raise InputError("the header wants exactly the keys descr, fortran_order and shape")
    values = dict(fields)
    fortran, shape = values["fortran_order"], values["shape"]
    if not isinstance(fortran, bool):
        raise InputError(f"fortran_order is no bool: {str(fortran)[:60]}")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise InputError(f"shape is no tuple of sizes: {str(shape)[:60]}")
    if len(shape) > 64:
        raise InputError(f"{len(shape)} dimensions: NumPy has at most 64")
    type_ = numpy_type(values["descr"])
    if max(prod(n or 1 for n in shape) * max(type_.itemsize, 1), *shape, 0) > _MAX_ELEMENTS:
        raise InputError("the sizes overflow 63 bits")
    return type_, fortran, shape


def _layout(shape: tuple[int, ...], fortran: bool) -> Layout:
    if fortran:
        return Layout(shape, Layout.contiguous(shape[::-1]).strides[::-1])
    return Layout.contiguous(shape)


def _pickled(name: str) -> Note:
    return Note(
        "object-array", "warning", "object array: pickled, not read", name,
        "numpy.load would unpickle it, which runs code: save numbers or strings instead",
    )  # fmt: skip


def _byte_order(name: str, text: str) -> Note:
    return Note(
        "byte-order", "warning", f"{text} is not in this machine's byte order", name,
        "torch.from_numpy refuses it: x.astype(x.dtype.newbyteorder('=')) first",
    )  # fmt: skip


def _twice() -> Note:
    return Note("duplicate-key", "warning", "a key stands twice in the header: NumPy takes the last")
